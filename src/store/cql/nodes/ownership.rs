//! The tables of members and shard owners: the ownership machine's lightweight transactions and
//! reads.

use async_trait::async_trait;
use porchlight_core::ownership::{
    Change, Incarnation, Member, MemberRow, MemberStatus, NodeName, Outcome, OwnerRow, ReadMode,
};
use porchlight_observe::error_text;
use porchlight_ports::{NodesTable, StoreError, StoreResult};
use porchlight_schema::ids::Shard;
use porchlight_schema::time::TimestampMs;
use scylla::serialize::row::SerializeRow;
use scylla::statement::prepared::PreparedStatement;

use crate::cql::statements::db::Lwt;
use crate::cql::{CqlStore, Inner, written_generation};

/// The newest layout of partitions that nodes of this release read. Each heartbeat announces it.
pub(in crate::cql) const READS_LAYOUT: i32 = 1;
/// The partition of the members.
pub(in crate::cql) const CLUSTER: &str = "porchlight";

fn cell(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Returns a status as it is stored.
pub(in crate::cql) const fn status_cell(status: MemberStatus) -> i8 {
    match status {
        MemberStatus::Up => 0,
        MemberStatus::Leaving => 1,
        MemberStatus::Gone => 2,
    }
}

type MemberCells = (String, Option<i64>, Option<i64>, Option<i8>, Option<i64>);
type OwnerCells = (i16, Option<i64>, Option<String>, Option<i64>);

fn member_row((node, incarnation, heartbeat, status, clock): MemberCells) -> Option<MemberRow> {
    Some(MemberRow {
        member: Member {
            node: NodeName(node),
            incarnation: Incarnation(incarnation?.unsigned_abs()),
        },
        heartbeat: heartbeat?.unsigned_abs(),
        status: match status? {
            0 => MemberStatus::Up,
            1 => MemberStatus::Leaving,
            _ => MemberStatus::Gone,
        },
        clock: clock.map(TimestampMs),
    })
}

fn owner_row((shard, generation, node, incarnation): OwnerCells) -> Option<OwnerRow> {
    let holder =
        node.filter(|node| !node.is_empty())
            .zip(incarnation)
            .map(|(node, incarnation)| Member {
                node: NodeName(node),
                incarnation: Incarnation(incarnation.unsigned_abs()),
            });
    Some(OwnerRow {
        shard: Shard(u8::try_from(shard).ok()?),
        generation: generation?.unsigned_abs(),
        holder,
    })
}

impl Inner {
    async fn transact(&self, statement: &PreparedStatement, values: impl SerializeRow) -> Outcome {
        match self.db.lightweight(statement, values).await {
            Ok(Lwt::Applied) => Outcome::Applied,
            Ok(Lwt::Refused) => Outcome::Refused,
            // A serial read is safe for any reason.
            Ok(Lwt::InDoubt(error)) | Err(error) => {
                tracing::warn!(
                    error = error_text(&error),
                    "a change of the nodes' tables is in doubt"
                );
                Outcome::Unknown
            }
        }
    }

    async fn change_nodes(&self, change: &Change) -> Outcome {
        let statements = &self.db.statements;
        match change {
            Change::Join { member, after } => {
                let (node, incarnation) = (member.node.0.as_str(), cell(member.incarnation.0));
                match after {
                    None => {
                        let values = (CLUSTER, node, incarnation);
                        self.transact(&statements.member_make, values).await
                    }
                    Some(after) => {
                        let values = (incarnation, CLUSTER, node, cell(after.0));
                        self.transact(&statements.member_rejoin, values).await
                    }
                }
            }
            Change::Heartbeat {
                member,
                heartbeat,
                status,
            } => {
                let (node, incarnation) = (member.node.0.as_str(), cell(member.incarnation.0));
                let (beat, status) = (cell(*heartbeat), status_cell(*status));
                let now = self.clock.now().0;
                let values = (beat, status, now, READS_LAYOUT, CLUSTER, node, incarnation);
                self.transact(&statements.member_beat, values).await
            }
            Change::MarkDead { member, heartbeat } => {
                let (node, incarnation) = (member.node.0.as_str(), cell(member.incarnation.0));
                let values = (CLUSTER, node, incarnation, cell(*heartbeat));
                self.transact(&statements.member_gone, values).await
            }
            Change::Leave { member } => {
                let values = (CLUSTER, member.node.0.as_str(), cell(member.incarnation.0));
                self.transact(&statements.member_leave, values).await
            }
            Change::Claim {
                shard,
                member,
                from,
            } => {
                let (shard, node) = (i16::from(shard.0), member.node.0.as_str());
                let incarnation = cell(member.incarnation.0);
                if *from == 0 {
                    let values = (shard, node, incarnation);
                    self.transact(&statements.owner_make, values).await
                } else {
                    let values = (cell(from + 1), node, incarnation, shard, cell(*from));
                    self.transact(&statements.owner_claim, values).await
                }
            }
            Change::Release {
                shard,
                member,
                generation,
            } => {
                let values = (
                    i16::from(shard.0),
                    cell(*generation),
                    member.node.0.as_str(),
                    cell(member.incarnation.0),
                );
                self.transact(&statements.owner_release, values).await
            }
        }
    }

    /// Returns the rows of all members.
    pub(in crate::cql) async fn members(&self, mode: ReadMode) -> StoreResult<Vec<MemberRow>> {
        let statement = match mode {
            ReadMode::Plain => &self.db.statements.members_get,
            ReadMode::Serial => &self.db.statements.members_serial,
        };
        let rows: Vec<MemberCells> = self.db.few(statement, (CLUSTER,)).await?;
        Ok(rows.into_iter().filter_map(member_row).collect())
    }
}

#[async_trait]
impl NodesTable for CqlStore {
    fn written_generation(&self, generation: u64) -> u64 {
        written_generation(self.epoch(), generation)
    }

    async fn change_nodes(&self, change: &Change) -> Outcome {
        self.inner.change_nodes(change).await
    }

    async fn members(&self, mode: ReadMode) -> StoreResult<Vec<MemberRow>> {
        self.inner.members(mode).await
    }

    async fn owners(&self) -> StoreResult<Vec<OwnerRow>> {
        let db = &self.inner.db;
        let rows: Vec<OwnerCells> = db.few(&db.statements.owners_get, ()).await?;
        Ok(rows.into_iter().filter_map(owner_row).collect())
    }

    async fn owner(&self, shard: Shard) -> StoreResult<Option<OwnerRow>> {
        let db = &self.inner.db;
        let key = i16::from(shard.0);
        let row: Option<OwnerCells> = db.row(&db.statements.owner_serial, (key,)).await?;
        row.map(|cells| {
            owner_row(cells)
                .ok_or_else(|| StoreError::Damaged("shard_owner: cells are missing".to_owned()))
        })
        .transpose()
    }
}
