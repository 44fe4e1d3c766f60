//! What the actor tells those who watch its session.

use std::time::Instant;

use actix::prelude::*;
use porchlight_core::timeline::Told;
use porchlight_observe::{MessageKind, Outcome};

use super::SessionActor;

/// What has changed since?
#[derive(Message)]
#[rtype(result = "Option<Vec<Told>>")]
pub(crate) struct ReadTold {
    /// The number of the first change that is asked for.
    pub(crate) number: u32,
    /// So many changes at most.
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
