//! Maps session IDs to handles: routes, spawns, passivates and restarts. It holds no business
//! state: all its data can be read from the store again.
//!
//! A handle exists for every session in progress, an actor only for a session that was active
//! recently. Deadlines are armed for handles, so a silent session ends in time without an actor.
//!
//! Each concept has its own type: `directory` the handles, `admission` the work in flight,
//! `arbiters` the arbiters and deadlines, `watch` the watchers, `remote_sessions` the sessions of
//! other nodes. `Registry` connects them.

mod actors;
mod admission;
mod arbiters;
mod deferral;
mod directory;
mod ending;
mod erased;
mod ingest_limiter;
mod passivation;
mod reconcile_queue;
mod remote_sessions;
mod shards;
mod watch;

use std::sync::{Arc, Weak};

use actix_rt::ArbiterHandle;
use porchlight_core::session::lifetime::Lifetime;
use porchlight_core::shares::ShareLimits;
use porchlight_ports::{
    Clock, Entropy, JournalEntry, Nudge, Ownership, Peers, SessionRow, Store, Wake,
};
use porchlight_schema::ids::SessionId;
use porchlight_schema::session::SessionStart;
use porchlight_schema::time::TimestampMs;
use tokio::time::Instant;

use crate::scoring::ScoringPool;
use crate::session::SessionHandle;
use crate::shards::OwnShards;

pub(crate) use actors::AskError;
pub(crate) use admission::{Admission, Counted};
pub use admission::{AdmitError, Permit};
use arbiters::SessionArbiters;
pub use deferral::DEFER_FROM_BATCHES_PER_SEC;
pub(crate) use remote_sessions::RemoteSession;
pub use watch::Watch;

use deferral::BatchRate;
use directory::Directory;
use reconcile_queue::ReconcileQueue;
use remote_sessions::RemoteSessions;
use watch::Watchers;

/// The callback for a deadline that is due, given by the service, which ends sessions.
pub(crate) type OnDue = Arc<dyn Fn(Registry, Arc<SessionHandle>) + Send + Sync>;

/// The reason for which this node adopts a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// This node has just created it: see [`Slot::is_new`](crate::session::Slot::is_new).
    Created,
    /// This node has found it in the store.
    Store,
}

/// The registry of sessions. Clones share the same state.
#[derive(Clone)]
pub struct Registry {
    inner: Arc<Inner>,
}

struct Inner {
    ports: Ports,
    admission: Arc<Admission>,
    directory: Directory,
    arbiters: SessionArbiters,
    scoring: ScoringPool,
    shards: Arc<OwnShards>,
    watchers: Arc<Watchers>,
    /// Sessions that other nodes act for.
    remote: RemoteSessions,
    reconciles: ReconcileQueue,
    rate: BatchRate,
    defer_from_per_sec: u32,
    me: Weak<Inner>,
}

impl std::fmt::Debug for Registry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Registry")
            .field("sessions", &self.live())
            .finish_non_exhaustive()
    }
}

/// The adapters that sessions use, and the limits on their duration.
pub struct Ports {
    /// The store of sessions, journals and insights.
    pub store: Arc<dyn Store>,
    /// The wall clock, and the monotonic uptime by which silence and age are measured.
    pub clock: Arc<dyn Clock>,
    /// The source of randomness for IDs.
    pub entropy: Arc<dyn Entropy>,
    /// The function that wakes a tenant's webhooks.
    pub wake: Wake,
    /// The limits on the duration of sessions.
    pub lifetime: Lifetime,
    /// The shards that this process acts for.
    pub ownership: Arc<dyn Ownership>,
    /// The nodes that act for the other shards.
    pub peers: Arc<dyn Peers>,
}

/// The parts that a registry is built from.
pub struct Parts {
    /// The adapters and the limits on the duration of sessions.
    pub ports: Ports,
    /// The arbiters on which session actors run; never empty.
    pub arbiters: Vec<ArbiterHandle>,
    /// The pool that scores sessions.
    pub scoring: ScoringPool,
    /// The shares of this node that one tenant may use.
    pub shares: ShareLimits,
    /// The batches per second from which the node defers the batches of sessions without a reader;
    /// see [`DEFER_FROM_BATCHES_PER_SEC`].
    pub defer_from_per_sec: u32,
}

impl Registry {
    pub(crate) fn new(parts: Parts, on_due: OnDue) -> Self {
        let inner = Arc::new_cyclic(|me| Inner {
            shards: Arc::new(OwnShards::new(Arc::clone(&parts.ports.ownership))),
            ports: parts.ports,
            admission: Arc::new(Admission::new(parts.shares)),
            directory: Directory::default(),
            arbiters: SessionArbiters::default(),
            scoring: parts.scoring,
            watchers: Arc::default(),
            remote: RemoteSessions::default(),
            reconciles: ReconcileQueue::default(),
            rate: BatchRate::default(),
            defer_from_per_sec: parts.defer_from_per_sec,
            me: Weak::clone(me),
        });
        // The wheels must not keep the registry alive, or neither would ever be dropped.
        let weak = Arc::downgrade(&inner);
        inner.arbiters.start(parts.arbiters, move |session_id| {
            let Some(inner) = weak.upgrade() else { return };
            let registry = Self { inner };
            if let Some(handle) = registry.handle(session_id) {
                registry.on_deadline(handle, &on_due);
            }
        });
        let registry = Self { inner };
        registry.connect_scoring();
        registry
    }

