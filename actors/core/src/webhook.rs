//! Webhook logic without side effects: an endpoint's next message, its time, and its signature
//! (contract section 6).
//!
//! An endpoint's *outbox* consists of *lanes*, one for each session. The outbox is in the store and
//! has no length limit; [`EndpointMachine`] holds a bounded window of it, requests reads, sends and
//! commits, and processes the answers. [`Queued`] is the store's record of an unfinished message;
//! [`Queued::index`] says where the store must list it so that the machine finds it again after a
//! crash.
//!
//! While an endpoint is paused by the customer, its machine continues to read: a message whose
//! attempt is due becomes [`State::Held`], an older `insight.updated` is superseded, and a message
//! held for too long is cancelled. A manual attempt is made nevertheless, because the customer
//! requests it.
//!
//! One attempt costs one read, one send and one commit. An attempt is counted when its end is
//! committed; an attempt interrupted by a crash was never counted and is repeated under the same
//! number.

mod lane;
mod machine;
pub mod permits;
pub mod resolver_health;
pub mod schedule;
pub mod signature;
mod window;
pub mod wire;

#[cfg(test)]
mod model;

pub use lane::changes_without_body;
pub use machine::{EndpointMachine, Policy};

use std::net::IpAddr;

use porchlight_schema::added_field;
use porchlight_schema::ids::{MessageId, SessionId};
#[cfg(doc)]
use porchlight_schema::limits::HELD_MS_MAX;
use porchlight_schema::limits::{ATTEMPT_MS_MAX, DELIVERY_ATTEMPTS_MAX};
use porchlight_schema::message::MessageEvent;
use porchlight_schema::time::TimestampMs;
use serde::{Deserialize, Serialize};

/// The cause of a failed attempt: the contract's closed list.
///
/// Stores hold the number of a variant: append a new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The name does not resolve.
    Dns,
    /// No connection could be established.
    Connect,
    /// The TLS handshake failed, or the certificate does not verify.
    Tls,
    /// The name, or the literal address, leads to a refused address.
    BlockedAddress,
    /// The response head did not arrive within the deadline.
    Timeout,
    /// The status is neither 2xx nor 3xx.
    Status,
    /// The status is 3xx.
    Redirect,
    /// The connection was reset or closed without an answer, or the answer is not HTTP.
    Protocol,
    /// An internal fault; it does not use up an attempt.
    Internal,
}

impl Cause {
    /// All failure causes.
    pub const ALL: [Self; 9] = [
        Self::Dns,
        Self::Connect,
        Self::Tls,
        Self::BlockedAddress,
        Self::Timeout,
        Self::Status,
        Self::Redirect,
        Self::Protocol,
        Self::Internal,
    ];

    /// Returns the name used in API answers and metric labels.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Dns => "dns",
            Self::Connect => "connect",
            Self::Tls => "tls",
            Self::BlockedAddress => "blocked_address",
            Self::Timeout => "timeout",
            Self::Status => "status",
            Self::Redirect => "redirect",
            Self::Protocol => "protocol",
            Self::Internal => "internal",
        }
    }
}

/// The state of a message. A message that waits for a deleted endpoint also counts as cancelled,
/// without being changed.
///
/// Stores hold the number of a variant: append a new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum State {
    /// The message waits: for its first attempt when `attempts` is 0, otherwise for a retry.
    Waiting,
    /// An attempt succeeded.
    Delivered,
    /// The retry schedule is exhausted, or the stored body of the message is missing or damaged.
    Failed,
    /// A newer `insight.updated` of the same session replaced the message.
    Superseded,
    /// The message waits like [`State::Waiting`], but its endpoint was paused when its attempt was
    /// due. `due_at` is the time at which it will have been held for too long.
    Held,
    /// The message was held for longer than [`HELD_MS_MAX`].
    Cancelled,
}

/// The list in which the store keeps a waiting message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Index {
    /// The message is ready to be examined; ordered by id.
    Ready,
    /// The message is due at this time.
    Due(TimestampMs),
    /// The message is held while the endpoint is paused, at most until this time.
    Held(TimestampMs),
    /// The message is in no list: it is finished, or waits behind another message of its lane,
    /// which leads to it.
    None,
}

