//! The partitions of lists, and their rows.

use std::cmp::Reverse;

use futures_util::{StreamExt, TryStreamExt, stream};
use porchlight_ports::StoreResult;
use porchlight_schema::ids::SessionId;
use porchlight_schema::session::{SessionStart, Tenant};
use porchlight_schema::time::{HOUR_MS, TimestampMs};
use scylla::statement::prepared::PreparedStatement;
use scylla::value::CqlValue;
use sha2::{Digest, Sha256};

use super::Position;
use crate::cql::Inner;
use crate::cql::layout::bounded::{OwnPartition, merge};
use crate::cql::layout::slots::{AT_ONCE, Direction, SlotOwner, slot_of, tenant_key};
use crate::cql::sessions::session_list::List;
use crate::cql::statements::db::id_bytes;
use crate::cql::statements::prepared::Statements;
use crate::cql::statements::write_group::WriteGroup;

/// The number of rows per read of a partition.
const READ_ROWS: usize = 256;
/// The maximum number of partitions from which a session is erased without a read, so that the
/// request stays small. A session has a row in one partition of each list, or in two after a
/// repeated write.
const ERASED_AT_ONCE_MAX: usize = 24;

/// One partition of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Partition {
    /// A partition of an organization's sessions: the hour, or the key of an own partition.
    Hour(i64),
    /// The partition of a delivery's sessions.
    Delivery([u8; 32]),
    /// The partition of a courier's sessions.
    Rider([u8; 32]),
}

/// The statements of a list.
struct ListStatements<'a> {
    put: &'a PreparedStatement,
    read: &'a PreparedStatement,
    delete: &'a PreparedStatement,
}

impl Partition {
    fn statements(self, all: &Statements) -> ListStatements<'_> {
        let (put, read, delete) = match self {
            Self::Hour(_) => (
                &all.organization_list_put,
                &all.organization_list,
                &all.organization_list_delete,
            ),
            Self::Delivery(_) => (
                &all.delivery_list_put,
                &all.delivery_list,
                &all.delivery_list_delete,
            ),
            Self::Rider(_) => (&all.rider_list_put, &all.rider_list, &all.rider_list_delete),
        };
        ListStatements { put, read, delete }
    }

    /// Returns the partition as the second column of its key.
    fn key(self) -> CqlValue {
        match self {
            Self::Hour(hour) => CqlValue::BigInt(hour),
            Self::Delivery(hash) | Self::Rider(hash) => CqlValue::Blob(hash.to_vec()),
        }
    }
}

impl List {
    /// Returns the partition that all processes share, for sessions that were created in this hour.
    pub(super) fn shared(self, hour: i64) -> Partition {
        match self {
            Self::All => Partition::Hour(hour),
            Self::Delivery(hash) => Partition::Delivery(hash),
            Self::Rider(hash) => Partition::Rider(hash),
        }
    }

    /// Returns a partition that one process writes alone.
    pub(super) fn own(self, own: OwnPartition) -> Partition {
        let hashed = |hash: [u8; 32]| {
            let mut all = Sha256::new_with_prefix(hash);
            all.update(own.slot().to_be_bytes());
            all.finalize().into()
        };
        match self {
            Self::All => Partition::Hour(own.key()),
            Self::Delivery(hash) => Partition::Delivery(hashed(hash)),
            Self::Rider(hash) => Partition::Rider(hashed(hash)),
        }
    }
}

impl Inner {
    /// Returns all partitions that may have a session's row in a list; the own ones with their
    /// slots.
    async fn partitions_of(
        &self,
        start: &SessionStart,
        list: List,
    ) -> StoreResult<Vec<(Partition, Option<i64>)>> {
        let hour = slot_of(start.created_at, HOUR_MS);
        let owner = SlotOwner::OwnSessions(start.tenant, list);
        let own = self
            .own_partitions(owner, hour, hour, Direction::Ascending)
            .await?;
        let own = own.into_iter().map(|own| (list.own(own), Some(own.slot())));
        Ok([(list.shared(hour), None)].into_iter().chain(own).collect())
    }

    /// Writes a session's row into a partition.
    async fn put_row(
        &self,
        tenant: Tenant,
        partition: Partition,
        position: Position,
    ) -> StoreResult<()> {
        let mut group = WriteGroup::default();
        self.add_row(&mut group, tenant, partition, position);
        self.db.write_group(group).await
    }

