//! Maps session IDs to handles: routes, spawns, passivates and restarts. It holds no business state: all its data can
//! be read from the store again.
//!
//! A handle exists for every session in progress, an actor only for a session that was active recently. Deadlines are
//! armed for handles, so a silent session ends in time without an actor.

mod admission;
mod ending;
mod erased;
#[path = "session/handle.rs"]
mod handle;
mod ingest_limiter;
mod passivation;
mod reconcile_queue;
mod remote_sessions;
#[path = "session/send.rs"]
mod send;
#[path = "session/seq_window.rs"]
mod seq_window;
mod shards;
mod watch;

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use actix::Addr;
use actix_rt::ArbiterHandle;
use dashmap::DashMap;
use porchlight_core::session::lifetime::Lifetime;
use porchlight_core::shares::ShareLimits;
use porchlight_observe::{ActorKind, Fact, Metrics};
use porchlight_ports::{
    Clock, Entropy, Note, Nudge, Ownership, Peers, SessionRow, Store, StoreError, Wake,
};
use porchlight_schema::event::Event;
use porchlight_schema::ids::SessionId;
use porchlight_schema::limits::SESSION_MAILBOX_MAX;
use porchlight_schema::sample::packed::PackedBatch;
use porchlight_schema::time::TimestampMs;

use crate::scoring::ScoringPool;
use crate::session::{BatchDurable, ReadEvents, SessionActor};
use crate::shards::LettingGo;
use crate::shares::TenantShares;
use crate::supervision::Verdict;
use crate::timers::Wheel;

pub(crate) use admission::Counted;
pub use admission::{AdmitError, Permit};
pub use handle::Handle;
pub(crate) use remote_sessions::RemoteSession;
pub use watch::Watch;

use handle::Slot;
use ingest_limiter::IngestLimiter;
use passivation::FREEZE_AFTER_MS;
use reconcile_queue::ReconcileQueue;
use remote_sessions::RemoteSessions;
use send::admitted_send;

/// The time that a caller waits for a session's events before it must retry.
const ASK: Duration = Duration::from_secs(5);
/// The answer of a session's actor to a query for its events.
#[derive(Debug, Clone, PartialEq)]
pub struct LiveEvents {
    /// The events so far, in the order in which they were emitted.
    pub events: Vec<Event>,
    /// The time at which the events last changed, or `None` if they have not changed since the
    /// actor was built.
    pub changed_at: Option<TimestampMs>,
}

/// The error if a session's events cannot be read now.
#[derive(Debug, thiserror::Error)]
#[error("the session's actor did not answer in time")]
pub struct AskError;

/// The callback for a deadline that is due, given by the service, which ends sessions.
pub(crate) type OnDue = Arc<dyn Fn(Registry, Arc<Handle>) + Send + Sync>;

/// An arbiter and the timer wheel that runs on it.
#[derive(Debug)]
struct Lane {
    arbiter: ArbiterHandle,
    wheel: Wheel<SessionId>,
}

/// The registry of sessions. Clones share the same state.
#[derive(Clone)]
pub struct Registry {
    inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) entropy: Arc<dyn Entropy>,
    pub(crate) wake: Wake,
    pub(crate) lifetime: Lifetime,
    pub(crate) ownership: Arc<dyn Ownership>,
    pub(crate) peers: Arc<dyn Peers>,
    sessions: DashMap<SessionId, Arc<Handle>>,
    /// Sessions that have ended and wait for their insight. Their actors still serve the events so far.
    ending: DashMap<SessionId, Arc<Handle>>,
    lanes: Mutex<Vec<Arc<Lane>>>,
    scoring: ScoringPool,
    draining: AtomicBool,
    in_flight_bytes: AtomicUsize,
    /// The number of bodies that are admitted and not yet answered.
    permits: AtomicUsize,
    gate: IngestLimiter,
    /// The usage of this node by tenants.
    pub(crate) shares: TenantShares,
    /// The number of batches in flight of each session that has ended.
    ended_in_flight: DashMap<SessionId, u32>,
    /// The number of batches in the mailboxes of all sessions.
    mailboxes: Arc<AtomicU32>,
    watched: watch::Watched,
    letting_go: LettingGo,
    /// Sessions that other nodes act for.
    edges: RemoteSessions,
    looks: ReconcileQueue,
}