    /// Returns the adapters that sessions use.
    pub(crate) fn ports(&self) -> &Ports {
        &self.inner.ports
    }

    /// Returns the work in flight on this node, and its limits.
    pub(crate) fn admission(&self) -> &Arc<Admission> {
        &self.inner.admission
    }

    /// Returns the handle of a session in progress.
    #[must_use]
    pub fn handle(&self, session_id: SessionId) -> Option<Arc<SessionHandle>> {
        self.inner.directory.live(session_id)
    }

    /// Returns the handle of a session that has ended and waits for its insight.
    pub(crate) fn ending(&self, session_id: SessionId) -> Option<Arc<SessionHandle>> {
        self.inner.directory.ending(session_id)
    }

    /// Returns the number of sessions in progress.
    #[must_use]
    pub fn live(&self) -> usize {
        self.inner.directory.live_count()
    }

    /// Adopts a session in progress. `last_received_at` is the time at which its last batch was
    /// received, or at which it was created.
    pub fn adopt(&self, row: &SessionRow, last_received_at: TimestampMs) -> Arc<SessionHandle> {
        let handle = self.enter(&row.start, last_received_at, Origin::Store);
        self.arm(&handle);
        handle
    }

    /// Adopts a session that this node has just created. Its actor skips the reads of the store,
    /// which has no data of the session yet.
    pub(crate) fn adopt_new(&self, start: &SessionStart) {
        let handle = self.enter(start, start.created_at, Origin::Created);
        self.arm(&handle);
    }

    /// Returns the handle of a session in progress, and creates it if necessary.
    fn enter(
        &self,
        start: &SessionStart,
        last_received_at: TimestampMs,
        origin: Origin,
    ) -> Arc<SessionHandle> {
        let admission = &self.inner.admission;
        self.inner.directory.enter(start.session_id, || {
            let handle = SessionHandle::new(
                start,
                last_received_at,
                self.adopted_now(start.created_at),
                Arc::clone(admission.mailboxes()),
                admission.shares().of(start.tenant),
            );
            handle.slot().is_new = origin == Origin::Created;
            handle
        })
    }

    /// Passes a durable batch to its session's actor. The store calls this on its own thread right
    /// after the commit. Never blocks.
    pub fn deliver(&self, session_id: SessionId, entry: JournalEntry) {
        let Some(handle) = self.handle(session_id) else {
            // Either the batch came late and the insight is recomputed, or the session was started
            // on another node a moment ago.
            self.queue_reconcile(session_id);
            return;
        };
        let clock = &self.inner.ports.clock;
        handle.touch(entry.received_at, clock.uptime_ms());
        handle.mark_known(entry.seq);
        self.send_batch(&handle, entry);
    }

    /// Watches a session from now on. The caller reads the session after this call, and again after
    /// each [`Watch::changed`].
    #[must_use]
    pub fn watch(&self, session_id: SessionId) -> Watch {
        let shards = Arc::clone(&self.inner.shards);
        self.inner.watchers.watch(session_id, shards)
    }

    /// Wakes the watchers of a session that may have something new.
    pub(crate) fn wake_watchers(&self, session_id: SessionId) {
        self.inner.watchers.wake(session_id);
    }

    /// Wakes all watchers, because the node is stopping or because sessions were hidden or shown.
    pub(crate) fn wake_all_watchers(&self) {
        self.inner.watchers.wake_all();
    }

    /// Returns the cached remote session that another node acts for. Returns `None` if the session
    /// must be looked up.
    pub(crate) fn remote(&self, session_id: SessionId) -> Option<RemoteSession> {
        self.inner.remote.get(session_id)
    }

    /// Records a lookup, begun at `looked_up_at`, of a session that another node acts for. Returns
    /// `None` if the session has ended.
    pub(crate) fn cache_remote(
        &self,
        row: &SessionRow,
        looked_up_at: Instant,
    ) -> Option<RemoteSession> {
        if row.end.is_none() {
            let usage = self.inner.admission.shares().of(row.start.tenant);
            return Some(self.inner.remote.put(&row.start, usage, looked_up_at));
        }
        self.evict_remote(row.start.session_id);
        None
    }

    /// Removes the cached remote session, and notifies the node that acts for it.
    fn leave_to_owner(&self, session_id: SessionId) {
        self.evict_remote(session_id);
        self.inner.ports.peers.nudge(Nudge::Session(session_id));
    }

    fn evict_remote(&self, session_id: SessionId) {
        self.inner.remote.evict(session_id);
        self.wake_watchers(session_id);
    }

    /// Refuses new work from now on.
    pub(crate) fn refuse(&self) {
        self.inner.admission.refuse();
        self.wake_all_watchers();
    }

    /// Returns whether new work is refused.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.inner.admission.is_draining()
    }
}
