//! Outboxes: waiting messages, their due times, and their results.
//!
//! An outbox entry means "examine this lane". The session's cursor, which only the owner writes, is authoritative. The
//! owner ignores an entry that the cursor does not confirm. Entries expire.

mod cursor;
mod examined;
mod port;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures_util::future::{try_join_all, try_join3};
use futures_util::{StreamExt, TryStreamExt, stream};
use porchlight_core::webhook::{Index, Listing, ManualRetry};
use porchlight_observe::webhook::WebhookMetrics;
use porchlight_ports::{Depth, Endpoint, StoreResult, Work};
use porchlight_schema::ids::{EndpointId, MessageId, SessionId, Shard, ShardSet};
use porchlight_schema::limits::DEPTH_COUNTED_MAX;
use porchlight_schema::time::TimestampMs;

use super::Inner;
use super::db::{decode, id_bytes};
use super::slots::{AT_ONCE, Direction, OutboxKind, SLOT_MS, SlotOwner, slot_of};
pub(super) use cursor::Cursor;
pub(super) use examined::ExaminedEntries;

/// The age in milliseconds at which a slot receives no more rows: nodes' clocks differ by less.
const SETTLED_MS: i64 = 2 * SLOT_MS;
/// The maximum number of entries that are examined concurrently.
const ENTRIES_AT_ONCE: usize = 64;
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

/// A row of an outbox: a message whose lane the owner must examine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct OutboxEntry {
    at: TimestampMs,
    id: MessageId,
    session_id: SessionId,
    number: u32,
    /// Whether the message was already delivered, for a requested retry.
    again: bool,
}

impl OutboxEntry {
    fn read(kind: OutboxKind, at: i64, id: &[u8], data: &[u8]) -> StoreResult<Self> {
        let id = MessageId::from_bytes(id_bytes("outbox", id)?);
        let at = TimestampMs(at);
        Ok(if kind == OutboxKind::Manual {
            let (session_id, number, again) = decode("outbox", data)?;
            Self {
                at,
                id,
                session_id,
                number,
                again,
            }
        } else {
            let (session_id, number) = decode("outbox", data)?;
            Self {
                at,
                id,
                session_id,
                number,
                again: false,
            }
        })
    }

    /// Returns whether the cursor confirms the entry.
    fn is_confirmed_by(&self, kind: OutboxKind, cursor: &Cursor) -> bool {
        match kind {
            OutboxKind::Manual => !cursor.is_manual_done(self.id, self.at),
            OutboxKind::Ready => cursor.index(self.number) == Index::Ready,
            OutboxKind::Due => cursor.index(self.number) == Index::Due(self.at),
            OutboxKind::Held => cursor.index(self.number) == Index::Held(self.at),
        }
    }

    fn manual_retry(self) -> ManualRetry {
        ManualRetry {
            asked_at: self.at,
            id: self.id,
            session_id: self.session_id,
            again: self.again,
        }
    }
}

/// The entries of an outbox to read, by kind, slot and time.
#[derive(Debug, Clone, Copy)]
struct EntryQuery {
    kind: OutboxKind,
    /// The first slot to read.
    from_slot: i64,
    /// The last slot to read.
    to_slot: i64,
    /// The earliest time of the entries to read, inclusive.
    from: TimestampMs,
    /// The latest time of the entries to read, exclusive.
    before: TimestampMs,
    limit: usize,
}

impl EntryQuery {
    /// Selects entries of one kind from a slot on, regardless of their time.
    fn all(kind: OutboxKind, from_slot: i64, limit: usize) -> Self {
        Self {
            kind,
            from_slot,
            to_slot: i64::MAX,
            from: TimestampMs(i64::MIN),
            before: TimestampMs(i64::MAX),
            limit,
        }
    }

    /// Skips the entries before a time. An entry is in the slot of its time or in a later slot.
    fn skip_before(self, from: TimestampMs) -> Self {
        Self {
            from_slot: self.from_slot.max(slot_of(from, SLOT_MS)),
            from: self.from.max(from),
            ..self
        }
    }

    /// Returns whether the query includes all entries from a time on.
    fn includes_all_after(&self, from: TimestampMs) -> bool {
        self.from <= from && self.before == TimestampMs(i64::MAX) && self.to_slot == i64::MAX
    }
}

