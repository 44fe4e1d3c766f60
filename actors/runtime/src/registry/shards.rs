//! The sessions of shards that are acquired, drained or dropped.

use std::sync::Arc;
use std::time::Duration;

use porchlight_core::session::idle::EVICT_AFTER_MS;
use porchlight_observe::StopReason;
use porchlight_observe::cluster::{ClusterMetrics, Found};
use porchlight_ports::StoreResult;
use porchlight_schema::ids::{SessionId, ShardSet};
use porchlight_schema::limits::END_SETTLES_MS;
use porchlight_schema::session::Tenant;
use porchlight_schema::time::TimestampMs;

use super::Registry;
use crate::session::{Drain, SessionHandle, send, store_failed};

/// The number of actors that write their last snapshot at a time.
const CONCURRENT_DRAINS_MAX: usize = 256;

impl Registry {
    /// Returns the generation in which this process acts for a session now. Returns `None` if this
    /// process does not act for it.
    pub(crate) fn generation(&self, session_id: SessionId) -> Option<u64> {
        self.inner.shards.generation(session_id.shard())
    }

    /// Returns whether this process acts for a session now and accepts its new batches.
    pub(crate) fn acts_for(&self, session_id: SessionId) -> bool {
        self.inner.shards.acts_for(session_id.shard())
    }

    /// Returns whether other nodes may act for, and write to, the sessions of this node.
    pub(crate) fn is_shared(&self) -> bool {
        self.inner.shards.is_shared()
    }

    /// Adopts sessions of these shards from now on.
    pub(crate) fn open_shards(&self, shards: ShardSet) {
        self.inner.shards.end_release(shards);
    }

    /// Removes the sessions of these shards and stops adopting new ones. Returns the handles of the
    /// sessions in progress.
    fn close_shards(&self, shards: ShardSet) -> Vec<Arc<SessionHandle>> {
        self.inner.shards.begin_release(shards);
        let (handles, ending) = self.inner.directory.remove_shards(shards);
        // The actors are stopped after the iteration, because a holder of a handle's slot may be
        // accessing the maps.
        for handle in ending {
            handle.finish(StopReason::LostOwnership);
        }
        for handle in &handles {
            self.wake_watchers(handle.session_id);
        }
        handles
    }

    /// Lets the sessions of these shards write their snapshots, then stops and removes them.
    /// Returns the number of written snapshots.
    pub(crate) async fn drain_shards(&self, shards: ShardSet) -> usize {
        let handles = self.close_shards(shards);
        self.drain_handles(&handles).await
    }

    /// Stops the sessions of these shards immediately, without writing anything.
    pub(crate) fn drop_shards(&self, shards: ShardSet) {
        for handle in self.close_shards(shards) {
            handle.finish(StopReason::LostOwnership);
        }
    }

    /// Writes the state of every actor and every passivated state of these handles, for which no
    /// actor starts again. Returns the number of written states.
    pub(super) async fn drain_handles(&self, handles: &[Arc<SessionHandle>]) -> usize {
        let mut drained = 0;
        for handles in handles.chunks(CONCURRENT_DRAINS_MAX) {
            let drains = handles
                .iter()
                .filter_map(|handle| {
                    let mut slot = handle.slot();
                    if slot.passivated.is_some() {
                        self.actor_in(&mut slot, handle);
                    }
                    slot.is_finished = true;
                    slot.actor.take()
                })
                .map(|actor| actor.send(Drain));
            let drains: Vec<_> = drains.collect();
            drained += futures_util::future::join_all(drains)
                .await
                .into_iter()
                .filter(Result::is_ok)
                .count();
        }
        drained
    }

    /// Removes a session for which this process no longer acts, and stops its actor, which writes
    /// nothing.
    pub(super) fn drop_session(&self, handle: &Arc<SessionHandle>) {
        self.inner.directory.remove_live(handle.session_id);
        handle.finish(StopReason::LostOwnership);
    }

    /// Brings the actor of a session that was acquired with its shard up to date if the session was
    /// active recently. The state of other sessions stays in the store.
    pub(crate) async fn restore(&self, handle: &Arc<SessionHandle>) -> StoreResult<()> {
        let newest = self.inner.ports.store.newest(handle.session_id).await?;
        if let Some((_, received_at)) = newest {
            self.touch_found(handle, received_at);
        }
        let silent_ms = self
            .inner
            .ports
            .clock
            .now()
            .since_ms(handle.last_received_at());
        if silent_ms < EVICT_AFTER_MS {
            // An actor that does not answer in time is still catching up.
            let _events = self.events(handle).await;
        }
        Ok(())
    }

    /// Records that the store has a batch of the session, received at `received_at`.
    pub(crate) fn touch_found(&self, handle: &SessionHandle, received_at: TimestampMs) {
        let clock = &self.inner.ports.clock;
        handle.touch_found(received_at, clock.now(), clock.uptime_ms());
    }

    /// Checks whether a silent session has ended or has further batches, of which this node was not
    /// notified.
    pub(super) fn reconcile_silent(&self, handle: Arc<SessionHandle>) {
        let registry = self.clone();
        actix_rt::spawn(async move {
            if let Err(error) = registry.reconcile_tail(&handle).await {
                store_failed(handle.session_id, "reading a silent session's tail", &error);
            }
        });
    }

    async fn reconcile_tail(&self, handle: &Arc<SessionHandle>) -> StoreResult<()> {
        let (store, session_id) = (&self.inner.ports.store, handle.session_id);
        let row = store.find(session_id).await?;
        if row.is_none_or(|row| row.end.is_some()) {
            ClusterMetrics::get().on_found(Found::End);
            self.on_ended(session_id, handle.tenant);
            return Ok(());
        }
        let Some((seq, received_at)) = store.newest(session_id).await? else {
            return Ok(());
        };
        self.touch_found(handle, received_at);
        if handle.knows(seq) || !self.acts_for(session_id) {
            return Ok(());
        }
        ClusterMetrics::get().on_found(Found::Batches);
        handle.mark_known(seq);
        let actor = {
            let mut slot = handle.slot();
            if slot.is_restarting {
                return Ok(());
            }
            self.actor_in(&mut slot, handle)
        };
        if let Some(actor) = actor {
            send::send_catch_up(&actor);
        }
        Ok(())
    }

    /// Examines an ended session once more after its end has settled, and requests the insight
    /// again if it does not cover everything: for a moment after the end, other nodes may accept
    /// batches without reporting that they came late.
    pub(super) fn settle_later(&self, session_id: SessionId, tenant: Option<Tenant>) {
        if !self.is_shared() {
            return;
        }
        let Some(of_session) = self.inner.arbiters.of(session_id) else {
            return;
        };
        let registry = self.clone();
        of_session.arbiter.spawn(async move {
            tokio::time::sleep(Duration::from_millis(END_SETTLES_MS)).await;
            if !registry.acts_for(session_id) {
                // The new owner finds the session by its mark.
                return;
            }
            match registry.inner.ports.store.settle(session_id).await {
                Ok(true) => {}
                Ok(false) => registry.request_score(session_id, tenant),
                Err(error) => {
                    store_failed(session_id, "examining an ended session", &error);
                    registry.request_score(session_id, tenant);
                }
            }
        });
    }
}
