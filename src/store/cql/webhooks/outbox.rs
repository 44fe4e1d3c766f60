//! Outboxes: waiting messages, their due times, and their results.
//!
//! An outbox entry means "examine this lane". The session's cursor, which only the owner writes, is
//! authoritative. The owner ignores an entry that the cursor does not confirm. Entries expire.

mod cursor;
mod entries;
mod examined;
mod port;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures_util::future::try_join3;
use futures_util::{StreamExt, TryStreamExt, stream};
use porchlight_core::webhook::Listing;
use porchlight_ports::{Depth, Endpoint, StoreResult, Work};
use porchlight_schema::ids::{EndpointId, SessionId, Shard, ShardSet};
use porchlight_schema::limits::DEPTH_COUNTED_MAX;
use porchlight_schema::time::TimestampMs;

use crate::cql::Inner;
use crate::cql::layout::slots::{AT_ONCE, OutboxKind, SLOT_MS, slot_of};
use crate::damage::due_despite_damage;
pub(in crate::cql) use cursor::{CURSOR, Cursor};
use entries::{EntryQuery, OutboxEntry};
pub(in crate::cql) use examined::ExaminedEntries;

/// The age in milliseconds at which a slot receives no more rows: nodes' clocks differ by less.
const SETTLED_MS: i64 = 2 * SLOT_MS;
/// The maximum number of entries, and of failed messages, that are counted per endpoint.
const DEPTH_WALKED_MAX: usize = DEPTH_COUNTED_MAX as usize;

/// Returns the first slot that may still receive rows at `now`.
fn settled_slot(now: TimestampMs) -> i64 {
    slot_of(now.plus_ms(-SETTLED_MS), SLOT_MS)
}

/// Identifies an outbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OutboxId {
    /// The tenant's shard.
    shard: Shard,
    endpoint_id: EndpointId,
}

impl OutboxId {
    fn new(endpoint: &Endpoint) -> Self {
        Self {
            shard: endpoint.tenant.organization_id.shard(),
            endpoint_id: endpoint.id,
        }
    }
}

impl Inner {
    /// Returns the first slot of an outbox that may contain valid entries. Ignores a stored
    /// watermark that is not in the past: it comes from a clock that was ahead, and other nodes
    /// still write entries into the slots before it.
    async fn watermark(&self, endpoint_id: EndpointId) -> StoreResult<i64> {
        let settled = settled_slot(self.clock.now());
        Ok(self.stored_watermark(endpoint_id).await?.min(settled))
    }

    async fn stored_watermark(&self, endpoint_id: EndpointId) -> StoreResult<i64> {
        if let Some(watermark) = self.caches.watermarks.get(&endpoint_id) {
            return Ok(watermark);
        }
        let endpoint = endpoint_id.to_bytes();
        let statement = &self.db.statements.outbox_mark_get;
        let row: Option<(i64,)> = self.db.row(statement, (endpoint.as_slice(),)).await?;
        let watermark = row.map_or(0, |(slot,)| slot);
        self.caches.watermarks.put(endpoint_id, watermark);
        Ok(watermark)
    }

    /// Returns the time by the clock of this process or of the database, whichever is earlier.
    pub(in crate::cql) async fn earlier_clock(&self) -> StoreResult<TimestampMs> {
        let own = self.clock.now();
        let row: Option<(i64,)> = self.db.row(&self.db.statements.clock_get, ()).await?;
        Ok(row.map_or(own, |(database_ms,)| own.min(TimestampMs(database_ms))))
    }

    /// Advances the watermark past settled slots without confirmed entries. Reads all entries of
    /// these slots. The earlier clock applies, so that a clock that is ahead does not move the
    /// watermark past entries that others write now.
    async fn advance(&self, outbox: OutboxId) -> StoreResult<i64> {
        let endpoint_id = outbox.endpoint_id;
        let watermark = self.watermark(endpoint_id).await?;
        let settled = settled_slot(self.earlier_clock().await?);
        if settled <= watermark {
            return Ok(watermark.min(settled));
        }
        let mut advanced = watermark;
        let mut first_left = settled;
        for kind in [
            OutboxKind::Manual,
            OutboxKind::Ready,
            OutboxKind::Due,
            OutboxKind::Held,
        ] {
            let slots = self.outbox_slots(outbox, kind, watermark, first_left - 1);
            for slot in slots.await? {
                advanced = settled;
                let first = EntryQuery::all(kind, slot.slot, 1);
                let left = self.entries_in_slot(outbox, &slot, first).await?;
                let Some(first) = left.first() else {
                    continue;
                };
                first_left = slot.slot;
                if kind == OutboxKind::Ready {
                    self.caches
                        .examined_outboxes
                        .change(&endpoint_id, |examined| examined.include(first.at));
                }
                break;
            }
        }
        self.put_watermark(endpoint_id, watermark, advanced.min(first_left))
            .await
    }

