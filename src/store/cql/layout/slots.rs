//! Slices of time, and the slices in which a table has rows.

use futures_util::future::try_join_all;
use porchlight_ports::StoreResult;
use porchlight_schema::ids::{EndpointId, SessionId, Shard};
use porchlight_schema::session::Tenant;
use porchlight_schema::time::TimestampMs;

use crate::cql::Inner;
use crate::cql::sessions::session_list::List;

/// A slot of an outbox or of a list of deliveries: ten minutes.
pub(in crate::cql) const SLOT_MS: i64 = 600_000;
/// The maximum number of an owner's slots that are read: ten-minute slots of more than a year.
const SLOTS_READ_MAX: usize = 65_536;
/// The maximum number of statements that one operation runs concurrently.
pub(in crate::cql) const AT_ONCE: usize = 32;

/// The action that a row of an outbox requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i8)]
pub(in crate::cql) enum OutboxKind {
    /// A manual attempt.
    Manual = 0,
    /// An examination of a message.
    Ready = 1,
    /// A scheduled retry.
    Due = 2,
    /// A message that is held, at most until the row's time.
    Held = 3,
}

/// A list of a tenant's deliveries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cql) enum DeliveryList {
    All,
    Failed,
}

impl DeliveryList {
    /// Returns the owners of the slots of the list: the owner of the shared partitions, then the
    /// owner of the partitions that one process writes alone.
    pub(in crate::cql) fn slot_owners(self, tenant: Tenant) -> (SlotOwner, SlotOwner) {
        match self {
            Self::All => (
                SlotOwner::Deliveries(tenant),
                SlotOwner::OwnDeliveries(tenant),
            ),
            Self::Failed => (SlotOwner::Failed(tenant), SlotOwner::OwnFailed(tenant)),
        }
    }
}

/// The owner of a list of slots.
#[derive(Debug, Clone, Copy)]
pub(in crate::cql) enum SlotOwner {
    /// An endpoint's outbox, by kind.
    Outbox(EndpointId, OutboxKind),
    /// The partitions of an endpoint's outbox that one process writes alone, by kind.
    OwnOutbox(EndpointId, OutboxKind),
    /// A tenant's deliveries.
    Deliveries(Tenant),
    /// A tenant's failed deliveries.
    Failed(Tenant),
    /// A tenant's sessions, by hour.
    Sessions(Tenant),
    /// The partitions of a list of sessions that one process writes alone.
    OwnSessions(Tenant, List),
    /// The partitions of a tenant's deliveries that one process writes alone.
    OwnDeliveries(Tenant),
    /// The partitions of a tenant's failed deliveries that one process writes alone.
    OwnFailed(Tenant),
    /// The partitions of a session's journal after the first.
    Journal(SessionId),
    /// Buckets with live sessions.
    LiveBuckets,
    /// Shards with live sessions in this bucket.
    LiveShards(i64),
    /// The hour up to which a shard has no live sessions.
    LiveWatermark(Shard),
    /// Buckets with marked sessions.
    ToScoreBuckets,
    /// Shards with marked sessions in this bucket.
    ToScoreShards(i64),
    /// The hour up to which a shard has no marked sessions.
    ToScoreWatermark(Shard),
}

impl SlotOwner {
    /// Returns the owner as a key.
    pub(in crate::cql) fn key(self) -> Vec<u8> {
        let (letter, rest) = match self {
            Self::Outbox(endpoint, kind) => (b'O', outbox_key(endpoint, kind)),
            Self::OwnOutbox(endpoint, kind) => (b'o', outbox_key(endpoint, kind)),
            Self::Deliveries(tenant) => (b'D', tenant_key(tenant)),
            Self::Failed(tenant) => (b'F', tenant_key(tenant)),
            Self::Sessions(tenant) => (b'S', tenant_key(tenant)),
            Self::OwnSessions(tenant, list) => {
                let mut key = tenant_key(tenant);
                key.extend(list.key());
                (b's', key)
            }
            Self::OwnDeliveries(tenant) => (b'd', tenant_key(tenant)),
            Self::OwnFailed(tenant) => (b'f', tenant_key(tenant)),
            Self::Journal(session_id) => (b'J', session_id.to_bytes().to_vec()),
            Self::LiveBuckets => (b'L', Vec::new()),
            Self::LiveShards(bucket) => (b'l', bucket.to_be_bytes().to_vec()),
            Self::LiveWatermark(shard) => (b'm', vec![shard.0]),
            Self::ToScoreBuckets => (b'B', Vec::new()),
            Self::ToScoreShards(bucket) => (b'b', bucket.to_be_bytes().to_vec()),
            Self::ToScoreWatermark(shard) => (b'n', vec![shard.0]),
        };
        let mut key = vec![letter];
        key.extend(rest);
        key
    }
}

