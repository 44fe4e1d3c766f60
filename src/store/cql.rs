//! The store on ScyllaDB or Apache Cassandra: the same ports as the embedded store, on tables that
//! several nodes share (`schema/cql/`).
//!
//! ```text
//! connection.rs      settings, connection, TLS, checks of the database, migrations
//! statements.rs      prepares and runs statements: reads, writes, lightweight transactions
//! layout.rs          places and lifetimes of rows: slots of time, bounded partitions
//! sessions.rs        starts, states, ends, insights and lists of sessions
//! journal.rs         the journal, notes and snapshots
//! work.rs            live sessions, sessions to score, deletes of rows that lead to finished work
//! webhooks.rs        endpoints, outboxes, deliveries, and the relay of messages
//! privacy.rs         erasures, and renewals of rows
//! management.rs      keys, recorders, documents
//! nodes.rs           which processes serve from the keyspace, and which node owns a shard
//! caches.rs          bounded caches of this process
//! import.rs          importing the embedded store
//! ```
//!
//! Each folder has a file of its name, whose head lists its files. The README of the crate has the
//! decisions.

mod caches;
mod connection;
mod import;
mod journal;
mod layout;
mod management;
mod nodes;
mod privacy;
mod sessions;
mod statements;
mod webhooks;
mod work;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use porchlight_ports::{Clock, Ownership, SingleNode, StoreError, StoreResult};
use porchlight_schema::limits::STORE_ACTIONS_RETRIED_MAX;
use tokio::sync::Semaphore;

pub use connection::open_error::{CqlOpenError, Refusal};
pub use connection::options::{Agreement, CqlOptions};
pub use connection::schema::is_keyspace;
pub use connection::tls::{CqlTls, TlsError};
pub(crate) use import::ImportedSession;
pub use nodes::serving::written_generation;
pub use statements::counts::StatementCounts;

use super::committer::{OnDurable, OnFatal};
use caches::Caches;
use connection::connect::Profiles;
use connection::schema::MayMigrate;
use layout::bounded::BoundedPartitions;
pub(crate) use layout::row_ttls::RowTtls;
use nodes::serving::{self, Serving, Verified};
use statements::db::Db;
use statements::prepared::Statements;
use work::deletes::Deletes;

/// The maximum number of threads that serve the database connections.
const THREADS_MAX: usize = 4;
/// The number of processors that one thread of the store serves: a statement crosses to another
/// thread less often if there are few, and one thread executes about 20,000 statements per second
/// (bench/results/2026-11-23-cluster.md).
const PROCESSORS_PER_THREAD: usize = 4;
/// Deadline for operations of one session or message: phones are answered within five seconds
/// (contract 9), and the rest of the request needs some of that.
const OPERATION_TIMEOUT: Duration = Duration::from_millis(4_500);
/// The time for which a close waits for operations in flight: slightly longer than the longest
/// statement.
pub const CLOSE_TIMEOUT: Duration = Duration::from_secs(6);

/// The role in which a process opens the store.
pub enum Role {
    /// A single serving process: it runs all sessions and sends all webhooks. Processes that served
    /// before it exit.
    Serving {
        /// Called with each batch as soon as it is durable; must never block.
        on_durable: OnDurable,
        /// Called once when another process has taken over.
        on_fatal: OnFatal,
    },
    /// One of several nodes that share the work.
    Node {
        /// Called with each batch as soon as it is durable; must never block.
        on_durable: OnDurable,
        /// Called once when a single serving process has taken over.
        on_fatal: OnFatal,
        /// The shards that this node owns.
        ownership: Arc<dyn Ownership>,
    },
    /// A command that reads and writes while other processes serve. It does not change the tables
    /// of an earlier release, whose processes could no longer start.
    Command,
    /// A command that may bring the tables up to date, because no process serves.
    LoneCommand,
}

impl Role {
    /// Returns the tables that the process may change.
    fn may_migrate(&self) -> MayMigrate {
        match self {
            Self::Serving { .. } | Self::Node { .. } | Self::LoneCommand => MayMigrate::All,
            Self::Command => MayMigrate::Empty,
        }
    }
}

/// The store on a CQL cluster.
pub struct CqlStore {
    inner: Arc<Inner>,
    /// The store's own threads. They serve the database connections and complete operations whose
    /// caller stopped waiting.
    runtime: Option<tokio::runtime::Runtime>,
}

