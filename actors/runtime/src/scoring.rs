//! The scoring pool takes an ended session and commits its insight together with the message that
//! it causes.
//!
//! A session is requested by id, and its worker reads everything from the store. One session is
//! never scored twice concurrently: it belongs to one worker, and a request that arrives in the
//! meantime is served afterwards.

mod job;
mod knowledge;
mod known;
mod replay;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use actix::prelude::*;
use actix_rt::ArbiterHandle;
use futures_util::FutureExt;
use porchlight_core::backoff::Backoff;
use porchlight_core::late_scores::{LateSessions, Step};
use porchlight_schema::ids::SessionId;
use porchlight_schema::session::Tenant;

use porchlight_observe::cluster::{ClusterMetrics, Stale};
use porchlight_observe::{ActorKind, Fact, MessageKind, Metrics, Outcome, StopReason};
use porchlight_ports::{Clock, Store, Wake};
use tokio::sync::Notify;
use tokio::time::Instant as TokioInstant;

pub use job::ScoreError;
pub(crate) use job::is_settled;
pub use knowledge::Contributions;
pub(crate) use knowledge::{contributions, forget, keys_of};
use known::ReadLive;
pub(crate) use replay::replay;

/// The pauses between attempts at scoring a session: from 0.2 s to 30 s.
const BACKOFF: Backoff = Backoff::new(200, 30_000);
/// The number of failed attempts after which a session with unreadable rows is committed as failed.
const FAILURES_MAX: u32 = 5;

/// A pool of scoring workers. Clones share the pool.
#[derive(Clone)]
pub struct ScoringPool {
    inner: Arc<Inner>,
}

struct Inner {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    wake: Wake,
    /// The sessions that wait or are being scored, and whether each was requested again meanwhile.
    requested: Mutex<BTreeMap<SessionId, bool>>,
    /// The sessions in `requested` that failed and wait for another attempt.
    failing: Mutex<BTreeSet<SessionId>>,
    /// The ended sessions that have recently received telemetry.
    late: Mutex<BTreeMap<Tenant, LateTenant>>,
    /// The origin of the times in `late`.
    began: TokioInstant,
    /// The arbiters of the workers.
    arbiters: Vec<ArbiterHandle>,
    workers: Mutex<Vec<Addr<ScoringActor>>>,
    /// The callback for each session that the pool has finished.
    on_scored: OnceLock<Box<dyn Fn(SessionId) + Send + Sync>>,
    /// The callback that returns whether this process acts for a session.
    acts_for: OnceLock<Box<dyn Fn(SessionId) -> bool + Send + Sync>>,
    /// The callback that reads the events of an ended session from its machine.
    read_live: OnceLock<Box<ReadLive>>,
}

impl fmt::Debug for ScoringPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScoringPool")
            .field("waiting", &self.waiting())
            .finish_non_exhaustive()
    }
}

impl ScoringPool {
    /// Starts a pool with one worker on each arbiter.
    #[must_use]
    pub fn start(
        arbiters: &[ArbiterHandle],
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        wake: Wake,
    ) -> Self {
        let (requested, workers) = (Mutex::default(), Mutex::default());
        let inner = Arc::new(Inner {
            store,
            clock,
            wake,
            requested,
            failing: Mutex::default(),
            late: Mutex::default(),
            began: TokioInstant::now(),
            arbiters: arbiters.to_vec(),
            workers,
            on_scored: OnceLock::new(),
            acts_for: OnceLock::new(),
            read_live: OnceLock::new(),
        });
        let start = |arbiter| {
            let pool = Arc::downgrade(&inner);
            ScoringActor::start_in_arbiter(arbiter, move |_| ScoringActor { pool })
        };
        *lock(&inner.workers) = arbiters.iter().map(start).collect();
        Self { inner }
    }

    /// Scores this session as soon as a worker is free, if there is anything new to score.
    pub fn request(&self, session_id: SessionId) {
        {
            let mut requested = lock(&self.inner.requested);
            if let Some(again) = requested.get_mut(&session_id) {
                *again = true;
                return;
            }
            requested.insert(session_id, false);
            Metrics::get().scoring_waiting.set(requested.len() as f64);
        }
        self.inner.dispatch(session_id, BACKOFF);
    }

    /// Scores a session that has received telemetry after its end: at once, or together with the
    /// batches that follow if the session or its tenant was scored a moment ago.
    pub(crate) fn request_late(&self, tenant: Tenant, session_id: SessionId) {
        let mut late = lock(&self.inner.late);
        let is_first = !late.contains_key(&tenant);
        let of_tenant = late.entry(tenant).or_default();
        of_tenant
            .sessions
            .arrive(session_id, self.inner.elapsed_ms());
        of_tenant.arrived.notify_one();
        let arrived = Arc::clone(&of_tenant.arrived);
        drop(late);
        // Shutdown does not wait for later steps: the next start scores the session.
        if is_first
            && let Some(until) = self.perform_late_steps(tenant)
            && let Some(arbiter) = self.inner.arbiters.first()
        {
            let pool = Arc::downgrade(&self.inner);
            arbiter.spawn(await_late_steps(pool, tenant, until, arrived));
        }
    }

