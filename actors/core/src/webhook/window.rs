//! The in-memory window of an outbox: the lanes to examine next.

use std::collections::{BTreeMap, BTreeSet};

use porchlight_schema::ids::{MessageId, SessionId};
use porchlight_schema::time::TimestampMs;

/// The reason for a lane's presence in the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wait {
    /// The lane has a message to examine; this is the id of one of its messages.
    Ready(MessageId),
    /// The first message of the lane is due at this time.
    Due(TimestampMs),
}

/// The waiting lanes, each present once, in the two orders in which they are served.
#[derive(Debug, Default)]
pub(super) struct Window {
    waits: BTreeMap<SessionId, Wait>,
    ready: BTreeSet<(MessageId, SessionId)>,
    due: BTreeSet<(TimestampMs, SessionId)>,
}

impl Window {
    /// Returns the number of waiting lanes.
    pub(super) fn len(&self) -> usize {
        self.waits.len()
    }

    /// Returns the number of lanes with a message to examine.
    pub(super) fn ready_len(&self) -> usize {
        self.ready.len()
    }

    /// Returns the number of lanes whose first message is due at a known time.
    pub(super) fn due_len(&self) -> usize {
        self.due.len()
    }

    /// Replaces any earlier wait of the lane with this one.
    pub(super) fn put(&mut self, lane: SessionId, wait: Wait) {
        self.remove(lane);
        self.waits.insert(lane, wait);
        match wait {
            Wait::Ready(id) => self.ready.insert((id, lane)),
            Wait::Due(due_at) => self.due.insert((due_at, lane)),
        };
    }

    /// Returns the reason for which the lane waits, if it does.
    pub(super) fn get(&self, lane: SessionId) -> Option<Wait> {
        self.waits.get(&lane).copied()
    }

    /// Removes the lane.
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

    /// Removes the lane that is due last, to make room.
    pub(super) fn remove_latest_due(&mut self) {
        if let Some(&(_, lane)) = self.due.last() {
            self.remove(lane);
        }
    }

    /// Returns the lane with the oldest message to examine.
    pub(super) fn first_ready(&self) -> Option<(MessageId, SessionId)> {
        self.ready.first().copied()
    }

    /// Returns the lanes with a message to examine, the oldest message first.
    pub(super) fn ready(&self) -> impl Iterator<Item = SessionId> {
        self.ready.iter().map(|&(_, lane)| lane)
    }

    /// Returns the lanes that are due at `now`, the longest-due first.
    pub(super) fn due_by(&self, now: TimestampMs) -> impl Iterator<Item = SessionId> {
        let due = self
            .due
            .iter()
            .take_while(move |&&(due_at, _)| due_at <= now);
        due.map(|&(_, lane)| lane)
    }

    /// Returns the lane that is due first.
    pub(super) fn first_due(&self) -> Option<(TimestampMs, SessionId)> {
        self.due.first().copied()
    }
}
