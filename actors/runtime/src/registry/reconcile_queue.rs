//! The queue of sessions to reconcile. A session is queued when another node requests it or
//! forwards a batch of a session that this node does not know. The stored state determines the
//! action.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use porchlight_core::backoff::Backoff;
use porchlight_core::session::reconcile::{Reconcile, Stored, reconcile};
use porchlight_observe::peer::PeerMetrics;
use porchlight_ports::{SessionRow, StoreResult};
use porchlight_schema::ids::SessionId;
use porchlight_schema::limits::{RECONCILES_AT_ONCE_MAX, RECONCILES_WAITING_MAX};
use tokio::sync::Semaphore;

use super::Registry;
use crate::session::{SessionHandle, store_failed};

/// The pauses between attempts at a reconciliation: from 0.2 s to 5 s.
const BACKOFF: Backoff = Backoff::new(200, 5_000);

/// The sessions to reconcile. The value is true if a reconciliation was requested again while one
/// is in progress.
#[derive(Debug)]
pub(super) struct ReconcileQueue {
    requested: Mutex<BTreeMap<SessionId, bool>>,
    permits: Semaphore,
}

impl Default for ReconcileQueue {
    fn default() -> Self {
        Self {
            requested: Mutex::default(),
            permits: Semaphore::new(RECONCILES_AT_ONCE_MAX),
        }
    }
}

impl ReconcileQueue {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<SessionId, bool>> {
        self.requested
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Requests a reconciliation of a session. Returns whether the caller has to start it.
    fn request(&self, session_id: SessionId) -> bool {
        let mut requested = self.lock();
        if let Some(again) = requested.get_mut(&session_id) {
            *again = true;
            return false;
        }
        let has_room = requested.len() < RECONCILES_WAITING_MAX;
        if has_room {
            requested.insert(session_id, false);
        } else {
            PeerMetrics::get().reconciles_dropped.increment(1);
        }
        has_room
    }

    /// Removes a session after a reconciliation. Returns whether another reconciliation is needed.
    fn complete(&self, session_id: SessionId) -> bool {
        self.lock().remove(&session_id).unwrap_or(false)
    }
}

impl Registry {
    /// Compares a session with the store and acts on the result: a session in progress is adopted,
    /// and for an ended session the insight is computed. Never waits.
    pub(crate) fn queue_reconcile(&self, session_id: SessionId) {
        let Some(of_session) = self.inner.arbiters.of(session_id) else {
            return;
        };
        if !self.acts_for(session_id) || !self.inner.reconciles.request(session_id) {
            return;
        }
        let registry = self.clone();
        of_session.arbiter.spawn(async move {
            let mut backoff = BACKOFF;
            while let Err(error) = registry.reconcile(session_id).await {
                store_failed(session_id, "reconciling a session", &error);
                // Another attempt reads the same rows; the session's score reports damaged ones.
                if registry.is_draining() || error.is_of_single_rows() {
                    break;
                }
                tokio::time::sleep(backoff.on_failure()).await;
            }
            if registry.inner.reconciles.complete(session_id) {
                registry.queue_reconcile(session_id);
            }
        });
    }

    async fn reconcile(&self, session_id: SessionId) -> StoreResult<()> {
        // The semaphore is never closed. During a pause after a failure, another reconciliation can
        // hold the permit.
        let _permit = self.inner.reconciles.permits.acquire().await.ok();
        if !self.acts_for(session_id) {
            return Ok(());
        }
        let store = &self.inner.ports.store;
        let Some(row) = store.find(session_id).await? else {
            // The session was erased, or removed by retention.
            self.drop_erased(session_id);
            return Ok(());
        };
        let tenant = row.start.tenant;
        let stored = match row.end {
            None => Stored::InProgress,
            Some(end) => Stored::Ended {
                age_ms: self.inner.ports.clock.now().since_ms(end.completed_at),
            },
        };
        match reconcile(stored, self.handle(session_id).is_some(), self.is_shared()) {
            Reconcile::End => self.on_ended(session_id, tenant),
            Reconcile::ScoreLate => self.inner.scoring.request_late(tenant, session_id),
            Reconcile::Adopt => {
                let (handle, has_batches) = self.adopt_stored(&row).await?;
                if has_batches {
                    self.actor_of(&handle);
                }
                self.wake_watchers(session_id);
            }
            Reconcile::Keep => {}
        }
        Ok(())
    }

    /// Takes on a stored session in progress. Also returns whether its journal has batches.
    pub(crate) async fn adopt_stored(
        &self,
        row: &SessionRow,
    ) -> StoreResult<(Arc<SessionHandle>, bool)> {
        let (session_id, created_at) = (row.start.session_id, row.start.created_at);
        let newest = self.inner.ports.store.newest(session_id).await?;
        let last_received_at = newest.map_or(created_at, |(_, received_at)| received_at);
        let handle = self.adopt(row, last_received_at.max(created_at));
        Ok((handle, newest.is_some()))
    }
}
