//! Late telemetry: a phone that was offline sends many batches of an ended session one after the
//! other, and scoring the session after each of them would repeat nearly all of the work.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use porchlight_schema::ids::SessionId;

/// The ended sessions that have received telemetry lately, and whether they have to be scored.
#[derive(Debug, Default)]
pub(super) struct LateSessions(Mutex<BTreeMap<SessionId, bool>>);

impl LateSessions {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<SessionId, bool>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a late batch. Returns `true` if it is the first one of a burst: the caller then ends
    /// periods until [`Self::end_period`] returns `false`.
    pub(super) fn arrive(&self, session_id: SessionId) -> bool {
        self.lock().insert(session_id, true).is_none()
    }

    /// Ends a period. Returns `true` if batches arrived during it: the session is to be scored, and
    /// another period begins. Otherwise the burst is over.
    pub(super) fn end_period(&self, session_id: SessionId) -> bool {
        let mut sessions = self.lock();
        let is_unscored = sessions.remove(&session_id).unwrap_or(false);
        if is_unscored {
            sessions.insert(session_id, false);
        }
        is_unscored
    }
}

#[cfg(test)]
mod tests {
    use porchlight_schema::time::TimestampMs;

    use super::*;

    #[test]
    fn a_burst_is_scored_once_per_period() {
        let sessions = LateSessions::default();
        let [one, other] = [1, 2].map(|random| SessionId::new(TimestampMs(0), random));
        assert!(sessions.arrive(one));
        assert!(!sessions.arrive(one));
        assert!(
            sessions.arrive(other),
            "bursts of other sessions are separate"
        );
        assert!(sessions.end_period(one));
        assert!(!sessions.arrive(one));
        assert!(!sessions.arrive(one));
        assert!(sessions.end_period(one));
        assert!(!sessions.end_period(one));
        assert!(sessions.arrive(one), "a later burst begins anew");
        for session_id in [one, other] {
            assert!(sessions.end_period(session_id));
            assert!(!sessions.end_period(session_id));
        }
        assert!(sessions.lock().is_empty());
    }
}
