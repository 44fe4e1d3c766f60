//! The state of a webhook actor that other tasks read and change without sending it a message.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Mutex, PoisonError};

use porchlight_schema::ids::SessionId;
use porchlight_schema::time::TimestampMs;

/// The maximum number of lanes with new messages that the wakes of an actor may name. With more,
/// the actor lists its outbox.
const LANES_KNOWN_MAX: usize = 256;
/// The value of `Presence::oldest` if no message waits.
pub(super) const NO_MESSAGE_DUE: i64 = i64::MAX;

/// The state of an actor that other tasks read and change without sending it a message.
pub(super) struct Presence {
    /// Whether a wake is in the actor's mailbox; another one would be redundant.
    pub(super) is_wake_pending: AtomicBool,
    /// The lanes with new messages that the actor has not taken yet.
    new_messages: Mutex<NewMessages>,
    /// Whether a message about a changed endpoint is in the actor's mailbox.
    pub(super) is_change_pending: AtomicBool,
    /// The time since which the actor's oldest sendable message has been waiting, in milliseconds
    /// since 1970; [`NO_MESSAGE_DUE`] if no message waits.
    pub(super) oldest: AtomicI64,
}

/// The lanes in which an actor finds new messages.
#[derive(Debug)]
pub(super) enum NewMessages {
    /// The new messages are in these lanes, at most [`LANES_KNOWN_MAX`].
    Lanes(Vec<SessionId>),
    /// The new messages may be in any lane.
    Outbox,
}

impl Default for Presence {
    fn default() -> Self {
        Self {
            is_wake_pending: AtomicBool::new(false),
            new_messages: Mutex::new(NewMessages::Lanes(Vec::new())),
            is_change_pending: AtomicBool::new(false),
            oldest: AtomicI64::new(NO_MESSAGE_DUE),
        }
    }
}

impl Presence {
    /// Records that `lane` has a new message. With `None`, any lane may have one.
    pub(super) fn wake(&self, lane: Option<SessionId>) {
        let mut new_messages = self
            .new_messages
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        match (&mut *new_messages, lane) {
            (NewMessages::Lanes(lanes), Some(lane)) if lanes.len() < LANES_KNOWN_MAX => {
                lanes.push(lane)
            }
            _ => *new_messages = NewMessages::Outbox,
        }
    }

    /// Takes the lanes with new messages. A later wake puts a new message into the mailbox.
    pub(super) fn take_new_messages(&self) -> NewMessages {
        self.is_wake_pending.store(false, Ordering::Release);
        let mut new_messages = self
            .new_messages
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *new_messages, NewMessages::Lanes(Vec::new()))
    }

    pub(super) fn set_oldest(&self, oldest: Option<TimestampMs>) {
        let oldest = oldest.map_or(NO_MESSAGE_DUE, |oldest| oldest.0);
        self.oldest.store(oldest, Ordering::Relaxed);
    }
}
