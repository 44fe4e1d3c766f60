//! The connection: how the cluster is reached, and what each kind of statement may cost.

use std::sync::Arc;
use std::time::Duration;

use scylla::client::execution_profile::{ExecutionProfile, ExecutionProfileHandle};
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::errors::{NewSessionError, PrepareError};
use scylla::policies::retry::FallthroughRetryPolicy;
use scylla::policies::speculative_execution::SimpleSpeculativeExecutionPolicy;
use scylla::statement::prepared::PreparedStatement;
use scylla::statement::unprepared::Statement;
use scylla::statement::{Consistency, SerialConsistency};
use secrecy::{ExposeSecret, SecretString};

use super::tls::{self, CqlTls, TlsError};

/// A lightweight transaction and a read of single rows may take this long.
const CONTROL_WITHIN: Duration = Duration::from_secs(5);
/// A read of many rows may take this long for each page.
const SCAN_WITHIN: Duration = Duration::from_secs(30);
/// Rows of one page.
const PAGE_ROWS: i32 = 500;
/// Rows of one page of the journal: a batch has about 1 KB, and 300 KB at worst.
const JOURNAL_PAGE_ROWS: i32 = 64;

/// Where the cluster is, and as whom.
#[derive(Clone)]
pub struct CqlOptions {
    /// Where to begin: `host:port`. The other nodes are found by these.
    pub nodes: Vec<String>,
    /// The keyspace; made when it is missing.
    pub keyspace: String,
    /// Of the keyspace, when it is made.
    pub replication_factor: u32,
    /// The data centre whose nodes are asked; none: the one of the node that answers first.
    pub datacenter: Option<String>,
    /// As whom; none: without authentication.
    pub user: Option<(String, SecretString)>,
    /// With which certificates; none: without TLS.
    pub tls: Option<CqlTls>,
    /// A write to the journal that takes longer is given up; it may have happened.
    pub ingest_within: Duration,
    /// How long a session is kept after its end.
    pub retention: Duration,
    /// How long a session lasts at most.
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

/// Why the cluster can't be used.
#[derive(Debug, thiserror::Error)]
pub enum CqlOpenError {
    /// No node answers, or none lets us in.
    #[error("the CQL cluster can't be reached: {0}")]
    Connect(String),
    /// The certificates can't be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// A statement does not fit the tables.
    #[error("a statement can't be prepared: {1}")]
    Prepare(#[source] PrepareError, &'static str),
    /// The tables can't be brought up to date.
    #[error("the tables can't be brought up to date: {0}")]
    Schema(String),
    /// The store can't be read or written.
    #[error("the CQL cluster does not answer as it should")]
    Store(#[from] porchlight_ports::StoreError),
    /// No thread can be started, or one panicked.
    #[error("the store's threads can't be started")]
    Thread,
    /// The same, and why.
    #[error("the store's threads can't be started")]
    Io(#[from] std::io::Error),
    /// The name of the keyspace is not one.
    #[error("the keyspace's name must be letters, digits and underscores, at most 48")]
    Keyspace,
}

impl From<NewSessionError> for CqlOpenError {
    /// The driver's errors each repeat the one below: the lowest says all.
    fn from(error: NewSessionError) -> Self {
        let mut lowest: &dyn std::error::Error = &error;
        while let Some(below) = lowest.source() {
            lowest = below;
        }
        Self::Connect(lowest.to_string())
    }
}

/// What a statement is, which says how long it may take and whether it may be sent twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A write to the journal: quick, or given up; sent to a second node when the first is slow.
    Ingest,
    /// A plain write: writing it twice changes nothing.
    Write,
    /// A read of few rows.
    Read,
    /// The same, of what lightweight transactions decide: finishes one that is under way.
    Serial,
    /// A lightweight transaction: sent once.
    Lwt,
    /// A read of many rows, page by page.
    Scan,
    /// The same, of batches.
    Journal,
}

/// The profiles of the kinds.
pub(super) struct Profiles {
    ingest: ExecutionProfileHandle,
    control: ExecutionProfileHandle,
    lwt: ExecutionProfileHandle,
    scan: ExecutionProfileHandle,
}

impl Profiles {
    pub(super) fn new(ingest_within: Duration) -> Self {
        let profile = |within: Duration| {
            ExecutionProfile::builder()
                .consistency(Consistency::LocalQuorum)
                .serial_consistency(Some(SerialConsistency::LocalSerial))
                .request_timeout(Some(within))
        };
        let second = SimpleSpeculativeExecutionPolicy {
            max_retry_count: 1,
            retry_interval: ingest_within / 4,
        };
        Self {
            ingest: profile(ingest_within)
                .speculative_execution_policy(Some(Arc::new(second)))
                .build()
                .into_handle(),
            control: profile(CONTROL_WITHIN.max(ingest_within))
                .build()
                .into_handle(),
            lwt: profile(CONTROL_WITHIN.max(ingest_within))
                .retry_policy(Arc::new(FallthroughRetryPolicy::new()))
                .build()
                .into_handle(),
            scan: profile(SCAN_WITHIN).build().into_handle(),
        }
    }

    /// Prepares a statement for its kind.
    pub(super) async fn prepare(
        &self,
        session: &Session,
        kind: Kind,
        text: &'static str,
    ) -> Result<PreparedStatement, CqlOpenError> {
        let mut statement = Statement::new(text);
        let profile = match kind {
            Kind::Ingest => &self.ingest,
            Kind::Write | Kind::Read | Kind::Serial => &self.control,
            Kind::Lwt => &self.lwt,
            Kind::Scan | Kind::Journal => &self.scan,
        };
        statement.set_execution_profile_handle(Some(profile.clone()));
        statement.set_is_idempotent(kind != Kind::Lwt);
        if kind == Kind::Serial {
            statement.set_consistency(Consistency::LocalSerial);
        }
        statement.set_page_size(if kind == Kind::Journal {
            JOURNAL_PAGE_ROWS
        } else {
            PAGE_ROWS
        });
        session
            .prepare(statement)
            .await
            .map_err(|error| CqlOpenError::Prepare(error, text))
    }
}

/// Connects, without a keyspace yet.
pub(super) async fn connect(options: &CqlOptions) -> Result<Session, CqlOpenError> {
    let mut builder = SessionBuilder::new()
        .known_nodes(&options.nodes)
        .connection_timeout(CONTROL_WITHIN)
        .default_execution_profile_handle(Profiles::new(options.ingest_within).scan)
        .fetch_schema_metadata(true)
        // Tables are made one after the other; that all nodes have them is waited for once, at the end.
        .auto_await_schema_agreement(false);
    if let Some(datacenter) = &options.datacenter {
        builder = builder.prefer_datacenter(datacenter.clone());
    }
    if let Some((name, password)) = &options.user {
        builder = builder.user(name, password.expose_secret());
    }
    if let Some(tls) = &options.tls {
        builder = builder.tls_context(Some(tls::context(tls)?));
    }
    Ok(builder.build().await?)
}