    /// Scores the sessions of a tenant with late telemetry that are due. Returns the time of the
    /// next step, or `None` if all late telemetry is scored.
    fn perform_late_steps(&self, tenant: Tenant) -> Option<TokioInstant> {
        loop {
            match self.inner.late_step(tenant) {
                Step::Score(session_id) => self.request(session_id),
                Step::Wait(until_ms) => {
                    return Some(self.inner.began + Duration::from_millis(until_ms));
                }
                Step::End => return None,
            }
        }
    }

    /// Calls `on_scored` for each finished session, and `acts_for` before scoring each session: a
    /// process that does not act for a session leaves it to its owner. `read_live` reads the events
    /// of an ended session from its machine. Only the first call has an effect.
    pub(crate) fn connect(
        &self,
        on_scored: impl Fn(SessionId) + Send + Sync + 'static,
        acts_for: impl Fn(SessionId) -> bool + Send + Sync + 'static,
        read_live: Box<ReadLive>,
    ) {
        // A pool belongs to one registry.
        let _first = self.inner.on_scored.set(Box::new(on_scored));
        let _first = self.inner.acts_for.set(Box::new(acts_for));
        let _first = self.inner.read_live.set(read_live);
    }

    /// Returns the number of sessions that wait, also for further late telemetry, or are being
    /// scored.
    #[must_use]
    pub fn waiting(&self) -> usize {
        let late = lock(&self.inner.late);
        let late = late.values().map(|of_tenant| of_tenant.sessions.unscored());
        late.sum::<usize>() + lock(&self.inner.requested).len()
    }

    /// Returns the number of sessions that wait for their first scoring. Sessions that wait for
    /// another attempt or for further late telemetry are excluded: a shutdown does not wait for
    /// them, and the next start takes them up again.
    pub(crate) fn waiting_for_first_attempt(&self) -> usize {
        let failing = lock(&self.inner.failing).len();
        lock(&self.inner.requested).len().saturating_sub(failing)
    }

    /// Stops accepting work. The workers end after their current work.
    pub(crate) fn close(&self) {
        lock(&self.inner.workers).clear();
    }
}

