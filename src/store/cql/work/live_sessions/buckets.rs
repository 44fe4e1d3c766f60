//! The partitions of live and of marked sessions: a shard's sessions of one hour.
//!
//! A **bucket** is one hour, counted from 1970, and holds the sessions that were created in it; a
//! row is in the partition of its session's shard and bucket. Before a row is written, its bucket
//! is listed for the table, and its shard for the bucket. Smaller numbers are days, which earlier
//! releases wrote, and the bucket [`OLD`].
//!
//! A read takes first [`OLD`] and the days, then the listed hours from the smallest watermark on,
//! the oldest first, until it has enough rows. Within a bucket it reads the listed shards. It
//! remembers for some time which of these had no rows.
//!
//! An owner reads a shard from its **watermark** on: the hour up to which the shard has nothing
//! left. The watermark is an hour that both the process's and the database's clock have left long
//! ago. A row that is written for a session created so long ago goes into the bucket [`OLD`], which
//! the watermark does not hide. So the clocks of two nodes may differ by hours, and no row is
//! missed. A read that begins with the first session raises the watermark of each shard that this
//! process owns: to the first hour in which it found rows of the shard, but at most to the hour of
//! [`WATERMARK_AFTER_MS`] ago. It does so only if the table lists an earlier hour.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use futures_util::{StreamExt, TryStreamExt, stream};
use porchlight_ports::{StoreError, StoreResult};
use porchlight_schema::ids::{SessionId, Shard, ShardSet};
use porchlight_schema::time::{DAY_MS, HOUR_MS, TimestampMs};

use super::Inner;
use crate::cql::layout::slots::{AT_ONCE, Direction, SlotOwner, slot_of};
use crate::cql::statements::db::id_bytes;

/// The bucket for sessions that were created long before their row was written.
const OLD: i64 = -1;
/// The first bucket that is an hour. Smaller ones are days, which earlier releases wrote.
const FIRST_HOUR: i64 = 100_000;
/// The age of a session, in milliseconds, from which its rows go into [`OLD`]. Most sessions end
/// before.
const OLD_AFTER_MS: i64 = 14 * HOUR_MS;
/// The time that must pass after the end of an hour before a watermark passes it, in milliseconds.
/// The difference from [`OLD_AFTER_MS`] allows clocks that differ.
const WATERMARK_AFTER_MS: i64 = 18 * HOUR_MS;
/// The time that must pass after the end of an hour before a read that found it empty is
/// remembered, in milliseconds.
const CLOSED_AFTER_MS: i64 = HOUR_MS;
/// The time for which a read that found an hour of live sessions empty is remembered, in
/// milliseconds.
const EMPTY_TTL_MS: i64 = 30 * 60_000;
/// The time for which a read that found another bucket empty is remembered, in milliseconds. Other
/// nodes may write into [`OLD`] and mark sessions of any hour at any time.
const OPEN_EMPTY_TTL_MS: i64 = 150_000;
/// The minimum number of rows that one read takes from each shard that has them.
const SHARD_ROWS_MIN: usize = 8;

/// A table that lists sessions for which the owner of their shard has work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(in crate::cql) enum WorkTable {
    /// The table of live sessions.
    Live,
    /// The table of ended sessions whose insight may not cover all stored data.
    ToScore,
}

impl WorkTable {
    fn buckets(self) -> SlotOwner {
        match self {
            Self::Live => SlotOwner::LiveBuckets,
            Self::ToScore => SlotOwner::ToScoreBuckets,
        }
    }

    fn shards(self, bucket: i64) -> SlotOwner {
        match self {
            Self::Live => SlotOwner::LiveShards(bucket),
            Self::ToScore => SlotOwner::ToScoreShards(bucket),
        }
    }

    fn watermark(self, shard: Shard) -> SlotOwner {
        match self {
            Self::Live => SlotOwner::LiveWatermark(shard),
            Self::ToScore => SlotOwner::ToScoreWatermark(shard),
        }
    }
}

/// A read of a bucket that found no rows.
#[derive(Debug, Clone, Copy)]
pub(in crate::cql) struct EmptyRead {
    /// The time of the read, in milliseconds of the process's monotonic clock.
    at_ms: i64,
    /// The generation in which this process owned the shard. Before it owned the shard, other nodes
    /// worked on it.
    generation: u64,
}

/// Returns the bucket into which a row of a session is written at `now`.
fn bucket_of(session_id: SessionId, now: TimestampMs) -> i64 {
    let is_old = now.since_ms(session_id.made_at()) > OLD_AFTER_MS;
    if is_old { OLD } else { hour_of(session_id) }
}

