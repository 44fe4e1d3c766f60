//! Finds the sessions for which an owner of shards has work: live sessions, and ended sessions to
//! score.

mod buckets;

use std::sync::Arc;

use futures_util::future::try_join;
use futures_util::{StreamExt, TryStreamExt, stream};
use porchlight_ports::{IsKnown, SessionRow, StoreResult};
use porchlight_schema::ids::{SessionId, ShardSet};
use porchlight_schema::limits::{
    END_SETTLES_MS, LIVE_LOOK_UPS_AT_ONCE_MAX, LIVE_LOOKED_UP_TOGETHER_MAX,
};

use crate::cql::Inner;
use crate::cql::layout::slots::AT_ONCE;
use crate::cql::sessions::state::{SessionRecord, State};
use crate::damage::readable;
pub(in crate::cql) use buckets::{EmptyRead, Entry, WorkTable, all_buckets, buckets_to_clear};

/// The sessions of one lookup whose remaining work is completed concurrently: together as many as
/// partitions are read concurrently.
const COMPLETED_AT_ONCE: usize = AT_ONCE / LIVE_LOOK_UPS_AT_ONCE_MAX;

/// The name of a damaged row in the log.
const LIVE_SESSION: &str = "a live session";

/// Runs the lookups of sessions concurrently, and returns the results in their order.
async fn collect_found<T>(
    lookups: Vec<impl Future<Output = StoreResult<Option<T>>>>,
) -> StoreResult<Vec<T>> {
    let found: Vec<_> = stream::iter(lookups)
        .buffered(COMPLETED_AT_ONCE)
        .try_collect()
        .await?;
    Ok(found.into_iter().flatten().collect())
}

impl Inner {
    /// Returns the first `limit` results of `look_up` for the sessions of a table after `after`.
    /// `look_up` takes at most [`LIVE_LOOKED_UP_TOGETHER_MAX`] sessions and keeps their order.
    async fn collect_sessions<'i, T, F>(
        &'i self,
        table: WorkTable,
        shards: ShardSet,
        mut after: Option<SessionId>,
        limit: usize,
        look_up: impl Fn(&'i Self, Vec<Entry>) -> F,
    ) -> StoreResult<Vec<T>>
    where
        F: Future<Output = StoreResult<Vec<T>>>,
    {
        let mut found = Vec::new();
        while found.len() < limit {
            let missing = limit - found.len();
            let (entries, are_all) = self.work_entries(table, shards, after, missing).await?;
            after = entries.last().map(|entry| entry.session_id).or(after);
            let groups = entries.chunks(LIVE_LOOKED_UP_TOGETHER_MAX);
            let lookups: Vec<_> = groups.map(|group| look_up(self, group.to_vec())).collect();
            let groups: Vec<_> = stream::iter(lookups)
                .buffered(LIVE_LOOK_UPS_AT_ONCE_MAX)
                .try_collect()
                .await?;
            found.extend(groups.into_iter().flatten());
            if are_all {
                break;
            }
        }
        Ok(found)
    }

    /// Returns the live sessions. This also completes work that an earlier process left: an end
    /// that was decided, and a first message that was not queued. A first message whose cursor has
    /// a state was queued, and is not queued again.
    ///
    /// Sessions that the caller knows are left out if this process has examined them before, so
    /// that a periodic scan costs little more than reading the new sessions.
    pub(in crate::cql) async fn live(
        self: Arc<Self>,
        shards: ShardSet,
        after: Option<SessionId>,
        limit: usize,
        is_known: IsKnown,
    ) -> StoreResult<Vec<SessionRow>> {
        self.collect_sessions(
            WorkTable::Live,
            shards,
            after,
            limit,
            |inner, mut entries| {
                entries.retain(|Entry { session_id, .. }| {
                    !is_known(*session_id) || inner.caches.examined.get(session_id).is_none()
                });
                inner.look_up_live(entries)
            },
        )
        .await
    }

