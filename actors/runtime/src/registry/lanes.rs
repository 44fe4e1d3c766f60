//! The arbiters on which session actors run, each with its timer wheel.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use actix_rt::ArbiterHandle;
use porchlight_schema::ids::SessionId;
use porchlight_schema::limits::WHEEL_AHEAD_MS;

use crate::timers::Wheel;

/// An arbiter and the timer wheel that runs on it.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) arbiter: ArbiterHandle,
    wheel: Wheel<SessionId>,
}

/// The lanes of this process. A session's shard decides its lane.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    lanes: Mutex<Vec<Arc<Lane>>>,
}

impl Lanes {
    /// Starts a timer wheel on each arbiter. A wheel calls `on_deadline` for each session that is
    /// due.
    pub(super) fn start(
        &self,
        arbiters: Vec<ArbiterHandle>,
        on_deadline: impl Fn(SessionId) + Clone + Send + Sync + 'static,
    ) {
        let lanes = arbiters.into_iter().map(|arbiter| {
            let wheel = Wheel::start(&arbiter, on_deadline.clone());
            Arc::new(Lane { arbiter, wheel })
        });
        *self.lock() = lanes.collect();
    }

    /// Returns the lane of a session. Returns `None` after [`Lanes::stop`].
    pub(super) fn of(&self, session_id: SessionId) -> Option<Arc<Lane>> {
        let lanes = self.lock();
        let place = usize::from(session_id.shard().0) % lanes.len().max(1);
        lanes.get(place).cloned()
    }

    /// Arms the next deadline of a session, `ahead_ms` from now, at most the range of a wheel.
    pub(super) fn arm(&self, session_id: SessionId, ahead_ms: i64) {
        let ahead_ms = ahead_ms.clamp(1, WHEEL_AHEAD_MS as i64);
        if let Some(lane) = self.of(session_id) {
            lane.wheel
                .arm(session_id, Duration::from_millis(ahead_ms as u64));
        }
    }

    /// Drops all lanes and their wheels.
    pub(super) fn stop(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Arc<Lane>>> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
