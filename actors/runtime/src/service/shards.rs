//! Shards are taken up, given away, and lost.

use std::sync::Arc;

use futures_util::{StreamExt, stream};
use porchlight_observe::cluster::{ClusterMetrics, Found};
use porchlight_ports::StoreResult;
use porchlight_schema::ids::ShardSet;

use super::Service;
use crate::registry::Handle;

/// Sessions that are read at a time when shards are taken up.
const TAKEN_PAGE: usize = 1_000;
/// Sessions that are restored at a time.
const RESTORED_AT_ONCE: usize = 64;

impl Service {
    /// Takes up what lives in these shards: sessions that record, and insights that are behind; how many sessions. On a
    /// store that other nodes share, sessions that were heard lately are restored before this answers. On one's own, when
    /// each was last heard is looked up later, so that a start with many of them is soon over.
    ///
    /// # Errors
    ///
    /// The store can't be read: what was taken up stays, and this may be called again.
    pub async fn take_shards(&self, shards: ShardSet) -> StoreResult<usize> {
        self.registry().open_shards(shards);
        let adopted = self.adopt_live(shards).await?;
        self.score_behind(shards).await?;
        let sessions = adopted.len();
        if self.registry().is_shared() {
            let restoring =
                stream::iter(adopted).for_each_concurrent(RESTORED_AT_ONCE, |handle| async move {
                    if let Err(error) = self.registry().restore(&handle).await {
                        let session_id = handle.session_id;
                        self.registry()
                            .store_failed(session_id, "restoring a session", &error);
                    }
                });
            restoring.await;
        }
        Ok(sessions)
    }

    /// Takes on the sessions of these shards that record and that are not known here; those that were new.
    ///
    /// # Errors
    ///
    /// The store can't be read.
    async fn adopt_live(&self, shards: ShardSet) -> StoreResult<Vec<Arc<Handle>>> {
        let registry = self.registry();
        let mut after = None;
        let mut adopted = Vec::new();
        loop {
            let page = self.store().live(shards, after, TAKEN_PAGE).await?;
            let Some(last) = page.last() else {
                return Ok(adopted);
            };
            after = Some(last.start.session_id);
            let ours = page.iter().filter(|row| {
                let session_id = row.start.session_id;
                registry.acts_for(session_id) && registry.handle(session_id).is_none()
            });
            adopted.extend(ours.map(|row| registry.adopt_without_activity(row)));
        }
    }

    async fn score_behind(&self, shards: ShardSet) -> StoreResult<()> {
        let mut after = None;
        loop {
            let page = self.store().behind(shards, after, TAKEN_PAGE).await?;
            let Some(last) = page.last() else {
                return Ok(());
            };
            after = Some(*last);
            for session_id in page {
                self.registry().score_taken(session_id);
            }
        }
    }

    /// Looks for what nobody told this node of in its shards: insights that are behind, and, where `thoroughly`, sessions
    /// that record.
    ///
    /// # Errors
    ///
    /// The store can't be read.
    pub async fn look_over(&self, shards: ShardSet, thoroughly: bool) -> StoreResult<()> {
        self.score_behind(shards).await?;
        if thoroughly {
            for _found in self.adopt_live(shards).await? {
                ClusterMetrics::get().on_found(Found::Session);
            }
        }
        Ok(())
    }

    /// Gives away what lives in these shards: nothing new is taken on, states are written, actors stop. How many states
    /// were written.
    pub async fn drain_shards(&self, shards: ShardSet) -> usize {
        self.registry().drain_shards(shards).await
    }

    /// Stops what lives in these shards at once and writes nothing: they are another's, or may be soon.
    pub fn drop_shards(&self, shards: ShardSet) {
        self.registry().drop_shards(shards);
    }

    /// Takes no new work from now on.
    pub fn refuse(&self) {
        self.registry().refuse();
    }
}
