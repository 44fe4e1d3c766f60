//! The connection to the cluster, and the limits of each kind of statement.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use scylla::client::execution_profile::{ExecutionProfile, ExecutionProfileHandle};
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::policies::retry::FallthroughRetryPolicy;
use scylla::policies::speculative_execution::SimpleSpeculativeExecutionPolicy;
use scylla::policies::timestamp_generator::{MonotonicTimestampGenerator, TimestampGenerator};
use scylla::statement::prepared::PreparedStatement;
use scylla::statement::unprepared::Statement;
use scylla::statement::{Consistency, SerialConsistency};
use secrecy::ExposeSecret;

use super::open_error::CqlOpenError;
use super::options::CqlOptions;
use super::tls;

/// Deadline for a lightweight transaction and for a read of single rows.
const CONTROL_TIMEOUT: Duration = Duration::from_secs(5);
/// The interval of the driver's requests on each idle connection, and the time for their answer. A
/// database node that lost its power or its network closes no connection. Without these requests
/// its statements wait for their deadline, longer than a lease lasts. A pause for the collection of
/// garbage may take a second or two. The driver warns of an interval of a second or less.
const KEEPALIVE_INTERVAL: Duration = Duration::from_millis(1_100);
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(3);
/// Deadline for each page of a read of many rows.
const SCAN_TIMEOUT: Duration = Duration::from_secs(30);
/// Rows per page.
const PAGE_ROWS: i32 = 500;
/// Rows per page of the journal: a batch has about 1 KB, and 300 KB at worst.
const JOURNAL_PAGE_ROWS: i32 = 64;

/// The source of timestamps, which gives every write of this process a later one than the write
/// before. Without it the clocks of the database nodes decide which of two writes of one row
/// counts, and the later one may lose. Lightweight transactions keep the timestamps of the
/// database.
static TIMESTAMPS: LazyLock<Arc<MonotonicTimestampGenerator>> =
    LazyLock::new(|| Arc::new(MonotonicTimestampGenerator::new()));

/// Returns the next timestamp of a write, in microseconds of the Unix epoch.
pub(in crate::cql) fn next_timestamp_us() -> i64 {
    TIMESTAMPS.next_timestamp()
}

/// The kind of a statement, which determines its deadline and whether it may be sent twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cql) enum Kind {
    /// A journal write: it has a short deadline.
    Ingest,
    /// A plain write, which is idempotent. Like a journal write and a read of few rows, it is sent
    /// to a second node if the first is slow.
    Write,
    /// A read of few rows.
    Read,
    /// A read of few rows at serial consistency, which completes a lightweight transaction in
    /// flight.
    Serial,
    /// A lightweight transaction, which is sent once.
    Lwt,
    /// A read of many rows, page by page.
    Scan,
    /// A read of many batches, page by page.
    Journal,
}

/// The execution profiles of the kinds.
pub(in crate::cql) struct Profiles {
    ingest: ExecutionProfileHandle,
    control: ExecutionProfileHandle,
    lwt: ExecutionProfileHandle,
    scan: ExecutionProfileHandle,
}

impl Profiles {
    pub(in crate::cql) fn new(ingest_within: Duration) -> Self {
        let profile = |timeout: Duration| {
            ExecutionProfile::builder()
                .consistency(Consistency::LocalQuorum)
                .serial_consistency(Some(SerialConsistency::LocalSerial))
                .request_timeout(Some(timeout))
        };
        let speculative = |within: Duration| SimpleSpeculativeExecutionPolicy {
            max_retry_count: 1,
            retry_interval: within / 4,
        };
        let control_within = CONTROL_TIMEOUT.max(ingest_within);
        Self {
            ingest: profile(ingest_within)
                .speculative_execution_policy(Some(Arc::new(speculative(ingest_within))))
                .build()
                .into_handle(),
            control: profile(control_within)
                .speculative_execution_policy(Some(Arc::new(speculative(control_within))))
                .build()
                .into_handle(),
            lwt: profile(control_within)
                .retry_policy(Arc::new(FallthroughRetryPolicy::new()))
                .build()
                .into_handle(),
            scan: profile(SCAN_TIMEOUT).build().into_handle(),
        }
    }

    /// Prepares a statement for its kind.
    pub(in crate::cql) async fn prepare(
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

/// Connects without selecting a keyspace.
pub(in crate::cql) async fn connect(options: &CqlOptions) -> Result<Session, CqlOpenError> {
    let mut builder = SessionBuilder::new()
        .known_nodes(&options.nodes)
        .connection_timeout(CONTROL_TIMEOUT)
        .keepalive_interval(KEEPALIVE_INTERVAL)
        .keepalive_timeout(KEEPALIVE_TIMEOUT)
        .default_execution_profile_handle(Profiles::new(options.ingest_within).scan)
        .fetch_schema_metadata(true)
        // Tables are created one after the other; the code waits for schema agreement once, at the
        // end.
        .auto_await_schema_agreement(false)
        .timestamp_generator(Arc::clone(&TIMESTAMPS) as Arc<dyn TimestampGenerator>);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_write_of_a_process_has_a_later_timestamp_than_all_before_it() {
        let taking: Vec<_> = (0..4)
            .map(|_| {
                std::thread::spawn(|| {
                    let taken = (0..20_000).map(|_| next_timestamp_us());
                    taken.collect::<Vec<_>>()
                })
            })
            .collect();
        let mut all = Vec::new();
        for taken in taking {
            let taken = taken.join().unwrap();
            assert!(taken.is_sorted_by(|earlier, later| earlier < later));
            all.extend(taken);
        }
        let number = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), number, "no two writes share a timestamp");
        assert!(next_timestamp_us() > all[number - 1]);
    }
}
