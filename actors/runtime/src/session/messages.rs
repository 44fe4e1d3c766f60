//! The messages to a session's actor.

use std::time::Instant;

use actix::prelude::*;
use porchlight_observe::StopReason;
use porchlight_ports::JournalEntry;
use porchlight_schema::event::Event;
use porchlight_schema::time::TimestampMs;

/// A durable batch for the actor.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct BatchDurable {
    pub(crate) entry: JournalEntry,
    pub(crate) queued_at: Instant,
}

/// The answer of a session's actor to a query for its events.
#[derive(Debug, Clone, PartialEq)]
pub struct LiveEvents {
    /// The events so far, in the order in which they were emitted.
    pub events: Vec<Event>,
    /// The time at which the events last changed; `None` if there are none.
    pub changed_at: Option<TimestampMs>,
}

/// A query for the events so far.
#[derive(Message)]
#[rtype(result = "LiveEvents")]
pub(crate) struct ReadEvents;

/// The request to write the state and stop. The reply is sent after the write.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Drain;

/// The notification that the journal contains more batches to read.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct CatchUp;

/// The request to stop without keeping anything: the session has ended, or another node acts for
/// it.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Finish(pub(crate) StopReason);

/// The request to leave the state with the handle and stop.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Passivate;