impl Inner {
    /// Reads confirmed entries of a slot, up to the limit. The database skips the entries before
    /// `query.from`, so that the cost of a listing depends only on the new entries.
    async fn entries_in_slot(
        &self,
        outbox: OutboxId,
        slot: i64,
        query: EntryQuery,
    ) -> StoreResult<Vec<OutboxEntry>> {
        let EntryQuery { kind, limit, .. } = query;
        let endpoint = outbox.endpoint_id.to_bytes();
        let (from, before) = (query.from.0, query.before.0);
        let values = (endpoint.as_slice(), slot, kind as i8, from, before);
        let statement = &self.db.statements.outbox_get;
        let rows = self
            .db
            .stream::<(i64, Vec<u8>, Vec<u8>)>(statement, values)
            .await?;
        let mut rows = rows.try_chunks(ENTRIES_AT_ONCE);
        let mut found = Vec::new();
        while let Some(some) = rows.next().await {
            let some = some.map_err(|stopped| stopped.1)?;
            let read = some
                .iter()
                .map(|(at, id, data)| OutboxEntry::read(kind, *at, id, data));
            let entries: Vec<OutboxEntry> = read.collect::<StoreResult<_>>()?;
            WebhookMetrics::get().on_rows_listed(entries.len());
            let reading = entries
                .iter()
                .map(|entry| self.cursor(outbox.shard, entry.session_id));
            let cursors = try_join_all(reading).await?;
            let held = entries.iter().zip(cursors);
            let held = held.filter(|(entry, cursor)| entry.is_confirmed_by(kind, cursor));
            found.extend(held.map(|(entry, _)| *entry));
            if found.len() >= limit {
                found.truncate(limit);
                break;
            }
        }
        Ok(found)
    }

    /// Returns confirmed entries, from the first slot on, up to a limit. Skips ready entries that the
    /// owner has found finished.
    async fn entries(&self, outbox: OutboxId, query: EntryQuery) -> StoreResult<Vec<OutboxEntry>> {
        if query.limit == 0 {
            return Ok(Vec::new());
        }
        let generation = self.ownership.generation(outbox.shard);
        let generation = generation.filter(|_| query.kind == OutboxKind::Ready);
        let examined = generation.and_then(|generation| {
            let examined = self.caches.examined_outboxes.get(&outbox.endpoint_id)?;
            examined.from(generation, self.clock.now())
        });
        let from = examined.unwrap_or(TimestampMs(i64::MIN));
        let left = query.skip_before(from);
        let owner = SlotOwner::Outbox(outbox.endpoint_id, query.kind);
        let slots = self.slots(owner, left.from_slot, left.to_slot, Direction::Ascending);
        let slots = slots.await?;
        let generation = generation.filter(|_| query.includes_all_after(from) && !slots.is_empty());
        let Some(generation) = generation else {
            return self.entries_in_slots(outbox, slots, left).await;
        };
        // A clock of this process that is ahead must not hide the entries that others write now.
        let began = self.earlier_clock().await?;
        let found = self.entries_in_slots(outbox, slots, left).await?;
        if found.len() < query.limit {
            let first = found.iter().map(|entry| entry.at).min();
            let examined = ExaminedEntries::new(generation, began, first);
            self.caches
                .examined_outboxes
                .put(outbox.endpoint_id, examined);
        }
        Ok(found)
    }

    /// Reads confirmed entries of these slots, up to the limit.
    async fn entries_in_slots(
        &self,
        outbox: OutboxId,
        slots: Vec<i64>,
        query: EntryQuery,
    ) -> StoreResult<Vec<OutboxEntry>> {
        let mut found: Vec<OutboxEntry> = Vec::new();
        for slot in slots {
            let left = EntryQuery {
                limit: query.limit - found.len(),
                ..query
            };
            let some = self.entries_in_slot(outbox, slot, left);
            found.extend(some.await?);
            if found.len() >= query.limit {
                break;
            }
        }
        Ok(found)
    }

    /// Returns the first slot of an outbox that may contain valid entries. Ignores a stored mark that is not in the
    /// past: it comes from a clock that was ahead, and other nodes still write entries into the slots before it.
    async fn mark(&self, endpoint_id: EndpointId) -> StoreResult<i64> {
        let settled = settled_slot(self.clock.now());
        Ok(self.stored_mark(endpoint_id).await?.min(settled))
    }

    async fn stored_mark(&self, endpoint_id: EndpointId) -> StoreResult<i64> {
        if let Some(mark) = self.caches.marks.get(&endpoint_id) {
            return Ok(mark);
        }
        let endpoint = endpoint_id.to_bytes();
        let statement = &self.db.statements.outbox_mark_get;
        let row: Option<(i64,)> = self.db.row(statement, (endpoint.as_slice(),)).await?;
        let mark = row.map_or(0, |(slot,)| slot);
        self.caches.marks.put(endpoint_id, mark);
        Ok(mark)
    }

