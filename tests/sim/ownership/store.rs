//! The two tables, linearizable, with conditional writes.

use std::collections::BTreeMap;

use porchlight_core::ownership::{Change, Member, MemberRow, MemberStatus, NodeName, OwnerRow};
use porchlight_schema::ids::Shard;
use porchlight_schema::time::TimestampMs;

#[derive(Debug, Default)]
pub(super) struct Tables {
    pub(super) members: BTreeMap<NodeName, MemberRow>,
    pub(super) owners: BTreeMap<u8, (u64, Option<Member>)>,
}

/// The row that a change concerns: a serial read settles it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Row {
    Members,
    Owner(Shard),
}

pub(super) fn row_of(change: &Change) -> Row {
    match change {
        Change::Claim { shard, .. } | Change::Release { shard, .. } => Row::Owner(*shard),
        _ => Row::Members,
    }
}

impl Tables {
    /// Applies the change if its condition holds. Returns whether it did. `sent_at` is the wall
    /// clock of the node that requested it.
    pub(super) fn apply(&mut self, change: &Change, sent_at: TimestampMs) -> bool {
        match change {
            Change::Join { member, after } => {
                let found = self.members.get(&member.node);
                if found.map(|row| row.member.incarnation) != *after {
                    return false;
                }
                self.members.insert(
                    member.node.clone(),
                    MemberRow {
                        member: member.clone(),
                        heartbeat: 0,
                        status: MemberStatus::Up,
                        clock: None,
                    },
                );
                true
            }
            Change::Heartbeat {
                member,
                heartbeat,
                status,
            } => self.change_member(member, |row| {
                row.status != MemberStatus::Gone && {
                    (row.heartbeat, row.status) = (*heartbeat, *status);
                    row.clock = Some(sent_at);
                    true
                }
            }),
            Change::MarkDead { member, heartbeat } => self.change_member(member, |row| {
                row.heartbeat == *heartbeat && {
                    row.status = MemberStatus::Gone;
                    true
                }
            }),
            Change::Leave { member } => self.change_member(member, |row| {
                row.status = MemberStatus::Gone;
                true
            }),
            Change::Claim {
                shard,
                member,
                from,
            } => {
                let row = self.owners.entry(shard.0).or_insert((0, None));
                row.0 == *from && {
                    *row = (from + 1, Some(member.clone()));
                    true
                }
            }
            Change::Release {
                shard,
                member,
                generation,
            } => {
                let Some(row) = self.owners.get_mut(&shard.0) else {
                    return false;
                };
                row.0 == *generation && row.1.as_ref() == Some(member) && {
                    row.1 = None;
                    true
                }
            }
        }
    }

    fn change_member(
        &mut self,
        member: &Member,
        then: impl FnOnce(&mut MemberRow) -> bool,
    ) -> bool {
        let row = self.members.get_mut(&member.node);
        row.filter(|row| row.member == *member).is_some_and(then)
    }

    pub(super) fn members(&self) -> Vec<MemberRow> {
        self.members.values().cloned().collect()
    }

    pub(super) fn owner(&self, shard: Shard) -> Option<OwnerRow> {
        let (generation, holder) = self.owners.get(&shard.0).filter(|row| row.0 > 0)?;
        Some(OwnerRow {
            shard,
            generation: *generation,
            holder: holder.clone(),
        })
    }

    pub(super) fn owners(&self) -> Vec<OwnerRow> {
        (0..=255)
            .filter_map(|shard| self.owner(Shard(shard)))
            .collect()
    }
}
