//! The store on ScyllaDB or Apache Cassandra: the same ports as the embedded one, on tables that several nodes share
//! (`schema/cql/`).
//!
//! ```text
//! connect.rs       the session, TLS, and what each kind of statement may cost
//! schema.rs        migrations, applied once however many nodes start at once
//! statements.rs    all statements, prepared once
//! db.rs            asking: a row, rows, a write, a lightweight transaction; what errors mean
//! state.rs         a session's state: the one thing of a session that is decided, by one lightweight transaction
//! relay.rs         what must also appear elsewhere: the message, its place in lists and outboxes
//! living.rs        what an owner of shards takes up: sessions that live, insights that are behind
//! journal.rs, sessions.rs, lists.rs, insights.rs, keys.rs, endpoints.rs, outbox.rs, deliveries.rs    the ports
//! serving.rs       who serves from the keyspace: a process that is alone, or several nodes
//! nodes.rs         the nodes and the shards' owners
//! import.rs        taking over what the embedded store has
//! slots.rs         which slices of time a table has rows in
//! memory.rs        what this process remembers, all of it bounded
//! ```
//!
//! # Decisions
//!
//! **What must happen once is one lightweight transaction, and nothing else is.** A session's end, its official insight
//! and the number of the message that each causes are decided together, by raising the version of the session's row in
//! `session_state`. The row carries that message, so that whoever finds it can finish what was begun: every change
//! first finishes the one before. Everything else is a write that may be repeated. A start without an
//! `Idempotency-Key` needs no transaction: its id is random, nobody else writes it.
//!
//! **In doubt means ask.** A transaction that timed out may have been carried out, or may be carried out by the next
//! serial read. Such a read decides; a change is known by a random tag that it leaves in the row.
//!
//! **Nothing is polled that has been removed.** An outbox is made of immutable rows in slots of ten minutes and of one
//! cursor for each session; a row holds for as long as the cursor agrees with it, and goes with its slot. A mark says
//! up to which slot nothing is left, `slots` says which slots there are: sparse lists cost no empty reads. The rows that
//! are removed one by one are those of `live_sessions` and `behind_sessions`, one and about one for each session, which
//! stays far below what the databases warn of (a shard's day has some thousands).
//!
//! **The cursor is a session's, not an endpoint's**: a session has one endpoint at a time, and a message that is tried
//! by hand for a later endpoint keeps its count.
//!
//! **A journal row is found by its hash**: two nodes may take two bodies under one number, both are kept, and the
//! smaller hash counts for every reader. In one process that can't happen: writes of one number follow each other.
//!
//! **Time to live instead of sweeps.** Rows go by themselves after the retention and the longest session, and a day;
//! what is rewritten lives longer. A session is gone once its first row is.
//!
//! **Whoever has the shard acts, and what an earlier owner still writes does no harm**: it is either a set's (journal,
//! messages), decided by a transaction, or bears a lower generation and sorts below (cursors, snapshots). It may send a
//! message twice, under the same id. A process that is alone has all shards, and is the newest of its kind; see
//! [`serving`].
//!
//! **A cursor is remembered with the generation in which it was read.** In the next one another node may have written in
//! between; whoever does not act for the tenant reads it each time.
//!
//! **Waiting is counted by walking**: how full outboxes are is read from their slots, and only up to a limit that keeps
//! the walk short.

mod connect;
mod db;
mod deliveries;
mod endpoints;
mod import;
mod insights;
mod journal;
mod keys;
mod lists;
mod living;
mod memory;
mod nodes;
mod outbox;
mod recorders;
mod relay;
mod schema;
mod serving;
mod sessions;
mod slots;
mod state;
mod statements;
mod tls;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use porchlight_ports::{Alone, Clock, Ownership, StoreError, StoreResult};

pub use connect::{CqlOpenError, CqlOptions};
pub use import::{ImportedMessage, ImportedSession};
pub use schema::is_keyspace;
pub use serving::written_generation;
pub use tls::CqlTls;

use super::committer::{HandOver, OnFatal};
use connect::Profiles;
use db::Db;
use memory::Memory;
use statements::Statements;