impl std::fmt::Debug for Registry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Registry")
            .field("sessions", &self.inner.sessions.len())
            .finish_non_exhaustive()
    }
}

/// The parts that a registry is built from.
pub struct Parts {
    /// The store to use.
    pub store: Arc<dyn Store>,
    /// The clock to use.
    pub clock: Arc<dyn Clock>,
    /// The source of randomness for IDs.
    pub entropy: Arc<dyn Entropy>,
    /// Wakes a tenant's webhooks.
    pub wake: Wake,
    /// The limits on the duration of sessions.
    pub lifetime: Lifetime,
    /// The shards that this process acts for.
    pub ownership: Arc<dyn Ownership>,
    /// The nodes that act for the other shards.
    pub peers: Arc<dyn Peers>,
    /// The arbiters on which session actors run; never empty.
    pub arbiters: Vec<ArbiterHandle>,
    /// The pool that scores sessions.
    pub scoring: ScoringPool,
    /// The shares of this node that one tenant may use.
    pub shares: ShareLimits,
}

impl Registry {
    pub(crate) fn new(parts: Parts, on_due: OnDue) -> Self {
        let inner = Arc::new(Inner {
            store: parts.store,
            clock: parts.clock,
            entropy: parts.entropy,
            wake: parts.wake,
            lifetime: parts.lifetime,
            ownership: parts.ownership,
            peers: parts.peers,
            sessions: DashMap::new(),
            ending: DashMap::new(),
            lanes: Mutex::new(Vec::new()),
            scoring: parts.scoring,
            draining: AtomicBool::new(false),
            in_flight_bytes: AtomicUsize::new(0),
            permits: AtomicUsize::new(0),
            shares: TenantShares::new(parts.shares),
            ended_in_flight: DashMap::new(),
            gate: IngestLimiter::default(),
            mailboxes: Arc::default(),
            watched: watch::Watched::default(),
            letting_go: LettingGo::default(),
            edges: RemoteSessions::default(),
            looks: ReconcileQueue::default(),
        });
        let registry = Self { inner };
        let lanes = parts.arbiters.into_iter().map(|arbiter| {
            // The wheel must not keep the registry alive, or neither would ever be dropped.
            let weak = Arc::downgrade(&registry.inner);
            let on_due = Arc::clone(&on_due);
            let wheel = Wheel::start(&arbiter, move |session_id| {
                let Some(inner) = weak.upgrade() else { return };
                let registry = Registry { inner };
                if let Some(handle) = registry.handle(session_id) {
                    registry.on_deadline(handle, &on_due);
                }
            });
            Arc::new(Lane { arbiter, wheel })
        });
        let lanes: Vec<_> = lanes.collect();
        registry.attend_scoring();
        *registry
            .inner
            .lanes
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = lanes;
        registry
    }

    pub(crate) fn inner(&self) -> &Inner {
        &self.inner
    }

    fn lane(&self, session_id: SessionId) -> Option<Arc<Lane>> {
        let lanes = self
            .inner
            .lanes
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let place = usize::from(session_id.shard().0) % lanes.len().max(1);
        lanes.get(place).cloned()
    }

    /// Returns the handle of a session in progress.
    #[must_use]
    pub fn handle(&self, session_id: SessionId) -> Option<Arc<Handle>> {
        let entry = self.inner.sessions.get(&session_id)?;
        Some(Arc::clone(&entry))
    }

    /// Returns the number of sessions in progress.
    #[must_use]
    pub fn live(&self) -> usize {
        self.inner.sessions.len()
    }

    /// Adopts a session in progress. `heard_at` is when its last batch was received, or when it was created.
    pub fn adopt(&self, row: &SessionRow, heard_at: TimestampMs) -> Arc<Handle> {
        let handle = self.enter(row, heard_at);
        self.arm(&handle);
        handle
    }

