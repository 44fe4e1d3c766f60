//! What the writer remembers of the journals of the sessions met last.

use std::collections::HashMap;

use porchlight_schema::ids::SessionId;
use porchlight_schema::limits::JOURNAL_TIPS_MAX;

/// What the writer knows of a session's journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct JournalHead {
    /// The highest number; none while there is no batch.
    pub(crate) highest: Option<u32>,
    /// Numbers below it that have no batch.
    pub(crate) holes: u32,
    /// The session has ended: what comes now is late.
    pub(crate) ended: bool,
}

/// The tips of the sessions met last. Two generations: when the younger is full the elder is dropped, so that memory
/// stays bounded and a session that goes on stays known.
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

    /// A session whose rows are removed.
    pub(crate) fn forget(&mut self, session_id: SessionId) {
        self.young.remove(&session_id);
        self.old.remove(&session_id);
    }
}
