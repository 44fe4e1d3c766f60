//! Webhooks without effects: what an endpoint sends next, when, and how it is signed (contract section 6).
//!
//! An endpoint's *outbox* is made of *lanes*, one for each session. The outbox lies in the store, however long it is;
//! [`EndpointMachine`] holds a bounded window of it, says what to read, send and commit, and takes the answers in.
//! What the store keeps of each unfinished message is [`Queued`]; [`Queued::index`] says where the store must list it
//! so that the machine finds it again after a crash.
//!
//! While the customer pauses an endpoint its machine goes on reading: a message whose attempt is due becomes
//! [`State::Held`], an older `insight.updated` is superseded, and one that was held for too long is cancelled.
//!
//! One try costs one read, one send and one commit. A try is counted when its end is committed; one that a crash cut
//! off was never counted and is made again under its number.

mod lane;
mod machine;
pub mod schedule;
pub mod signature;
mod window;

#[cfg(test)]
mod model;

pub use machine::{EndpointMachine, Policy};

use std::net::IpAddr;

use porchlight_schema::ids::{MessageId, SessionId};
use porchlight_schema::later;
use porchlight_schema::limits::ATTEMPT_MS_MAX;
#[cfg(doc)]
use porchlight_schema::limits::HELD_MS_MAX;
use porchlight_schema::message::MessageEvent;
use porchlight_schema::time::TimestampMs;
use serde::{Deserialize, Serialize};

/// Why an attempt failed: the contract's closed list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The name does not resolve.
    Dns,
    /// No connection.
    Connect,
    /// The handshake failed, or the certificate does not verify.
    Tls,
    /// The name, or the literal, leads to an address that is refused.
    BlockedAddress,
    /// No head within the deadline.
    Timeout,
    /// A status that is neither 2xx nor 3xx.
    Status,
    /// A status that is 3xx.
    Redirect,
    /// Reset, closed without an answer, or not HTTP.
    Protocol,
    /// Our own fault; uses up no try.
    Internal,
}

impl Cause {
    /// All of them.
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

    /// The name in answers and labels.
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

/// Where a message stands. A message that waits for an endpoint that was deleted counts as cancelled, too, without
/// being changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum State {
    /// It waits: for its first try when `attempts` is 0, else for a retry.
    Waiting,
    /// A try succeeded.
    Delivered,
    /// The schedule is used up.
    Failed,
    /// A newer `insight.updated` of its session took its place.
    Superseded,
    /// It waits like [`State::Waiting`], and its endpoint was paused when its attempt was due. `due_at` is when it
    /// will have been held for too long.
    Held,
    /// It was held for longer than [`HELD_MS_MAX`].
    Cancelled,
}

/// Where the store lists a message that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Index {
    /// To be looked at, in order of id.
    Ready,
    /// Due at this time.
    Due(TimestampMs),
    /// Held while the endpoint is paused, at most until this time.
    Held(TimestampMs),
    /// Nowhere: it is finished, or waits behind another of its lane, which leads to it.
    None,
}

/// What changes of a message while it is on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Queued {
    /// The message.
    pub id: MessageId,
    /// Its lane.
    pub session_id: SessionId,
    /// Its place in the lane.
    pub number: u32,
    /// What it tells.
    pub event: MessageEvent,
    /// Where it stands.
    pub state: State,
    /// Tries that ended.
    pub attempts: u32,
    /// When the next try is due by the schedule; none before the first.
    pub due_at: Option<TimestampMs>,
    /// Whether it waits behind another of its lane that waits for a retry.
    pub parked: bool,
}

impl Queued {
    /// A message as it enters the outbox.
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

    /// Where the store must list it.
    #[must_use]
    pub fn index(&self) -> Index {
        match (self.state, self.parked, self.due_at) {
            (State::Waiting, false, None) => Index::Ready,
            (State::Waiting, false, Some(due_at)) => Index::Due(due_at),
            (State::Held, false, Some(until)) => Index::Held(until),
            _ => Index::None,
        }
    }

    /// Whether the message is still to be sent.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        matches!(self.state, State::Waiting | State::Held)
    }

    /// Since when the message has been held by an endpoint that was paused at `paused_at`.
    #[must_use]
    pub fn held_since(&self, paused_at: TimestampMs) -> TimestampMs {
        self.id.made_at().max(paused_at)
    }
}

/// How one try went.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// When it began.
    pub at: TimestampMs,
    /// Until the head came, or the failure.
    pub duration_ms: u32,
    /// The receiver's status, if it answered.
    pub status_code: Option<u16>,
    /// None: it succeeded.
    pub cause: Option<Cause>,
    /// The beginning of the answer's body.
    pub response: Option<String>,
    /// What else is known of the attempt.
    #[serde(deserialize_with = "later::or_default")]
    pub details: AttemptDetails,
}