/// Returns the buckets that may have rows of a session, seen at `now`. Earlier releases wrote into
/// others.
pub(in crate::cql) fn buckets_to_clear(session_id: SessionId, now: TimestampMs) -> Vec<i64> {
    let mut buckets = vec![hour_of(session_id)];
    // An hour less, because another node's clock may have been ahead.
    if now.since_ms(session_id.made_at()) > OLD_AFTER_MS - HOUR_MS {
        buckets.push(OLD);
    }
    buckets
}

/// Returns all buckets that may ever have had rows of a session.
pub(in crate::cql) fn all_buckets(session_id: SessionId) -> [i64; 3] {
    let day = slot_of(session_id.made_at(), DAY_MS);
    [hour_of(session_id), day, OLD]
}

fn hour_of(session_id: SessionId) -> i64 {
    slot_of(session_id.made_at(), HOUR_MS).max(FIRST_HOUR)
}

/// Returns the end of a bucket; rows of [`OLD`] may be of any time.
fn end_ms(bucket: i64) -> i64 {
    match bucket {
        OLD => i64::MAX,
        day if day < FIRST_HOUR => day.saturating_add(1).saturating_mul(DAY_MS),
        hour => hour.saturating_add(1).saturating_mul(HOUR_MS),
    }
}

/// A row of a [`WorkTable`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::cql) struct Entry {
    pub(in crate::cql) session_id: SessionId,
    /// The bucket in which the row was found.
    pub(in crate::cql) bucket: i64,
}

/// The buckets that a query reads, in their order.
struct Buckets {
    /// The buckets of the earlier layouts.
    early: Vec<i64>,
    hours: Vec<i64>,
    /// The hour that a new watermark must exceed to save a read: usually the first listed hour.
    passed: i64,
}

/// The first entries of some partitions, in any order.
#[derive(Debug, Default)]
struct EntryPage {
    entries: Vec<Entry>,
    /// The session after which entries may be missing, because a partition has more.
    cut: Option<SessionId>,
}

impl EntryPage {
    /// Adds the first `read_max` rows of a partition.
    fn add(&mut self, rows: Vec<Entry>, read_max: usize) {
        if rows.len() >= read_max {
            self.cut_after(rows.last().map(|entry| entry.session_id));
        }
        self.entries.extend(rows);
    }

    fn cut_after(&mut self, session_id: Option<SessionId>) {
        self.cut = match (self.cut, session_id) {
            (Some(first), Some(second)) => Some(first.min(second)),
            (first, second) => first.or(second),
        };
    }

    fn join(&mut self, other: Self) {
        self.cut_after(other.cut);
        self.entries.extend(other.entries);
    }

    /// Returns the entries in order of id, each session once, up to the place where rows may be
    /// missing; and whether these are all.
    fn in_order(mut self, limit: usize) -> (Vec<Entry>, bool) {
        if let Some(cut) = self.cut {
            self.entries.retain(|entry| entry.session_id <= cut);
        }
        self.entries.sort_unstable();
        self.entries.dedup_by_key(|entry| entry.session_id);
        let are_all = self.cut.is_none() && self.entries.len() <= limit;
        self.entries.truncate(limit);
        (self.entries, are_all)
    }
}

/// A read of the entries of some shards.
#[derive(Debug, Clone, Copy)]
struct BucketQuery {
    table: WorkTable,
    after: Option<SessionId>,
    limit: usize,
    /// The earlier of the process's and the database's clock.
    now: TimestampMs,
}

/// Returns the number of rows to read of each shard for `limit` sessions: twice an even share, so
/// that uneven shards rarely need another page.
fn rows_per_shard(limit: usize, shards: usize) -> usize {
    let share = limit.div_ceil(shards.max(1));
    (2 * share).max(SHARD_ROWS_MIN)
}

impl Inner {
    /// Lists a bucket before a row of a session is written into it, and returns the row's
    /// partition: shard and bucket.
    pub(in crate::cql) async fn open_bucket(
        &self,
        table: WorkTable,
        session_id: SessionId,
    ) -> StoreResult<(i16, i64)> {
        let shard = session_id.shard();
        let bucket = bucket_of(session_id, self.clock.now());
        let slots = [
            (table.buckets(), bucket),
            (table.shards(bucket), i64::from(shard.0)),
        ];
        self.list_slots(&slots).await?;
        let partition = (table, shard.0, bucket);
        self.caches
            .empty_buckets
            .change(&partition, |read| *read = None);
        Ok((i16::from(shard.0), bucket))
    }