/// The part of a message's record that changes during its delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Queued {
    /// The id of the message.
    pub id: MessageId,
    /// The lane of the message.
    pub session_id: SessionId,
    /// The position of the message in its lane.
    pub number: u32,
    /// The event that the message reports.
    pub event: MessageEvent,
    /// The state of the message.
    pub state: State,
    /// The number of finished attempts.
    pub attempts: u32,
    /// The time at which the next attempt is due by the schedule; `None` before the first attempt.
    pub due_at: Option<TimestampMs>,
    /// Whether the message waits behind another one of its lane that waits for a retry.
    pub parked: bool,
}

impl Queued {
    /// Creates a message as it enters the outbox.
    #[must_use]
    pub fn new(id: MessageId, session_id: SessionId, number: u32, event: MessageEvent) -> Self {
        Self {
            id,
            session_id,
            number,
            event,
            state: State::Waiting,
            attempts: 0,
            due_at: None,
            parked: false,
        }
    }

    /// Returns the list in which the store must keep the message.
    #[must_use]
    pub fn index(&self) -> Index {
        match (self.state, self.parked, self.due_at) {
            (State::Waiting, false, None) => Index::Ready,
            (State::Waiting, false, Some(due_at)) => Index::Due(due_at),
            (State::Held, false, Some(until)) => Index::Held(until),
            _ => Index::None,
        }
    }

    /// Returns whether the message is still to be sent.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        matches!(self.state, State::Waiting | State::Held)
    }

    /// Returns whether a person may request one more attempt, as far as the number of attempts is
    /// concerned.
    #[must_use]
    pub fn has_attempts_left(&self) -> bool {
        self.attempts < DELIVERY_ATTEMPTS_MAX
    }

    /// Returns the time since which the message has been held by an endpoint that was paused at
    /// `paused_at`.
    #[must_use]
    pub fn held_since(&self, paused_at: TimestampMs) -> TimestampMs {
        self.id.made_at().max(paused_at)
    }
}

/// The result of one attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptResult {
    /// The time at which the attempt began.
    pub at: TimestampMs,
    /// The time until the response head arrived or the attempt failed, in milliseconds.
    pub duration_ms: u32,
    /// The receiver's status, if it answered.
    pub status_code: Option<u16>,
    /// The cause of the failure; `None` if the attempt succeeded.
    pub cause: Option<Cause>,
    /// The beginning of the response body.
    pub response: Option<String>,
    /// Further details of the attempt.
    #[serde(deserialize_with = "added_field::or_default")]
    pub details: AttemptDetails,
}

/// Details that help a customer to find out why an attempt failed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct AttemptDetails {
    /// The reason why the name, the connection or the certificate failed: a sentence without a full
    /// stop.
    pub reason: Option<String>,
    /// The address to which the attempt connected.
    pub address: Option<IpAddr>,
    /// The response headers by lowercase name: bounded in number and size, without cookies and
    /// credentials.
    pub response_headers: Vec<(String, String)>,
}

impl AttemptResult {
    /// Returns the time at which the attempt ended.
    #[must_use]
    pub fn ended_at(&self) -> TimestampMs {
        self.at.plus_ms(i64::from(self.duration_ms))
    }
}

const _: () = assert!(
    ATTEMPT_MS_MAX < u32::MAX as u64,
    "the duration of an attempt fits its field"
);

/// The change of one message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Update {
    /// The message as it was read.
    pub before: Queued,
    /// The message as it is to be stored.
    pub after: Queued,
    /// The attempt that changed the message, to be logged under number `after.attempts`. A message
    /// that fails without an attempt fails because its stored body is missing or damaged.
    pub report: Option<AttemptResult>,
}

/// A change of one lane that is committed in one step. Repeating it changes nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Change {
    /// The changed messages.
    pub updates: Vec<Update>,
    /// The request for a manual attempt that this change completes.
    pub manual_done: Option<ManualRetry>,
}

/// A user's request to attempt a message now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ManualRetry {
    /// The time of the request. Serialized under the name of the first release.
    #[serde(rename = "asked_at")]
    pub requested_at: TimestampMs,
    /// The requested message.
    pub id: MessageId,
    /// The lane of the message.
    pub session_id: SessionId,
    /// Whether the message was already delivered at the time of the request.
    pub again: bool,
}

