//! Sessions that have ended: requesting their insight, and their machines until it is stored.

use std::sync::Arc;
use std::time::Duration;

use porchlight_core::session::replay::FinalEvents;
use porchlight_observe::StopReason;
use porchlight_ports::Nudge;
use porchlight_schema::ids::SessionId;
use porchlight_schema::session::Tenant;

use super::Registry;
use crate::session::{ReadFinal, Running};

/// The maximum time that scoring waits for a machine. If the machine takes longer, the session is
/// replayed.
const WAIT_MAX: Duration = Duration::from_secs(2);

impl Registry {
    /// Connects the registry to the scoring pool.
    pub(super) fn connect_scoring(&self) {
        let weak = Arc::downgrade(&self.inner);
        let (ownership, live) = (weak.clone(), weak.clone());
        self.inner.scoring.connect(
            move |session_id| {
                if let Some(inner) = weak.upgrade() {
                    Self { inner }.on_scored(session_id);
                }
            },
            move |session_id| {
                ownership
                    .upgrade()
                    .is_some_and(|inner| Self { inner }.acts_for(session_id))
            },
            Box::new(move |session_id| {
                let registry = live.upgrade().map(|inner| Self { inner });
                Box::pin(async move { registry?.final_events(session_id).await })
            }),
        );
    }

    /// Handles the end of a session: the node that acts for it computes the insight and then stops
    /// the actor.
    pub(crate) fn on_ended(&self, session_id: SessionId, tenant: Tenant) {
        if !self.acts_for(session_id) {
            self.leave_to_owner(session_id);
            return;
        }
        self.inner.directory.end(session_id);
        self.wake_watchers(session_id);
        self.inner.scoring.request(session_id, Some(tenant));
        self.settle_later(session_id, Some(tenant));
    }

    /// Requests the insight of a session that was acquired with its shard.
    pub(crate) fn score_marked_session(&self, session_id: SessionId) {
        if let Some(handle) = self.handle(session_id) {
            // This node was not notified of the end.
            return self.on_ended(session_id, handle.tenant);
        }
        self.inner.scoring.request(session_id, None);
        self.settle_later(session_id, None);
    }

    /// Requests the insight of a session that has received telemetry after its end.
    pub(crate) fn request_late_score(&self, tenant: Tenant, session_id: SessionId) {
        if self.acts_for(session_id) {
            self.inner.scoring.request_late(tenant, session_id);
        } else {
            self.request_score(session_id, Some(tenant));
        }
    }

    /// Requests that the node that acts for a session computes or recomputes its insight. `tenant`
    /// is `None` if the caller does not know it.
    pub fn request_score(&self, session_id: SessionId, tenant: Option<Tenant>) {
        if self.acts_for(session_id) {
            self.inner.scoring.request(session_id, tenant);
        } else {
            self.inner.ports.peers.nudge(Nudge::Session(session_id));
        }
    }

    fn on_scored(&self, session_id: SessionId) {
        self.wake_watchers(session_id);
        if let Some(handle) = self.inner.directory.remove_ending(session_id) {
            handle.finish(StopReason::Finished);
        }
    }

    /// Returns the events of the machine of an ended session, as they are after its last batch.
    /// Returns `None` if there is no machine, if it is busy, or if other nodes write to the store:
    /// of two bodies with one `seq`, the machine may have applied the body that does not count.
    pub(super) async fn final_events(&self, session_id: SessionId) -> Option<FinalEvents> {
        if self.is_shared() {
            return None;
        }
        let handle = self.inner.directory.ending(session_id)?;
        let actor = {
            let mut slot = handle.slot();
            if slot.is_restarting {
                return None;
            }
            match (&slot.actor, &slot.passivated) {
                (None, None) => return None,
                (None, Some(passivated)) if !handle.has_deferred() => {
                    return Running::activate(passivated)?.final_events();
                }
                _ => self.current_actor(&mut slot, &handle)?,
            }
        };
        let answer = tokio::time::timeout(WAIT_MAX, actor.send(ReadFinal)).await;
        answer.ok()?.ok()?
    }
}
