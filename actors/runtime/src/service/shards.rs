//! Shards are taken up, given away, and lost.

use futures_util::{StreamExt, stream};
use porchlight_schema::ids::ShardSet;

use super::Service;
use crate::ports::StoreResult;

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
        let registry = self.registry();
        registry.open_shards(shards);
        let mut after = None;
        let mut adopted = Vec::new();
        loop {
            let page = self.store().live(shards, after, TAKEN_PAGE).await?;
            let Some(last) = page.last() else { break };
            after = Some(last.start.session_id);
            let ours = page
                .iter()
                .filter(|row| registry.acts_for(row.start.session_id));
            adopted.extend(ours.map(|row| registry.adopt_unheard(row)));
        }
        let mut after = None;
        loop {
            let page = self.store().behind(shards, after, TAKEN_PAGE).await?;
            let Some(last) = page.last() else { break };
            after = Some(*last);
            for session_id in page {
                registry.score_taken(session_id);
            }
        }
        let sessions = adopted.len();
        if registry.is_shared() {
            let restoring =
                stream::iter(adopted).for_each_concurrent(RESTORED_AT_ONCE, |handle| async move {
                    if let Err(error) = registry.restore(&handle).await {
                        registry.store_failed(handle.session_id, "restoring a session", &error);
                    }
                });
            restoring.await;
        }
        Ok(sessions)
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
