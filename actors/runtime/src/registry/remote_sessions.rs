//! A cache of sessions that another node acts for, kept where their telemetry arrives. An entry
//! holds the tenant, and records that the session was in progress a moment ago, so that not every
//! batch costs a lookup.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use dashmap::DashMap;
use porchlight_schema::ids::SessionId;
use porchlight_schema::limits::{REMOTE_SESSION_TTL_MS, REMOTE_SESSIONS_MAX};
use porchlight_schema::session::{SessionStart, Tenant};
use tokio::time::Instant;

use crate::shares::TenantUsage;

/// A session that another node acts for.
#[derive(Debug)]
pub(crate) struct RemoteState {
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
    pub(crate) state: Arc<RemoteState>,
    looked_up_at: Instant,
}

impl RemoteSession {
    /// Returns whether the cached remote session is still valid. Until it expires, this node does
    /// not notice an end on another node.
    pub(crate) fn is_valid(&self) -> bool {
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
    pub(super) fn get(&self, session_id: SessionId) -> Option<RemoteSession> {
        let remote = self.sessions.get(&session_id)?;
        remote.is_valid().then(|| remote.clone())
    }

    /// Records that a lookup that began at `looked_up_at` found the session in progress.
    pub(super) fn put(
        &self,
        start: &SessionStart,
        usage: Arc<TenantUsage>,
        looked_up_at: Instant,
    ) -> RemoteSession {
        self.make_room();
        let entry = self.sessions.entry(start.session_id);
        let mut entry = entry.or_insert_with(|| RemoteSession {
            state: Arc::new(RemoteState {
                tenant: start.tenant,
                usage,
                in_flight: AtomicU32::new(0),
            }),
            looked_up_at,
        });
        entry.looked_up_at = entry.looked_up_at.max(looked_up_at);
        entry.clone()
    }

    /// Removes a session that has ended or was erased.
    pub(super) fn evict(&self, session_id: SessionId) {
        self.sessions.remove(&session_id);
    }

    /// Evicts expired entries. It runs after a lookup in the store, so its cost is small in
    /// comparison.
    fn make_room(&self) {
        if self.sessions.len() >= REMOTE_SESSIONS_MAX {
            self.evict_unless(RemoteSession::is_valid);
            // If all entries are fresh, all are evicted; their sessions are looked up again.
            if self.sessions.len() >= REMOTE_SESSIONS_MAX {
                self.evict_unless(|_| false);
            }
        }
    }

    /// Evicts the entries that are not kept and not in use. A batch in flight is counted in its
    /// entry: if the entry were evicted, the session would have a second count that begins at 0.
    fn evict_unless(&self, is_kept: impl Fn(&RemoteSession) -> bool) {
        let is_in_use = |remote: &RemoteSession| Arc::strong_count(&remote.state) > 1;
        self.sessions
            .retain(|_, remote| is_in_use(remote) || is_kept(remote));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use porchlight_core::shares::ShareLimits;
    use porchlight_schema::ids::OrganizationId;
    use porchlight_schema::session::{Address, Env, Point};
    use porchlight_schema::time::TimestampMs;

    use super::*;
    use crate::shares::TenantShares;

    const NOW: TimestampMs = TimestampMs(1_763_636_100_000);

    fn start(number: usize) -> SessionStart {
        SessionStart::delivery(
            SessionId::new(NOW, number as u128),
            Tenant {
                organization_id: OrganizationId::new(NOW, 7),
                env: Env::Sandbox,
            },
            Address::at(Point { lat: 0.0, lng: 0.0 }),
            NOW,
        )
    }

    #[tokio::test(start_paused = true)]
    async fn a_full_cache_keeps_the_counts_of_batches_in_flight() {
        let (sessions, now) = (RemoteSessions::default(), Instant::now());
        let usage = TenantShares::new(ShareLimits::default()).of(start(0).tenant);
        let put = |number| sessions.put(&start(number), Arc::clone(&usage), now);
        // A batch of the first session is in flight while many other sessions are looked up.
        let batch = put(0).state;
        batch.in_flight.fetch_add(1, Ordering::Relaxed);
        for number in 1..2 * REMOTE_SESSIONS_MAX {
            put(number);
        }
        assert!(sessions.sessions.len() <= REMOTE_SESSIONS_MAX);
        assert_eq!(put(0).state.in_flight.load(Ordering::Relaxed), 1);
        // The counts also stay after all entries have expired.
        tokio::time::advance(Duration::from_millis(2 * REMOTE_SESSION_TTL_MS)).await;
        for number in 0..2 * REMOTE_SESSIONS_MAX {
            put(2 * REMOTE_SESSIONS_MAX + number);
        }
        assert!(sessions.sessions.len() <= REMOTE_SESSIONS_MAX);
        assert_eq!(put(0).state.in_flight.load(Ordering::Relaxed), 1);
    }
}