struct Inner {
    db: Db,
    row_ttls: RowTtls,
    caches: Caches,
    deletes: Deletes,
    bounded: BoundedPartitions,
    /// The number of starts of single serving processes; see [`nodes::serving`].
    epoch: u64,
    verified: Verified,
    /// Whether this process is a command, which runs while other processes serve.
    is_command: bool,
    ownership: Arc<dyn Ownership>,
    clock: Arc<dyn Clock>,
    /// Deadline for operations of one session or message.
    operation_timeout: Duration,
    on_durable: OnDurable,
    /// Permits for actions that failed and are being retried.
    retry_permits: Arc<Semaphore>,
    is_closed: AtomicBool,
    in_flight: AtomicUsize,
}

/// Counts an operation in flight.
struct InFlight(Arc<Inner>);

impl InFlight {
    fn begin(inner: &Arc<Inner>) -> Self {
        inner.in_flight.fetch_add(1, Ordering::AcqRel);
        Self(Arc::clone(inner))
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::AcqRel);
    }
}

impl std::fmt::Debug for CqlStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CqlStore")
            .field("epoch", &self.inner.epoch)
            .finish_non_exhaustive()
    }
}

/// Returns the number of threads that serve the database connections.
fn threads() -> usize {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    (processors / PROCESSORS_PER_THREAD).clamp(1, THREADS_MAX)
}

impl CqlStore {
    /// Connects, migrates the tables and, for a single serving process, begins the next epoch.
    ///
    /// # Errors
    ///
    /// See [`CqlOpenError`].
    pub async fn open(
        options: CqlOptions,
        role: Role,
        clock: Arc<dyn Clock>,
    ) -> Result<Arc<Self>, CqlOpenError> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(threads())
            .thread_name("store")
            .enable_all()
            .build()?;
        // From here on the runtime is dropped with the store, without waiting.
        let mut opening = OpeningRuntime(Some(runtime));
        let Some(runtime) = &opening.0 else {
            return Err(CqlOpenError::Thread);
        };
        let opened = runtime.spawn(Inner::open(options, role, clock)).await;
        let (inner, on_fatal) = opened.map_err(|_panic| CqlOpenError::Thread)??;
        let inner = Arc::new(inner);
        if let Some((on_fatal, serving)) = on_fatal {
            runtime.spawn(serving::watch(Arc::downgrade(&inner), on_fatal, serving));
        }
        Ok(Arc::new(Self {
            inner,
            runtime: opening.0.take(),
        }))
    }

    /// Returns the epoch that this process found or began; see [`written_generation`].
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.inner.epoch
    }

    /// Returns the statements that this process has executed since it opened the store.
    #[must_use]
    pub fn statements(&self) -> StatementCounts {
        self.inner.db.counts.now()
    }

    /// Returns the shards that this process owns, and the generations under which it writes.
    #[must_use]
    pub fn ownership(&self) -> Arc<dyn Ownership> {
        Arc::clone(&self.inner.ownership)
    }

    /// Runs an operation to completion, even if the caller stops waiting.
    ///
    /// The caller gets an answer within the deadline. If the deadline passes, the answer is an
    /// error and the operation continues.
    async fn run_to_completion<T, F>(
        &self,
        work: impl FnOnce(Arc<Inner>) -> F + Send,
    ) -> StoreResult<T>
    where
        T: Send + 'static,
        F: Future<Output = StoreResult<T>> + Send + 'static,
    {
        self.run_with_deadline(|inner| self.spawn(inner, work))
            .await
    }

    /// Runs an operation that reads many rows to completion, without a deadline.
    async fn run_without_deadline<T, F>(
        &self,
        work: impl FnOnce(Arc<Inner>) -> F + Send,
    ) -> StoreResult<T>
    where
        T: Send + 'static,
        F: Future<Output = StoreResult<T>> + Send + 'static,
    {
        self.inner.check_open()?;
        self.spawn(Arc::clone(&self.inner), work).await
    }

    /// Runs a read, or writes that are complete in themselves, of one session or message. The
    /// operation stops at the deadline, or when the caller stops waiting.
    async fn run_with_deadline<T, F>(&self, work: impl FnOnce(Arc<Inner>) -> F) -> StoreResult<T>
    where
        F: Future<Output = StoreResult<T>>,
    {
        self.inner.check_open()?;
        let timeout = self.inner.operation_timeout;
        match tokio::time::timeout(timeout, work(Arc::clone(&self.inner))).await {
            Ok(answer) => answer,
            Err(elapsed) => Err(StoreError::unavailable(elapsed)),
        }
    }

    /// Runs a read of many rows, without a deadline. It stops when the caller stops waiting, so that
    /// the caller's permit covers it to its end.
    async fn run_while_awaited<T, F>(&self, work: impl FnOnce(Arc<Inner>) -> F) -> StoreResult<T>
    where
        F: Future<Output = StoreResult<T>>,
    {
        self.inner.check_open()?;
        work(Arc::clone(&self.inner)).await
    }

    async fn spawn<T, F>(
        &self,
        inner: Arc<Inner>,
        work: impl FnOnce(Arc<Inner>) -> F + Send,
    ) -> StoreResult<T>
    where
        T: Send + 'static,
        F: Future<Output = StoreResult<T>> + Send + 'static,
    {
        let Some(runtime) = &self.runtime else {
            return Err(StoreError::unavailable("the store has no threads"));
        };
        let counted = InFlight::begin(&inner);
        inner.check_serving().await?;
        let work = work(inner);
        let work = async move {
            let done = work.await;
            drop(counted);
            done
        };
        runtime.spawn(work).await.map_err(StoreError::unavailable)?
    }

    /// Refuses later calls and waits at most six seconds for operations in flight.
    pub async fn close(&self) {
        self.inner.is_closed.store(true, Ordering::Release);
        let ended = async {
            while self.inner.in_flight.load(Ordering::Acquire) > 0 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            self.inner.send_last_deletes().await;
        };
        if tokio::time::timeout(CLOSE_TIMEOUT, ended).await.is_err() {
            tracing::warn!("the CQL store was closed before all of its writes were answered");
        }
    }
}

