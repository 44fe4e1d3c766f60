//! Batches of sessions whose events nobody needs at present, on a busy node. They stay in the
//! journal, where they are durable, and the session's machine reads them in one pass when somebody
//! needs the events.
//!
//! Reading many batches of one session in one pass costs half as much as interrupting other work
//! for each of them. A session without a reader before its end needs no machine, because scoring
//! reads the journal in any case.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};

use actix::Addr;
use porchlight_core::session::idle::{may_defer, must_read_deferred};

use super::Registry;
use crate::session::{SessionActor, SessionHandle, Slot, send};

/// The number of batches per second from which a node defers. Below it, every session gets each
/// batch immediately, which takes at most half a percent of a core: 20 µs for each batch
/// (`bench/results/2026-11-23.md`).
pub const DEFER_FROM_BATCHES_PER_SEC: u32 = 250;

/// A meter of batches per second. Two threads that count at a change of the second may lose some
/// batches.
#[derive(Debug, Default)]
pub(super) struct BatchRate {
    second: AtomicI64,
    in_this_second: AtomicU32,
    in_last_second: AtomicU32,
}

impl BatchRate {
    /// Counts a batch at this time of a monotonic clock. Returns the number of batches in the
    /// second before.
    fn count(&self, uptime_ms: i64) -> u32 {
        let second = uptime_ms.div_euclid(1_000);
        let counted = self.second.swap(second, Ordering::Relaxed);
        if counted == second {
            self.in_this_second.fetch_add(1, Ordering::Relaxed);
        } else {
            let before = self.in_this_second.swap(1, Ordering::Relaxed);
            let is_next = counted.checked_add(1) == Some(second);
            let last = if is_next { before } else { 0 };
            self.in_last_second.store(last, Ordering::Relaxed);
        }
        self.in_last_second.load(Ordering::Relaxed)
    }
}

impl Registry {
    /// Returns whether a batch may wait in the journal: the node is busy, and nobody needs the
    /// events of its session at present. Other nodes answer from snapshots while a node is away, so
    /// a node of several always keeps up with the journal.
    pub(super) fn may_defer(&self, handle: &SessionHandle) -> bool {
        let uptime_ms = self.inner.ports.clock.uptime_ms();
        let rate = self.inner.rate.count(uptime_ms);
        let since_request_ms = handle.since_request_ms(uptime_ms);
        may_defer(rate, self.inner.defer_from_per_sec, since_request_ms)
            && !self.is_shared()
            && !self.inner.watchers.watches(handle.session_id)
    }

    /// Leaves a durable batch in the journal. Lets the actor read the deferred batches if there are
    /// many, and passivates an actor that is no longer needed.
    pub(super) fn defer(&self, slot: &mut Slot, handle: &Arc<SessionHandle>) {
        slot.is_new = false;
        if must_read_deferred(handle.defer()) {
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
        handle: &Arc<SessionHandle>,
    ) -> Option<Addr<SessionActor>> {
        let actor = self.actor_in(slot, handle)?;
        if handle.take_deferred() {
            send::send_catch_up(&actor);
        }
        Some(actor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_that_of_the_last_full_second() {
        let rate = BatchRate::default();
        let counts = |from_ms: i64, count: i64| -> Vec<u32> {
            let times_ms = (0..count).map(|place| from_ms + place * 1_000 / count);
            times_ms.map(|t_ms| rate.count(t_ms)).collect()
        };
        assert_eq!(counts(5_000, 3), [0, 0, 0]);
        assert_eq!(counts(6_000, 2), [3, 3]);
        assert_eq!(counts(7_000, 1), [2]);
        assert_eq!(
            counts(9_000, 2),
            [0, 0],
            "a second without batches lies between"
        );
    }
}