    /// Adds a session's row in a partition to the rows to write.
    pub(super) fn add_row<'s>(
        &'s self,
        group: &mut WriteGroup<'s>,
        tenant: Tenant,
        partition: Partition,
        (at, session_id): Position,
    ) {
        let statement = partition.statements(&self.db.statements).put;
        let (tenant, session) = (tenant_key(tenant), session_id.to_bytes().to_vec());
        let (key, ttl) = (partition.key(), self.row_ttls.retained);
        group.add(statement, 0, (tenant, key, at.0, session, ttl));
    }

    /// Reads the first rows of a partition that come after a position, newest first.
    async fn positions(
        &self,
        tenant: Tenant,
        partition: Partition,
        (at, last): Position,
        limit: usize,
    ) -> StoreResult<Vec<Position>> {
        let statement = partition.statements(&self.db.statements).read;
        let (tenant, last) = (tenant_key(tenant), last.to_bytes());
        let values = (tenant.as_slice(), partition.key(), at.0, last.as_slice());
        let rows: Vec<(i64, Vec<u8>)> = self.db.rows(statement, values, limit).await?;
        let position = |(at, id): (i64, Vec<u8>)| {
            let id = SessionId::from_bytes(id_bytes("sessions", &id)?);
            Ok((TimestampMs(at), id))
        };
        rows.into_iter().map(position).collect()
    }

    /// Returns whether a partition has a session's row.
    async fn has_row(
        &self,
        tenant: Tenant,
        partition: Partition,
        position: Position,
    ) -> StoreResult<bool> {
        let next = u128::from_be_bytes(position.1.to_bytes()).saturating_add(1);
        let after = (position.0, SessionId::from_bytes(next.to_be_bytes()));
        let found = self.positions(tenant, partition, after, 1).await?;
        Ok(found.first() == Some(&position))
    }

    /// Erases the row of a session and its rows in all lists in one step: the row names the lists,
    /// and only the lists lead to the row.
    pub(in crate::cql) async fn erase_record(&self, start: &SessionStart) -> StoreResult<()> {
        let (tenant, session_id) = (start.tenant, start.session_id);
        let mut partitions = Vec::new();
        for list in List::of(start) {
            let of_list = self.partitions_of(start, list).await?;
            partitions.extend(of_list.into_iter().map(|(partition, _)| partition));
        }
        if partitions.len() > ERASED_AT_ONCE_MAX {
            let position = (start.created_at, session_id);
            let mut with_row = Vec::new();
            for partition in partitions {
                if self.has_row(tenant, partition, position).await? {
                    with_row.push(partition);
                }
            }
            partitions = with_row;
        }
        let (mut group, session) = (WriteGroup::default(), session_id.to_bytes().to_vec());
        for partition in partitions {
            let delete = partition.statements(&self.db.statements).delete;
            let (key, at) = (partition.key(), start.created_at.0);
            group.add(delete, 0, (tenant_key(tenant), key, at, session.clone()));
        }
        group.add(&self.db.statements.session_delete, 0, (session,));
        self.db.erase_at_once(group).await
    }

    /// Writes the rows of a session in lists again, each into the partition that has it.
    pub(in crate::cql) async fn renew_in_lists(&self, start: &SessionStart) -> StoreResult<()> {
        let (tenant, hour) = (start.tenant, slot_of(start.created_at, HOUR_MS));
        let position = (start.created_at, start.session_id);
        self.put_slot(SlotOwner::Sessions(tenant), hour).await?;
        for list in List::of(start) {
            let mut is_found = false;
            for (partition, slot) in self.partitions_of(start, list).await? {
                if !self.has_row(tenant, partition, position).await? {
                    continue;
                }
                is_found = true;
                if let Some(slot) = slot {
                    self.put_slot(SlotOwner::OwnSessions(tenant, list), slot)
                        .await?;
                }
                self.put_row(tenant, partition, position).await?;
            }
            if !is_found {
                self.put_row(tenant, list.shared(hour), position).await?;
            }
        }
        Ok(())
    }

    /// Reads several partitions as one list: the first rows after a position, newest first, and
    /// whether the list ends there.
    pub(super) async fn merged_positions(
        &self,
        tenant: Tenant,
        partitions: &[Partition],
        before: Position,
    ) -> StoreResult<(Vec<Position>, bool)> {
        let reads = partitions
            .iter()
            .map(|&partition| self.positions(tenant, partition, before, READ_ROWS));
        // Collected first, because a stream of closures that borrow is not `Send`.
        let reads: Vec<_> = reads.collect();
        let reads = stream::iter(reads).buffered(AT_ONCE);
        let reads = reads.try_collect().await?;
        Ok(merge(reads, READ_ROWS, |&position| Reverse(position)))
    }
}