    async fn put_watermark(&self, endpoint_id: EndpointId, from: i64, to: i64) -> StoreResult<i64> {
        if to > from {
            let endpoint = endpoint_id.to_bytes();
            let statement = &self.db.statements.outbox_mark_put;
            self.db.write(statement, (endpoint.as_slice(), to)).await?;
            self.caches.watermarks.put(endpoint_id, to);
        }
        Ok(to)
    }

    async fn listing(
        &self,
        outbox: OutboxId,
        ready: Option<(TimestampMs, usize)>,
        due: Option<(TimestampMs, usize)>,
        held: Option<(TimestampMs, usize)>,
        manual: usize,
    ) -> StoreResult<Listing> {
        // Complete listings are rare.
        let watermark = match due {
            Some(_) => self.advance(outbox).await?,
            None => self.watermark(outbox.endpoint_id).await?,
        };
        let query = |kind, limit| EntryQuery::all(kind, watermark, limit);
        let mut listing = Listing::default();
        if let Some((from, limit)) = ready {
            // A message's entry is in the slot of its creation or a later one.
            let query = EntryQuery {
                from_slot: watermark.max(slot_of(from, SLOT_MS) - 1),
                from,
                ..query(OutboxKind::Ready, limit)
            };
            let mut entries = self.entries(outbox, query).await?;
            // The entry of a message that was queued late carries a later time than the message.
            if entries.len() < limit {
                entries.retain(|entry| entry.id.made_at() >= from);
            }
            let entries = entries.into_iter();
            let mut ready: Vec<_> = entries.map(|entry| (entry.id, entry.session_id)).collect();
            ready.sort_unstable();
            ready.dedup();
            listing.ready = Some(ready);
        }
        if let Some((until, limit)) = due {
            // The entry of a message that was already due when it was written is in the slot of
            // that moment.
            let last = slot_of(until.max(self.clock.now()), SLOT_MS);
            let query = EntryQuery {
                to_slot: last + 1,
                before: until,
                ..query(OutboxKind::Due, limit)
            };
            let entries = self.entries(outbox, query).await?.into_iter();
            let mut due: Vec<_> = entries.map(|entry| (entry.at, entry.session_id)).collect();
            due.sort_unstable();
            due.dedup();
            listing.due = Some(due);
        }
        if let Some((before, limit)) = held {
            let query = EntryQuery {
                before,
                ..query(OutboxKind::Held, limit)
            };
            let entries = self.entries(outbox, query).await?.into_iter();
            let mut held: Vec<_> = entries.map(|entry| (entry.id, entry.session_id)).collect();
            held.sort_unstable();
            held.dedup();
            listing.held = Some(held);
        }
        let query = query(OutboxKind::Manual, manual);
        let requests = self.entries(outbox, query).await?.into_iter();
        listing.manual = requests.map(OutboxEntry::manual_retry).collect();
        listing.manual.sort_unstable();
        listing.manual.dedup();
        Ok(listing)
    }

    async fn work(self: Arc<Self>, shards: ShardSet, until: TimestampMs) -> StoreResult<Vec<Work>> {
        let endpoints = self.endpoints().await?.into_iter();
        let listing = endpoints
            .filter(|endpoint| shards.contains(endpoint.tenant.organization_id.shard()))
            .map(|endpoint| {
                let inner = Arc::clone(&self);
                async move {
                    let due_at = due_despite_damage(inner.first_due(&endpoint, until).await)?;
                    StoreResult::Ok(due_at.filter(|&due_at| due_at < until).map(|due_at| Work {
                        tenant: endpoint.tenant,
                        due_at,
                    }))
                }
            });
        let listing: Vec<_> = listing.collect();
        let work: Vec<Option<Work>> = stream::iter(listing)
            .buffer_unordered(AT_ONCE)
            .try_collect()
            .await?;
        Ok(work.into_iter().flatten().collect())
    }

