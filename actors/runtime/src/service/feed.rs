//! The feed of changes that a session's watchers read, from any change on.

use std::panic::{AssertUnwindSafe, catch_unwind};

use porchlight_core::context::SessionContext;
use porchlight_core::privacy::SessionAccess;
use porchlight_core::session::feed::{Feed, FeedChanges};
use porchlight_core::supervision::LeftOut;
use porchlight_core::timeline::NumberedChange;
use porchlight_ports::{SessionRow, StoreError, StoreResult};
use porchlight_schema::ids::SessionId;
use porchlight_schema::session::SessionEnd;

use super::Service;
use crate::journal;
use crate::registry::{AskError, Watch};
use crate::yielding::Yielding;

/// The state of a session's feed.
#[derive(Debug, Clone)]
pub enum FeedState {
    /// The session is in progress. Contains the next changes; empty if there is nothing new.
    Live(Vec<NumberedChange>),
    /// The session has ended. [`Service::feed_of_ended`] returns all its changes.
    Ended(SessionEnd),
}

impl Service {
    /// Watches a session from now on.
    #[must_use]
    pub fn watch(&self, session_id: SessionId) -> Watch {
        self.registry().watch(session_id)
    }

    /// Returns whether a session is in progress, as far as this node knows. Reads the store only if
    /// another node acts for it.
    pub async fn still_records(&self, session_id: SessionId) -> bool {
        if self.registry().acts_for(session_id) {
            return self.registry().handle(session_id).is_some();
        }
        let target = self.target(session_id).await;
        // A watcher is accepted even if the store does not answer.
        target.map_or(true, |target| {
            target.is_some_and(|target| target.end.is_none())
        })
    }

    /// Returns at most `limit` changes, starting at `number`. Returns `None` if there is no such
    /// session.
    pub async fn feed(
        &self,
        session_id: SessionId,
        number: u32,
        limit: usize,
    ) -> StoreResult<Option<FeedState>> {
        let Some(target) = self.target(session_id).await? else {
            return Ok(None);
        };
        if self.access_of(target.tenant, session_id).await? != SessionAccess::Open {
            return Ok(None);
        }
        if let Some(end) = target.end {
            return Ok(Some(FeedState::Ended(end)));
        }
        let registry = self.registry();
        if !registry.acts_for(session_id) {
            let changes = registry
                .ports()
                .peers
                .changes(session_id, number, limit)
                .await;
            // If the owner cannot be reached now, the caller asks again.
            return Ok(Some(FeedState::Live(changes.unwrap_or_default())));
        }
        let Some(handle) = registry.handle(session_id) else {
            return self.feed_without_actor(session_id).await;
        };
        let changes = registry.numbered_changes_since(&handle, number, limit);
        match changes.await {
            Ok(changes) => Ok(Some(FeedState::Live(changes))),
            Err(AskError::Finished) => self.feed_without_actor(session_id).await,
            Err(error) => Err(StoreError::unavailable(error)),
        }
    }

    /// Returns the feed of a session that has no actor on this node. Either the session ended just
    /// now and the store has its end, or this node acquired or lost its shard just now and the
    /// caller asks again.
    async fn feed_without_actor(&self, session_id: SessionId) -> StoreResult<Option<FeedState>> {
        let row = self.find(session_id).await?;
        Ok(row.map(|row| {
            row.end
                .map_or_else(|| FeedState::Live(Vec::new()), FeedState::Ended)
        }))
    }

    /// Computes all changes of an ended session from the stored data. See [`Feed`].
    pub async fn feed_of_ended(
        &self,
        row: &SessionRow,
        end: &SessionEnd,
    ) -> StoreResult<FeedChanges> {
        // Each computation takes as long as a scoring, so only a few run concurrently.
        let turn = self.feeds.take(row.start.tenant.organization_id);
        let _turn = turn.await.map_err(StoreError::unavailable)?;
        let notes = self.store().notes(row.start.session_id).await?;
        let gaps: Vec<_> = notes.iter().filter_map(|note| note.skipped()).collect();
        let quarantined = notes.iter().filter_map(|note| note.quarantined());
        let mut left_out = LeftOut::new(quarantined);
        let context = SessionContext::new(&row.start);
        loop {
            let quarantined = left_out.seqs().clone();
            let feed = Feed::new(&context, end.completed_at, gaps.clone(), quarantined);
            match self.compute(row.start.session_id, feed).await? {
                Ok(changes) => return Ok(changes),
                // Scoring writes a note when it quarantines a batch; here the batch is only
                // skipped.
                Err(seq) if left_out.add(seq) => {}
                Err(_one_too_many) => {
                    return Err(StoreError::Damaged(
                        "the detectors panic at too many batches of the session".into(),
                    ));
                }
            }
        }
    }

    /// Computes the changes. Returns the batch at which a detector panicked, if one did.
    async fn compute(
        &self,
        session_id: SessionId,
        mut feed: Feed<'_>,
    ) -> StoreResult<Result<FeedChanges, u32>> {
        let mut pages = journal::pages(self.store().as_ref(), session_id);
        let (mut last, mut yielding) = (0, Yielding::default());
        while let Some(page) = pages.next().await? {
            for entry in &page {
                last = entry.seq;
                let apply = || feed.batch(entry.seq, entry.received_at, &entry.batch);
                if catch_unwind(AssertUnwindSafe(apply)).is_err() {
                    return Ok(Err(entry.seq));
                }
                yielding.after(entry.batch.samples()).await;
            }
        }
        Ok(catch_unwind(AssertUnwindSafe(|| feed.finish())).map_err(|_panic| last))
    }
}