    /// Looks up the sessions of these entries with one read of their starts and one read of their
    /// states. Leaves out damaged ones, which cannot continue.
    async fn look_up_live(&self, entries: Vec<Entry>) -> StoreResult<Vec<SessionRow>> {
        if entries.is_empty() {
            return Ok(Vec::new());
        }
        let ids: Vec<_> = entries.iter().map(|entry| entry.session_id).collect();
        let (mut records, mut states) = try_join(self.records(&ids), self.states(&ids)).await?;
        let mut completing = Vec::new();
        for entry in entries {
            let session_id = entry.session_id;
            let (record, state) = (records.remove(&session_id), states.remove(&session_id));
            let found = match (record.transpose(), state.transpose()) {
                (Ok(record), Ok(state)) => Ok(record.map(|record| (record, state))),
                (Err(error), _) | (_, Err(error)) => Err(error),
            };
            if let Some((record, state)) = readable(found, session_id, LIVE_SESSION)? {
                completing.push(async move {
                    let completed = self.complete_live(entry, record, state).await;
                    readable(completed, session_id, LIVE_SESSION)
                });
            }
        }
        collect_found(completing).await
    }

    /// Completes the work that an earlier process left for a live session. Returns `None` if the
    /// session has ended.
    async fn complete_live(
        &self,
        entry: Entry,
        record: SessionRecord,
        state: Option<State>,
    ) -> StoreResult<Option<SessionRow>> {
        let session_id = entry.session_id;
        if let Some(state) = state.filter(|state| state.end.is_some()) {
            self.finish_end(session_id, &state).await?;
            // An earlier release, or another clock, may have chosen another bucket.
            self.deletes.add_live(entry);
            return Ok(None);
        }
        let shard = record.start.tenant.organization_id.shard();
        if record.first.is_some()
            && self.cursor(shard, session_id).await?.is_untouched(0)
            && let Some((head, _)) = self.message_at(session_id, 0).await?
        {
            self.queue(&head).await?;
        }
        self.caches.examined.put(session_id, ());
        Ok(Some(SessionRow {
            start: record.start,
            end: None,
        }))
    }

    /// Returns the marked sessions, and removes each mark that the insight covers.
    pub(in crate::cql) async fn to_score(
        self: Arc<Self>,
        shards: ShardSet,
        after: Option<SessionId>,
        limit: usize,
    ) -> StoreResult<Vec<SessionId>> {
        self.collect_sessions(
            WorkTable::ToScore,
            shards,
            after,
            limit,
            Self::look_up_to_score,
        )
        .await
    }

    async fn look_up_to_score(&self, entries: Vec<Entry>) -> StoreResult<Vec<SessionId>> {
        let lookups: Vec<_> = entries
            .into_iter()
            .map(async |entry| {
                let session_id = entry.session_id;
                // The mark of a session with a damaged row stays.
                let found = self.needs_rescoring(entry).await;
                readable(found, session_id, "a session to score")
            })
            .collect();
        collect_found(lookups).await
    }

    /// Returns whether another node may still accept a batch without knowing that the session has
    /// ended, and therefore without setting a mark. The marks then stay, so that the session is
    /// examined again later. The time counts from the moment at which this process first saw the
    /// end, by its monotonic clock: the time of the end may come from another node's clock.
    pub(in crate::cql) fn may_receive_late_batches(&self, session_id: SessionId) -> bool {
        if !self.ownership.is_shared() {
            return false;
        }
        self.clock.uptime_ms() - self.record_end_seen(session_id) < END_SETTLES_MS as i64
    }

    /// Records that a session has ended. Returns the time at which this process first saw the end,
    /// in milliseconds of its monotonic clock.
    pub(in crate::cql) fn record_end_seen(&self, session_id: SessionId) -> i64 {
        let seen = self.caches.ends_seen.get(&session_id);
        seen.unwrap_or_else(|| {
            let now_ms = self.clock.uptime_ms();
            self.caches.ends_seen.put(session_id, now_ms);
            now_ms
        })
    }

    async fn needs_rescoring(&self, entry: Entry) -> StoreResult<Option<SessionId>> {
        let session_id = entry.session_id;
        let Some(state) = self.state(session_id).await? else {
            return Ok(None);
        };
        if state.end.is_none() {
            return Ok(None);
        }
        self.relay(session_id, &state).await?;
        let is_known = self.caches.ends_seen.get(&session_id).is_some();
        let is_covered = match state.insight {
            // If this process knows of the end, it settles the session in a few seconds.
            Some(_) if self.may_receive_late_batches(session_id) => is_known,
            Some(_) => self.settle(session_id, Some(entry.bucket)).await?,
            None => false,
        };
        Ok((!is_covered).then_some(session_id))
    }
}
