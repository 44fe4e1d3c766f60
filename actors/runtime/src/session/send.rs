//! Sends messages to a session's actor without waiting for room in its mailbox.

use actix::Addr;
use porchlight_observe::StopReason;

use super::{BatchDurable, CatchUp, Drain, Finish, Passivate, SessionActor};

/// Sends an admitted batch. The handle's count bounds the mailbox, which actix does not.
#[expect(
    clippy::disallowed_methods,
    reason = "the one place that has already admitted"
)]
pub(crate) fn send_batch(actor: &Addr<SessionActor>, message: BatchDurable) {
    actor.do_send(message);
}

/// Requests an actor that is no longer reachable to write its state and stop.
#[expect(
    clippy::disallowed_methods,
    reason = "at most one for each actor, after the last of its other messages"
)]
pub(crate) fn send_drain(actor: &Addr<SessionActor>) {
    actor.do_send(Drain);
}

/// Notifies an actor that the journal contains more batches than it was notified of.
#[expect(
    clippy::disallowed_methods,
    reason = "at most one for each deferred batch, and one for each check of a silent session"
)]
pub(crate) fn send_catch_up(actor: &Addr<SessionActor>) {
    actor.do_send(CatchUp);
}

/// Requests the actor of a session to stop, because it is scored or another node acts for it.
#[expect(clippy::disallowed_methods, reason = "one for each actor, its last")]
pub(crate) fn send_finish(actor: &Addr<SessionActor>, reason: StopReason) {
    actor.do_send(Finish(reason));
}

/// Requests an actor that is no longer reachable to leave its state with its handle and stop.
#[expect(
    clippy::disallowed_methods,
    reason = "at most one for each actor, after the last of its other messages"
)]
pub(crate) fn send_passivate(actor: &Addr<SessionActor>) {
    actor.do_send(Passivate);
}