/// What is written so long before a session's end that it would go first lives this much longer.
const SLACK: Duration = Duration::from_secs(86_400);
/// Snapshots may be thrown away at any time; older ones than this are of no use.
const SNAPSHOTS: Duration = Duration::from_secs(2 * 86_400);
/// Rows of an outbox: the last retry is due a day and a tenth after the one before.
const OUTBOX: Duration = Duration::from_secs(8 * 86_400);
/// Threads that serve the cluster's connections.
const THREADS: usize = 2;
/// Phones are answered within five seconds (contract 9); the rest of the way needs some of them.
const ANSWER_WITHIN: Duration = Duration::from_millis(4_500);
/// A close waits this long for what is under way: as long as a statement may take, and a little.
const CLOSE_WITHIN: Duration = Duration::from_secs(6);

/// How long rows live, in seconds as the statements want it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lives {
    retained: i32,
    live: i32,
    slots: i32,
    snapshots: i32,
    outbox: i32,
    idempotency: i32,
}

impl Lives {
    fn of(options: &CqlOptions) -> Self {
        // Both databases refuse more than twenty years.
        let seconds = |life: Duration| life.as_secs().clamp(60, 20 * 365 * 86_400) as i32;
        let idempotency_ms = porchlight_schema::limits::IDEMPOTENCY_MS.unsigned_abs();
        Self {
            retained: seconds(options.retention + options.session_max + SLACK),
            live: seconds(options.session_max + 3 * SLACK),
            slots: seconds(options.retention + options.session_max + 3 * SLACK),
            snapshots: seconds(SNAPSHOTS),
            outbox: seconds(OUTBOX),
            idempotency: seconds(Duration::from_millis(idempotency_ms) + SLACK / 24),
        }
    }
}

/// As what a process opens the store.
pub enum Role {
    /// It serves alone: it runs the sessions and sends the webhooks, and every process that served before ends itself.
    Serving {
        /// Called with each batch as soon as it is durable; it must never block.
        hand_over: HandOver,
        /// Called once when another process has taken over.
        on_fatal: OnFatal,
    },
    /// It is one of several nodes that share the work.
    Node {
        /// Called with each batch as soon as it is durable; it must never block.
        hand_over: HandOver,
        /// Called once when a process that is alone has taken over.
        on_fatal: OnFatal,
        /// Which shards it acts for.
        ownership: Arc<dyn Ownership>,
    },
    /// It reads and writes beside those that serve, as commands do.
    Beside,
}

/// The store on a CQL cluster.
pub struct CqlStore {
    inner: Arc<Inner>,
    /// Its own threads: the cluster's connections are served there, and what is begun is carried out there whether or
    /// not anybody still waits.
    runtime: Option<tokio::runtime::Runtime>,
}

struct Inner {
    db: Db,
    lives: Lives,
    memory: Memory,
    /// How often a process has begun to serve alone; see [`serving`].
    epoch: u64,
    ownership: Arc<dyn Ownership>,
    clock: Arc<dyn Clock>,
    /// Whoever asks for one session or message is answered within this time.
    answer_within: Duration,
    hand_over: HandOver,
    closed: AtomicBool,
    under_way: AtomicUsize,
}

/// Counts what is carried out.
struct UnderWay(Arc<Inner>);

impl UnderWay {
    fn begin(inner: &Arc<Inner>) -> Self {
        inner.under_way.fetch_add(1, Ordering::AcqRel);
        Self(Arc::clone(inner))
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::AcqRel);
    }
}

impl std::fmt::Debug for CqlStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CqlStore")
            .field("epoch", &self.inner.epoch)
            .finish_non_exhaustive()
    }
}

