//! Outboxes: waiting messages, their due times, and their results.
//!
//! An outbox row is a hint: "examine this lane". The truth is in the session's cursor, which only
//! the owner writes. A hint that the cursor no longer confirms is ignored; hints expire.

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
use super::slots::{AT_ONCE, OutboxKind, Owner, SLOT_MS, Way, slot_of};
pub(super) use cursor::Cursor;
pub(super) use examined::Examined;

/// The age in milliseconds at which a slot receives no more rows: nodes' clocks differ by less.
const SETTLED_MS: i64 = 2 * SLOT_MS;
/// Hints examined concurrently.
const HINTS_AT_ONCE: usize = 64;
/// Maximum number of hints, and of failed messages, that are counted per endpoint.
const DEPTH_WALKED_MAX: usize = DEPTH_COUNTED_MAX as usize;

/// The first slot that may still receive rows, at this time.
fn settled_slot(now: TimestampMs) -> i64 {
    slot_of(now.plus_ms(-SETTLED_MS), SLOT_MS)
}

/// The owner of an outbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OutboxOf {
    /// The tenant's shard.
    shard: Shard,
    endpoint_id: EndpointId,
}

impl OutboxOf {
    fn new(endpoint: &Endpoint) -> Self {
        Self {
            shard: endpoint.tenant.organization_id.shard(),
            endpoint_id: endpoint.id,
        }
    }
}

/// An outbox row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Hint {
    at: TimestampMs,
    id: MessageId,
    session_id: SessionId,
    number: u32,
    /// Whether the message was already delivered, for a requested retry.
    again: bool,
}

impl Hint {
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

    /// Whether the cursor confirms the hint.
    fn holds(&self, kind: OutboxKind, cursor: &Cursor) -> bool {
        match kind {
            OutboxKind::Manual => !cursor.is_manual_done(self.id, self.at),
            OutboxKind::Ready => cursor.index(self.number) == Index::Ready,
            OutboxKind::Due => cursor.index(self.number) == Index::Due(self.at),
            OutboxKind::Held => cursor.index(self.number) == Index::Held(self.at),
        }
    }

    fn request(&self) -> ManualRetry {
        ManualRetry {
            asked_at: self.at,
            id: self.id,
            session_id: self.session_id,
            again: self.again,
        }
    }
}

/// A selection of hints.
#[derive(Debug, Clone, Copy)]
struct Wanted {
    kind: OutboxKind,
    /// The first slot to read.
    from_slot: i64,
    /// The last slot to read.
    to_slot: i64,
    /// The first time of the hints to read.
    from: TimestampMs,
    /// The time before which the hints to read are.
    before: TimestampMs,
    limit: usize,
}

impl Wanted {
    /// Selects hints of one kind from a slot on, regardless of their time.
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

    /// Leaves out the hints before a time. A hint is in the slot of its time or in a later one.
    fn after(self, from: TimestampMs) -> Self {
        Self {
            from_slot: self.from_slot.max(slot_of(from, SLOT_MS)),
            from: self.from.max(from),
            ..self
        }
    }

    /// Whether the selection contains all hints from a time on.
    fn is_all_after(&self, from: TimestampMs) -> bool {
        self.from <= from && self.before == TimestampMs(i64::MAX) && self.to_slot == i64::MAX
    }
}

impl Inner {
    /// Reads confirmed hints of a slot, up to the limit. The database skips the hints before
    /// `wanted.from`, so that the cost of a listing depends only on the new hints.
    async fn hints_in(
        &self,
        outbox: OutboxOf,
        slot: i64,
        wanted: Wanted,
    ) -> StoreResult<Vec<Hint>> {
        let Wanted { kind, limit, .. } = wanted;
        let endpoint = outbox.endpoint_id.to_bytes();
        let (from, before) = (wanted.from.0, wanted.before.0);
        let values = (endpoint.as_slice(), slot, kind as i8, from, before);
        let statement = &self.db.statements.outbox_get;
        let rows = self
            .db
            .stream::<(i64, Vec<u8>, Vec<u8>)>(statement, values)
            .await?;
        let mut rows = rows.try_chunks(HINTS_AT_ONCE);
        let mut found = Vec::new();
        while let Some(some) = rows.next().await {
            let some = some.map_err(|stopped| stopped.1)?;
            let read = some
                .iter()
                .map(|(at, id, data)| Hint::read(kind, *at, id, data));
            let hints: Vec<Hint> = read.collect::<StoreResult<_>>()?;
            WebhookMetrics::get().on_rows_listed(hints.len());
            let reading = hints
                .iter()
                .map(|hint| self.cursor(outbox.shard, hint.session_id));
            let cursors = try_join_all(reading).await?;
            let held = hints.iter().zip(cursors);
            let held = held.filter(|(hint, cursor)| hint.holds(kind, cursor));
            found.extend(held.map(|(hint, _)| *hint));
            if found.len() >= limit {
                found.truncate(limit);
                break;
            }
        }
        Ok(found)
    }

