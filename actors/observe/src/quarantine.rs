//! Recently quarantined batches, for the operators' page. The journal keeps the permanent record.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use porchlight_schema::ids::SessionId;

/// Maximum number of entries.
const KEPT_MAX: usize = 100;

static RECENT: Mutex<VecDeque<Quarantined>> = Mutex::new(VecDeque::new());
static UNREADABLE: Mutex<VecDeque<Unreadable>> = Mutex::new(VecDeque::new());

/// A batch that was left out of its session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quarantined {
    /// The id of the session.
    pub session_id: SessionId,
    /// The sequence number of the batch.
    pub seq: u32,
}

pub(super) fn keep(quarantined: Quarantined) {
    let mut recent = RECENT.lock().unwrap_or_else(PoisonError::into_inner);
    recent.truncate(KEPT_MAX - 1);
    recent.push_front(quarantined);
}

/// Returns the batches that this process has quarantined, newest first, at most a hundred.
#[must_use]
pub fn recent() -> Vec<Quarantined> {
    let recent = RECENT.lock().unwrap_or_else(PoisonError::into_inner);
    recent.iter().copied().collect()
}

/// A part of a session that cannot be read from the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unreadable {
    /// The id of the session.
    pub session_id: SessionId,
    /// The part of the session.
    pub what: &'static str,
}

/// Keeps an unreadable part of a session for display; each part is kept once.
pub(super) fn keep_unreadable(unreadable: Unreadable) {
    let mut recent = UNREADABLE.lock().unwrap_or_else(PoisonError::into_inner);
    recent.retain(|kept| *kept != unreadable);
    recent.truncate(KEPT_MAX - 1);
    recent.push_front(unreadable);
}

/// Returns the parts of sessions that this process could not read, newest first, at most a hundred.
#[must_use]
pub fn unreadable() -> Vec<Unreadable> {
    let recent = UNREADABLE.lock().unwrap_or_else(PoisonError::into_inner);
    recent.iter().copied().collect()
}
