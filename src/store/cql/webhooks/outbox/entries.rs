//! The entries of an outbox, and their partitions: ten minutes each, which all processes share, and
//! further ones that one process writes alone once it has used its share.

use futures_util::future::try_join_all;
use futures_util::{StreamExt, TryStreamExt};
use porchlight_core::webhook::{Index, ManualRetry};
use porchlight_observe::webhook::WebhookMetrics;
use porchlight_ports::StoreResult;
use porchlight_schema::ids::{EndpointId, MessageId, SessionId};
use porchlight_schema::time::TimestampMs;

use super::cursor::CURSOR;
use super::{Cursor, ExaminedEntries, OutboxId};
use crate::cql::Inner;
use crate::cql::layout::slots::{Direction, OutboxKind, SLOT_MS, SlotOwner, slot_of};
use crate::cql::statements::db::{decode, id_bytes};
use crate::damage::{readable, report_error, skipped};

/// The name of a damaged entry in the log.
const ENTRY: &str = "an entry of an outbox";
/// The maximum number of entries that are examined concurrently.
const ENTRIES_AT_ONCE: usize = 64;

/// A row of an outbox: a message whose lane the owner must examine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OutboxEntry {
    pub(super) at: TimestampMs,
    pub(super) id: MessageId,
    pub(super) session_id: SessionId,
    pub(super) number: u32,
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

    pub(super) fn manual_retry(self) -> ManualRetry {
        ManualRetry {
            requested_at: self.at,
            id: self.id,
            session_id: self.session_id,
            again: self.again,
        }
    }
}

/// The entries of an outbox to read, by kind, slot and time.
#[derive(Debug, Clone, Copy)]
pub(super) struct EntryQuery {
    pub(super) kind: OutboxKind,
    /// The first slot to read.
    pub(super) from_slot: i64,
    /// The last slot to read.
    pub(super) to_slot: i64,
    /// The earliest time of the entries to read, inclusive.
    pub(super) from: TimestampMs,
    /// The time before which the entries to read are.
    pub(super) before: TimestampMs,
    pub(super) limit: usize,
}