    /// Returns confirmed hints, from the first slot on, up to a limit. Ready hints that the owner
    /// has found finished are not read again.
    async fn hints(&self, outbox: OutboxOf, wanted: Wanted) -> StoreResult<Vec<Hint>> {
        if wanted.limit == 0 {
            return Ok(Vec::new());
        }
        let generation = self.ownership.generation(outbox.shard);
        let generation = generation.filter(|_| wanted.kind == OutboxKind::Ready);
        let examined = generation.and_then(|generation| {
            let examined = self.memory.examined_outboxes.get(&outbox.endpoint_id)?;
            examined.from(generation, self.clock.now())
        });
        let from = examined.unwrap_or(TimestampMs(i64::MIN));
        let left = wanted.after(from);
        let owner = Owner::Outbox(outbox.endpoint_id, wanted.kind);
        let slots = self.slots(owner, left.from_slot, left.to_slot, Way::Up);
        let slots = slots.await?;
        let generation = generation.filter(|_| wanted.is_all_after(from) && !slots.is_empty());
        let Some(generation) = generation else {
            return self.hints_of(outbox, slots, left).await;
        };
        // A clock of this process that is ahead must not hide the hints that others write now.
        let began = self.earlier_clock().await?;
        let found = self.hints_of(outbox, slots, left).await?;
        if found.len() < wanted.limit {
            let first = found.iter().map(|hint| hint.at).min();
            let examined = Examined::new(generation, began, first);
            self.memory
                .examined_outboxes
                .put(outbox.endpoint_id, examined);
        }
        Ok(found)
    }

    /// Reads confirmed hints of these slots, up to the limit.
    async fn hints_of(
        &self,
        outbox: OutboxOf,
        slots: Vec<i64>,
        wanted: Wanted,
    ) -> StoreResult<Vec<Hint>> {
        let mut found: Vec<Hint> = Vec::new();
        for slot in slots {
            let left = Wanted {
                limit: wanted.limit - found.len(),
                ..wanted
            };
            let some = self.hints_in(outbox, slot, left);
            found.extend(some.await?);
            if found.len() >= wanted.limit {
                break;
            }
        }
        Ok(found)
    }

    /// The first slot of an outbox that may contain valid hints. A stored mark that is not in the
    /// past comes from a clock that was ahead, and does not count: other nodes still write hints into
    /// the slots before it.
    async fn mark(&self, endpoint_id: EndpointId) -> StoreResult<i64> {
        let settled = settled_slot(self.clock.now());
        Ok(self.stored_mark(endpoint_id).await?.min(settled))
    }

    async fn stored_mark(&self, endpoint_id: EndpointId) -> StoreResult<i64> {
        if let Some(mark) = self.memory.marks.get(&endpoint_id) {
            return Ok(mark);
        }
        let endpoint = endpoint_id.to_bytes();
        let statement = &self.db.statements.outbox_mark_get;
        let row: Option<(i64,)> = self.db.row(statement, (endpoint.as_slice(),)).await?;
        let mark = row.map_or(0, |(slot,)| slot);
        self.memory.marks.put(endpoint_id, mark);
        Ok(mark)
    }

    /// The time by the clock of this process or of the database, whichever is earlier.
    pub(super) async fn earlier_clock(&self) -> StoreResult<TimestampMs> {
        let own = self.clock.now();
        let row: Option<(i64,)> = self.db.row(&self.db.statements.clock_get, ()).await?;
        Ok(row.map_or(own, |(database_ms,)| own.min(TimestampMs(database_ms))))
    }

