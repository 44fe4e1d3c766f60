//! Taking up, draining, and dropping shards.

use std::sync::Arc;

use futures_util::{FutureExt, StreamExt, stream};
use porchlight_observe::cluster::{ClusterMetrics, Found};
use porchlight_ports::StoreResult;
use porchlight_schema::ids::ShardSet;

use super::Service;
use crate::session::{Handle, store_failed};

/// The number of sessions read per page when shards are taken up.
const TAKEN_PAGE: usize = 1_000;
/// The number of sessions restored concurrently.
const RESTORED_AT_ONCE: usize = 64;

impl Service {
    /// Starts the work of these shards (sessions in progress and outdated insights) and returns the
    /// number of sessions. On a store shared with other nodes, recently active sessions are
    /// restored before this returns. On a store of its own, the node looks up later when each
    /// session was last active, so that a start with many sessions is fast.
    ///
    /// # Errors
    ///
    /// Returns an error if the store cannot be read. The work started so far continues, and this
    /// may be called again.
    pub async fn take_shards(&self, shards: ShardSet) -> StoreResult<usize> {
        self.registry().open_shards(shards);
        let adopted = self.adopt_live(shards).await?;
        self.score_marked(shards).await?;
        let sessions = adopted.len();
        if self.registry().is_shared() {
            let restoring =
                stream::iter(adopted).for_each_concurrent(RESTORED_AT_ONCE, |handle| async move {
                    if let Err(error) = self.registry().restore(&handle).await {
                        let session_id = handle.session_id;
                        store_failed(session_id, "restoring a session", &error);
                    }
                });
            restoring.await;
        }
        Ok(sessions)
    }

    /// Takes on the sessions in progress of these shards that this node does not know yet, and
    /// returns them.
    ///
    /// # Errors
    ///
    /// Returns an error if the store cannot be read.
    async fn adopt_live(&self, shards: ShardSet) -> StoreResult<Vec<Arc<Handle>>> {
        let registry = self.registry();
        let read = |after| self.store().live(shards, after, TAKEN_PAGE);
        let mut adopted = Vec::new();
        let mut page = read(None).await?;
        while let Some(last) = page.last() {
            let mut next = read(Some(last.start.session_id));
            // The store begins to read the next page while the sessions of this one are adopted.
            let early = (&mut next).now_or_never();
            let ours = page.iter().filter(|row| {
                let session_id = row.start.session_id;
                registry.acts_for(session_id) && registry.handle(session_id).is_none()
            });
            adopted.extend(ours.map(|row| registry.adopt_without_activity(row)));
            page = match early {
                Some(page) => page?,
                None => next.await?,
            };
        }
        Ok(adopted)
    }

    async fn score_marked(&self, shards: ShardSet) -> StoreResult<()> {
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

    /// Searches the store for work in its shards that this node was not notified of: outdated insights and, if
    /// `thoroughly`, sessions in progress.
    ///
    /// # Errors
    ///
    /// Returns an error if the store cannot be read.
    pub async fn reconcile_shards(&self, shards: ShardSet, thoroughly: bool) -> StoreResult<()> {
        self.score_marked(shards).await?;
        if thoroughly {
            for _found in self.adopt_live(shards).await? {
                ClusterMetrics::get().on_found(Found::Session);
            }
        }
        Ok(())
    }

    /// Drains these shards: takes on nothing new, writes states, and stops the actors. Returns the
    /// number of states written.
    pub async fn drain_shards(&self, shards: ShardSet) -> usize {
        self.registry().drain_shards(shards).await
    }

    /// Stops the work of these shards immediately and writes nothing: another node owns them, or
    /// may soon.
    pub fn drop_shards(&self, shards: ShardSet) {
        self.registry().drop_shards(shards);
    }

    /// Refuses new work from now on.
    pub fn refuse(&self) {
        self.registry().refuse();
    }
}