    /// Returns the handle of a session in progress, and creates it if necessary.
    fn enter(&self, row: &SessionRow, heard_at: TimestampMs) -> Arc<Handle> {
        let start = &row.start;
        let entry = self
            .inner
            .sessions
            .entry(start.session_id)
            .or_insert_with(|| {
                Metrics::get().sessions_live.increment(1.0);
                Arc::new(Handle::new(
                    start,
                    heard_at,
                    self.adopted_now(start.created_at),
                    Arc::clone(&self.inner.mailboxes),
                    self.inner.shares.of(start.tenant),
                ))
            });
        Arc::clone(&entry)
    }

    /// Forwards a durable batch to its session. The store calls this on its own thread right after
    /// the commit. Never blocks.
    pub fn deliver(&self, session_id: SessionId, seq: u32, batch: PackedBatch) {
        let Some(handle) = self.handle(session_id) else {
            // Either the batch came late and the insight is recomputed, or the session was started on another node a
            // moment ago.
            self.look_at(session_id);
            return;
        };
        let clock = &self.inner.clock;
        handle.touch(clock.now(), clock.uptime_ms());
        handle.mark_known(seq);
        self.send_batch(&handle, seq, batch);
    }

    fn send_batch(&self, handle: &Arc<Handle>, seq: u32, batch: PackedBatch) {
        let mut slot = handle.slot();
        slot.heard.note(seq);
        if slot.restarting {
            return;
        }
        // This comes first because it replaces an actor that died with a full mailbox, and resets its count.
        let Some(actor) = self.actor_in(&mut slot, handle) else {
            return;
        };
        if handle.queued() >= SESSION_MAILBOX_MAX {
            handle.fall_behind();
            Metrics::get().mailbox_overflows.increment(1);
            Metrics::get()
                .actor(ActorKind::Session)
                .rejected
                .increment(1);
            return;
        }
        handle.enqueue();
        admitted_send(
            &actor,
            BatchDurable {
                seq,
                batch,
                queued_at: std::time::Instant::now(),
            },
        );
    }

    /// Returns the session's actor, and starts it if necessary.
    fn actor_in(&self, slot: &mut Slot, handle: &Arc<Handle>) -> Option<Addr<SessionActor>> {
        if let Some(actor) = slot.actor.as_ref().filter(|actor| actor.connected()) {
            return Some(actor.clone());
        }
        // No actor is built for a lost shard. A shard that is being released may still have to write.
        self.generation(handle.session_id)?;
        let lane = self.lane(handle.session_id)?;
        let frozen = slot.frozen.take();
        let actor = SessionActor::spawn(&lane.arbiter, self.clone(), Arc::clone(handle), frozen);
        slot.actor = Some(actor.clone());
        handle.clear_queue();
        // The actor is passivated again if it receives nothing.
        let left_ms = self.left_ms(handle);
        self.arm_for(handle.session_id, left_ms.min(FREEZE_AFTER_MS));
        Some(actor)
    }

    /// Returns the events of a session in progress.
    pub async fn events(&self, handle: &Arc<Handle>) -> Result<LiveEvents, AskError> {
        let asked = async {
            loop {
                let actor = {
                    let mut slot = handle.slot();
                    if slot.restarting {
                        None
                    } else {
                        self.actor_in(&mut slot, handle)
                    }
                };
                match actor {
                    Some(actor) => match actor.send(ReadEvents).await {
                        Ok(events) => return events,
                        Err(_closed) => tokio::time::sleep(Duration::from_millis(20)).await,
                    },
                    None => tokio::time::sleep(Duration::from_millis(20)).await,
                }
            }
        };
        tokio::time::timeout(ASK, asked)
            .await
            .map_err(|_elapsed| AskError)
    }