impl Drop for CqlStore {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// The threads of a store that is still opening: a runtime must not be dropped inside a task.
struct OpeningRuntime(Option<tokio::runtime::Runtime>);

impl Drop for OpeningRuntime {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

impl Inner {
    async fn open(
        options: CqlOptions,
        role: Role,
        clock: Arc<dyn Clock>,
    ) -> Result<(Self, Option<(OnFatal, Serving)>), CqlOpenError> {
        let session = connection::connect::connect(&options).await?;
        connection::schema::prepare(&session, &options, role.may_migrate()).await?;
        let profiles = Profiles::new(options.ingest_within);
        let statements = Statements::prepare(&session, &profiles).await?;
        let db = Db::new(session, statements);
        let (epoch, ownership, on_durable, on_fatal) = match role {
            Role::Serving {
                on_durable,
                on_fatal,
            } => {
                let epoch = serving::begin_epoch(&db).await?;
                tracing::info!(epoch, "this process serves alone from the CQL store");
                let generation = written_generation(epoch, 0);
                let alone = Arc::new(SingleNode { generation }) as Arc<dyn Ownership>;
                (epoch, alone, on_durable, Some((on_fatal, Serving::Alone)))
            }
            Role::Node {
                on_durable,
                on_fatal,
                ownership,
            } => {
                let epoch = serving::serial_epoch(&db).await?;
                tracing::info!(epoch, "this process is one of the nodes on the CQL store");
                (
                    epoch,
                    ownership,
                    on_durable,
                    Some((on_fatal, Serving::AsNode)),
                )
            }
            Role::Command | Role::LoneCommand => {
                let nothing = Arc::new(|_, _| {}) as OnDurable;
                (
                    0,
                    Arc::new(SingleNode { generation: 0 }) as _,
                    nothing,
                    None,
                )
            }
        };
        let inner = Self {
            db,
            row_ttls: RowTtls::of(&options, clock.now()),
            caches: Caches::default(),
            deletes: Deletes::default(),
            bounded: BoundedPartitions::new(options.agreement),
            epoch,
            verified: Verified::new(clock.uptime_ms()),
            is_command: on_fatal.is_none(),
            ownership,
            clock,
            operation_timeout: OPERATION_TIMEOUT.max(2 * options.ingest_within),
            on_durable,
            retry_permits: Arc::new(Semaphore::new(STORE_ACTIONS_RETRIED_MAX)),
            is_closed: AtomicBool::new(false),
            in_flight: AtomicUsize::new(0),
        };
        Ok((inner, on_fatal))
    }

    fn check_open(&self) -> StoreResult<()> {
        if self.is_closed.load(Ordering::Acquire) {
            return Err(StoreError::unavailable("the store is closed"));
        }
        Ok(())
    }
}
