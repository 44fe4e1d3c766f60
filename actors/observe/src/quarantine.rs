//! Recently quarantined batches, for the operators' page. The journal keeps the permanent record.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use porchlight_schema::ids::SessionId;

/// Maximum number of entries.
const KEPT_MAX: usize = 100;

static RECENT: Mutex<VecDeque<Quarantined>> = Mutex::new(VecDeque::new());
static DAMAGED: Mutex<VecDeque<Damaged>> = Mutex::new(VecDeque::new());

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
pub struct Damaged {
    /// The id of the session.
    pub session_id: SessionId,
    /// The part of the session.
    pub what: &'static str,
}

/// Keeps a damaged part of a session for display; each part is kept once.
pub(super) fn keep_damaged(damaged: Damaged) {
    let mut recent = DAMAGED.lock().unwrap_or_else(PoisonError::into_inner);
    recent.retain(|kept| *kept != damaged);
    recent.truncate(KEPT_MAX - 1);
    recent.push_front(damaged);
}

/// Returns the parts of sessions that this process found damaged, newest first, at most a hundred.
#[must_use]
pub fn damaged() -> Vec<Damaged> {
    let recent = DAMAGED.lock().unwrap_or_else(PoisonError::into_inner);
    recent.iter().copied().collect()
}
