//! The writer's cache of the journal heads of recently used sessions.

use porchlight_schema::ids::SessionId;
use porchlight_schema::limits::JOURNAL_HEADS_MAX;

use super::recent::Recent;

/// The head of a session's journal, as the writer knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct JournalHead {
    /// The highest number, or `None` while there is no batch.
    pub(crate) highest: Option<u32>,
    /// The count of numbers below `highest` that have no batch.
    pub(crate) missing: u32,
    /// Whether the session has ended: further batches are late.
    pub(crate) has_ended: bool,
    /// Whether this process has erased the session: requests in flight then store nothing.
    pub(crate) is_erased: bool,
}

/// The heads of recently used sessions.
pub(crate) struct JournalHeads(Recent<SessionId, JournalHead>);

impl Default for JournalHeads {
    fn default() -> Self {
        Self(Recent::new(JOURNAL_HEADS_MAX))
    }
}

impl JournalHeads {
    pub(crate) fn get(&mut self, session_id: SessionId) -> Option<JournalHead> {
        self.0.get(&session_id)
    }

    pub(crate) fn set(&mut self, session_id: SessionId, head: JournalHead) {
        self.0.set(session_id, head);
    }

    /// Records that a session has ended.
    pub(crate) fn end(&mut self, session_id: SessionId) {
        if let Some(head) = self.get(session_id) {
            self.set(
                session_id,
                JournalHead {
                    has_ended: true,
                    ..head
                },
            );
        }
    }

    /// Records that a session is being erased, so that nothing more is stored for it.
    pub(crate) fn erase(&mut self, session_id: SessionId) {
        let erased = JournalHead {
            is_erased: true,
            ..JournalHead::default()
        };
        self.set(session_id, erased);
    }

    /// Returns whether a session was erased.
    pub(crate) fn is_erased(&mut self, session_id: SessionId) -> bool {
        self.get(session_id).is_some_and(|head| head.is_erased)
    }

    /// Evicts the head of a session whose rows are removed.
    pub(crate) fn evict(&mut self, session_id: SessionId) {
        self.0.remove(&session_id);
    }
}
