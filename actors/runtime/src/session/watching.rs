//! The answers of the actor to watchers of its session.

use std::time::Instant;

use actix::prelude::*;
use porchlight_core::timeline::Told;
use porchlight_observe::{MessageKind, Outcome};

use super::SessionActor;

/// A request for the changes from a number on.
#[derive(Message)]
#[rtype(result = "Option<Vec<Told>>")]
pub(crate) struct ReadTold {
    /// The number of the first requested change.
    pub(crate) number: u32,
    /// The maximum number of changes.
    pub(crate) limit: usize,
}

impl Handler<ReadTold> for SessionActor {
    type Result = MessageResult<ReadTold>;

    fn handle(&mut self, message: ReadTold, _ctx: &mut Context<Self>) -> Self::Result {
        let taken_up_at = Instant::now();
        let told = self
            .running
            .as_ref()
            .map(|running| running.machine.told_since(message.number, message.limit));
        Self::metrics().on_handled(
            MessageKind::Events,
            Outcome::Ok,
            taken_up_at.elapsed().as_secs_f64(),
        );
        MessageResult(told)
    }
}