impl EntryQuery {
    /// Selects entries of one kind from a slot on, regardless of their time.
    pub(super) fn all(kind: OutboxKind, from_slot: i64, limit: usize) -> Self {
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

/// Ten minutes of an outbox that have entries.
pub(super) struct OutboxSlot {
    pub(super) slot: i64,
    /// The keys of its partitions.
    partitions: Vec<i64>,
}

impl Inner {
    /// Chooses the partition for a new entry in a slot, and lists it before the entry is written.
    pub(in crate::cql) async fn outbox_partition(
        &self,
        endpoint_id: EndpointId,
        kind: OutboxKind,
        slot: i64,
    ) -> StoreResult<i64> {
        let shared = SlotOwner::Outbox(endpoint_id, kind);
        let own = SlotOwner::OwnOutbox(endpoint_id, kind);
        let begins_at = TimestampMs(slot.saturating_mul(SLOT_MS));
        self.key_for_row((shared, own), slot, begins_at).await
    }

    /// Returns the slots of an outbox from `from` to `to`, both inclusive, in their order.
    pub(super) async fn outbox_slots(
        &self,
        outbox: OutboxId,
        kind: OutboxKind,
        from: i64,
        to: i64,
    ) -> StoreResult<Vec<OutboxSlot>> {
        let shared = SlotOwner::Outbox(outbox.endpoint_id, kind);
        let slots = self.slots(shared, from, to, Direction::Ascending).await?;
        let own = SlotOwner::OwnOutbox(outbox.endpoint_id, kind);
        let partitions = self.keys_of_periods(own, slots.clone()).await?;
        let slots = slots.into_iter().zip(partitions);
        Ok(slots
            .map(|(slot, partitions)| OutboxSlot { slot, partitions })
            .collect())
    }

    /// Reads confirmed entries of a slot in the order of their times, up to the limit.
    pub(super) async fn entries_in_slot(
        &self,
        outbox: OutboxId,
        slot: &OutboxSlot,
        mut query: EntryQuery,
    ) -> StoreResult<Vec<OutboxEntry>> {
        let mut found = Vec::new();
        for &partition in &slot.partitions {
            let entries = self.entries_in_partition(outbox, partition, query).await?;
            found.extend(entries);
            found.sort_unstable_by_key(|entry: &OutboxEntry| (entry.at, entry.id));
            // A write that was repeated may have an entry in two partitions.
            found.dedup_by_key(|entry| (entry.at, entry.id));
            found.truncate(query.limit);
            if found.len() == query.limit
                && let Some(last) = found.last()
            {
                query.before = query.before.min(last.at.plus_ms(1));
            }
        }
        Ok(found)
    }

    /// Reads confirmed entries of a partition, up to the limit. The database skips the entries
    /// before `query.from`, so that the cost of a listing depends only on the new entries.
    async fn entries_in_partition(
        &self,
        outbox: OutboxId,
        partition: i64,
        query: EntryQuery,
    ) -> StoreResult<Vec<OutboxEntry>> {
        let EntryQuery { kind, limit, .. } = query;
        let endpoint = outbox.endpoint_id.to_bytes();
        let (from, before) = (query.from.0, query.before.0);
        let values = (endpoint.as_slice(), partition, kind as i8, from, before);
        let statement = &self.db.statements.outbox_get;
        let rows = self
            .db
            .stream::<(i64, Vec<u8>, Vec<u8>)>(statement, values)
            .await?;
        let mut rows = rows.try_chunks(ENTRIES_AT_ONCE);
        let mut found = Vec::new();
        while let Some(chunk) = rows.next().await {
            let chunk = chunk.map_err(|stopped| stopped.1)?;
            WebhookMetrics::get().on_rows_listed(chunk.len());
            let entries = self.readable_entries(kind, &chunk).await?;
            let reading = entries.iter().map(|entry| async {
                let cursor = self.cursor(outbox.shard, entry.session_id).await;
                readable(cursor.map(Some), entry.session_id, CURSOR)
            });
            let cursors = try_join_all(reading).await?;
            let confirmed = entries.iter().zip(cursors).filter(|(entry, cursor)| {
                let cursor = cursor.as_ref();
                cursor.is_some_and(|cursor| entry.is_confirmed_by(kind, cursor))
            });
            let confirmed = confirmed.map(|(entry, _)| *entry);
            found.extend(confirmed.inspect(|entry| {
                self.compare_own_message(entry.session_id, entry.number);
            }));
            if found.len() >= limit {
                found.truncate(limit);
                break;
            }
        }
        Ok(found)
    }

    /// Decodes the rows of entries. An entry that does not decode is built again from its message,
    /// unless the message is damaged too. It affects no other message.
    async fn readable_entries(
        &self,
        kind: OutboxKind,
        rows: &[(i64, Vec<u8>, Vec<u8>)],
    ) -> StoreResult<Vec<OutboxEntry>> {
        let mut entries = Vec::with_capacity(rows.len());
        for (at, id, data) in rows {
            let entry = match OutboxEntry::read(kind, *at, id, data) {
                Err(error) if error.is_of_single_rows() => {
                    report_error(ENTRY, &error);
                    self.entry_of_message(*at, id).await?
                }
                entry => Some(entry?),
            };
            entries.extend(entry);
        }
        Ok(entries)
    }

    /// Returns the entry of a message, by the message's id. The entry never requests a delivered
    /// message again.
    async fn entry_of_message(&self, at: i64, id: &[u8]) -> StoreResult<Option<OutboxEntry>> {
        let Ok(id) = id_bytes("outbox", id) else {
            return Ok(None);
        };
        let head = self.message_head(MessageId::from_bytes(id)).await;
        let head = skipped(head, "the head of a message")?;
        Ok(head.map(|head| OutboxEntry {
            at: TimestampMs(at),
            id: head.id,
            session_id: head.session_id,
            number: head.number,
            again: false,
        }))
    }

    /// Returns confirmed entries, from the first slot on, up to a limit. Skips ready entries that
    /// the owner has found finished.
    pub(super) async fn entries(
        &self,
        outbox: OutboxId,
        query: EntryQuery,
    ) -> StoreResult<Vec<OutboxEntry>> {
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
        let slots = self.outbox_slots(outbox, query.kind, left.from_slot, left.to_slot);
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
        slots: Vec<OutboxSlot>,
        query: EntryQuery,
    ) -> StoreResult<Vec<OutboxEntry>> {
        let mut found: Vec<OutboxEntry> = Vec::new();
        for slot in slots {
            let left = EntryQuery {
                limit: query.limit - found.len(),
                ..query
            };
            let some = self.entries_in_slot(outbox, &slot, left);
            found.extend(some.await?);
            if found.len() >= query.limit {
                break;
            }
        }
        Ok(found)
    }
}
