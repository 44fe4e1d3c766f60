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

/// The rows that are read at least of each shard, if it has that many.
const SHARD_ROWS_MIN: usize = 8;

/// The number of rows to read of each shard for `limit` sessions: twice an even share, so that
/// uneven shards rarely need another page.
fn rows_per_shard(limit: usize, shards: usize) -> usize {
    let share = limit.div_ceil(shards.max(1));
    (2 * share).max(SHARD_ROWS_MIN)
}

/// Merges the first `per_shard` sessions of each shard in order of id, and returns whether these are
/// all. The result ends where a shard that has more sessions was cut off, because one of its next
/// sessions may come before the later ones of other shards.
fn merge_shards(shards: Vec<Vec<SessionId>>, per_shard: usize) -> (Vec<SessionId>, bool) {
    let cut_off = shards.iter().filter(|ids| ids.len() >= per_shard);
    let end = cut_off.filter_map(|ids| ids.last()).min().copied();
    let mut ids: Vec<_> = shards.into_iter().flatten().collect();
    ids.retain(|id| end.is_none_or(|end| *id <= end));
    ids.sort_unstable();
    ids.dedup();
    (ids, end.is_none())
}

impl Inner {
    /// Up to `limit` sessions of these shards after `after`, in order of id, from one of the two
    /// tables, and whether these are all. The rows read are proportional to the sessions returned,
    /// plus [`SHARD_ROWS_MIN`] for each shard.
    async fn by_day_and_shard(
        &self,
        lives: bool,
        of: ShardSet,
        after: Option<SessionId>,
        limit: usize,
    ) -> StoreResult<(Vec<SessionId>, bool)> {
        let statements = &self.db.statements;
        let (days, statement) = if lives {
            (Owner::LiveDays, &statements.live_after)
        } else {
            (Owner::BehindDays, &statements.behind_after)
        };
        let from = after.map_or(i64::MIN, |after| slot_of(after.made_at(), DAY_MS));
        let after = after.map_or_else(Vec::new, |after| after.to_bytes().to_vec());
        let mut found = Vec::new();
        let mut are_all = true;
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
            let shards: Vec<u8> = shards.collect();
            let wanted = limit.saturating_sub(found.len());
            let per_shard = rows_per_shard(wanted, shards.len());
            let limit_cell = i32::try_from(per_shard).unwrap_or(i32::MAX);
            let reading = shards.into_iter().map(|shard| {
                let values = (i16::from(shard), day, after.as_slice(), limit_cell);
                self.db.rows::<(Vec<u8>,)>(statement, values, per_shard)
            });
            let reading: Vec<_> = reading.collect();
            let rows: Vec<_> = stream::iter(reading)
                .buffer_unordered(AT_ONCE)
                .try_collect()
                .await?;
            let ids = rows.into_iter().map(|rows| {
                let ids = rows.into_iter().map(|(id,)| {
                    let id = id_bytes("sessions", &id)?;
                    Ok(SessionId::from_bytes(id))
                });
                ids.collect::<StoreResult<Vec<_>>>()
            });
            let ids: Vec<_> = ids.collect::<StoreResult<_>>()?;
            let (ids, are_all_of_day) = merge_shards(ids, per_shard);
            found.extend(ids);
            if !are_all_of_day || found.len() >= limit {
                are_all = false;
                break;
            }
        }
        found.truncate(limit);
        Ok((found, are_all))
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
            let (ids, whole) = self.by_day_and_shard(lives, shards, after, wanted).await?;
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

#[cfg(test)]
mod tests {
    use porchlight_schema::time::TimestampMs;

    use super::*;

    /// Pages through shards of these sizes, and returns all sessions found and the rows read.
    fn paged(shards: &[Vec<SessionId>], limit: usize) -> (Vec<SessionId>, usize) {
        let (mut found, mut rows) = (Vec::new(), 0);
        loop {
            let after = found.last().copied();
            let per_shard = rows_per_shard(limit, shards.len());
            let page = shards.iter().map(|ids| {
                let later = ids
                    .iter()
                    .filter(|id| after.is_none_or(|after| **id > after));
                later.take(per_shard).copied().collect::<Vec<_>>()
            });
            let page: Vec<_> = page.collect();
            rows += page.iter().map(Vec::len).sum::<usize>();
            let (mut ids, are_all) = merge_shards(page, per_shard);
            let is_cut = ids.len() > limit;
            ids.truncate(limit);
            found.extend(ids);
            if are_all && !is_cut {
                return (found, rows);
            }
        }
    }

    #[test]
    fn pages_return_each_session_once_and_read_a_bounded_number_of_rows() {
        let sizes = [vec![0, 0, 0], vec![1, 700, 3], vec![400; 16], vec![5_000]];
        for sizes in sizes {
            let mut all = Vec::new();
            let shards: Vec<Vec<SessionId>> = sizes
                .iter()
                .enumerate()
                .map(|(shard, &size)| {
                    let ids = (0..size).map(|number: i64| {
                        let at = TimestampMs(1_763_636_100_000 + number * 7 + shard as i64);
                        SessionId::new(at, number as u128)
                    });
                    let ids: Vec<_> = ids.collect();
                    all.extend(ids.iter().copied());
                    ids
                })
                .collect();
            all.sort_unstable();
            let (found, rows) = paged(&shards, 100);
            assert_eq!(found, all);
            let pages = all.len() / 100 + 2;
            let most = 8 * all.len() + pages * shards.len() * SHARD_ROWS_MIN;
            assert!(rows <= most, "{rows} rows for {} sessions", all.len());
        }
    }
}