    /// Returns up to `limit` sessions of these shards after `after`, in order of id, and whether
    /// these are all. Skips the hours in which a shard has no entries left.
    pub(super) async fn work_entries(
        &self,
        table: WorkTable,
        of: ShardSet,
        after: Option<SessionId>,
        limit: usize,
    ) -> StoreResult<(Vec<Entry>, bool)> {
        let now = self.earlier_clock().await?;
        let query = BucketQuery {
            table,
            after,
            limit,
            now,
        };
        let watermarks = self.shard_watermarks(table, of).await?;
        let first_watermark = watermarks.values().min().copied().unwrap_or(0);
        let buckets = self.buckets_to_read(query, first_watermark).await?;
        let mut found = EntryPage::default();
        // For each shard, the first hour that is not known to be empty.
        let mut first_nonempty: BTreeMap<u8, i64> = BTreeMap::new();
        for bucket in buckets.early {
            found.join(
                self.read_bucket(query, bucket, &watermarks, &mut first_nonempty)
                    .await?,
            );
        }
        self.read_hours(
            query,
            buckets.hours,
            &watermarks,
            &mut first_nonempty,
            &mut found,
        )
        .await?;
        if after.is_none() {
            self.advance_watermarks(query, &watermarks, &first_nonempty, buckets.passed)
                .await?;
        }
        Ok(found.in_order(limit))
    }

    /// Lists the buckets that may have entries of the query. `first_watermark` is the lowest
    /// watermark of its shards.
    async fn buckets_to_read(
        &self,
        query: BucketQuery,
        first_watermark: i64,
    ) -> StoreResult<Buckets> {
        let owner = query.table.buckets();
        let from = query
            .after
            .map_or(0, hour_of)
            .max(first_watermark)
            .max(FIRST_HOUR);
        let (early, hours) = futures_util::future::try_join(
            self.slots(owner, i64::MIN, FIRST_HOUR - 1, Direction::Ascending),
            self.slots(owner, from, i64::MAX, Direction::Ascending),
        )
        .await?;
        let early = early
            .into_iter()
            .filter(|&bucket| end_ms(bucket) > first_watermark.saturating_mul(HOUR_MS));
        let early: Vec<_> = early.collect();
        // Without buckets before it, a new watermark would save nothing.
        let has_days = early.iter().any(|&bucket| bucket != OLD);
        let passed = match hours.first() {
            _ if has_days => first_watermark,
            Some(&hour) => hour,
            None => i64::MAX,
        };
        Ok(Buckets {
            early,
            hours,
            passed,
        })
    }

    /// Reads hours in their order until the page has enough entries, and adds them to `found`.
    async fn read_hours(
        &self,
        query: BucketQuery,
        hours: Vec<i64>,
        watermarks: &BTreeMap<u8, i64>,
        first_nonempty: &mut BTreeMap<u8, i64>,
        found: &mut EntryPage,
    ) -> StoreResult<()> {
        let mut is_cut = false;
        let mut found_in_hours = 0;
        for hour in hours {
            if is_cut || found_in_hours >= query.limit {
                let last = found.entries.iter().filter(|entry| entry.bucket < hour);
                let last = last.filter(|entry| entry.bucket >= FIRST_HOUR);
                let last = last.map(|entry| entry.session_id).max();
                found.cut_after(last);
                for &shard in watermarks.keys() {
                    first_nonempty.entry(shard).or_insert(hour);
                }
                break;
            }
            let page = self
                .read_bucket(query, hour, watermarks, first_nonempty)
                .await?;
            found_in_hours += page.entries.len();
            is_cut = page.cut.is_some();
            found.join(page);
        }
        Ok(())
    }

