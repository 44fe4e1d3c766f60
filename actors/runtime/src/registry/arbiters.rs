//! The arbiters on which session actors run, each with its timer wheel.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use actix_rt::ArbiterHandle;
use porchlight_schema::ids::SessionId;

use crate::timers::Wheel;

/// An arbiter on which sessions' actors run, and its timer wheel.
#[derive(Debug)]
pub(super) struct SessionArbiter {
    pub(super) arbiter: ArbiterHandle,
    wheel: Wheel<SessionId>,
}

/// The arbiters of this process on which sessions' actors run. A session's shard decides its
/// arbiter.
#[derive(Debug, Default)]
pub(super) struct SessionArbiters {
    arbiters: Mutex<Vec<Arc<SessionArbiter>>>,
}

impl SessionArbiters {
    /// Starts a timer wheel on each arbiter. A wheel calls `on_deadline` for each session that is
    /// due.
    pub(super) fn start(
        &self,
        arbiters: Vec<ArbiterHandle>,
        on_deadline: impl Fn(SessionId) + Clone + Send + Sync + 'static,
    ) {
        let started = arbiters.into_iter().map(|arbiter| {
            let wheel = Wheel::start(&arbiter, on_deadline.clone());
            Arc::new(SessionArbiter { arbiter, wheel })
        });
        *self.lock() = started.collect();
    }

    /// Returns the arbiter of a session. Returns `None` after [`SessionArbiters::stop`].
    pub(super) fn of(&self, session_id: SessionId) -> Option<Arc<SessionArbiter>> {
        let arbiters = self.lock();
        let place = usize::from(session_id.shard().0) % arbiters.len().max(1);
        arbiters.get(place).cloned()
    }

    /// Arms the next deadline of a session, `ahead_ms` from now, within the range of a wheel.
    pub(super) fn arm(&self, session_id: SessionId, ahead_ms: i64) {
        if let Some(of_session) = self.of(session_id) {
            let ahead = Duration::from_millis(ahead_ms.max(1).unsigned_abs());
            of_session.wheel.arm(session_id, ahead);
        }
    }

    /// Drops all arbiters and their wheels.
    pub(super) fn stop(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Arc<SessionArbiter>>> {
        self.arbiters.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
