//! The directory of the sessions that this node acts for.

use std::sync::Arc;

use dashmap::DashMap;
use porchlight_observe::Metrics;
use porchlight_schema::ids::{SessionId, ShardSet};

use crate::session::SessionHandle;

/// The handles of the sessions of this node: those in progress, and those that have ended and wait
/// for their insight.
///
/// The gauge of live sessions changes here and nowhere else.
#[derive(Debug, Default)]
pub(super) struct Directory {
    live: DashMap<SessionId, Arc<SessionHandle>>,
    /// The actors of these sessions still serve the events so far.
    ending: DashMap<SessionId, Arc<SessionHandle>>,
}

impl Directory {
    /// Returns the handle of a session in progress.
    pub(super) fn live(&self, session_id: SessionId) -> Option<Arc<SessionHandle>> {
        let entry = self.live.get(&session_id)?;
        Some(Arc::clone(&entry))
    }

    /// Returns the handle of a session that has ended and waits for its insight.
    pub(super) fn ending(&self, session_id: SessionId) -> Option<Arc<SessionHandle>> {
        let entry = self.ending.get(&session_id)?;
        Some(Arc::clone(&entry))
    }

    /// Returns the number of sessions in progress.
    pub(super) fn live_count(&self) -> usize {
        self.live.len()
    }

    /// Returns the handles of all sessions in progress.
    pub(super) fn all_live(&self) -> Vec<Arc<SessionHandle>> {
        self.live.iter().map(|entry| Arc::clone(&entry)).collect()
    }

    /// Returns the handle of a session in progress, and inserts the one that `create` makes if
    /// there is none.
    pub(super) fn enter(
        &self,
        session_id: SessionId,
        create: impl FnOnce() -> SessionHandle,
    ) -> Arc<SessionHandle> {
        let entry = self.live.entry(session_id).or_insert_with(|| {
            Metrics::get().sessions_live.increment(1.0);
            Arc::new(create())
        });
        Arc::clone(&entry)
    }

    /// Moves a session in progress to those that wait for their insight.
    pub(super) fn end(&self, session_id: SessionId) {
        if let Some(handle) = self.remove_live(session_id) {
            self.ending.insert(session_id, handle);
        }
    }

    /// Removes a session in progress.
    pub(super) fn remove_live(&self, session_id: SessionId) -> Option<Arc<SessionHandle>> {
        let (_, handle) = self.live.remove(&session_id)?;
        Metrics::get().sessions_live.decrement(1.0);
        Some(handle)
    }

    /// Removes a session that waits for its insight.
    pub(super) fn remove_ending(&self, session_id: SessionId) -> Option<Arc<SessionHandle>> {
        let (_, handle) = self.ending.remove(&session_id)?;
        Some(handle)
    }

    /// Removes the sessions of these shards. Returns the handles of those in progress and of those
    /// that wait for their insight.
    pub(super) fn remove_shards(
        &self,
        shards: ShardSet,
    ) -> (Vec<Arc<SessionHandle>>, Vec<Arc<SessionHandle>>) {
        let live = take(&self.live, shards);
        Metrics::get().sessions_live.decrement(live.len() as f64);
        (live, take(&self.ending, shards))
    }
}

/// Takes the handles of these shards out of a map.
fn take(map: &DashMap<SessionId, Arc<SessionHandle>>, shards: ShardSet) -> Vec<Arc<SessionHandle>> {
    let mut taken = Vec::new();
    map.retain(|id, handle| {
        let is_taken = shards.contains(id.shard());
        if is_taken {
            taken.push(Arc::clone(handle));
        }
        !is_taken
    });
    taken
}
