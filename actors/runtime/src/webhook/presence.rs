//! The facts about a webhook actor that others know and change without asking it.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Mutex, PoisonError};

use porchlight_schema::ids::SessionId;
use porchlight_schema::time::TimestampMs;

/// The maximum number of lanes with new messages that are announced to an actor individually. With
/// more, the actor lists its outbox.
const LANES_KNOWN_MAX: usize = 256;
/// The value of `Presence::oldest` if no message waits.
pub(super) const NO_MESSAGE_DUE: i64 = i64::MAX;

/// The facts about an actor that are known without asking it.
pub(super) struct Presence {
    /// Whether a wake is in its mailbox; another one would be redundant.
    pub(super) wake_pending: AtomicBool,
    /// The lanes with new messages that it has not taken yet.
    new_in: Mutex<NewIn>,
    /// Whether a notice of a changed endpoint is in its mailbox.
    pub(super) changed: AtomicBool,
    /// The time since which its oldest sendable message has been waiting.
    pub(super) oldest: AtomicI64,
}

/// The place in which an actor finds new messages.
#[derive(Debug)]
pub(super) enum NewIn {
    /// The new messages are in these lanes, at most [`LANES_KNOWN_MAX`].
    Lanes(Vec<SessionId>),
    /// The new messages may be in any lane.
    Outbox,
}

impl Default for Presence {
    fn default() -> Self {
        Self {
            wake_pending: AtomicBool::new(false),
            new_in: Mutex::new(NewIn::Lanes(Vec::new())),
            changed: AtomicBool::new(false),
            oldest: AtomicI64::new(NO_MESSAGE_DUE),
        }
    }
}

impl Presence {
    /// Notes that a lane has a new message; `None`: any lane may have one.
    pub(super) fn announce(&self, lane: Option<SessionId>) {
        let mut new_in = self.new_in.lock().unwrap_or_else(PoisonError::into_inner);
        match (&mut *new_in, lane) {
            (NewIn::Lanes(lanes), Some(lane)) if lanes.len() < LANES_KNOWN_MAX => lanes.push(lane),
            _ => *new_in = NewIn::Outbox,
        }
    }

    /// Takes the announced messages. A later announcement puts a new message into the mailbox.
    pub(super) fn take_announced(&self) -> NewIn {
        self.wake_pending.store(false, Ordering::Release);
        let mut new_in = self.new_in.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *new_in, NewIn::Lanes(Vec::new()))
    }

    pub(super) fn set_oldest(&self, oldest: Option<TimestampMs>) {
        let oldest = oldest.map_or(NO_MESSAGE_DUE, |oldest| oldest.0);
        self.oldest.store(oldest, Ordering::Relaxed);
    }
}
