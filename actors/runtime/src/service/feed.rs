//! What a session tells those who watch it, from any change on.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use porchlight_core::context::SessionContext;
use porchlight_core::session::feed::Feed;
use porchlight_core::timeline::Told;
use porchlight_ports::{Note, SessionRow, StoreError, StoreResult};
use porchlight_schema::ids::SessionId;
use porchlight_schema::limits::{FEEDS_COMPUTED_MAX, SCORING_QUARANTINES_MAX};
use porchlight_schema::session::SessionEnd;
use tokio::sync::Semaphore;

use super::Service;
use crate::registry::Watch;

/// Batches read from the journal at once; in between other requests get their turn.
const READ_BATCHES: usize = 32;

/// Where a session's feed stands.
#[derive(Debug, Clone)]
pub enum FeedState {
    /// It records: these are the next changes, none while there is nothing new.
    Live(Vec<Told>),
    /// It has ended so; [`Service::feed_of_ended`] has all its changes.
    Ended(SessionEnd),
}

impl Service {
    /// Watches a session from now on.
    #[must_use]
    pub fn watch(&self, session_id: SessionId) -> Watch {
        self.registry().watch(session_id)
    }

    /// Whether a session records, as far as is known here. Asks the store only where another node acts for it.
    pub async fn still_records(&self, session_id: SessionId) -> bool {
        if self.registry().acts_for(session_id) {
            return self.registry().handle(session_id).is_some();
        }
        let target = self.target(session_id).await;
        // Nobody is sent away because the store does not answer.
        target.map_or(true, |target| {
            target.is_some_and(|target| target.end.is_none())
        })
    }

    /// The changes numbered `number` and up, at most `limit` of them; none where there is no such session.
    pub async fn feed(
        &self,
        session_id: SessionId,
        number: u32,
        limit: usize,
    ) -> StoreResult<Option<FeedState>> {
        let Some(target) = self.target(session_id).await? else {
            return Ok(None);
        };
        if let Some(end) = target.end {
            return Ok(Some(FeedState::Ended(end)));
        }
        let registry = self.registry();
        if !registry.acts_for(session_id) {
            let told = registry.inner().peers.told(session_id, number, limit).await;
            // Who can't be asked now is asked again.
            return Ok(Some(FeedState::Live(told.unwrap_or_default())));
        }
        let Some(handle) = registry.handle(session_id) else {
            // It ended just now: the store knows how. Or it was taken over just now, and is looked for again.
            let row = self.find(session_id).await?;
            return Ok(row.map(|row| {
                row.end
                    .map_or_else(|| FeedState::Live(Vec::new()), FeedState::Ended)
            }));
        };
        let told = self.registry().told_since(&handle, number, limit).await;
        told.map(|told| Some(FeedState::Live(told)))
            .map_err(StoreError::unavailable)
    }

    /// Everything that a session told until it had ended, computed from what is stored. See [`Feed`].
    pub async fn feed_of_ended(
        &self,
        row: &SessionRow,
        end: &SessionEnd,
    ) -> StoreResult<Vec<Told>> {
        // Each takes as long as a scoring: few at once, the others wait.
        static AT_WORK: Semaphore = Semaphore::const_new(FEEDS_COMPUTED_MAX);
        let _place = AT_WORK.acquire().await.map_err(StoreError::unavailable)?;
        let notes = self.store().notes(row.start.session_id).await?;
        let given_up = notes.iter().filter_map(|note| match *note {
            Note::Skipped { first, last } => Some((first, last)),
            Note::Quarantined { .. } => None,
        });
        let given_up: Vec<_> = given_up.collect();
        let put_aside = notes.iter().filter_map(|note| match *note {
            Note::Quarantined { seq } => Some(seq),
            Note::Skipped { .. } => None,
        });
        let mut put_aside: BTreeSet<u32> = put_aside.collect();
        let context = SessionContext::new(&row.start);
        for _ in 0..=SCORING_QUARANTINES_MAX {
            let feed = Feed::new(
                &context,
                end.completed_at,
                given_up.clone(),
                put_aside.clone(),
            );
            match self.compute(row.start.session_id, feed).await? {
                Ok(told) => return Ok(told),
                // Scoring puts it aside in writing; here it is only passed over.
                Err(seq) => put_aside.insert(seq),
            };
        }
        Err(StoreError::Corrupt("a session no detector can bear".into()))
    }

    /// The batch at which a detector panicked, if one did.
    async fn compute(
        &self,
        session_id: SessionId,
        mut feed: Feed<'_>,
    ) -> StoreResult<Result<Vec<Told>, u32>> {
        let (mut from_seq, mut last) = (0, 0);
        loop {
            let page = self
                .store()
                .read(session_id, from_seq, READ_BATCHES)
                .await?;
            let Some(entry) = page.last() else { break };
            from_seq = entry.seq.saturating_add(1);
            for entry in &page {
                last = entry.seq;
                let one = || feed.batch(entry.seq, entry.received_at, &entry.batch);
                if catch_unwind(AssertUnwindSafe(one)).is_err() {
                    return Ok(Err(entry.seq));
                }
            }
            tokio::task::yield_now().await;
        }
        Ok(catch_unwind(AssertUnwindSafe(|| feed.finish())).map_err(|_panic| last))
    }
}
