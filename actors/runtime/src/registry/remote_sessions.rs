//! A cache of sessions that another node acts for, kept where their telemetry arrives. It holds
//! their tenant and that they were in progress a moment ago, so that not every batch costs a
//! look-up.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use dashmap::DashMap;
use porchlight_ports::SessionRow;
use porchlight_schema::ids::SessionId;
use porchlight_schema::limits::{EDGE_SESSIONS_MAX, REMOTE_SESSION_TTL_MS};
use porchlight_schema::session::{SessionStart, Tenant};
use tokio::time::Instant;

use super::Registry;
use crate::shares::TenantUsage;

/// A session that another node acts for.
#[derive(Debug)]
pub(crate) struct RemoteShard {
    pub(crate) tenant: Tenant,
    /// The usage of this node by that tenant.
    pub(crate) usage: Arc<TenantUsage>,
    /// The number of batches of the session in flight on this node.
    pub(super) in_flight: AtomicU32,
}

/// The result of a lookup that found a session in progress on another node. It expires after a
/// while.
#[derive(Debug, Clone)]
pub(crate) struct RemoteSession {
    pub(crate) edge: Arc<RemoteShard>,
    looked_up_at: Instant,
}

impl RemoteSession {
    /// Returns whether the cached remote session is still valid. Until it expires, this node does
    /// not notice an end on another node.
    pub(crate) fn is_good(&self) -> bool {
        self.looked_up_at.elapsed() < Duration::from_millis(REMOTE_SESSION_TTL_MS)
    }
}

/// The cached sessions of other nodes.
#[derive(Debug, Default)]
pub(super) struct RemoteSessions {
    sessions: DashMap<SessionId, RemoteSession>,
}

impl RemoteSessions {
    /// Returns the cached remote session if it is still valid.
    fn get(&self, session_id: SessionId) -> Option<RemoteSession> {
        let belief = self.sessions.get(&session_id)?;
        belief.is_good().then(|| belief.clone())
    }

    /// Records that a look-up that began at `looked_up_at` found the session in progress.
    fn put(
        &self,
        start: &SessionStart,
        usage: Arc<TenantUsage>,
        looked_up_at: Instant,
    ) -> RemoteSession {
        self.make_room();
        let entry = self.sessions.entry(start.session_id);
        let mut entry = entry.or_insert_with(|| RemoteSession {
            edge: Arc::new(RemoteShard {
                tenant: start.tenant,
                usage,
                in_flight: AtomicU32::new(0),
            }),
            looked_up_at,
        });
        entry.looked_up_at = entry.looked_up_at.max(looked_up_at);
        entry.clone()
    }

    /// Removes a session that has ended.
    fn forget(&self, session_id: SessionId) {
        self.sessions.remove(&session_id);
    }

    /// Evicts expired entries. It runs after a lookup in the store, so its cost is small in
    /// comparison.
    fn make_room(&self) {
        if self.sessions.len() >= EDGE_SESSIONS_MAX {
            self.sessions.retain(|_, belief| belief.is_good());
            // If all entries are fresh, all are evicted; their sessions are looked up again.
            if self.sessions.len() >= EDGE_SESSIONS_MAX {
                self.sessions.clear();
            }
        }
    }
}

impl Registry {
    /// Returns the cached remote session that another node acts for. Returns `None` if the session
    /// must be looked up.
    pub(crate) fn belief(&self, session_id: SessionId) -> Option<RemoteSession> {
        self.inner.edges.get(session_id)
    }

    /// Records a look-up, begun at `looked_up_at`, of a session that another node acts for. Returns
    /// `None` if the session has ended.
    pub(crate) fn cache_remote(
        &self,
        row: &SessionRow,
        looked_up_at: Instant,
    ) -> Option<RemoteSession> {
        if row.end.is_none() {
            let usage = self.inner.shares.of(row.start.tenant);
            return Some(self.inner.edges.put(&row.start, usage, looked_up_at));
        }
        self.evict_remote(row.start.session_id);
        None
    }

    /// Removes the cached remote session after it has ended.
    pub(super) fn evict_remote(&self, session_id: SessionId) {
        self.inner.edges.forget(session_id);
        self.wake_watchers(session_id);
    }
}