/// Performs the steps of a tenant with late telemetry from the time `until` on, or when a batch has
/// arrived.
async fn await_late_steps(
    pool: Weak<Inner>,
    tenant: Tenant,
    mut until: TokioInstant,
    arrived: Arc<Notify>,
) {
    loop {
        let _elapsed = tokio::time::timeout_at(until, arrived.notified()).await;
        let Some(inner) = pool.upgrade() else { return };
        match (ScoringPool { inner }).perform_late_steps(tenant) {
            Some(next) => until = next,
            None => return,
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The ended sessions of one tenant that have recently received telemetry.
#[derive(Default)]
struct LateTenant {
    sessions: LateSessions,
    /// Notified of each batch.
    arrived: Arc<Notify>,
}

impl Inner {
    /// Returns the time since the start of the pool.
    fn elapsed_ms(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Returns the next step of the tenant's sessions with late telemetry.
    fn late_step(&self, tenant: Tenant) -> Step {
        let mut late = lock(&self.late);
        let step = late.get_mut(&tenant).map_or(Step::End, |of_tenant| {
            of_tenant.sessions.step(self.elapsed_ms())
        });
        if step == Step::End {
            late.remove(&tenant);
        }
        step
    }

    /// Returns whether another node acts for the session; if so, removes it from the pool.
    fn remove_if_remote(&self, session_id: SessionId) -> bool {
        let is_remote = self
            .acts_for
            .get()
            .is_some_and(|acts_for| !acts_for(session_id));
        if is_remote {
            ClusterMetrics::get().on_stale(Stale::Scoring);
            lock(&self.failing).remove(&session_id);
            let mut requested = lock(&self.requested);
            requested.remove(&session_id);
            Metrics::get().scoring_waiting.set(requested.len() as f64);
        }
        is_remote
    }

    /// Sends the session to its worker. `backoff` has the failures so far.
    fn dispatch(&self, session_id: SessionId, backoff: Backoff) {
        let workers = lock(&self.workers);
        let index = usize::from(session_id.shard().0) % workers.len().max(1);
        if let Some(worker) = workers.get(index) {
            Metrics::get()
                .actor(ActorKind::Scoring)
                .mailbox
                .increment(1.0);
            admitted_send(
                worker,
                Score {
                    session_id,
                    backoff,
                    queued_at: Instant::now(),
                },
            );
        }
    }

    /// Completes a session: wakes the webhooks of the tenant whose insight was committed, if any.
    fn on_done(&self, session_id: SessionId, committed: Option<Tenant>) {
        if let Some(tenant) = committed {
            (self.wake)(tenant, session_id);
        }
        if let Some(on_scored) = self.on_scored.get() {
            on_scored(session_id);
        }
        if self.complete(session_id) {
            self.dispatch(session_id, BACKOFF);
        }
    }

    /// Marks a session as scored. Returns whether it must be scored again.
    fn complete(&self, session_id: SessionId) -> bool {
        lock(&self.failing).remove(&session_id);
        let mut requested = lock(&self.requested);
        let again = requested.remove(&session_id).unwrap_or(false);
        if again {
            requested.insert(session_id, false);
        }
        Metrics::get().scoring_waiting.set(requested.len() as f64);
        again
    }
}

/// Commits a `failed` insight for a session with damaged rows in the store.
async fn commit_failed(
    pool: &Arc<Inner>,
    session_id: SessionId,
    backoff: Backoff,
    error: &ScoreError,
) {
    Fact::Unreadable {
        session_id,
        what: "the data of its insight",
        error,
    }
    .record();
    let committing = job::commit_failed(&*pool.store, &*pool.clock, session_id);
    match AssertUnwindSafe(committing).catch_unwind().await {
        Ok(Ok(failed)) => pool.on_done(session_id, failed),
        // Even the failure cannot be committed: the session's own rows are damaged.
        Ok(Err(error)) if error.is_damage() => pool.on_done(session_id, None),
        Ok(Err(_)) | Err(_) => retry_later(pool, session_id, backoff),
    }
}

/// Sends an admitted message: at most one for each ended session that is not scored.
#[expect(
    clippy::disallowed_methods,
    reason = "`requested` has admitted it, once for each session"
)]
fn admitted_send(worker: &Addr<ScoringActor>, message: Score) {
    worker.do_send(message);
}

/// The message to score a session.
#[derive(Message)]
#[rtype(result = "()")]
struct Score {
    session_id: SessionId,
    backoff: Backoff,
    queued_at: Instant,
}

/// One worker of the pool.
struct ScoringActor {
    pool: Weak<Inner>,
}

impl Actor for ScoringActor {
    type Context = Context<Self>;

    fn started(&mut self, _ctx: &mut Context<Self>) {
        Metrics::get().actor(ActorKind::Scoring).on_started();
    }

    fn stopped(&mut self, _ctx: &mut Context<Self>) {
        Metrics::get()
            .actor(ActorKind::Scoring)
            .on_stopped(StopReason::Shutdown);
    }
}

impl Handler<Score> for ScoringActor {
    type Result = AtomicResponse<Self, ()>;

    fn handle(&mut self, message: Score, _ctx: &mut Context<Self>) -> Self::Result {
        let Score {
            session_id,
            backoff,
            queued_at,
        } = message;
        let metrics = Metrics::get().actor(ActorKind::Scoring);
        let started_at = Instant::now();
        metrics.mailbox.decrement(1.0);
        metrics
            .wait
            .record(started_at.duration_since(queued_at).as_secs_f64());
        let pool = self.pool.clone();
        let scoring = async move {
            let Some(pool) = pool.upgrade() else { return };
            if pool.remove_if_remote(session_id) {
                return;
            }
            let read_live = pool.read_live.get().map(|read_live| &**read_live);
            let job = job::score(&*pool.store, &*pool.clock, session_id, read_live);
            // The pure part catches its own panics; a panic caught here is a fault of the shell.
            let outcome = match AssertUnwindSafe(job).catch_unwind().await {
                Ok(Ok(scored)) => {
                    pool.on_done(session_id, scored);
                    Outcome::Ok
                }
                Ok(Err(error)) if error.is_damage() && backoff.failures() + 1 >= FAILURES_MAX => {
                    commit_failed(&pool, session_id, backoff, &error).await;
                    Outcome::Error
                }
                Ok(Err(error)) => {
                    let fact = Fact::StoreFailed {
                        actor: ActorKind::Scoring,
                        session_id,
                        doing: "scoring a session",
                        error: &error,
                    };
                    fact.record();
                    retry_later(&pool, session_id, backoff);
                    Outcome::Error
                }
                Err(_panic) => {
                    Fact::ActorPanicked {
                        actor: ActorKind::Scoring,
                        session_id,
                        seq: None,
                        restarts: 0,
                    }
                    .record();
                    retry_later(&pool, session_id, backoff);
                    Outcome::Panic
                }
            };
            metrics.on_handled(
                MessageKind::Score,
                outcome,
                started_at.elapsed().as_secs_f64(),
            );
        };
        AtomicResponse::new(Box::pin(scoring.into_actor(self)))
    }
}

/// Retries a session after a pause, without delaying the others.
fn retry_later(pool: &Arc<Inner>, session_id: SessionId, mut backoff: Backoff) {
    lock(&pool.failing).insert(session_id);
    let pool = Arc::downgrade(pool);
    let pause = backoff.on_failure();
    actix_rt::spawn(async move {
        tokio::time::sleep(pause).await;
        if let Some(pool) = pool.upgrade() {
            pool.dispatch(session_id, backoff);
        }
    });
}
