//! One node's knowledge of the others, measured by its own clock.

use std::collections::BTreeMap;

use super::{
    DEAD_AFTER_MS, DEAD_STAGGER_MS, Incarnation, Member, MemberRow, MemberStatus, MonotonicMs,
    NEWCOMER_WAIT_MS, NodeName,
};

/// A member as this node observed it.
#[derive(Debug, Clone)]
struct ObservedMember {
    row: MemberRow,
    /// The time at which this node first saw the member's newest heartbeat.
    heartbeat_seen_at: MonotonicMs,
    /// The time at which this node first saw the member's current incarnation.
    incarnation_seen_at: MonotonicMs,
}

/// The status of a shard's holder, which says whether it may still act.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HolderStatus {
    /// The member may still act.
    Alive,
    /// The member may not act: it was marked dead, left, or restarted with a new incarnation.
    Ended,
    /// The member is newer than the last read of the members.
    Unknown,
}

/// The members as observed. Rows only advance: an older read changes nothing.
#[derive(Debug, Clone, Default)]
pub(super) struct Membership {
    seen: BTreeMap<NodeName, ObservedMember>,
    /// Holders of shards that have no member row, and since when.
    without_row: BTreeMap<Member, MonotonicMs>,
}

impl Membership {
    /// Processes a read of the members. Returns whether a member joined, left or changed its
    /// status.
    pub(super) fn read(&mut self, now: MonotonicMs, rows: Vec<MemberRow>) -> bool {
        let mut changed = false;
        for row in rows {
            self.without_row
                .retain(|member, _| member.node != row.member.node);
            match self.seen.get_mut(&row.member.node) {
                None => {
                    changed = true;
                    self.seen
                        .insert(row.member.node.clone(), ObservedMember::first(now, row));
                }
                Some(seen) if row.member.incarnation > seen.row.member.incarnation => {
                    changed = true;
                    *seen = ObservedMember::first(now, row);
                }
                Some(seen) if row.member.incarnation == seen.row.member.incarnation => {
                    changed |= seen.update(now, row);
                }
                Some(_) => {}
            }
        }
        changed
    }

    /// Returns the incarnation in a node's row.
    pub(super) fn incarnation(&self, node: &NodeName) -> Option<Incarnation> {
        Some(self.seen.get(node)?.row.member.incarnation)
    }

    /// Returns a node's row.
    pub(super) fn row(&self, node: &NodeName) -> Option<&MemberRow> {
        Some(&self.seen.get(node)?.row)
    }

    /// Returns the members that are up and whose heartbeat is fresh: they own shards or soon will.
    pub(super) fn up(&self, now: MonotonicMs) -> impl Iterator<Item = &NodeName> + Clone {
        self.fresh(now).map(|(node, _)| node)
    }

    /// Returns the members of [`Self::up`] that joined long enough ago for every node to know them.
    pub(super) fn established(&self, now: MonotonicMs) -> impl Iterator<Item = &NodeName> + Clone {
        self.fresh(now)
            .filter(move |(_, seen)| now.since_ms(seen.incarnation_seen_at) >= NEWCOMER_WAIT_MS)
            .map(|(node, _)| node)
    }

    /// Returns the members that are up and whose last heartbeat is newer than [`DEAD_AFTER_MS`].
    fn fresh(
        &self,
        now: MonotonicMs,
    ) -> impl Iterator<Item = (&NodeName, &ObservedMember)> + Clone {
        self.seen.iter().filter(move |(_, seen)| {
            seen.row.status == MemberStatus::Up
                && now.since_ms(seen.heartbeat_seen_at) < DEAD_AFTER_MS
        })
    }

    /// Returns whether this holder of a shard may still act. A holder without a row counts as alive
    /// for [`DEAD_AFTER_MS`].
    pub(super) fn holder_status(&mut self, now: MonotonicMs, holder: &Member) -> HolderStatus {
        let Some(seen) = self.seen.get(&holder.node) else {
            let since = *self.without_row.entry(holder.clone()).or_insert(now);
            return if now.since_ms(since) >= DEAD_AFTER_MS {
                HolderStatus::Ended
            } else {
                HolderStatus::Unknown
            };
        };
        let row = &seen.row;
        if holder.incarnation > row.member.incarnation {
            HolderStatus::Unknown
        } else if holder.incarnation < row.member.incarnation || row.status == MemberStatus::Gone {
            HolderStatus::Ended
        } else {
            HolderStatus::Alive
        }
    }

    /// Returns the members that `me` should mark dead, each with the number of its last seen
    /// heartbeat.
    pub(super) fn overdue(&self, now: MonotonicMs, me: &NodeName) -> Vec<(Member, u64)> {
        let rank = self.up(now).take_while(|node| *node < me).count();
        let wait_ms = DEAD_AFTER_MS
            + DEAD_STAGGER_MS * u64::try_from(rank).unwrap_or(u64::MAX / DEAD_STAGGER_MS);
        self.seen
            .iter()
            .filter(|(node, seen)| {
                *node != me
                    && seen.row.status != MemberStatus::Gone
                    && now.since_ms(seen.heartbeat_seen_at) >= wait_ms
            })
            .map(|(_, seen)| (seen.row.member.clone(), seen.row.heartbeat))
            .collect()
    }

    /// Returns the names of the members that are not dead.
    pub(super) fn names(&self) -> impl Iterator<Item = &NodeName> {
        let is_alive =
            |(_, seen): &(&NodeName, &ObservedMember)| seen.row.status != MemberStatus::Gone;
        self.seen.iter().filter(is_alive).map(|(node, _)| node)
    }
}

impl ObservedMember {
    fn first(now: MonotonicMs, row: MemberRow) -> Self {
        Self {
            row,
            heartbeat_seen_at: now,
            incarnation_seen_at: now,
        }
    }

    /// Processes another read of the same incarnation. Returns whether its status changed. A dead
    /// incarnation stays dead, and a leaving incarnation does not come up again.
    fn update(&mut self, now: MonotonicMs, row: MemberRow) -> bool {
        if row.heartbeat > self.row.heartbeat {
            self.row.heartbeat = row.heartbeat;
            self.heartbeat_seen_at = now;
        }
        let is_later = row.status as u8 > self.row.status as u8;
        if is_later {
            self.row.status = row.status;
        }
        is_later
    }
}
