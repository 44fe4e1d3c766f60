//! Caches this process's knowledge of a session's journal.

use std::time::Instant;

/// This process's knowledge of a session's journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in super::super) struct Head {
    /// The highest number, or `None` while there is no batch.
    pub(super) highest: Option<u32>,
    /// Whether the session has ended, so that further batches are late.
    pub(in super::super) ended: bool,
    /// The time of the last read of the journal; `None` if it was not read yet.
    pub(super) read_at: Option<Instant>,
    /// This process has erased the session.
    pub(super) erased: bool,
}

impl Head {
    /// The journal of a session that this process has erased: it takes nothing more.
    pub(in super::super) fn of_erased() -> Self {
        Self {
            erased: true,
            ..Self::default()
        }
    }
}
