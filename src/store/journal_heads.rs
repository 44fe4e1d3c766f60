//! The writer's cache of the journal heads of recently used sessions.

use std::collections::HashMap;

use porchlight_schema::ids::SessionId;
use porchlight_schema::limits::JOURNAL_TIPS_MAX;

/// The writer's knowledge of a session's journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct JournalHead {
    /// The highest number, or `None` while there is no batch.
    pub(crate) highest: Option<u32>,
    /// Numbers below it that have no batch.
    pub(crate) holes: u32,
    /// Whether the session has ended: further batches are late.
    pub(crate) ended: bool,
    /// The session was erased by this process: requests that were under way then store nothing.
    pub(crate) erased: bool,
}

/// The heads of recently used sessions. There are two generations: when the younger is full the
/// older is dropped, so that memory stays bounded and an active session stays cached.
#[derive(Default)]
pub(crate) struct JournalHeads {
    young: HashMap<SessionId, JournalHead>,
    old: HashMap<SessionId, JournalHead>,
}

impl JournalHeads {
    pub(crate) fn get(&mut self, session_id: SessionId) -> Option<JournalHead> {
        if let Some(&tip) = self.young.get(&session_id) {
            return Some(tip);
        }
        let tip = self.old.get(&session_id).copied()?;
        self.set(session_id, tip);
        Some(tip)
    }

    pub(crate) fn set(&mut self, session_id: SessionId, tip: JournalHead) {
        if self.young.len() >= JOURNAL_TIPS_MAX / 2 && !self.young.contains_key(&session_id) {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(session_id, tip);
    }

    /// A session that ends.
    pub(crate) fn end(&mut self, session_id: SessionId) {
        if let Some(tip) = self.get(session_id) {
            self.set(session_id, JournalHead { ended: true, ..tip });
        }
    }

    /// Records that a session is being erased, so that nothing more is stored for it.
    pub(crate) fn erase(&mut self, session_id: SessionId) {
        let erased = JournalHead {
            erased: true,
            ..JournalHead::default()
        };
        self.set(session_id, erased);
    }

    /// Returns whether a session was erased.
    pub(crate) fn is_erased(&mut self, session_id: SessionId) -> bool {
        self.get(session_id).is_some_and(|tip| tip.erased)
    }

    /// A session whose rows are removed.
    pub(crate) fn forget(&mut self, session_id: SessionId) {
        self.young.remove(&session_id);
        self.old.remove(&session_id);
    }
}