    /// Advances the mark past settled slots without confirmed hints, of which it reads all. A clock
    /// of this process that is ahead must not move it past hints that others write now.
    async fn advance(&self, outbox: OutboxOf) -> StoreResult<i64> {
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
            let owner = Owner::Outbox(endpoint_id, kind);
            for slot in self.slots(owner, mark, first_left - 1, Way::Up).await? {
                advanced = settled;
                let first = Wanted::all(kind, slot, 1);
                let left = self.hints_in(outbox, slot, first).await?;
                let Some(first) = left.first() else {
                    continue;
                };
                first_left = slot;
                if kind == OutboxKind::Ready {
                    self.memory
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
            self.memory.marks.put(endpoint_id, to);
        }
        Ok(to)
    }

    async fn listing(
        &self,
        outbox: OutboxOf,
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
        let wanted = |kind, limit| Wanted::all(kind, mark, limit);
        let mut listing = Listing::default();
        if let Some((from, limit)) = ready {
            // A message's hint is in the slot of its creation or a later one.
            let wanted = Wanted {
                from_slot: mark.max(slot_of(from, SLOT_MS) - 1),
                from,
                ..wanted(OutboxKind::Ready, limit)
            };
            let mut hints = self.hints(outbox, wanted).await?;
            // The hint of a message that was queued late carries a later time than the message.
            if hints.len() < limit {
                hints.retain(|hint| hint.id.made_at() >= from);
            }
            let hints = hints.into_iter();
            let mut ready: Vec<_> = hints.map(|hint| (hint.id, hint.session_id)).collect();
            ready.sort_unstable();
            ready.dedup();
            listing.ready = Some(ready);
        }
        if let Some((until, limit)) = due {
            // The hint of a message that was already due when it was written is in the slot of that
            // moment.
            let last = slot_of(until.max(self.clock.now()), SLOT_MS);
            let wanted = Wanted {
                to_slot: last + 1,
                before: until,
                ..wanted(OutboxKind::Due, limit)
            };
            let hints = self.hints(outbox, wanted);
            let hints = hints.await?.into_iter();
            let mut due: Vec<_> = hints.map(|hint| (hint.at, hint.session_id)).collect();
            due.sort_unstable();
            due.dedup();
            listing.due = Some(due);
        }
        if let Some((before, limit)) = held {
            let wanted = Wanted {
                before,
                ..wanted(OutboxKind::Held, limit)
            };
            let hints = self.hints(outbox, wanted);
            let hints = hints.await?.into_iter();
            let mut held: Vec<_> = hints.map(|hint| (hint.id, hint.session_id)).collect();
            held.sort_unstable();
            held.dedup();
            listing.held = Some(held);
        }
        let hints = self.hints(outbox, wanted(OutboxKind::Manual, manual));
        listing.manual = hints.await?.iter().map(Hint::request).collect();
        listing.manual.sort_unstable();
        listing.manual.dedup();
        Ok(listing)
    }

    async fn work(self: Arc<Self>, shards: ShardSet, until: TimestampMs) -> StoreResult<Vec<Work>> {
        let endpoints = self.endpoints().await?.into_iter();
        let asking = endpoints
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
                    let outbox = OutboxOf::new(&endpoint);
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
        let asking: Vec<_> = asking.collect();
        let work: Vec<Option<Work>> = stream::iter(asking)
            .buffer_unordered(AT_ONCE)
            .try_collect()
            .await?;
        Ok(work.into_iter().flatten().collect())
    }

    async fn depth(self: Arc<Self>, now: TimestampMs) -> StoreResult<Depth> {
        let mut depth = Depth::default();
        for endpoint in self.endpoints().await? {
            let outbox = OutboxOf::new(&endpoint);
            // Another node counts its own outboxes.
            if self.ownership.generation(outbox.shard).is_none() {
                continue;
            }
            depth.overlaps += u64::from(endpoint.overlap(now).is_some());
            let mark = self.mark(endpoint.id).await?;
            let all = |kind| Wanted::all(kind, mark, DEPTH_WALKED_MAX);
            let (ready, due, held) = try_join3(
                self.hints(outbox, all(OutboxKind::Ready)),
                self.hints(outbox, all(OutboxKind::Due)),
                self.hints(outbox, all(OutboxKind::Held)),
            )
            .await?;
            let mut hinted = BTreeMap::<SessionId, BTreeSet<u32>>::new();
            for hint in ready.iter().chain(&due).chain(&held) {
                hinted
                    .entry(hint.session_id)
                    .or_default()
                    .insert(hint.number);
            }
            let counting = hinted.into_iter().map(|(lane, hinted)| {
                let inner = Arc::clone(&self);
                async move { inner.waiting_in(outbox, lane, &hinted).await }
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

    /// Waiting messages of a lane, before and after their first attempt. `hinted` has the numbers
    /// to which hints of this endpoint lead. The cursor alone answers unless more messages wait
    /// than are hinted: messages parked behind a retry have no hint, and messages of a deleted
    /// endpoint do not count.
    async fn waiting_in(
        &self,
        OutboxOf { shard, endpoint_id }: OutboxOf,
        lane: SessionId,
        hinted: &BTreeSet<u32>,
    ) -> StoreResult<(u64, u64)> {
        let cursor = self.cursor(shard, lane).await?;
        let tried: Vec<bool> = if cursor.waits_beside(hinted) {
            let rows = self.lane_rows(shard, lane).await?.into_iter();
            let ours = rows.filter(|row| row.queued.is_waiting() && row.endpoint_id == endpoint_id);
            ours.map(|row| row.queued.attempts > 0).collect()
        } else {
            let attempts = hinted.iter().map(|&number| cursor.attempts(number));
            attempts.map(|attempts| attempts > 0).collect()
        };
        let retrying = tried.iter().filter(|&&tried| tried).count();
        Ok(((tried.len() - retrying) as u64, retrying as u64))
    }
}
