//! The settings of a connection to the cluster.

use std::time::Duration;

use porchlight_schema::limits::{AGREED_AFTER_MS, AGREED_AHEAD_MS, AGREEMENT_READ_INTERVAL_MS};
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
    /// The data centre that this service uses; `None`: any node's. It is required if replicas are
    /// in several.
    pub datacenter: Option<String>,
    /// User and password; `None`: no authentication.
    pub user: Option<(String, SecretString)>,
    /// TLS settings; `None`: no TLS.
    pub tls: Option<CqlTls>,
    /// Deadline for a journal write. A write that misses it may still have happened.
    pub ingest_within: Duration,
    /// The time for which a session is kept after its end.
    pub retention: Duration,
    /// The maximum duration of a session.
    pub session_max: Duration,
    /// The times of the nodes' agreement on bounded partitions.
    pub agreement: Agreement,
}

/// The times of the nodes' agreement on bounded partitions. Equal on all nodes; tests shorten them.
#[derive(Debug, Clone, Copy)]
pub struct Agreement {
    /// The time for which all members must read bounded partitions before the nodes agree to use
    /// them.
    pub after: Duration,
    /// The time from the agreement to the first use.
    pub ahead: Duration,
    /// The interval at which a process reads the agreement until it finds one.
    pub read_interval: Duration,
}

impl Default for Agreement {
    fn default() -> Self {
        Self {
            after: Duration::from_millis(AGREED_AFTER_MS),
            ahead: Duration::from_millis(AGREED_AHEAD_MS),
            read_interval: Duration::from_millis(AGREEMENT_READ_INTERVAL_MS),
        }
    }
}

// Each process reads the agreement several times between the agreement and its time.
const _: () = assert!(AGREED_AHEAD_MS >= 5 * AGREEMENT_READ_INTERVAL_MS);

impl std::fmt::Debug for CqlOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CqlOptions")
            .field("nodes", &self.nodes)
            .field("keyspace", &self.keyspace)
            .finish_non_exhaustive()
    }
}
