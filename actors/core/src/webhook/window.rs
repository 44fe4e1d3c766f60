//! The window of an outbox that is in memory: which lanes to look at next.

use std::collections::{BTreeMap, BTreeSet};

use porchlight_schema::ids::{MessageId, SessionId};
use porchlight_schema::time::TimestampMs;

/// Why a lane is in the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wait {
    /// It has something to be looked at, known by the id of a message.
    Ready(MessageId),
    /// Its first message is due at this time.
    Due(TimestampMs),
}

/// Lanes that wait, each once, in the two orders in which they are served.
#[derive(Debug, Default)]
pub(super) struct Window {
    waits: BTreeMap<SessionId, Wait>,
    ready: BTreeSet<(MessageId, SessionId)>,
    due: BTreeSet<(TimestampMs, SessionId)>,
}

impl Window {
    /// Lanes that wait.
    pub(super) fn len(&self) -> usize {
        self.waits.len()
    }

    /// Lanes that have something to be looked at.
    pub(super) fn ready_len(&self) -> usize {
        self.ready.len()
    }

    /// Lanes whose first message is due at a known time.
    pub(super) fn due_len(&self) -> usize {
        self.due.len()
    }

    /// Makes the lane wait for this and nothing else.
    pub(super) fn put(&mut self, lane: SessionId, wait: Wait) {
        self.remove(lane);
        self.waits.insert(lane, wait);
        match wait {
            Wait::Ready(id) => self.ready.insert((id, lane)),
            Wait::Due(due_at) => self.due.insert((due_at, lane)),
        };
    }

    /// Whether and why the lane waits.
    pub(super) fn get(&self, lane: SessionId) -> Option<Wait> {
        self.waits.get(&lane).copied()
    }

    /// Takes the lane out.
    pub(super) fn remove(&mut self, lane: SessionId) {
        match self.waits.remove(&lane) {
            Some(Wait::Ready(id)) => {
                self.ready.remove(&(id, lane));
            }
            Some(Wait::Due(due_at)) => {
                self.due.remove(&(due_at, lane));
            }
            None => {}
        }
    }

    /// Takes out the lane that is due last, to make room.
    pub(super) fn remove_latest_due(&mut self) {
        if let Some(&(_, lane)) = self.due.last() {
            self.remove(lane);
        }
    }

    /// The lane with the oldest message to be looked at.
    pub(super) fn first_ready(&self) -> Option<(MessageId, SessionId)> {
        self.ready.first().copied()
    }

    /// The lane that is due first.
    pub(super) fn first_due(&self) -> Option<(TimestampMs, SessionId)> {
        self.due.first().copied()
    }
}
