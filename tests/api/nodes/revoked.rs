//! Tests that every node refuses a key revoked at one node, within the time of the contract.

use std::time::Duration;

use porchlight_ports::Clock;
use porchlight_schema::limits::REVOKED_MS_MAX;
use tokio::time::timeout;

use super::{Nodes, wait_until};
use crate::events::Client;

/// The time of the contract, plus a margin for a stalling machine.
const PROPAGATION_TIMEOUT: Duration = Duration::from_millis(2 * REVOKED_MS_MAX);

#[actix::test]
async fn a_key_revoked_at_one_node_is_invalid_at_the_other() {
    let nodes = Nodes::start().await;
    let (edge, owner) = (&nodes.edge.server, &nodes.owner.server);
    let (revoked, other) = (&edge.keys.secret, &owner.keys.secret);
    let session = edge.start_session().await;
    let status = async |server: &crate::server::Server, key: &str| {
        let read = server.get("/v1/sessions", key).await;
        read.status
    };
    // Both nodes know the key and cache it; at each a client watches with it, over a persistent
    // connection.
    let mut watching = Vec::new();
    for node in [edge, owner] {
        assert_eq!(status(node, revoked).await, 200);
        watching.push(Client::connect_with(node, revoked, &session.id).await);
    }
    // The key is revoked without the nodes, as the command line does if no server is available.
    let keys = owner.key_admin.list().await.unwrap();
    let is_revoked = |key: &&porchlight_keys::ListedKey| revoked.ends_with(&key.last4);
    let id = &keys.iter().find(is_revoked).unwrap().id;
    owner.key_admin.revoke(id, owner.clock.now()).await.unwrap();
    for node in [edge, owner] {
        wait_until(async || status(node, revoked).await == 401).await;
        assert_eq!(status(node, other).await, 200, "the other key stays valid");
    }
    for watching in watching {
        let rest = timeout(PROPAGATION_TIMEOUT, watching.rest()).await;
        assert!(rest.is_ok(), "a stream continues with a revoked key");
    }
    for node in [edge, owner] {
        assert_eq!(status(node, revoked).await, 401, "for good");
    }
    nodes.end().await;
}
