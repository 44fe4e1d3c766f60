//! Configures the real process to keep everything on the CQL server of the tests.

use std::path::Path;

use crate::cql_server::CqlServer;
use crate::free_address::free_address;

/// Returns the variables of a configuration with a dedicated keyspace, or `None` if there is no
/// server. The key file is in `folder`.
pub fn variables(folder: &Path) -> Option<Vec<(&'static str, String)>> {
    Some(variables_of(CqlServer::get()?, folder))
}

/// Returns the variables of a configuration on this server.
pub fn variables_of(server: &CqlServer, folder: &Path) -> Vec<(&'static str, String)> {
    let key = folder.join("secret");
    std::fs::write(&key, "5e".repeat(32)).unwrap();
    vec![
        ("PORCHLIGHT__STORE__KIND", "cql".to_owned()),
        ("PORCHLIGHT__STORE__CQL__NODES", server.nodes.join(",")),
        (
            "PORCHLIGHT__STORE__CQL__KEYSPACE",
            CqlServer::fresh_keyspace(),
        ),
        (
            "PORCHLIGHT__STORE__CQL__REPLICATION_FACTOR",
            server.replication_factor.to_string(),
        ),
        // The server shares a busy machine with all the tests.
        ("PORCHLIGHT__STORE__CQL__INGEST_TIMEOUT", "2s".to_owned()),
        (
            "PORCHLIGHT__SECRETS__KEY_FILES",
            key.to_str().unwrap().to_owned(),
        ),
        ("PORCHLIGHT__SERVER__RATE_LIMIT_PER_SECOND", "0".to_owned()),
    ]
}

/// Returns the variables of one of several nodes; `folder` is the node's own.
pub fn node(shared: &[(&'static str, String)], folder: &Path) -> Vec<(&'static str, String)> {
    let secret = folder.join("cluster-secret");
    std::fs::write(&secret, "ab".repeat(32)).unwrap();
    let secret = secret.to_str().unwrap().to_owned();
    let mut variables = shared.to_vec();
    variables.push(("PORCHLIGHT__CLUSTER__ADVERTISE", free_address().to_string()));
    variables.push(("PORCHLIGHT__CLUSTER__SECRET_FILE", secret));
    let public_url = "https://api.example.com".to_owned();
    variables.push(("PORCHLIGHT__SERVER__PUBLIC_URL", public_url));
    variables
}

/// Borrows the variables in the form that a test's command line takes.
pub fn borrowed<'v>(variables: &'v [(&'static str, String)]) -> Vec<(&'v str, &'v str)> {
    let borrow = |(name, value): &'v (&'static str, String)| (*name, value.as_str());
    variables.iter().map(borrow).collect()
}
