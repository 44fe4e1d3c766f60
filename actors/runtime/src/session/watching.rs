//! The answers of the actor to watchers of its session and to scoring.

use std::time::Instant;

use actix::prelude::*;
use porchlight_core::session::replay::FinalEvents;
use porchlight_core::timeline::NumberedChange;
use porchlight_observe::{MessageKind, Outcome};

use super::SessionActor;

/// A request for the changes from a number on.
#[derive(Message)]
#[rtype(result = "Option<Vec<NumberedChange>>")]
pub(crate) struct ReadChanges {
    /// The number of the first requested change.
    pub(crate) number: u32,
    /// The maximum number of changes.
    pub(crate) limit: usize,
}

impl Handler<ReadChanges> for SessionActor {
    type Result = MessageResult<ReadChanges>;

    fn handle(&mut self, message: ReadChanges, _ctx: &mut Context<Self>) -> Self::Result {
        let started_at = Instant::now();
        let changes = self.running.as_ref().map(|running| {
            running
                .machine
                .numbered_changes_since(message.number, message.limit)
        });
        Self::metrics().on_handled(
            MessageKind::Events,
            Outcome::Ok,
            started_at.elapsed().as_secs_f64(),
        );
        MessageResult(changes)
    }
}

/// A request for the events as they are after the last batch.
#[derive(Message)]
#[rtype(result = "Option<FinalEvents>")]
pub(crate) struct ReadFinal;

impl Handler<ReadFinal> for SessionActor {
    type Result = MessageResult<ReadFinal>;

    fn handle(&mut self, _message: ReadFinal, _ctx: &mut Context<Self>) -> Self::Result {
        let started_at = Instant::now();
        let running = self.running.as_ref();
        let events = running.and_then(|running| running.final_events());
        Self::metrics().on_handled(
            MessageKind::Events,
            Outcome::Ok,
            started_at.elapsed().as_secs_f64(),
        );
        MessageResult(events)
    }
}