    /// Returns the time by the clock of this process or of the database, whichever is earlier.
    pub(super) async fn earlier_clock(&self) -> StoreResult<TimestampMs> {
        let own = self.clock.now();
        let row: Option<(i64,)> = self.db.row(&self.db.statements.clock_get, ()).await?;
        Ok(row.map_or(own, |(database_ms,)| own.min(TimestampMs(database_ms))))
    }

    /// Advances the mark past settled slots without confirmed entries. Reads all entries of these slots. The
    /// earlier clock applies, so that a clock that is ahead does not move the mark past entries that others write now.
    async fn advance(&self, outbox: OutboxId) -> StoreResult<i64> {
        let endpoint_id = outbox.endpoint_id;
        let mark = self.mark(endpoint_id).await?;
        let settled = settled_slot(self.earlier_clock().await?);
        if settled <= mark {
            return Ok(mark.min(settled));
        }
        let mut advanced = mark;
        let mut first_left = settled;
        for kind in [
            OutboxKind::Manual,
            OutboxKind::Ready,
            OutboxKind::Due,
            OutboxKind::Held,
        ] {
            let owner = SlotOwner::Outbox(endpoint_id, kind);
            for slot in self
                .slots(owner, mark, first_left - 1, Direction::Ascending)
                .await?
            {
                advanced = settled;
                let first = EntryQuery::all(kind, slot, 1);
                let left = self.entries_in_slot(outbox, slot, first).await?;
                let Some(first) = left.first() else {
                    continue;
                };
                first_left = slot;
                if kind == OutboxKind::Ready {
                    self.caches
                        .examined_outboxes
                        .change(&endpoint_id, |examined| examined.include(first.at));
                }
                break;
            }
        }
        self.put_mark(endpoint_id, mark, advanced.min(first_left))
            .await
    }

    async fn put_mark(&self, endpoint_id: EndpointId, from: i64, to: i64) -> StoreResult<i64> {
        if to > from {
            let endpoint = endpoint_id.to_bytes();
            let statement = &self.db.statements.outbox_mark_put;
            self.db.write(statement, (endpoint.as_slice(), to)).await?;
            self.caches.marks.put(endpoint_id, to);
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
        let mark = match due {
            Some(_) => self.advance(outbox).await?,
            None => self.mark(outbox.endpoint_id).await?,
        };
        let query = |kind, limit| EntryQuery::all(kind, mark, limit);
        let mut listing = Listing::default();
        if let Some((from, limit)) = ready {
            // A message's entry is in the slot of its creation or a later one.
            let query = EntryQuery {
                from_slot: mark.max(slot_of(from, SLOT_MS) - 1),
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
            // The entry of a message that was already due when it was written is in the slot of that
            // moment.
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
                    let (first, all) = (TimestampMs(i64::MIN), Some((until, 1)));
                    // While the endpoint is paused, only manual requests and messages that were
                    // held for too long can be acted on.
                    let held = match endpoint.enabled {
                        true => TimestampMs(i64::MAX),
                        false => until,
                    };
                    let outbox = OutboxId::new(&endpoint);
                    let listing = inner
                        .listing(outbox, Some((first, 1)), all, Some((held, 1)), 1)
                        .await?;
                    let at_once = !listing.manual.is_empty()
                        || listing.ready.is_some_and(|ready| !ready.is_empty())
                        || listing.held.is_some_and(|held| !held.is_empty());
                    let due = listing.due.and_then(|due| Some(due.first()?.0));
                    let due_at = if at_once { Some(TimestampMs(0)) } else { due };
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

    async fn depth(self: Arc<Self>, now: TimestampMs) -> StoreResult<Depth> {
        let mut depth = Depth::default();
        for endpoint in self.endpoints().await? {
            let outbox = OutboxId::new(&endpoint);
            // Another node counts its own outboxes.
            if self.ownership.generation(outbox.shard).is_none() {
                continue;
            }
            depth.overlaps += u64::from(endpoint.overlap(now).is_some());
            let mark = self.mark(endpoint.id).await?;
            let all = |kind| EntryQuery::all(kind, mark, DEPTH_WALKED_MAX);
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

    /// Counts the waiting messages of a lane, before and after their first attempt. `listed` has the numbers of the
    /// messages with an entry of this endpoint. The cursor is sufficient unless messages without an entry wait: a message
    /// parked behind a retry has no entry. Messages of a deleted endpoint do not count.
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
