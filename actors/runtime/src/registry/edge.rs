//! Sessions that another node acts for, as they are known where their telemetry comes in: whose they are, and that they
//! recorded a moment ago. So a phone's batch does not cost a look-up each.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use dashmap::DashMap;
use porchlight_ports::SessionRow;
use porchlight_schema::ids::SessionId;
use porchlight_schema::limits::{EDGE_BELIEF_MS, EDGE_SESSIONS_MAX};
use porchlight_schema::session::{SessionStart, Tenant};
use tokio::time::Instant;

use super::Registry;
use crate::shares::TenantUsage;

/// A session that another node acts for.
#[derive(Debug)]
pub(crate) struct Edge {
    pub(crate) tenant: Tenant,
    /// What that tenant uses of this node.
    pub(crate) usage: Arc<TenantUsage>,
    /// Batches of the session that are in flight on this node.
    pub(super) in_flight: AtomicU32,
}

/// That a session recorded when it was looked up. After a while nobody knows any more.
#[derive(Debug, Clone)]
pub(crate) struct Belief {
    pub(crate) edge: Arc<Edge>,
    looked_up_at: Instant,
}

impl Belief {
    /// Whether it may still be gone by: an end on another node is not known here before.
    pub(crate) fn is_good(&self) -> bool {
        self.looked_up_at.elapsed() < Duration::from_millis(EDGE_BELIEF_MS)
    }
}

/// What is believed of all of them.
#[derive(Debug, Default)]
pub(super) struct Edges {
    sessions: DashMap<SessionId, Belief>,
}

impl Edges {
    /// What is believed of a session, if it still may be.
    fn get(&self, session_id: SessionId) -> Option<Belief> {
        let belief = self.sessions.get(&session_id)?;
        belief.is_good().then(|| belief.clone())
    }

    /// The session was found to record, by a look-up that began at `looked_up_at`.
    fn put(&self, start: &SessionStart, usage: Arc<TenantUsage>, looked_up_at: Instant) -> Belief {
        self.make_room();
        let entry = self.sessions.entry(start.session_id);
        let mut entry = entry.or_insert_with(|| Belief {
            edge: Arc::new(Edge {
                tenant: start.tenant,
                usage,
                in_flight: AtomicU32::new(0),
            }),
            looked_up_at,
        });
        entry.looked_up_at = entry.looked_up_at.max(looked_up_at);
        entry.clone()
    }

    /// The session has ended.
    fn forget(&self, session_id: SessionId) {
        self.sessions.remove(&session_id);
    }

    /// Called on a look-up that the store answered, so that its cost is small beside that one's.
    fn make_room(&self) {
        if self.sessions.len() >= EDGE_SESSIONS_MAX {
            self.sessions.retain(|_, belief| belief.is_good());
            // All of it is fresh: whoever is forgotten is looked up again.
            if self.sessions.len() >= EDGE_SESSIONS_MAX {
                self.sessions.clear();
            }
        }
    }
}

impl Registry {
    /// What is believed of a session that another node acts for; none: it is to be looked up.
    pub(crate) fn belief(&self, session_id: SessionId) -> Option<Belief> {
        self.inner.edges.get(session_id)
    }

    /// A session that another node acts for was found so, by a look-up that began at `looked_up_at`. What to go by, if
    /// it records.
    pub(crate) fn believe(&self, row: &SessionRow, looked_up_at: Instant) -> Option<Belief> {
        if row.end.is_none() {
            let usage = self.inner.shares.of(row.start.tenant);
            return Some(self.inner.edges.put(&row.start, usage, looked_up_at));
        }
        self.disbelieve(row.start.session_id);
        None
    }

    /// A session that another node acts for has ended.
    pub(super) fn disbelieve(&self, session_id: SessionId) {
        self.inner.edges.forget(session_id);
        self.wake_watchers(session_id);
    }
}
