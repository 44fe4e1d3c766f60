//! One node's knowledge of the others, measured by its own clock.

use std::collections::BTreeMap;

use super::{
    DEAD_AFTER_MS, DEAD_STAGGER_MS, Incarnation, Member, MemberRow, MemberStatus, MonotonicMs,
    NodeName, SETTLE_MS,
};

/// A member as observed.
#[derive(Debug, Clone)]
struct Seen {
    row: MemberRow,
    /// The time at which this node first saw the member's newest heartbeat.
    beat_at: MonotonicMs,
    /// The time at which this node first saw the member's current incarnation.
    life_at: MonotonicMs,
}

/// Whether the holder of a shard may still act.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Life {
    /// The member may still act.
    Alive,
    /// The member may not act: it was marked dead, left, or restarted with a new incarnation.
    Over,
    /// The member is newer than the last read of the members.
    Unknown,
}

/// The members as observed. Rows only advance: an older read changes nothing.
#[derive(Debug, Clone, Default)]
pub(super) struct Membership {
    seen: BTreeMap<NodeName, Seen>,
    /// Holders of shards that have no member row, and since when.
    nameless: BTreeMap<Member, MonotonicMs>,
}

impl Membership {
    /// Processes a read; true if a member joined, left or changed status.
    pub(super) fn read(&mut self, now: MonotonicMs, rows: Vec<MemberRow>) -> bool {
        let mut changed = false;
        for row in rows {
            self.nameless
                .retain(|member, _| member.node != row.member.node);
            match self.seen.get_mut(&row.member.node) {
                None => {
                    changed = true;
                    self.seen
                        .insert(row.member.node.clone(), Seen::first(now, row));
                }
                Some(seen) if row.member.incarnation > seen.row.member.incarnation => {
                    changed = true;
                    *seen = Seen::first(now, row);
                }
                Some(seen) if row.member.incarnation == seen.row.member.incarnation => {
                    changed |= seen.newer(now, row);
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

    /// Members that are up and whose heartbeat is fresh: they own shards or soon will.
    pub(super) fn up(&self, now: MonotonicMs) -> impl Iterator<Item = &NodeName> + Clone {
        self.heard(now).map(|(node, _)| node)
    }

    /// Members of [`Self::up`] that joined long enough ago for every node to know them.
    pub(super) fn settled(&self, now: MonotonicMs) -> impl Iterator<Item = &NodeName> + Clone {
        self.heard(now)
            .filter(move |(_, seen)| now.since_ms(seen.life_at) >= SETTLE_MS)
            .map(|(node, _)| node)
    }

    fn heard(&self, now: MonotonicMs) -> impl Iterator<Item = (&NodeName, &Seen)> + Clone {
        self.seen.iter().filter(move |(_, seen)| {
            seen.row.standing == MemberStatus::Up && now.since_ms(seen.beat_at) < DEAD_AFTER_MS
        })
    }

    /// Returns whether this holder of a shard may still act. A holder without a row counts as alive
    /// for [`DEAD_AFTER_MS`].
    pub(super) fn life(&mut self, now: MonotonicMs, holder: &Member) -> Life {
        let Some(seen) = self.seen.get(&holder.node) else {
            let since = *self.nameless.entry(holder.clone()).or_insert(now);
            return if now.since_ms(since) >= DEAD_AFTER_MS {
                Life::Over
            } else {
                Life::Unknown
            };
        };
        let row = &seen.row;
        if holder.incarnation > row.member.incarnation {
            Life::Unknown
        } else if holder.incarnation < row.member.incarnation || row.standing == MemberStatus::Gone
        {
            Life::Over
        } else {
            Life::Alive
        }
    }

    /// Members that `me` should mark dead, with the number of their last seen heartbeat.
    pub(super) fn overdue(&self, now: MonotonicMs, me: &NodeName) -> Vec<(Member, u64)> {
        let rank = self.up(now).take_while(|node| *node < me).count();
        let wait_ms = DEAD_AFTER_MS
            + DEAD_STAGGER_MS * u64::try_from(rank).unwrap_or(u64::MAX / DEAD_STAGGER_MS);
        self.seen
            .iter()
            .filter(|(node, seen)| {
                *node != me
                    && seen.row.standing != MemberStatus::Gone
                    && now.since_ms(seen.beat_at) >= wait_ms
            })
            .map(|(_, seen)| (seen.row.member.clone(), seen.row.beat))
            .collect()
    }

    /// Returns the number of members that are not dead.
    pub(super) fn living(&self) -> usize {
        self.names().count()
    }

    /// Names of the members that are not dead.
    pub(super) fn names(&self) -> impl Iterator<Item = &NodeName> {
        let living = |(_, seen): &(&NodeName, &Seen)| seen.row.standing != MemberStatus::Gone;
        self.seen.iter().filter(living).map(|(node, _)| node)
    }
}

impl Seen {
    fn first(now: MonotonicMs, row: MemberRow) -> Self {
        Self {
            row,
            beat_at: now,
            life_at: now,
        }
    }

    /// Processes another read of the same incarnation; returns whether its status changed. A dead
    /// incarnation stays dead, and a leaving incarnation does not come up again.
    fn newer(&mut self, now: MonotonicMs, row: MemberRow) -> bool {
        if row.beat > self.row.beat {
            self.row.beat = row.beat;
            self.beat_at = now;
        }
        let is_later = row.standing as u8 > self.row.standing as u8;
        if is_later {
            self.row.standing = row.standing;
        }
        is_later
    }
}
