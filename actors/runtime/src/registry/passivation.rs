//! Periodic checks of sessions: idle actors are passivated, states that stay passivated for long
//! are evicted to the store, and sessions that are silent for too long end.

use std::sync::Arc;

use porchlight_core::session::idle::{Reaction, Silence, StateMove};
use porchlight_observe::cluster::{ClusterMetrics, Stale};
use porchlight_ports::SessionRow;
use porchlight_schema::time::TimestampMs;

use super::{OnDue, Origin, Registry};
use crate::session::{Adopted, PassivatedState, SessionHandle, send};

impl Registry {
    /// Returns the time and the age of a session that is adopted now.
    pub(super) fn adopted_now(&self, created_at: TimestampMs) -> Adopted {
        let (clock, lifetime) = (&self.inner.ports.clock, &self.inner.ports.lifetime);
        Adopted {
            uptime_ms: clock.uptime_ms(),
            age_ms: lifetime.age_when_adopted_ms(created_at, clock.now()),
        }
    }

    /// Returns the time in milliseconds until a session ends if nothing more arrives.
    pub(super) fn left_ms(&self, handle: &SessionHandle) -> i64 {
        let elapsed = handle.elapsed(self.inner.ports.clock.uptime_ms());
        self.inner.ports.lifetime.left_ms(elapsed)
    }

    /// Returns the silence of a session at `uptime_ms`.
    fn silence(&self, handle: &SessionHandle, uptime_ms: i64) -> Silence {
        let elapsed = handle.elapsed(uptime_ms);
        Silence {
            left_ms: self.inner.ports.lifetime.left_ms(elapsed),
            silent_ms: elapsed.silent_ms,
            reconcile_after_ms: self.is_shared().then(|| handle.reconcile_after_ms()),
        }
    }

    /// Arms the deadline of a session: its end if nothing more arrives, or the next check if that
    /// is earlier.
    pub(crate) fn arm(&self, handle: &SessionHandle) {
        let silence = self.silence(handle, self.inner.ports.clock.uptime_ms());
        let due_ms = silence.next_check_ms(handle.residence());
        self.inner.arbiters.arm(handle.session_id, due_ms);
    }

    /// Adopts a session in progress whose last batch is not known. It has the full idle timeout
    /// from now on, but not beyond its maximum length.
    pub(crate) fn adopt_without_activity(&self, row: &SessionRow) -> Arc<SessionHandle> {
        let handle = self.enter(&row.start, row.start.created_at, Origin::Store);
        let [.., high, low] = handle.session_id.to_bytes();
        let due_ms = self.inner.ports.lifetime.due_after_adoption_ms(
            self.left_ms(&handle),
            u16::from_be_bytes([high, low]),
            self.is_shared().then(|| handle.reconcile_after_ms()),
        );
        self.inner.arbiters.arm(handle.session_id, due_ms);
        handle
    }

    /// Handles the deadline of a session: ends, passivates, evicts or reconciles it.
    pub(super) fn on_deadline(&self, handle: Arc<SessionHandle>, on_due: &OnDue) {
        if !self.acts_for(handle.session_id) {
            ClusterMetrics::get().on_stale(Stale::Deadline);
            self.drop_session(&handle);
            return;
        }
        let uptime_ms = self.inner.ports.clock.uptime_ms();
        let (state_move, reconciles) = match self.silence(&handle, uptime_ms).reaction() {
            Reaction::End => return on_due(self.clone(), handle),
            Reaction::Continue {
                state_move,
                reconciles,
            } => (state_move, reconciles),
        };
        match state_move {
            StateMove::Stay => {}
            StateMove::Passivate => {
                if let Some(actor) = handle.take_idle_actor() {
                    send::send_passivate(&actor);
                }
            }
            StateMove::Evict => self.evict(&handle),
        }
        if reconciles {
            handle.record_reconciled(uptime_ms);
            self.reconcile_silent(Arc::clone(&handle));
        }
        self.arm(&handle);
    }

    /// Writes the state of an idle session's actor, running or passivated, to the store, and drops
    /// it from memory.
    fn evict(&self, handle: &Arc<SessionHandle>) {
        {
            let mut slot = handle.slot();
            if slot.passivated.is_some() {
                self.actor_in(&mut slot, handle);
            }
        }
        if let Some(actor) = handle.take_idle_actor() {
            send::send_drain(&actor);
        }
    }

    /// Keeps the state of an actor that was passivated, unless a new actor has started meanwhile
    /// and has read the state again.
    pub(super) fn keep_passivated(
        &self,
        handle: &Arc<SessionHandle>,
        passivated: Option<Box<PassivatedState>>,
    ) {
        {
            let mut slot = handle.slot();
            if slot.actor.is_none() && !slot.is_restarting && !slot.is_finished {
                slot.passivated = passivated;
            }
        }
        if self.handle(handle.session_id).is_some() {
            self.arm(handle);
        }
    }

    /// Lets every actor write its snapshot and stop. Returns the number of actors that did.
    pub(crate) async fn drain(&self) -> usize {
        let handles = self.inner.directory.all_live();
        let drained = self.drain_handles(&handles).await;
        self.inner.arbiters.stop();
        drained
    }
}
