//! Sessions that are erased.

use porchlight_observe::StopReason;
use porchlight_schema::ids::SessionId;

use super::Registry;

impl Registry {
    /// Removes a session that is being erased and stops its actor, which writes nothing. If another
    /// node acts for the session, that node reconciles it.
    pub(crate) fn drop_erased(&self, session_id: SessionId) {
        let live = self.inner.directory.remove_live(session_id);
        let ending = self.inner.directory.remove_ending(session_id);
        for handle in live.into_iter().chain(ending) {
            handle.finish(StopReason::Finished);
        }
        self.wake_watchers(session_id);
        if !self.acts_for(session_id) {
            self.leave_to_owner(session_id);
        }
    }
}
