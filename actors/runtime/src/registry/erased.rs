//! Sessions that are erased.

use porchlight_observe::{Metrics, StopReason};
use porchlight_ports::Nudge;
use porchlight_schema::ids::SessionId;

use super::Registry;
use super::send::tell_finish;

impl Registry {
    /// Forgets a session that is being erased and stops its actor, which writes nothing. If another node acts for the
    /// session, that node looks at it.
    pub(crate) fn drop_erased(&self, session_id: SessionId) {
        let live = self.inner.sessions.remove(&session_id);
        if live.is_some() {
            Metrics::get().sessions_live.decrement(1.0);
        }
        let ending = self.inner.ending.remove(&session_id);
        for (_, handle) in live.into_iter().chain(ending) {
            let mut slot = handle.slot();
            slot.frozen = None;
            if let Some(actor) = slot.actor.take() {
                tell_finish(&actor, StopReason::Finished);
            }
        }
        self.wake_watchers(session_id);
        if !self.acts_for(session_id) {
            self.evict_remote(session_id);
            self.inner.peers.nudge(Nudge::Session(session_id));
        }
    }
}