    /// Returns the time from which an endpoint has work before `until`; 0 if it can be done
    /// immediately.
    async fn first_due(
        &self,
        endpoint: &Endpoint,
        until: TimestampMs,
    ) -> StoreResult<Option<TimestampMs>> {
        let (first, all) = (TimestampMs(i64::MIN), Some((until, 1)));
        // While the endpoint is paused, only manual requests and messages that were held for too
        // long can be acted on.
        let held = match endpoint.enabled {
            true => TimestampMs(i64::MAX),
            false => until,
        };
        let outbox = OutboxId::new(endpoint);
        let listing = self
            .listing(outbox, Some((first, 1)), all, Some((held, 1)), 1)
            .await?;
        let is_due_now = !listing.manual.is_empty()
            || listing.ready.is_some_and(|ready| !ready.is_empty())
            || listing.held.is_some_and(|held| !held.is_empty());
        let due = listing.due.and_then(|due| Some(due.first()?.0));
        Ok(if is_due_now {
            Some(TimestampMs(0))
        } else {
            due
        })
    }

    async fn depth(self: Arc<Self>, now: TimestampMs) -> StoreResult<Depth> {
        let mut depth = Depth::default();
        for endpoint in self.endpoints().await? {
            let outbox = OutboxId::new(&endpoint);
            // The owner of the other outboxes counts them.
            if self.ownership.generation(outbox.shard).is_none() {
                continue;
            }
            depth.overlaps += u64::from(endpoint.overlap(now).is_some());
            let watermark = self.watermark(endpoint.id).await?;
            let all = |kind| EntryQuery::all(kind, watermark, DEPTH_WALKED_MAX);
            let (ready, due, held) = try_join3(
                self.entries(outbox, all(OutboxKind::Ready)),
                self.entries(outbox, all(OutboxKind::Due)),
                self.entries(outbox, all(OutboxKind::Held)),
            )
            .await?;
            let mut listed = BTreeMap::<SessionId, BTreeSet<u32>>::new();
            for entry in ready.iter().chain(&due).chain(&held) {
                listed
                    .entry(entry.session_id)
                    .or_default()
                    .insert(entry.number);
            }
            let counting = listed.into_iter().map(|(lane, listed)| {
                let inner = Arc::clone(&self);
                async move { inner.count_waiting(outbox, lane, &listed).await }
            });
            let counting: Vec<_> = counting.collect();
            let mut counting = stream::iter(counting).buffer_unordered(AT_ONCE);
            while let Some((pending, retrying)) = counting.try_next().await? {
                depth.pending += pending;
                depth.retrying += retrying;
            }
            depth.failed += self.failed_count(endpoint.tenant, DEPTH_WALKED_MAX).await?;
        }
        depth.pending = depth.pending.min(DEPTH_COUNTED_MAX);
        depth.retrying = depth.retrying.min(DEPTH_COUNTED_MAX);
        depth.failed = depth.failed.min(DEPTH_COUNTED_MAX);
        Ok(depth)
    }

    /// Counts the waiting messages of a lane, before and after their first attempt. `listed` has
    /// the numbers of the messages with an entry of this endpoint. The cursor is sufficient unless
    /// messages without an entry wait: a message parked behind a retry has no entry. Messages of a
    /// deleted endpoint do not count.
    async fn count_waiting(
        &self,
        OutboxId { shard, endpoint_id }: OutboxId,
        lane: SessionId,
        listed: &BTreeSet<u32>,
    ) -> StoreResult<(u64, u64)> {
        let cursor = self.cursor(shard, lane).await?;
        let attempted: Vec<bool> = if cursor.has_waiting_besides(listed) {
            let rows = self.lane_rows(shard, lane).await?.into_iter();
            let ours = rows.filter(|row| row.queued.is_waiting() && row.endpoint_id == endpoint_id);
            ours.map(|row| row.queued.attempts > 0).collect()
        } else {
            let attempts = listed.iter().map(|&number| cursor.attempts(number));
            attempts.map(|attempts| attempts > 0).collect()
        };
        let retrying = attempted.iter().filter(|&&attempted| attempted).count();
        Ok(((attempted.len() - retrying) as u64, retrying as u64))
    }
}
