//! The batches that were put aside lately, for the operators' page. The journal has them for good; this is only to show.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use porchlight_schema::ids::SessionId;

/// How many are kept to be shown.
const KEPT_MAX: usize = 100;

static RECENT: Mutex<VecDeque<Quarantined>> = Mutex::new(VecDeque::new());

/// A batch that its session goes on without.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quarantined {
    /// Which session.
    pub session_id: SessionId,
    /// Which batch.
    pub seq: u32,
}

pub(super) fn keep(quarantined: Quarantined) {
    let mut recent = RECENT.lock().unwrap_or_else(PoisonError::into_inner);
    recent.truncate(KEPT_MAX - 1);
    recent.push_front(quarantined);
}

/// What this process has put aside, the last first, at most a hundred.
#[must_use]
pub fn recent() -> Vec<Quarantined> {
    let recent = RECENT.lock().unwrap_or_else(PoisonError::into_inner);
    recent.iter().copied().collect()
}
