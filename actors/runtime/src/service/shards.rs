//! Acquires, drains and drops shards.

use std::sync::Arc;

use futures_util::{FutureExt, StreamExt, stream};
use porchlight_observe::cluster::{ClusterMetrics, Found};
use porchlight_ports::{IsKnown, StoreResult};
use porchlight_schema::ids::ShardSet;
use porchlight_schema::limits::RESTORES_AT_ONCE_MAX;
use tokio::sync::{Semaphore, SemaphorePermit, watch};

use super::Service;
use crate::session::{SessionHandle, store_failed};

/// The number of sessions read per page when this node acquires shards.
const ACQUIRED_PAGE_SESSIONS: usize = 1_000;

/// The order of the work on sessions of acquired shards: all sessions are adopted before any is
/// restored.
///
/// An adopted session runs: it takes batches, it ends in time, and its actor starts when somebody
/// asks for its events. A restore starts the actor before that. It costs several times as many
/// reads, which must not delay the sessions of shards that are claimed a moment later.
#[derive(Debug)]
pub(super) struct RestoreScheduler {
    /// The number of groups of shards whose sessions are being adopted.
    adopting: watch::Sender<usize>,
    restoring: Semaphore,
}

impl Default for RestoreScheduler {
    fn default() -> Self {
        Self {
            adopting: watch::Sender::new(0),
            restoring: Semaphore::new(RESTORES_AT_ONCE_MAX),
        }
    }
}

/// A group of shards whose sessions are being adopted, until this is dropped.
struct Adopting<'t>(&'t RestoreScheduler);

impl Drop for Adopting<'_> {
    fn drop(&mut self) {
        let adopting = &self.0.adopting;
        adopting.send_modify(|groups| *groups = groups.saturating_sub(1));
    }
}

impl RestoreScheduler {
    fn begin_adopting(&self) -> Adopting<'_> {
        self.adopting.send_modify(|groups| *groups += 1);
        Adopting(self)
    }

    /// Waits for the permit to restore a session.
    async fn acquire(&self) -> Option<SemaphorePermit<'_>> {
        // Neither the semaphore nor the channel is ever closed.
        let permit = self.restoring.acquire().await.ok();
        let mut adopting = self.adopting.subscribe();
        let all_adopted = adopting.wait_for(|groups| *groups == 0).await.is_ok();
        permit.filter(|_| all_adopted)
    }
}

/// The sessions that a search of the store for work covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReconcileScope {
    /// Ended sessions with a rescoring mark.
    Marked,
    /// Marked sessions, and all sessions in progress.
    All,
}

impl Service {
    /// Starts the work of these shards (sessions in progress and outdated insights) and returns the
    /// number of sessions. On a store shared with other nodes, recently active sessions are
    /// restored before this returns. On a store that no other node uses, the node looks up later
    /// when each session was last active, so that a start with many sessions is fast.
    ///
    /// # Errors
    ///
    /// Returns an error if the store cannot be read. The work started so far continues, and this
    /// may be called again.
    pub async fn take_shards(&self, shards: ShardSet) -> StoreResult<usize> {
        self.registry().open_shards(shards);
        let adopting = self.restore_scheduler.begin_adopting();
        let adopted = self.adopt_live(shards).await?;
        drop(adopting);
        self.score_marked(shards).await?;
        let sessions = adopted.len();
        if self.registry().is_shared() {
            stream::iter(adopted)
                .for_each_concurrent(RESTORES_AT_ONCE_MAX, |handle| self.restore(handle))
                .await;
        }
        Ok(sessions)
    }

    async fn restore(&self, handle: Arc<SessionHandle>) {
        let _permit = self.restore_scheduler.acquire().await;
        let session_id = handle.session_id;
        // The shard may have been lost while the session waited.
        if !self.registry().acts_for(session_id) {
            return;
        }
        if let Err(error) = self.registry().restore(&handle).await {
            store_failed(session_id, "restoring a session", &error);
        }
    }

    /// Adopts the sessions in progress of these shards that this node does not know yet, and
    /// returns them.
    ///
    /// # Errors
    ///
    /// Returns an error if the store cannot be read.
    async fn adopt_live(&self, shards: ShardSet) -> StoreResult<Vec<Arc<SessionHandle>>> {
        let registry = self.registry();
        let known = registry.clone();
        let is_known: IsKnown = Arc::new(move |session_id| known.handle(session_id).is_some());
        let read = |after| {
            let is_known = Arc::clone(&is_known);
            self.store()
                .live_unknown(shards, after, ACQUIRED_PAGE_SESSIONS, is_known)
        };
        let mut adopted = Vec::new();
        let mut page = read(None).await?;
        while let Some(last) = page.last() {
            let mut next = read(Some(last.start.session_id));
            // Starts the read of the next page, which proceeds while the sessions of this page are
            // adopted.
            let early = (&mut next).now_or_never();
            let owned = page.iter().filter(|row| {
                let session_id = row.start.session_id;
                registry.acts_for(session_id) && registry.handle(session_id).is_none()
            });
            adopted.extend(owned.map(|row| registry.adopt_without_activity(row)));
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
            let page = self
                .store()
                .to_score(shards, after, ACQUIRED_PAGE_SESSIONS)
                .await?;
            let Some(last) = page.last() else {
                return Ok(());
            };
            after = Some(*last);
            for session_id in page {
                self.registry().score_marked_session(session_id);
            }
        }
    }

    /// Searches the store for work in its shards that this node was not notified of: outdated
    /// insights and, in [`ReconcileScope::All`], sessions in progress.
    ///
    /// # Errors
    ///
    /// Returns an error if the store cannot be read.
    pub async fn reconcile_shards(
        &self,
        shards: ShardSet,
        scope: ReconcileScope,
    ) -> StoreResult<()> {
        self.score_marked(shards).await?;
        if scope == ReconcileScope::All {
            for _found in self.adopt_live(shards).await? {
                ClusterMetrics::get().on_found(Found::Session);
            }
        }
        Ok(())
    }

    /// Drains these shards: adopts no new sessions, writes states, and stops the actors. Returns
    /// the number of states written.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_restored_after_all_are_adopted() {
        let restore_scheduler = RestoreScheduler::default();
        let (first, second) = (
            restore_scheduler.begin_adopting(),
            restore_scheduler.begin_adopting(),
        );
        assert!(restore_scheduler.acquire().now_or_never().is_none());
        drop(first);
        assert!(restore_scheduler.acquire().now_or_never().is_none());
        drop(second);
        assert!(
            restore_scheduler
                .acquire()
                .now_or_never()
                .flatten()
                .is_some()
        );
    }

    #[test]
    fn the_number_of_sessions_restored_at_the_same_time_is_bounded() {
        let restore_scheduler = RestoreScheduler::default();
        let acquire = || restore_scheduler.acquire().now_or_never().flatten();
        let permits: Vec<_> = (0..RESTORES_AT_ONCE_MAX)
            .map(|_| acquire().unwrap())
            .collect();
        assert!(acquire().is_none());
        drop(permits);
        assert!(acquire().is_some());
    }
}
