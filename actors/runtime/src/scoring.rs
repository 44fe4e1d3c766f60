//! The scoring pool takes an ended session and commits its insight together with the message that
//! it causes.
//!
//! A session is requested by id, and its score reads everything from the store.
//! [`TenantQueue`] decides which session is next, and an actor scores it.

mod actor;
mod job;
mod knowledge;
mod known;
mod reads;
mod replay;
mod row_locks;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use actix::prelude::*;
use actix_rt::ArbiterHandle;
use porchlight_core::backoff::Backoff;
use porchlight_core::late_scores::{LateSessions, Step};
use porchlight_core::tenant_queue::TenantQueue;
use porchlight_schema::ids::SessionId;
use porchlight_schema::limits::{SCORES_AT_ONCE_MAX, TENANT_SCORES_AT_ONCE_MAX};
use porchlight_schema::session::{SessionStart, Tenant};

use porchlight_observe::Metrics;
use porchlight_observe::cluster::{ClusterMetrics, Stale};
use porchlight_ports::{Clock, Store, Wake};
use tokio::sync::Notify;
use tokio::time::Instant as TokioInstant;

use actor::{Score, ScoringActor};
pub use job::ScoreError;
pub(crate) use job::is_settled;
pub use knowledge::Contributions;
pub(crate) use knowledge::{contributions, keys_of, remove_contributions};
use known::ReadLive;
pub(crate) use replay::replay;
pub(crate) use row_locks::RowLocks;

/// The pauses between attempts at scoring a session.
const BACKOFF: Backoff = Backoff::new(200, 30_000);

/// The function that returns whether a session is being erased.
type IsErased = dyn Fn(&SessionStart) -> bool + Send + Sync;

/// A pool of scoring actors. Clones share the pool.
#[derive(Clone)]
pub struct ScoringPool {
    inner: Arc<Inner>,
}

struct Inner {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    wake: Wake,
    /// The sessions that wait or are being scored, each with the time of its request.
    queue: Mutex<TenantQueue<SessionId, Instant>>,
    /// The rows of knowledge that this process has read and is about to write.
    row_locks: RowLocks,
    /// The ended sessions that have recently received telemetry.
    late: Mutex<BTreeMap<Tenant, LateTenant>>,
    /// The origin of the times in `late`.
    began: TokioInstant,
    /// The arbiters of the actors.
    arbiters: Vec<ArbiterHandle>,
    /// The actors; none after the pool was closed.
    actors: Mutex<Vec<Addr<ScoringActor>>>,
    /// The callback for each session that the pool has finished.
    on_scored: OnceLock<Box<dyn Fn(SessionId) + Send + Sync>>,
    /// The callback that returns whether this process acts for a session.
    acts_for: OnceLock<Box<dyn Fn(SessionId) -> bool + Send + Sync>>,
    /// The callback that reads the events of an ended session from its machine.
    read_live: OnceLock<Box<ReadLive>>,
    /// The callback that returns whether a session is being erased.
    is_erased: OnceLock<Box<IsErased>>,
}

impl fmt::Debug for ScoringPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScoringPool")
            .field("waiting", &self.waiting())
            .finish_non_exhaustive()
    }
}

impl ScoringPool {
    /// Starts a pool with one actor on each arbiter.
    #[must_use]
    pub fn start(
        arbiters: &[ArbiterHandle],
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        wake: Wake,
    ) -> Self {
        let queue = TenantQueue::new(SCORES_AT_ONCE_MAX, TENANT_SCORES_AT_ONCE_MAX, BACKOFF);
        let inner = Arc::new(Inner {
            store,
            clock,
            wake,
            queue: Mutex::new(queue),
            row_locks: RowLocks::default(),
            late: Mutex::default(),
            began: TokioInstant::now(),
            arbiters: arbiters.to_vec(),
            actors: Mutex::default(),
            on_scored: OnceLock::new(),
            acts_for: OnceLock::new(),
            read_live: OnceLock::new(),
            is_erased: OnceLock::new(),
        });
        let start = |arbiter| {
            let pool = Arc::downgrade(&inner);
            ScoringActor::start_in_arbiter(arbiter, move |_| ScoringActor { pool })
        };
        *lock(&inner.actors) = arbiters.iter().map(start).collect();
        Self { inner }
    }

    /// Scores a session when its turn comes, if there is anything new to score. `tenant` is `None`
    /// if the caller does not know it.
    pub fn request(&self, session_id: SessionId, tenant: Option<Tenant>) {
        lock(&self.inner.queue).request(session_id, tenant, Instant::now());
        self.inner.begin_scores();
    }

