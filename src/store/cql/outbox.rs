//! Outboxes: which messages wait, since when or until when, and what became of them.
//!
//! A row of an outbox is a hint: "look at this lane". What is true stands in the session's cursor, of which the owner
//! is the only writer. A hint that the cursor does not bear out any more is passed over; hints go by themselves.

mod cursor;
mod port;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures_util::future::{try_join_all, try_join3};
use futures_util::{StreamExt, TryStreamExt, stream};
use porchlight_core::webhook::{HandRequest, Index, Listing};
use porchlight_ports::{Depth, Endpoint, StoreResult, Work};
use porchlight_schema::ids::{EndpointId, MessageId, SessionId, Shard, ShardSet};
use porchlight_schema::limits::DEPTH_COUNTED_MAX;
use porchlight_schema::time::TimestampMs;

use super::Inner;
use super::db::{decode, id_bytes};
use super::slots::{AT_ONCE, OutboxKind, Owner, SLOT_MS, Way, slot_of};
pub(super) use cursor::Cursor;

/// A slot that ended this long ago gets no more rows: nodes' clocks differ by less.
const SETTLED_MS: i64 = 2 * SLOT_MS;
/// Hints that are looked at together.
const HINTS_AT_ONCE: usize = 64;
/// Hints, and messages that failed, that are counted of one endpoint: all of them together show no more than this.
const DEPTH_WALKED_MAX: usize = DEPTH_COUNTED_MAX as usize;

/// Whose outbox.
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

/// A row of an outbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Hint {
    at: TimestampMs,
    id: MessageId,
    session_id: SessionId,
    number: u32,
    /// Of a try by hand: whether the message was delivered already.
    again: bool,
}

