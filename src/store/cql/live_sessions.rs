//! Live sessions, and sessions that need scoring: the work that an owner of shards starts.

use std::sync::Arc;

use futures_util::future::try_join;
use futures_util::{StreamExt, TryStreamExt, stream};
use porchlight_ports::{SessionRow, StoreResult};
use porchlight_schema::ids::{SessionId, Shard, ShardSet};
use porchlight_schema::limits::END_SETTLES_MS;
use porchlight_schema::session::SessionEnd;

use super::Inner;
use super::db::id_bytes;
use super::slots::{AT_ONCE, DAY_MS, Owner, Way, slot_of};

/// The partition of a session in the tables of live and of marked sessions.
pub(super) fn shard_and_day(session_id: SessionId) -> (i16, i64) {
    let day = slot_of(session_id.made_at(), DAY_MS);
    (i16::from(session_id.shard().0), day)
}

impl Inner {
    /// Up to `limit` sessions of these shards after `after`, in order of id, from one of the two
    /// tables.
    pub(super) async fn by_day_and_shard(
        &self,
        lives: bool,
        of: ShardSet,
        after: Option<SessionId>,
        limit: usize,
    ) -> StoreResult<Vec<SessionId>> {
        let statements = &self.db.statements;
        let (days, statement) = if lives {
            (Owner::LiveDays, &statements.live_after)
        } else {
            (Owner::BehindDays, &statements.behind_after)
        };
        let from = after.map_or(i64::MIN, |after| slot_of(after.made_at(), DAY_MS));
        let after = after.map_or_else(Vec::new, |after| after.to_bytes().to_vec());
        let mut found = Vec::new();
        for day in self.slots(days, from, i64::MAX, Way::Up).await? {
            let shards = if lives {
                Owner::LiveShards(day)
            } else {
                Owner::BehindShards(day)
            };
            let shards = self.slots(shards, 0, i64::from(u8::MAX), Way::Up).await?;
            let shards = shards
                .into_iter()
                .filter_map(|shard| u8::try_from(shard).ok());
            let shards = shards.filter(|&shard| of.contains(Shard(shard)));
            let reading = shards.map(|shard| {
                let values = (i16::from(shard), day, after.as_slice());
                self.db.rows::<(Vec<u8>,)>(statement, values, limit)
            });
            let reading: Vec<_> = reading.collect();
            let rows: Vec<_> = stream::iter(reading)
                .buffer_unordered(AT_ONCE)
                .try_collect()
                .await?;
            let ids = rows
                .into_iter()
                .flatten()
                .map(|(id,)| id_bytes("sessions", &id));
            let mut ids: Vec<_> = ids.collect::<StoreResult<_>>()?;
            ids.sort_unstable();
            ids.dedup();
            found.extend(ids.into_iter().map(SessionId::from_bytes));
            if found.len() >= limit {
                break;
            }
        }
        found.truncate(limit);
        Ok(found)
    }

    /// The first `limit` sessions of one of the two tables, after `after`, that pass `look`.
    async fn found_by<'i, T, F>(
        &'i self,
        lives: bool,
        shards: ShardSet,
        mut after: Option<SessionId>,
        limit: usize,
        look: impl Fn(&'i Self, SessionId) -> F,
    ) -> StoreResult<Vec<T>>
    where
        F: Future<Output = StoreResult<Option<T>>>,
    {
        let mut told = Vec::new();
        while told.len() < limit {
            let wanted = limit - told.len();
            let ids = self.by_day_and_shard(lives, shards, after, wanted).await?;
            let whole = ids.len() < wanted;
            after = ids.last().copied().or(after);
            let looking: Vec<_> = ids.into_iter().map(|id| look(self, id)).collect();
            let found: Vec<_> = stream::iter(looking)
                .buffered(AT_ONCE)
                .try_collect()
                .await?;
            told.extend(found.into_iter().flatten());
            if whole {
                break;
            }
        }
        Ok(told)
    }

    /// Live sessions. This also completes work that an earlier process left: an end that was
    /// decided, and a first message that was not queued. A first message whose cursor has a state
    /// was queued, and is not queued again.
    pub(super) async fn live(
        self: Arc<Self>,
        shards: ShardSet,
        after: Option<SessionId>,
        limit: usize,
    ) -> StoreResult<Vec<SessionRow>> {
        self.found_by(true, shards, after, limit, Self::look_at_live)
            .await
    }

    async fn look_at_live(&self, session_id: SessionId) -> StoreResult<Option<SessionRow>> {
        let (record, state) = try_join(self.record(session_id), self.state(session_id)).await?;
        let Some(record) = record else {
            return Ok(None);
        };
        if let Some(state) = state.filter(|state| state.end.is_some()) {
            self.finish_end(session_id, &state).await?;
            return Ok(None);
        }
        let shard = record.start.tenant.organization_id.shard();
        if record.first.is_some()
            && self.cursor(shard, session_id).await?.is_untouched(0)
            && let Some((head, _)) = self.message_at(session_id, 0).await?
        {
            self.queue(&head).await?;
        }
        Ok(Some(SessionRow {
            start: record.start,
            end: None,
        }))
    }

    /// Marked sessions. A mark that the insight covers is removed.
    pub(super) async fn behind(
        self: Arc<Self>,
        shards: ShardSet,
        after: Option<SessionId>,
        limit: usize,
    ) -> StoreResult<Vec<SessionId>> {
        self.found_by(false, shards, after, limit, Self::needs_rescoring)
            .await
    }

    /// Whether another node may still accept a batch without knowing that the session has ended,
    /// and so without a mark. Then the marks stay, so that the session is examined again later.
    pub(super) fn may_be_joined_by_late(&self, end: Option<SessionEnd>) -> bool {
        self.ownership.is_shared()
            && end.is_some_and(|end| {
                let age_ms = self.clock.now().since_ms(end.completed_at);
                age_ms < END_SETTLES_MS as i64
            })
    }

    async fn needs_rescoring(&self, session_id: SessionId) -> StoreResult<Option<SessionId>> {
        let Some(state) = self.state(session_id).await? else {
            return Ok(None);
        };
        if state.end.is_none() {
            return Ok(None);
        }
        self.relay(&state.pending).await?;
        let covered = state.insight.map(|official| official.covered);
        let cleared = match covered {
            Some(_) if self.may_be_joined_by_late(state.end) => false,
            Some(covered) => self.clear_rescoring_mark(session_id, covered).await?,
            None => false,
        };
        Ok((!cleared).then_some(session_id))
    }
}
