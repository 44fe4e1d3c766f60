//! When a session is looked at again: actors that hear nothing are put to rest, what rests for long is left to the store,
//! and what is silent for too long ends.

use std::sync::Arc;
use std::time::Duration;

use porchlight_observe::cluster::{ClusterMetrics, Stale};
use porchlight_ports::SessionRow;
use porchlight_schema::ids::SessionId;
use porchlight_schema::limits::{SNAPSHOT_MS, WHEEL_AHEAD_MS};

use super::send::{tell_drain, tell_freeze};
use super::{Handle, OnDue, Registry};
use crate::session::Frozen;

/// An actor that heard nothing for this long is put to rest; its state stays in memory, as bytes.
pub(super) const FREEZE_AFTER_MS: i64 = 15 * 1000;
/// A session that heard nothing for this long has its state in the store only.
pub(super) const PASSIVATE_AFTER_MS: i64 = 5 * 60 * 1000;

impl Registry {
    /// Arms the deadline of a session: when it is over, if nothing more comes, or when it is time to look again.
    pub(crate) fn arm(&self, handle: &Handle) {
        let now = self.inner.clock.now();
        let mut due = self
            .inner
            .lifetime
            .deadline(handle.created_at, handle.heard_at());
        let (has_actor, is_frozen) = handle.holds();
        if has_actor {
            // One that is still busy is looked at again a little later.
            let rests_at = handle.heard_at().plus_ms(FREEZE_AFTER_MS);
            due = due.min(rests_at.max(now.plus_ms(1_000)));
        } else if is_frozen {
            due = due.min(handle.heard_at().plus_ms(PASSIVATE_AFTER_MS));
        }
        if let Some(tail_due) = self.tail_due(handle) {
            due = due.min(now.plus_ms(tail_due.as_millis() as i64));
        }
        self.arm_for(handle.session_id, due.since_ms(now));
    }

    /// Takes on a session that records and of which it is not known when it was last heard. Those that would be over if
    /// it was never heard are looked at one after the other within a thirtieth of the idle time-out: before a session
    /// ends its journal is asked, and thousands must not do so at once.
    pub(crate) fn adopt_unheard(&self, row: &SessionRow) -> Arc<Handle> {
        let handle = self.enter(row, row.start.created_at);
        let lifetime = &self.inner.lifetime;
        let over_at = lifetime.deadline(handle.created_at, handle.created_at);
        if over_at > self.inner.clock.now() {
            self.arm(&handle);
            return handle;
        }
        let [.., high, low] = handle.session_id.to_bytes();
        let turn = i64::from(u16::from_be_bytes([high, low]));
        let ahead_ms = lifetime.idle_ms / 30 * turn / i64::from(u16::MAX);
        self.arm_for(handle.session_id, ahead_ms);
        handle
    }

    pub(super) fn arm_for(&self, session_id: SessionId, ahead_ms: i64) {
        let ahead_ms = ahead_ms.clamp(1, WHEEL_AHEAD_MS as i64);
        if let Some(lane) = self.lane(session_id) {
            lane.wheel
                .arm(session_id, Duration::from_millis(ahead_ms as u64));
        }
    }

    pub(super) fn on_deadline(&self, handle: Arc<Handle>, on_due: &OnDue) {
        if !self.acts_for(handle.session_id) {
            ClusterMetrics::get().on_stale(Stale::Deadline);
            self.forget(&handle);
            return;
        }
        let now = self.inner.clock.now();
        if now
            >= self
                .inner
                .lifetime
                .deadline(handle.created_at, handle.heard_at())
        {
            on_due(self.clone(), handle);
            return;
        }
        let silent_ms = now.since_ms(handle.heard_at());
        if silent_ms >= PASSIVATE_AFTER_MS {
            self.passivate(&handle);
        } else if silent_ms >= FREEZE_AFTER_MS
            && let Some(actor) = handle.take_idle_actor()
        {
            tell_freeze(&actor);
        }
        if self.is_shared() && silent_ms >= SNAPSHOT_MS as i64 {
            self.look_at_tail(Arc::clone(&handle));
        }
        self.arm(&handle);
    }

    /// Has what an idle session's actor knows, or knew, written to the store, and forgets it.
    fn passivate(&self, handle: &Arc<Handle>) {
        if handle.slot().frozen.is_some() {
            let mut slot = handle.slot();
            self.actor_in(&mut slot, handle);
        }
        if let Some(actor) = handle.take_idle_actor() {
            tell_drain(&actor);
        }
    }

    /// An actor was put to rest: what it knows is kept, unless another has come up meanwhile, which has read it anew.
    pub(crate) fn keep(&self, handle: &Arc<Handle>, frozen: Option<Box<Frozen>>) {
        {
            let mut slot = handle.slot();
            if slot.actor.is_none() && !slot.restarting {
                slot.frozen = frozen;
            }
        }
        if self.handle(handle.session_id).is_some() {
            self.arm(handle);
        }
    }

    /// Lets every actor write its snapshot and stop; how many did.
    pub(crate) async fn drain(&self) -> usize {
        let handles: Vec<_> = self
            .inner
            .sessions
            .iter()
            .map(|entry| Arc::clone(&entry))
            .collect();
        let drained = self.drain_handles(&handles).await;
        self.inner
            .lanes
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .clear();
        drained
    }
}