impl Hint {
    fn read(kind: OutboxKind, at: i64, id: &[u8], data: &[u8]) -> StoreResult<Self> {
        let id = MessageId::from_bytes(id_bytes("outbox", id)?);
        let at = TimestampMs(at);
        Ok(if kind == OutboxKind::ByHand {
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

    /// Whether the cursor bears it out.
    fn holds(&self, kind: OutboxKind, cursor: &Cursor) -> bool {
        match kind {
            OutboxKind::ByHand => !cursor.is_done_by_hand(self.id, self.at),
            OutboxKind::Ready => cursor.index(self.number) == Index::Ready,
            OutboxKind::Due => cursor.index(self.number) == Index::Due(self.at),
            OutboxKind::Held => cursor.index(self.number) == Index::Held(self.at),
        }
    }

    fn request(&self) -> HandRequest {
        HandRequest {
            asked_at: self.at,
            id: self.id,
            session_id: self.session_id,
            again: self.again,
        }
    }
}

/// Which hints.
#[derive(Debug, Clone, Copy)]
struct Wanted {
    kind: OutboxKind,
    /// Slots before this one are left out.
    from_slot: i64,
    /// Slots after this one are left out.
    to_slot: i64,
    limit: usize,
}

impl Inner {
    /// The hints of a slot that hold, at most `limit`, of which `takes` is true.
    async fn hints_in(
        &self,
        outbox: OutboxOf,
        slot: i64,
        kind: OutboxKind,
        limit: usize,
        takes: impl Fn(&Hint) -> bool,
    ) -> StoreResult<Vec<Hint>> {
        let endpoint = outbox.endpoint_id.to_bytes();
        let values = (endpoint.as_slice(), slot, kind as i8);
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
            let hints: Vec<Hint> = hints.into_iter().filter(|hint| takes(hint)).collect();
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

    /// Hints that hold, from the first slot on, at most so many.
    async fn hints(
        &self,
        outbox: OutboxOf,
        wanted: Wanted,
        takes: impl Fn(&Hint) -> bool + Copy,
    ) -> StoreResult<Vec<Hint>> {
        let mut found: Vec<Hint> = Vec::new();
        if wanted.limit == 0 {
            return Ok(found);
        }
        let owner = Owner::Outbox(outbox.endpoint_id, wanted.kind);
        let slots = self
            .slots(owner, wanted.from_slot, wanted.to_slot, Way::Up)
            .await?;
        for slot in slots {
            let left = wanted.limit - found.len();
            let some = self.hints_in(outbox, slot, wanted.kind, left, takes);
            found.extend(some.await?);
            if found.len() >= wanted.limit {
                break;
            }
        }
        Ok(found)
    }

    /// The first slot of an outbox that may have something left.
    async fn mark(&self, endpoint_id: EndpointId) -> StoreResult<i64> {
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

    /// Moves the mark behind slots that are over and have nothing left.
    async fn advance(&self, outbox: OutboxOf) -> StoreResult<i64> {
        let endpoint_id = outbox.endpoint_id;
        let mark = self.mark(endpoint_id).await?;
        let settled = slot_of(self.clock.now().plus_ms(-SETTLED_MS), SLOT_MS);
        let mut advanced = mark;
        let mut first_left = settled;
        for kind in [
            OutboxKind::ByHand,
            OutboxKind::Ready,
            OutboxKind::Due,
            OutboxKind::Held,
        ] {
            let owner = Owner::Outbox(endpoint_id, kind);
            for slot in self.slots(owner, mark, first_left - 1, Way::Up).await? {
                advanced = settled;
                let left = self.hints_in(outbox, slot, kind, 1, |_| true).await?;
                if !left.is_empty() {
                    first_left = slot;
                    break;
                }
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
        by_hand: usize,
    ) -> StoreResult<Listing> {
        // A complete listing is read rarely.
        let mark = match due {
            Some(_) => self.advance(outbox).await?,
            None => self.mark(outbox.endpoint_id).await?,
        };
        let wanted = |kind, limit| Wanted {
            kind,
            from_slot: mark,
            to_slot: i64::MAX,
            limit,
        };
        let mut listing = Listing::default();
        if let Some((from, limit)) = ready {
            // A message lies in the slot of its making or a later one.
            let wanted = Wanted {
                from_slot: mark.max(slot_of(from, SLOT_MS) - 1),
                ..wanted(OutboxKind::Ready, limit)
            };
            let hints = self.hints(outbox, wanted, |hint| hint.id.made_at() >= from);
            let hints = hints.await?.into_iter();
            let mut ready: Vec<_> = hints.map(|hint| (hint.id, hint.session_id)).collect();
            ready.sort_unstable();
            ready.dedup();
            listing.ready = Some(ready);
        }
        if let Some((until, limit)) = due {
            // One that was due already when it was written lies in the slot of then.
            let last = slot_of(until.max(self.clock.now()), SLOT_MS);
            let wanted = Wanted {
                to_slot: last + 1,
                ..wanted(OutboxKind::Due, limit)
            };
            let hints = self.hints(outbox, wanted, |hint| hint.at < until);
            let hints = hints.await?.into_iter();
            let mut due: Vec<_> = hints.map(|hint| (hint.at, hint.session_id)).collect();
            due.sort_unstable();
            due.dedup();
            listing.due = Some(due);
        }
        if let Some((before, limit)) = held {
            let wanted = wanted(OutboxKind::Held, limit);
            let hints = self.hints(outbox, wanted, |hint| hint.at < before);
            let hints = hints.await?.into_iter();
            let mut held: Vec<_> = hints.map(|hint| (hint.id, hint.session_id)).collect();
            held.sort_unstable();
            held.dedup();
            listing.held = Some(held);
        }
        let hints = self.hints(outbox, wanted(OutboxKind::ByHand, by_hand), |_| true);
        listing.by_hand = hints.await?.iter().map(Hint::request).collect();
        listing.by_hand.sort_unstable();
        listing.by_hand.dedup();
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
                    // While the endpoint is paused only what was held for too long can be acted on, and no request by
                    // hand.
                    let (held, by_hand) = match endpoint.enabled {
                        true => (TimestampMs(i64::MAX), 1),
                        false => (until, 0),
                    };
                    let outbox = OutboxOf::new(&endpoint);
                    let listing = inner
                        .listing(outbox, Some((first, 1)), all, Some((held, 1)), by_hand)
                        .await?;
                    let at_once = !listing.by_hand.is_empty()
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
            // Another node counts those of its own.
            if self.ownership.generation(outbox.shard).is_none() {
                continue;
            }
            depth.overlaps += u64::from(endpoint.overlap(now).is_some());
            let mark = self.mark(endpoint.id).await?;
            let all = |kind| Wanted {
                kind,
                from_slot: mark,
                to_slot: i64::MAX,
                limit: DEPTH_WALKED_MAX,
            };
            let (ready, due, held) = try_join3(
                self.hints(outbox, all(OutboxKind::Ready), |_| true),
                self.hints(outbox, all(OutboxKind::Due), |_| true),
                self.hints(outbox, all(OutboxKind::Held), |_| true),
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

    /// Messages of a lane that wait: those before their first try, and those after it. `hinted`: the numbers of those
    /// that hints of this endpoint lead to. The cursor alone tells, unless more waits than is hinted: what is parked
    /// behind a retry is listed nowhere, and what waited for an endpoint that is gone does not count.
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