    /// Scores a session that has received telemetry after its end: immediately, or together with
    /// the batches that follow if the session or its tenant was scored a moment ago.
    pub(crate) fn request_late(&self, tenant: Tenant, session_id: SessionId) {
        let mut late = lock(&self.inner.late);
        let is_first = !late.contains_key(&tenant);
        let of_tenant = late.entry(tenant).or_default();
        let now_ms = self.inner.elapsed_ms();
        of_tenant.sessions.arrive(session_id, now_ms);
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
                Step::Score(session_id) => self.request(session_id, Some(tenant)),
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

    /// Leaves sessions for which `is_erased` returns true unscored until it no longer does. Only
    /// the first call has an effect.
    pub(crate) fn leave_erased(
        &self,
        is_erased: impl Fn(&SessionStart) -> bool + Send + Sync + 'static,
    ) {
        let _first = self.inner.is_erased.set(Box::new(is_erased));
    }

    /// Returns the locks of the rows of knowledge.
    pub(crate) fn row_locks(&self) -> &RowLocks {
        &self.inner.row_locks
    }

    /// Returns the number of sessions that wait, also for further late telemetry, or are being
    /// scored.
    #[must_use]
    pub fn waiting(&self) -> usize {
        let late = lock(&self.inner.late);
        let late = late.values().map(|of_tenant| of_tenant.sessions.unscored());
        late.sum::<usize>() + lock(&self.inner.queue).len()
    }

    /// Returns the number of sessions that wait for their first scoring. Sessions that wait for
    /// another attempt or for further late telemetry are excluded: a shutdown does not wait for
    /// them, and the next start takes them up again.
    pub(crate) fn waiting_for_first_attempt(&self) -> usize {
        lock(&self.inner.queue).in_first_attempt()
    }

    /// Begins no further scores. Running scores continue until their arbiters stop.
    pub(crate) fn close(&self) {
        lock(&self.inner.actors).clear();
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

    /// Begins the scores that the queue allows now.
    fn begin_scores(&self) {
        let actors = lock(&self.actors);
        let mut queue = lock(&self.queue);
        Metrics::get().scoring_waiting.set(queue.len() as f64);
        while let Some(begun) = next(&actors, &mut queue) {
            let (actor, score) = begun;
            actor::admitted_send(actor, score);
        }
    }

    /// Returns whether another node acts for the session; if so, the pool leaves it to that node.
    fn remove_if_remote(&self, session_id: SessionId) -> bool {
        let is_remote = self
            .acts_for
            .get()
            .is_some_and(|acts_for| !acts_for(session_id));
        if is_remote {
            ClusterMetrics::get().on_stale(Stale::Scoring);
            lock(&self.queue).complete(session_id, Instant::now());
            self.begin_scores();
        }
        is_remote
    }

    /// Completes a session: wakes the webhooks of the tenant whose insight was committed, if any.
    fn on_done(&self, session_id: SessionId, committed: Option<Tenant>) {
        if let Some(tenant) = committed {
            (self.wake)(tenant, session_id);
        }
        if let Some(on_scored) = self.on_scored.get() {
            on_scored(session_id);
        }
        lock(&self.queue).complete(session_id, Instant::now());
        self.begin_scores();
    }

    /// Lets a session wait for another attempt, and begins the scores of others. Returns the pause
    /// before the attempt.
    fn on_failed(&self, session_id: SessionId) -> Option<Duration> {
        let pause = lock(&self.queue).fail(session_id);
        self.begin_scores();
        pause
    }

    /// Lets a session with a lasting failure wait for another attempt, and begins the scores of
    /// others. Returns the pause before the attempt.
    fn on_lasting_failure(&self, session_id: SessionId) -> Option<Duration> {
        let pause = lock(&self.queue).fail_lastingly(session_id);
        self.begin_scores();
        pause
    }

    /// Attempts the score of a session once more.
    fn resume(&self, session_id: SessionId) {
        lock(&self.queue).resume(session_id, Instant::now());
        self.begin_scores();
    }
}

/// Returns the next score that the queue allows, and its actor.
fn next<'a>(
    actors: &'a [Addr<ScoringActor>],
    queue: &mut TenantQueue<SessionId, Instant>,
) -> Option<(&'a Addr<ScoringActor>, Score)> {
    if actors.is_empty() {
        return None;
    }
    let begun = queue.begin()?;
    let index = usize::from(begun.key.shard().0) % actors.len();
    let score = Score {
        session_id: begun.key,
        lasting_failures: begun.lasting_failures,
        queued_at: begun.attached,
    };
    Some((actors.get(index)?, score))
}