    /// Returns the first rows of one bucket, of the shards that have rows in it.
    async fn read_bucket(
        &self,
        query: BucketQuery,
        bucket: i64,
        watermarks: &BTreeMap<u8, i64>,
        first_nonempty: &mut BTreeMap<u8, i64>,
    ) -> StoreResult<EntryPage> {
        let BucketQuery {
            table, after, now, ..
        } = query;
        let owner = table.shards(bucket);
        let uptime_ms = self.clock.uptime_ms();
        let generation = |shard: u8| self.ownership.generation(Shard(shard));
        let empty_ttl_ms = match (table, bucket) {
            (WorkTable::ToScore, _) | (_, OLD) => OPEN_EMPTY_TTL_MS,
            (WorkTable::Live, _) => EMPTY_TTL_MS,
        };
        let is_empty = |shard: u8| {
            let read = self.caches.empty_buckets.get(&(table, shard, bucket));
            read.flatten().is_some_and(|read| {
                uptime_ms - read.at_ms < empty_ttl_ms && generation(shard) == Some(read.generation)
            })
        };
        if watermarks.keys().all(|&shard| is_empty(shard)) {
            return Ok(EntryPage::default());
        }
        let slots = self.slots(owner, 0, i64::from(u8::MAX), Direction::Ascending);
        let shards = slots.await?.into_iter();
        let shards = shards.filter_map(|shard| u8::try_from(shard).ok());
        let shards = shards.filter(|&shard| {
            let watermark = watermarks.get(&shard);
            watermark.is_some_and(|watermark| end_ms(bucket) > watermark.saturating_mul(HOUR_MS))
                && !is_empty(shard)
        });
        let shards: Vec<u8> = shards.collect();
        let per_shard = rows_per_shard(query.limit, shards.len());
        let reading: Vec<_> = shards
            .into_iter()
            .map(|shard| async move {
                let rows = self
                    .read_partition(table, shard, bucket, after, per_shard)
                    .await?;
                Ok::<_, StoreError>((shard, rows))
            })
            .collect();
        let parts: Vec<(u8, Vec<Entry>)> = stream::iter(reading)
            .buffer_unordered(AT_ONCE)
            .try_collect()
            .await?;
        let is_closed = bucket == OLD || now.0 > end_ms(bucket).saturating_add(CLOSED_AFTER_MS);
        let mut found = EntryPage::default();
        for (shard, rows) in parts {
            if !rows.is_empty() && bucket != OLD {
                let hour = match bucket {
                    day if day < FIRST_HOUR => day.saturating_mul(DAY_MS / HOUR_MS),
                    hour => hour,
                };
                let first = first_nonempty.entry(shard).or_insert(hour);
                *first = hour.min(*first);
            } else if rows.is_empty()
                && after.is_none()
                && is_closed
                && let Some(generation) = generation(shard)
            {
                let read = EmptyRead {
                    at_ms: uptime_ms,
                    generation,
                };
                let partition = (table, shard, bucket);
                self.caches.empty_buckets.put(partition, Some(read));
            }
            found.add(rows, per_shard);
        }
        Ok(found)
    }

    async fn read_partition(
        &self,
        table: WorkTable,
        shard: u8,
        bucket: i64,
        after: Option<SessionId>,
        limit: usize,
    ) -> StoreResult<Vec<Entry>> {
        let statement = match table {
            WorkTable::Live => &self.db.statements.live_after,
            WorkTable::ToScore => &self.db.statements.behind_after,
        };
        let after = after.map_or_else(Vec::new, |after| after.to_bytes().to_vec());
        let limit_cell = i32::try_from(limit).unwrap_or(i32::MAX);
        let values = (i16::from(shard), bucket, after.as_slice(), limit_cell);
        let rows = self.db.rows::<(Vec<u8>,)>(statement, values, limit).await?;
        rows.into_iter()
            .map(|(id,)| {
                let session_id = SessionId::from_bytes(id_bytes("sessions", &id)?);
                Ok(Entry { session_id, bucket })
            })
            .collect()
    }

    /// Returns the watermark of each of these shards.
    async fn shard_watermarks(
        &self,
        table: WorkTable,
        of: ShardSet,
    ) -> StoreResult<BTreeMap<u8, i64>> {
        let reading = of.iter().map(|shard| async move {
            let entry = (table, shard.0);
            if let Some(watermark) = self.caches.shard_watermarks.get(&entry) {
                return Ok((shard.0, watermark));
            }
            let watermark = self.last_slot(table.watermark(shard)).await?.unwrap_or(0);
            self.caches.shard_watermarks.put(entry, watermark);
            Ok((shard.0, watermark))
        });
        let reading: Vec<_> = reading.collect();
        let watermarks = stream::iter(reading).buffer_unordered(AT_ONCE);
        watermarks.try_collect().await
    }

    /// Moves watermarks of this process's own shards past hours in which nothing is left, if the
    /// new watermark exceeds `Buckets::passed`.
    async fn advance_watermarks(
        &self,
        query: BucketQuery,
        watermarks: &BTreeMap<u8, i64>,
        first_nonempty: &BTreeMap<u8, i64>,
        passed: i64,
    ) -> StoreResult<()> {
        let latest = slot_of(query.now.plus_ms(-WATERMARK_AFTER_MS), HOUR_MS);
        for (&shard, &watermark) in watermarks {
            let watermark_to = first_nonempty
                .get(&shard)
                .map_or(latest, |&hour| hour.min(latest));
            let is_own = self.ownership.generation(Shard(shard)).is_some();
            if watermark_to > watermark.max(passed) && is_own {
                let owner = query.table.watermark(Shard(shard));
                self.list_slots(&[(owner, watermark_to)]).await?;
                self.caches
                    .shard_watermarks
                    .put((query.table, shard), watermark_to);
            }
        }
        Ok(())
    }
}
