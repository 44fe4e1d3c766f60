//! The errors of opening the store on a cluster.

use scylla::errors::{NewSessionError, PrepareError};

use super::tls::TlsError;

/// The error of connecting to the cluster.
#[derive(Debug, thiserror::Error)]
pub enum CqlOpenError {
    /// No node answers, or no node accepts the credentials.
    #[error("the CQL cluster cannot be reached: {0}")]
    Connect(String),
    /// The certificates cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// A statement does not match the tables.
    #[error("a statement cannot be prepared: {1}")]
    Prepare(#[source] PrepareError, &'static str),
    /// The database is set up so that answers could be wrong.
    #[error(transparent)]
    Unsafe(#[from] Refusal),
    /// A node migrates the tables and does not finish.
    #[error(
        "the tables cannot be brought up to date: another node holds the lock and does not finish"
    )]
    LockHeld,
    /// Another node took the lock of the tables during the migration.
    #[error("the tables cannot be brought up to date: the lock was lost")]
    LockLost,
    /// A statement that migrates the tables failed, or the tables are not those of this release.
    #[error("the tables cannot be brought up to date: {0}")]
    Schema(String),
    /// The tables are older than this release, and a command does not change them.
    #[error(
        "the tables are those of an earlier release, whose processes could no longer start if this command brought them \
         up to date: start a server of this release first, or use the command of the earlier release"
    )]
    Outdated,
    /// The store cannot be read or written.
    #[error("the CQL cluster sent an unexpected answer")]
    Store(#[from] porchlight_ports::StoreError),
    /// A thread of the store panicked.
    #[error("a thread of the store panicked")]
    Thread,
    /// A thread cannot be started.
    #[error("the store's threads cannot be started")]
    Io(#[from] std::io::Error),
    /// The name of the keyspace is invalid.
    #[error("the keyspace's name must have at most 48 letters, digits and underscores")]
    Keyspace,
}

impl From<NewSessionError> for CqlOpenError {
    /// Keeps the innermost error only: each error of the driver repeats the text of its cause.
    fn from(error: NewSessionError) -> Self {
        let mut lowest: &dyn std::error::Error = &error;
        while let Some(below) = lowest.source() {
            lowest = below;
        }
        Self::Connect(lowest.to_string())
    }
}

/// The reason why a database is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Replicas are in several data centres and none is named.
    #[error(
        "store.cql.datacenter: the keyspace has replicas in several data centres ({0}). Name the one that all nodes of \
         this service use; otherwise a write that one data centre has confirmed is missing in another one"
    )]
    NoneNamed(String),
    /// The named data centre has no replicas.
    #[error("store.cql.datacenter: the keyspace has no replicas in \"{named}\", only in {present}")]
    NoReplicas {
        /// The name in the configuration.
        named: String,
        /// The data centres that have replicas.
        present: String,
    },
    /// Replicas are placed without regard to data centres, and there are several.
    #[error(
        "the keyspace uses SimpleStrategy on nodes in several data centres ({0}): a quorum of one data centre may have \
         no replica of a row. Change it to NetworkTopologyStrategy, and run a repair"
    )]
    SimpleStrategy(String),
    /// Lightweight transactions do not work on the keyspace.
    #[error(
        "the keyspace has tablets, and lightweight transactions do not work with tablets on ScyllaDB {0}: create the \
         keyspace WITH tablets = {{'enabled': false}}, or use ScyllaDB 2025.4 or newer"
    )]
    Tablets(String),
}