    /// Handles the end of a session: the node that acts for it computes the insight and then stops the actor.
    pub(crate) fn on_ended(&self, session_id: SessionId) {
        if !self.acts_for(session_id) {
            self.evict_remote(session_id);
            self.inner.peers.nudge(Nudge::Session(session_id));
            return;
        }
        if let Some((_, handle)) = self.inner.sessions.remove(&session_id) {
            Metrics::get().sessions_live.decrement(1.0);
            self.inner.ending.insert(session_id, handle);
        }
        self.wake_watchers(session_id);
        self.inner.scoring.request(session_id);
        self.look_again_at_end(session_id);
    }

    /// Requests the insight of a session that was taken over with its shard.
    pub(crate) fn score_taken(&self, session_id: SessionId) {
        if self.handle(session_id).is_some() {
            // This node was not notified of the end.
            return self.on_ended(session_id);
        }
        self.inner.scoring.request(session_id);
        self.look_again_at_end(session_id);
    }

    /// Returns a session that has ended and waits for its insight.
    pub(crate) fn ending(&self, session_id: SessionId) -> Option<Arc<Handle>> {
        self.inner
            .ending
            .get(&session_id)
            .map(|entry| Arc::clone(&entry))
    }

    /// Requests that the node that acts for a session computes or recomputes its insight.
    pub fn request_score(&self, session_id: SessionId) {
        if self.acts_for(session_id) {
            self.inner.scoring.request(session_id);
        } else {
            self.inner.peers.nudge(Nudge::Session(session_id));
        }
    }

    /// Handles a panic of a session's actor. `seq` is the batch at which it panicked, if any.
    pub(crate) fn on_panicked(&self, handle: &Arc<Handle>, seq: Option<u32>) {
        let verdict = {
            let mut slot = handle.slot();
            slot.actor = None;
            slot.frozen = None;
            slot.restarting = true;
            slot.budget.on_panic(self.inner.clock.now())
        };
        let restarts = handle.slot().budget.panics();
        Fact::ActorPanicked {
            actor: ActorKind::Session,
            session_id: handle.session_id,
            seq,
            restarts,
        }
        .record();
        let (registry, handle) = (self.clone(), Arc::clone(handle));
        let Some(lane) = self.lane(handle.session_id) else {
            return;
        };
        lane.arbiter.spawn(async move {
            match (verdict, seq) {
                (Verdict::Restart(pause), _) => tokio::time::sleep(pause).await,
                (Verdict::Quarantine, Some(seq)) => {
                    registry.quarantine(handle.session_id, seq).await
                }
                // The panic was not at a batch, so there is nothing to quarantine, and the budget is reset.
                (Verdict::Quarantine, None) => tokio::time::sleep(Duration::from_secs(1)).await,
            }
            let mut slot = handle.slot();
            slot.restarting = false;
            let waits = registry.ending(handle.session_id).is_some();
            if waits || registry.handle(handle.session_id).is_some() {
                registry.actor_in(&mut slot, &handle);
            }
        });
    }

    async fn quarantine(&self, session_id: SessionId, seq: u32) {
        let mut pause = Duration::from_millis(100);
        loop {
            match self
                .inner
                .store
                .note(session_id, Note::Quarantined { seq })
                .await
            {
                Ok(()) => return Fact::BatchQuarantined { session_id, seq }.record(),
                Err(error) => self.store_failed(session_id, "quarantining a batch", &error),
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(Duration::from_secs(5));
        }
    }

    pub(crate) fn store_failed(
        &self,
        session_id: SessionId,
        doing: &'static str,
        error: &StoreError,
    ) {
        Fact::StoreFailed {
            actor: ActorKind::Session,
            session_id,
            doing,
            error,
        }
        .record();
    }

    /// Refuses new work from now on.
    pub(crate) fn refuse(&self) {
        self.inner.draining.store(true, Ordering::SeqCst);
        self.wake_all_watchers();
    }

    /// Returns whether new work is refused.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.inner.draining.load(Ordering::Relaxed)
    }

    /// Returns the number of bodies that are admitted and not yet answered.
    #[must_use]
    pub fn bodies_in_flight(&self) -> usize {
        self.inner.permits.load(Ordering::Relaxed)
    }
}
