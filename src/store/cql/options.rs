//! The settings of a connection to the cluster.

use std::time::Duration;

use secrecy::SecretString;

use super::tls::CqlTls;

/// The address of the cluster and the credentials.
#[derive(Clone)]
pub struct CqlOptions {
    /// Contact points, `host:port`. The driver discovers the other nodes.
    pub nodes: Vec<String>,
    /// The keyspace, which is created if absent.
    pub keyspace: String,
    /// Replication factor of a keyspace that this process creates.
    pub replication_factor: u32,
    /// The data centre that this service uses; `None`: any node's. It is required if replicas are in
    /// several.
    pub datacenter: Option<String>,
    /// User and password; `None`: no authentication.
    pub user: Option<(String, SecretString)>,
    /// TLS settings; `None`: no TLS.
    pub tls: Option<CqlTls>,
    /// Deadline for a journal write. A write that misses it may still have happened.
    pub ingest_within: Duration,
    /// The time for which a session is kept after its end.
    pub retention: Duration,
    /// Maximum duration of a session.
    pub session_max: Duration,
}

impl std::fmt::Debug for CqlOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CqlOptions")
            .field("nodes", &self.nodes)
            .field("keyspace", &self.keyspace)
            .finish_non_exhaustive()
    }
}