/// The parts of the outbox to list, up to a number of entries of each kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListingRequest {
    /// The earliest creation time and the maximum number of ready messages; `None` to omit them.
    /// Older messages were found before, so the store need not skip over the entries that it has
    /// removed.
    pub ready: Option<(TimestampMs, usize)>,
    /// The exclusive end time and the maximum number of due lanes; `None` to omit them.
    pub due: Option<(TimestampMs, usize)>,
    /// The exclusive end of the holding time and the maximum number of held lanes; `None` to omit
    /// them.
    pub held: Option<(TimestampMs, usize)>,
    /// The maximum number of requests for manual attempts.
    pub manual_max: usize,
}

impl ListingRequest {
    /// Returns the request for `extra` more entries of each kind.
    #[must_use]
    pub fn with_extra(self, extra: usize) -> Self {
        let more = |bound: Option<(TimestampMs, usize)>| {
            bound.map(|(at, max)| (at, max.saturating_add(extra)))
        };
        Self {
            ready: more(self.ready),
            due: more(self.due),
            held: more(self.held),
            manual_max: self.manual_max.saturating_add(extra),
        }
    }

    /// Cuts the lists to the requested lengths.
    #[must_use]
    pub fn cut(self, mut listing: Listing) -> Listing {
        fn cut<T>(rows: &mut Option<Vec<T>>, bound: Option<(TimestampMs, usize)>) {
            if let Some(rows) = rows {
                rows.truncate(bound.map_or(0, |(_, max)| max));
            }
        }
        cut(&mut listing.ready, self.ready);
        cut(&mut listing.due, self.due);
        cut(&mut listing.held, self.held);
        listing.manual.truncate(self.manual_max);
        listing
    }
}

/// A part of the outbox, as listed by the store.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Listing {
    /// The lanes in [`Index::Ready`], in order of id from the first; `None` if not requested.
    pub ready: Option<Vec<(MessageId, SessionId)>>,
    /// The lanes in [`Index::Due`], in order of time from the first, up to the horizon; `None` if
    /// not requested.
    pub due: Option<Vec<(TimestampMs, SessionId)>>,
    /// The lanes in [`Index::Held`], in order of time from the first; `None` if not requested.
    pub held: Option<Vec<(MessageId, SessionId)>>,
    /// The requests for manual attempts, in order of time from the first.
    pub manual: Vec<ManualRetry>,
}

/// A lane as it is in the store.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Lane {
    /// The waiting messages of the lane, in order of number.
    pub waiting: Vec<Queued>,
    /// The message requested for a manual attempt, in any state. `None` if the request was answered
    /// after it was listed.
    pub manual: Option<Queued>,
}

/// The sending mode of an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// The endpoint sends its messages.
    Sending,
    /// The customer paused the endpoint at this time: messages are held.
    Paused(TimestampMs),
    /// The actor starts no new work: the process ends, or another owner takes over.
    Stopped,
}

/// An event for the machine. Answers carry the generation of the effect that they answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// The outbox may contain new messages, in any lanes.
    Woken,
    /// These lanes have new messages. The machine reads them without listing the outbox.
    NewMessages(Vec<SessionId>),
    /// A restriction was lifted: the outbox shows messages of any age that it hid before.
    Released,
    /// The clock advanced.
    Tick,
    /// The endpoint's current mode. If another endpoint replaces this one, use
    /// [`EndpointMachine::restart`].
    Mode(Mode),
    /// Answers [`Effect::List`]; `None` if the store failed.
    Listed(Option<Listing>),
    /// Answers [`Effect::Read`]; `None` if the store failed.
    Read(SessionId, Option<Lane>),
    /// Answers [`Effect::Send`]; `random` is any number and spreads retries.
    Attempted(SessionId, AttemptResult, u64),
    /// Answers [`Effect::Send`]: the stored body of the message is missing or damaged, so that it
    /// can never be sent.
    Damaged(SessionId),
    /// Answers [`Effect::Send`]: the message was removed with its session after the lane was read.
    Removed(SessionId),
    /// Answers [`Effect::Commit`] with the current lane; `None` if the store failed or may have
    /// failed.
    Committed(SessionId, Option<Vec<Queued>>),
}

/// An operation requested by the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// List the outbox.
    List(ListingRequest),
    /// Read a lane and, if given, the message requested for a manual attempt.
    Read(SessionId, Option<ManualRetry>),
    /// Send this message under this attempt number.
    Send(Queued, u32),
    /// Commit the change, then answer with the current lane.
    Commit(SessionId, Change),
    /// Tick at this time; replaces the previous wake-up time.
    WakeAt(TimestampMs),
    /// No work is left: the machine may be discarded.
    Idle,
}