/// Returns an outbox's kind of entries in a key: the kind, then the endpoint's id.
fn outbox_key(endpoint_id: EndpointId, kind: OutboxKind) -> Vec<u8> {
    let mut key = vec![kind as u8];
    key.extend(endpoint_id.to_bytes());
    key
}

/// Returns a tenant in a key: the organization's id, then the environment.
pub(in crate::cql) fn tenant_key(tenant: Tenant) -> Vec<u8> {
    tenant.to_bytes().to_vec()
}

/// Returns the number of the slice of `length_ms` that contains a time.
pub(in crate::cql) fn slot_of(at: TimestampMs, length_ms: i64) -> i64 {
    at.0.div_euclid(length_ms)
}

/// The order in which slots are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cql) enum Direction {
    /// First to last.
    Ascending,
    /// Last to first.
    Descending,
}

impl Inner {
    /// Lists slots before rows are written into them. The row of a slot is written again in time,
    /// so that it does not expire before the rows in the slot.
    pub(in crate::cql) async fn list_slots(&self, slots: &[(SlotOwner, i64)]) -> StoreResult<()> {
        let now_ms = self.clock.uptime_ms();
        let writing = slots.iter().map(|&(owner, slot)| async move {
            let entry = (owner.key(), slot);
            let written_ms = self.caches.slots.get(&entry);
            if written_ms.is_some_and(|at_ms| now_ms - at_ms < self.row_ttls.slot_renewal_ms()) {
                return Ok(());
            }
            self.put_slot(owner, slot).await?;
            self.caches.slots.put(entry, now_ms);
            Ok(())
        });
        try_join_all(writing).await.map(drop)
    }

    /// Lists a slot, or renews its row, even if this process knows that it is listed.
    pub(in crate::cql) async fn put_slot(&self, owner: SlotOwner, slot: i64) -> StoreResult<()> {
        let key = owner.key();
        let values = (key.as_slice(), slot, self.row_ttls.slots);
        self.db.write(&self.db.statements.slot_put, values).await
    }

    /// Returns the slots of an owner from `from` to `to`, both inclusive.
    pub(in crate::cql) async fn slots(
        &self,
        owner: SlotOwner,
        from: i64,
        to: i64,
        direction: Direction,
    ) -> StoreResult<Vec<i64>> {
        self.slots_up_to(owner, (from, to), direction, SLOTS_READ_MAX)
            .await
    }

    /// Returns the first slots of an owner between two, both inclusive, in one direction.
    pub(super) async fn slots_up_to(
        &self,
        owner: SlotOwner,
        (from, to): (i64, i64),
        direction: Direction,
        limit: usize,
    ) -> StoreResult<Vec<i64>> {
        if from > to {
            return Ok(Vec::new());
        }
        let statement = match direction {
            Direction::Ascending => &self.db.statements.slots_up,
            Direction::Descending => &self.db.statements.slots_down,
        };
        let key = owner.key();
        let values = (key.as_slice(), from, to);
        let rows = self.db.rows::<(i64,)>(statement, values, limit);
        Ok(rows.await?.into_iter().map(|(slot,)| slot).collect())
    }

    /// Returns the last slot of an owner.
    pub(in crate::cql) async fn last_slot(&self, owner: SlotOwner) -> StoreResult<Option<i64>> {
        let (key, statement) = (owner.key(), &self.db.statements.slots_down);
        let values = (key.as_slice(), i64::MIN, i64::MAX);
        let rows = self.db.rows::<(i64,)>(statement, values, 1).await?;
        Ok(rows.first().map(|(slot,)| *slot))
    }
}
