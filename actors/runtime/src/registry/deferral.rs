//! Batches of sessions whose events nobody needs at present. They stay in the journal, where they
//! are durable, and the session's machine reads them in one pass when somebody needs the events.
//!
//! Reading many batches of one session at once costs half as much as interrupting other work for
//! each of them, and a session that nobody looks at before its end needs no machine at all: scoring
//! reads the journal in any case.

use std::sync::Arc;

use actix::Addr;

use super::Registry;
use crate::session::{Handle, SessionActor, Slot, send};

/// The number of deferred batches of a session from which on its actor reads them, so that a later
/// request finds at most this many: an hour of a phone that sends every 15 s, or two milliseconds of
/// work.
const DEFERRED_BATCHES_MAX: u32 = 256;
/// The events of a session are needed for this long after they were last requested, in
/// milliseconds: a page or a program that shows a session asks again.
const NEEDED_AFTER_REQUEST_MS: i64 = 15 * 1000;

impl Registry {
    /// Returns whether nobody needs the events of a session at present. Other nodes answer from
    /// snapshots while a node is away, so a node of several always keeps up with the journal.
    pub(super) fn may_defer(&self, handle: &Handle) -> bool {
        let uptime_ms = self.inner.ports.clock.uptime_ms();
        handle.since_request_ms(uptime_ms) >= NEEDED_AFTER_REQUEST_MS
            && !self.is_shared()
            && !self.inner.watchers.watches(handle.session_id)
    }

    /// Leaves a durable batch in the journal. Lets the actor read the deferred batches if there are
    /// many, and passivates an actor that nobody needs any more.
    pub(super) fn defer(&self, slot: &mut Slot, handle: &Arc<Handle>) {
        if handle.defer() >= DEFERRED_BATCHES_MAX {
            self.current_actor(slot, handle);
        } else if handle.queued() == 0
            && let Some(actor) = slot.actor.take()
        {
            send::send_passivate(&actor);
        }
    }

    /// Returns the session's actor, and starts it if necessary. The actor reads deferred batches
    /// before it handles any message that the caller sends to it.
    pub(super) fn current_actor(
        &self,
        slot: &mut Slot,
        handle: &Arc<Handle>,
    ) -> Option<Addr<SessionActor>> {
        let actor = self.actor_in(slot, handle)?;
        if handle.take_deferred() {
            send::send_catch_up(&actor);
        }
        Some(actor)
    }
}