/// What helps a customer to find out why an attempt failed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct AttemptDetails {
    /// Why the name, the connection or the certificate failed: a sentence without a full stop.
    pub reason: Option<String>,
    /// The address that was dialled.
    pub address: Option<IpAddr>,
    /// Headers of the answer by lowercase name: bounded in number and size, without cookies and credentials.
    pub response_headers: Vec<(String, String)>,
}

impl Report {
    /// When the try ended.
    #[must_use]
    pub fn ended_at(&self) -> TimestampMs {
        self.at.plus_ms(i64::from(self.duration_ms))
    }
}

const _: () = assert!(
    ATTEMPT_MS_MAX < u32::MAX as u64,
    "a try's duration fits its field"
);

/// The change of one message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Update {
    /// As it was read.
    pub before: Queued,
    /// As it is to be.
    pub after: Queued,
    /// The try that changed it, to be logged under number `after.attempts`.
    pub report: Option<Report>,
}

/// What is committed in one step; all of one lane. Doing it again changes nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Change {
    /// Messages.
    pub updates: Vec<Update>,
    /// A request for a try by hand that is done with.
    pub hand_done: Option<HandRequest>,
}

/// "Try this one now", as somebody asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct HandRequest {
    /// When.
    pub asked_at: TimestampMs,
    /// What.
    pub id: MessageId,
    /// Its lane.
    pub session_id: SessionId,
    /// Whether it was delivered already when it was asked for.
    pub again: bool,
}

/// A part of the outbox: what the store lists.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Listing {
    /// Of [`Index::Ready`], in order of id from the first; none where it was not asked for.
    pub ready: Option<Vec<(MessageId, SessionId)>>,
    /// Of [`Index::Due`], in order of time from the first, up to the horizon; none where it was not asked for.
    pub due: Option<Vec<(TimestampMs, SessionId)>>,
    /// Of [`Index::Held`], in order of time from the first; none where it was not asked for.
    pub held: Option<Vec<(MessageId, SessionId)>>,
    /// Requests for tries by hand, in order of time from the first.
    pub by_hand: Vec<HandRequest>,
}

/// A lane as it stands in the store.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Lane {
    /// Its messages that wait, in order of number.
    pub waiting: Vec<Queued>,
    /// The message that a try by hand is for, whatever its state; none when the request is gone, having been
    /// answered since it was listed.
    pub by_hand: Option<Queued>,
}

/// What an endpoint does with its messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// It sends them.
    Sending,
    /// The customer paused it at this time: messages are held.
    Paused(TimestampMs),
    /// Nothing new is begun here: the process ends, or another one takes over.
    Stopped,
}

/// What happened. Answers carry the generation of the effect that they answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// There may be something new in the outbox.
    Poked,
    /// The clock.
    Tick,
    /// The endpoint's mode as it is now. [`EndpointMachine::restart`] is for another endpoint.
    Mode(Mode),
    /// Answers [`Effect::Load`]; none: the store could not.
    Loaded(Option<Listing>),
    /// Answers [`Effect::Read`]; none: the store could not.
    Read(SessionId, Option<Lane>),
    /// Answers [`Effect::Send`]; `chance` is any number and spreads retries.
    Tried(SessionId, Report, u64),
    /// Answers [`Effect::Commit`] with the lane as it is now; none: the store could not, or may have.
    Committed(SessionId, Option<Vec<Queued>>),
}

/// What to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// List the outbox: so many at most of each.
    Load {
        /// Of those to be looked at whose message was made at the time or later; none: leave them out. What is
        /// older was found before, so that the store need not wade through what it has removed.
        ready: Option<(TimestampMs, usize)>,
        /// Of those due before the time; none: leave them out.
        due: Option<(TimestampMs, usize)>,
        /// Of those held at most until before the time; none: leave them out.
        held: Option<(TimestampMs, usize)>,
        /// Of the requests for tries by hand.
        by_hand: usize,
    },
    /// Read a lane and, where given, the message that a try by hand is for.
    Read(SessionId, Option<HandRequest>),
    /// Send this message under this attempt number.
    Send(Queued, u32),
    /// Commit, then answer with the lane as it is.
    Commit(SessionId, Change),
    /// Tick at this time; replaces the time told before.
    WakeAt(TimestampMs),
    /// There is nothing to do: the machine may be thrown away.
    Idle,
}