impl CqlStore {
    /// Connects, brings the tables up to date, and, to serve alone, begins the next epoch.
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
            .worker_threads(THREADS)
            .thread_name("store")
            .enable_all()
            .build()?;
        // From here on it is dropped with the store, without waiting.
        let mut store = Opening(Some(runtime));
        let Some(runtime) = &store.0 else {
            return Err(CqlOpenError::Thread);
        };
        let opened = runtime.spawn(Inner::open(options, role, clock)).await;
        let (inner, on_fatal) = opened.map_err(|_panic| CqlOpenError::Thread)??;
        let inner = Arc::new(inner);
        if let Some((on_fatal, alone)) = on_fatal {
            runtime.spawn(serving::watch(Arc::downgrade(&inner), on_fatal, alone));
        }
        Ok(Arc::new(Self {
            inner,
            runtime: store.0.take(),
        }))
    }

    /// The number of the last beginning of a process that is alone, as this one found or made it; see
    /// [`written_generation`].
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.inner.epoch
    }

    /// Which shards this process acts for, and in which generation it writes.
    #[must_use]
    pub fn ownership(&self) -> Arc<dyn Ownership> {
        Arc::clone(&self.inner.ownership)
    }

    /// Carries something out to its end, whether or not the caller still waits.
    ///
    /// What one session or one message needs is answered in time, or with "come again": phones wait for it. It goes on
    /// all the same.
    async fn carry_out<T, F>(&self, work: impl FnOnce(Arc<Inner>) -> F) -> StoreResult<T>
    where
        T: Send + 'static,
        F: Future<Output = StoreResult<T>> + Send + 'static,
    {
        self.read(|inner| self.spawn(inner, work)).await
    }

    /// The same without a limit of time: for what looks at many rows.
    async fn carry_out_all<T, F>(&self, work: impl FnOnce(Arc<Inner>) -> F) -> StoreResult<T>
    where
        T: Send + 'static,
        F: Future<Output = StoreResult<T>> + Send + 'static,
    {
        self.inner.check_open()?;
        self.spawn(Arc::clone(&self.inner), work).await
    }

    /// Reads what one session or one message needs, in time.
    async fn read<T, F>(&self, work: impl FnOnce(Arc<Inner>) -> F) -> StoreResult<T>
    where
        F: Future<Output = StoreResult<T>>,
    {
        self.inner.check_open()?;
        let within = self.inner.answer_within;
        match tokio::time::timeout(within, work(Arc::clone(&self.inner))).await {
            Ok(answer) => answer,
            Err(elapsed) => Err(StoreError::unavailable(elapsed)),
        }
    }

    async fn spawn<T, F>(
        &self,
        inner: Arc<Inner>,
        work: impl FnOnce(Arc<Inner>) -> F,
    ) -> StoreResult<T>
    where
        T: Send + 'static,
        F: Future<Output = StoreResult<T>> + Send + 'static,
    {
        let Some(runtime) = &self.runtime else {
            return Err(StoreError::unavailable("the store has no threads"));
        };
        let counted = UnderWay::begin(&inner);
        let work = work(inner);
        let work = async move {
            let done = work.await;
            drop(counted);
            done
        };
        runtime.spawn(work).await.map_err(StoreError::unavailable)?
    }

    /// Refuses every later call, and waits, a while, for what is under way.
    pub async fn close(&self) {
        self.inner.closed.store(true, Ordering::Release);
        let ended = async {
            while self.inner.under_way.load(Ordering::Acquire) > 0 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        if tokio::time::timeout(CLOSE_WITHIN, ended).await.is_err() {
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

/// Threads of a store that is not open yet: a runtime must not be dropped where tasks run.
struct Opening(Option<tokio::runtime::Runtime>);

impl Drop for Opening {
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
    ) -> Result<(Self, Option<(OnFatal, bool)>), CqlOpenError> {
        let session = connect::connect(&options).await?;
        schema::prepare(&session, &options).await?;
        let profiles = Profiles::new(options.ingest_within);
        let statements = Statements::prepare(&session, &profiles).await?;
        let db = Db {
            session,
            statements,
        };
        let (epoch, ownership, hand_over, on_fatal) = match role {
            Role::Serving {
                hand_over,
                on_fatal,
            } => {
                let epoch = serving::next(&db).await?;
                tracing::info!(epoch, "this process serves alone from the CQL store");
                let generation = written_generation(epoch, 0);
                let alone = Arc::new(Alone { generation }) as Arc<dyn Ownership>;
                (epoch, alone, hand_over, Some((on_fatal, true)))
            }
            Role::Node {
                hand_over,
                on_fatal,
                ownership,
            } => {
                let epoch = serving::current(&db).await?;
                tracing::info!(epoch, "this process is one of the nodes on the CQL store");
                (epoch, ownership, hand_over, Some((on_fatal, false)))
            }
            Role::Beside => {
                let nothing = Arc::new(|_, _, _| {}) as HandOver;
                (0, Arc::new(Alone { generation: 0 }) as _, nothing, None)
            }
        };
        let inner = Self {
            db,
            lives: Lives::of(&options),
            memory: Memory::default(),
            epoch,
            ownership,
            clock,
            answer_within: ANSWER_WITHIN.max(2 * options.ingest_within),
            hand_over,
            closed: AtomicBool::new(false),
            under_way: AtomicUsize::new(0),
        };
        Ok((inner, on_fatal))
    }

    fn check_open(&self) -> StoreResult<()> {
        if self.closed.load(Ordering::Acquire) {
            return Err(StoreError::unavailable("the store is closed"));
        }
        Ok(())
    }
}
