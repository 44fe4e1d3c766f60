//! The ownership machine of one node.

mod shards;

use porchlight_schema::ids::Shard;
use porchlight_schema::limits::SHARDS;

use super::clocks::{ClockState, ClockVerdict, Clocks};
use super::membership::Membership;
use super::placement::Placement;
use super::shard_view::ShardView;
use super::{
    Change, Effect, HEARTBEAT_MS, Incarnation, Input, JOIN_RETRY_MS, LEASE_MS, MEMBERS_READ_MS,
    Member, MemberStatus, MembersRead, MonotonicMs, NodeName, OWNERS_READ_MS, Outcome, ReadMode,
};

/// The number of random low bits of an incarnation. They keep two processes that start with one
/// name at the same moment from taking each other's row for their own.
const SALT_BITS: u32 = 20;

/// The node's membership.
#[derive(Debug, Clone, PartialEq, Eq)]
enum MembershipState {
    /// The node reads its row.
    Seeking,
    /// The request to join is in flight.
    Joining {
        member: Member,
        started: MonotonicMs,
    },
    /// The node is a member.
    In(Lease),
    /// The node left or was replaced, and does nothing more.
    Out,
}

/// The facts on which a member's right to act rests.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Lease {
    member: Member,
    /// The start of the last heartbeat, or of the join, that is known to have been applied.
    confirmed_at: MonotonicMs,
    /// The number of the last heartbeat that was requested.
    heartbeat: u64,
    /// The time at which that heartbeat was requested.
    heartbeat_started: MonotonicMs,
    /// Whether the answer to that heartbeat is outstanding.
    is_in_flight: bool,
}

/// Decides which shards one node holds.
///
/// Give it every answer and a tick at least every [`TICK_MS_MAX`](super::TICK_MS_MAX), and perform
/// its effects. Ask [`Self::holds`] before every action for a shard.
#[derive(Debug, Clone)]
pub struct OwnershipMachine {
    node: NodeName,
    salt: u64,
    membership: MembershipState,
    members: Membership,
    clocks: Clocks,
    placement: Placement,
    /// The state of each shard, indexed by shard.
    views: Vec<ShardView>,
    /// Whether all owners were read since the node joined.
    are_owners_known: bool,
    /// The time at which this process first became a member.
    first_joined_at: Option<MonotonicMs>,
    /// See [`Self::has_received_shards`].
    has_received_shards: bool,
    heartbeat_due: MonotonicMs,
    owners_due: MonotonicMs,
    members_due: MonotonicMs,
    is_leaving: bool,
    /// Whether [`Change::Leave`] was requested.
    is_leave_requested: bool,
}

impl OwnershipMachine {
    /// Creates the machine of the node with this name. `salt` is random. The first [`Input::Tick`]
    /// starts it.
    #[must_use]
    pub fn new(node: NodeName, salt: u64) -> Self {
        Self {
            node,
            salt,
            membership: MembershipState::Seeking,
            members: Membership::default(),
            clocks: Clocks::default(),
            placement: Placement::default(),
            views: vec![ShardView::default(); SHARDS],
            are_owners_known: false,
            first_joined_at: None,
            has_received_shards: false,
            heartbeat_due: MonotonicMs::default(),
            owners_due: MonotonicMs::default(),
            members_due: MonotonicMs::default(),
            is_leaving: false,
            is_leave_requested: false,
        }
    }

    /// Returns the generation in which this node may act for the shard now; `None` if it may not.
    /// The answer is valid at this moment only.
    #[must_use]
    pub fn holds(&self, shard: Shard, now: MonotonicMs) -> Option<u64> {
        let view = self.views.get(usize::from(shard.0))?;
        view.hold.acting().filter(|_| self.may_act(now))
    }

    /// Returns the number of shards held now.
    #[must_use]
    pub fn held(&self, now: MonotonicMs) -> usize {
        let holding = |view: &&ShardView| view.hold.acting().is_some();
        if self.may_act(now) {
            self.views.iter().filter(holding).count()
        } else {
            0
        }
    }

    /// Returns whether this node has held all shards that belong to it at least once since it
    /// started, or has waited [`SHARDS_WAIT_MS_MAX`](super::SHARDS_WAIT_MS_MAX) for them. If the
    /// next node of a rolling restart stops only after that, no shard moves more than twice: away
    /// from its node, and back.
    #[must_use]
    pub fn has_received_shards(&self) -> bool {
        self.has_received_shards
    }

    /// Returns the owner of a shard as last read, to which batches are forwarded. Returns `None` if
    /// the shard has no owner or nothing was read yet.
    #[must_use]
    pub fn holder(&self, shard: Shard) -> Option<&NodeName> {
        let view = self.views.get(usize::from(shard.0))?;
        Some(&view.holder()?.node)
    }

    /// Returns the members that are not dead as last read, including this node.
    pub fn members(&self) -> impl Iterator<Item = &NodeName> {
        self.members.names()
    }

    /// Returns the time at which this node must stop acting, given the heartbeats answered so far;
    /// `None` while it is not a member.
    #[must_use]
    pub fn acts_until(&self) -> Option<MonotonicMs> {
        match &self.membership {
            MembershipState::In(lease) => Some(lease.confirmed_at.plus_ms(LEASE_MS)),
            _ => None,
        }
    }

    /// Returns the milliseconds since the start of the last successful heartbeat; `None` while the
    /// node is not a member.
    #[must_use]
    pub fn heartbeat_age_ms(&self, now: MonotonicMs) -> Option<u64> {
        match &self.membership {
            MembershipState::In(lease) => Some(now.since_ms(lease.confirmed_at)),
            _ => None,
        }
    }

    /// Returns the milliseconds by which this node's wall clock is at least ahead of another
    /// member's; 0 if it may be ahead of none.
    #[must_use]
    pub fn clock_ahead_ms(&self) -> i64 {
        self.clocks.ahead_ms()
    }

    /// Returns the milliseconds by which this node's wall clock is at least behind another
    /// member's; 0 if it may be behind none.
    #[must_use]
    pub fn clock_behind_ms(&self) -> i64 {
        self.clocks.behind_ms()
    }

    /// Returns the agreement of this node's wall clock with those of the other members.
    #[must_use]
    pub fn clock_state(&self, now: MonotonicMs) -> ClockState {
        let is_joining = matches!(self.membership, MembershipState::Seeking);
        self.clocks.state(now, is_joining)
    }

    /// Processes an input at time `now` and returns the effects to perform.
    pub fn handle(&mut self, now: MonotonicMs, input: Input) -> Vec<Effect> {
        let mut effects = Vec::new();
        if matches!(self.membership, MembershipState::Out) {
            return effects;
        }
        self.drop_after_lease(now, &mut effects);
        match input {
            Input::Tick => {}
            Input::Changed {
                started,
                change,
                outcome,
            } => self.on_changed(now, started, change, outcome, &mut effects),
            Input::Members(read) => self.on_members(now, read, &mut effects),
            Input::Owners(rows) => self.on_owners(rows, &mut effects),
            Input::Owner(shard, row) => self.on_owner(now, shard, row, &mut effects),
            Input::Drained(shard, generation) => self.on_drained(shard, generation, &mut effects),
            Input::OwnersOutdated => self.owners_due = now,
            Input::Leave => self.on_leave(now, &mut effects),
        }
        self.emit_due(now, &mut effects);
        effects
    }

    /// Returns whether this node's lease is valid.
    fn may_act(&self, now: MonotonicMs) -> bool {
        self.acts_until().is_some_and(|end| now < end)
    }

    fn member(&self) -> Option<&Member> {
        match &self.membership {
            MembershipState::In(lease) => Some(&lease.member),
            _ => None,
        }
    }

    /// Returns whether this node is a member whose last heartbeat was answered.
    fn is_heartbeat_answered(&self) -> bool {
        matches!(&self.membership, MembershipState::In(lease) if !lease.is_in_flight)
    }

    /// Emits all effects that are due, independent of the input.
    fn emit_due(&mut self, now: MonotonicMs, effects: &mut Vec<Effect>) {
        match &mut self.membership {
            MembershipState::Out => {}
            MembershipState::Seeking | MembershipState::Joining { .. } => {
                if now >= self.heartbeat_due {
                    self.heartbeat_due = now.plus_ms(HEARTBEAT_MS);
                    effects.push(Effect::ReadMembers(ReadMode::Serial));
                }
            }
            MembershipState::In(lease) => {
                if now >= self.heartbeat_due && !lease.is_in_flight {
                    self.heartbeat_due = now.plus_ms(HEARTBEAT_MS);
                    // Only a heartbeat whose predecessor was applied has the next number: other
                    // nodes compare their clocks with such heartbeats.
                    let is_applied = lease.confirmed_at == lease.heartbeat_started;
                    lease.heartbeat += if is_applied { 1 } else { 2 };
                    lease.heartbeat_started = now;
                    lease.is_in_flight = true;
                    effects.push(Effect::Change(Change::Heartbeat {
                        member: lease.member.clone(),
                        heartbeat: lease.heartbeat,
                        status: if self.is_leaving {
                            MemberStatus::Leaving
                        } else {
                            MemberStatus::Up
                        },
                    }));
                }
                if now >= self.members_due {
                    self.members_due = now.plus_ms(MEMBERS_READ_MS);
                    effects.push(Effect::ReadMembers(ReadMode::Plain));
                }
                if now >= self.owners_due {
                    self.owners_due = now.plus_ms(OWNERS_READ_MS);
                    effects.push(Effect::ReadOwners);
                }
                self.retry_doubt_reads(now, effects);
                self.plan(now, effects);
            }
        }
    }

    fn on_changed(
        &mut self,
        now: MonotonicMs,
        started: MonotonicMs,
        change: Change,
        outcome: Outcome,
        effects: &mut Vec<Effect>,
    ) {
        match change {
            Change::Join { member, .. } => self.on_joined(now, started, &member, outcome, effects),
            Change::Heartbeat {
                member, heartbeat, ..
            } => self.on_heartbeat(&member, heartbeat, outcome, effects),
            // Either the mark was set or the member sent a heartbeat after all; the next read shows
            // which.
            Change::MarkDead { .. } => effects.push(Effect::ReadMembers(match outcome {
                Outcome::Applied => ReadMode::Plain,
                Outcome::Refused | Outcome::Unknown => ReadMode::Serial,
            })),
            // Refused or unknown: the other nodes notice the missing heartbeat.
            Change::Leave { .. } => self.leave(effects),
            Change::Claim {
                shard,
                member,
                from,
            } => self.on_claimed(now, shard, &member, from, outcome, effects),
            Change::Release {
                shard, generation, ..
            } => {
                if outcome == Outcome::Applied {
                    effects.push(Effect::NotifyOfRelease);
                }
                self.on_released(now, shard, generation, outcome, effects);
            }
        }
    }

    /// Processes the outcome of a join that was requested at `started`.
    fn on_joined(
        &mut self,
        now: MonotonicMs,
        started: MonotonicMs,
        joined: &Member,
        outcome: Outcome,
        effects: &mut Vec<Effect>,
    ) {
        let MembershipState::Joining { member, .. } = &self.membership else {
            return;
        };
        if member != joined {
            return;
        }
        match outcome {
            Outcome::Applied => self.enter(now, joined.clone(), started),
            Outcome::Refused => {
                self.membership = MembershipState::Seeking;
                self.heartbeat_due = now.plus_ms(HEARTBEAT_MS);
                effects.push(Effect::ReadMembers(ReadMode::Serial));
            }
            Outcome::Unknown => effects.push(Effect::ReadMembers(ReadMode::Serial)),
        }
    }

    /// Becomes a member whose join was started at `confirmed_at`.
    fn enter(&mut self, now: MonotonicMs, member: Member, confirmed_at: MonotonicMs) {
        self.membership = MembershipState::In(Lease {
            member,
            confirmed_at,
            heartbeat: 0,
            heartbeat_started: confirmed_at,
            is_in_flight: false,
        });
        self.heartbeat_due = now.plus_ms(HEARTBEAT_MS);
        self.are_owners_known = false;
        self.first_joined_at.get_or_insert(now);
        self.owners_due = now;
        self.members_due = now;
    }

    /// Processes the outcome of a heartbeat.
    fn on_heartbeat(
        &mut self,
        member: &Member,
        heartbeat: u64,
        outcome: Outcome,
        effects: &mut Vec<Effect>,
    ) {
        let MembershipState::In(lease) = &mut self.membership else {
            return;
        };
        if lease.member != *member || lease.heartbeat != heartbeat {
            return;
        }
        lease.is_in_flight = false;
        if outcome == Outcome::Applied {
            lease.confirmed_at = lease.heartbeat_started;
        }
        if outcome != Outcome::Applied {
            // Refused: the row says whether this node was marked dead or replaced. Unknown: the row
            // says whether the write was applied.
            effects.push(Effect::ReadMembers(ReadMode::Serial));
        }
    }

    /// Processes a read of all members.
    fn on_members(&mut self, now: MonotonicMs, read: MembersRead, effects: &mut Vec<Effect>) {
        self.clocks.read(now, &self.node, &read);
        let changed = self.members.read(now, read.rows);
        if changed {
            self.owners_due = now;
        }
        let row = self.members.row(&self.node).cloned();
        match &mut self.membership {
            MembershipState::Out => {}
            MembershipState::Seeking => self.join(now, effects),
            MembershipState::Joining { member, started } => {
                let (member, started) = (member.clone(), *started);
                match row {
                    Some(row) if row.member == member && row.status != MemberStatus::Gone => {
                        self.enter(now, member, started);
                    }
                    // The row is not there yet: the answer to the join, or the next read, decides.
                    _ if now.since_ms(started) < JOIN_RETRY_MS => {}
                    _ => self.join(now, effects),
                }
            }
            MembershipState::In(lease) => {
                let Some(row) = row else { return };
                if row.member.incarnation > lease.member.incarnation {
                    self.drop_all(effects);
                    self.membership = MembershipState::Out;
                    effects.push(Effect::Replaced);
                } else if row.status == MemberStatus::Gone && self.is_leaving {
                    // The leave was applied, or another node marked this one in the meantime.
                    self.drop_all(effects);
                    self.leave(effects);
                } else if row.status == MemberStatus::Gone {
                    self.drop_all(effects);
                    self.join(now, effects);
                } else if row.heartbeat == lease.heartbeat && !lease.is_in_flight {
                    // A heartbeat whose answer was lost was applied.
                    lease.confirmed_at = lease.confirmed_at.max(lease.heartbeat_started);
                }
            }
        }
        if self.may_act(now) {
            for (member, heartbeat) in self.members.overdue(now, &self.node) {
                effects.push(Effect::Change(Change::MarkDead { member, heartbeat }));
            }
        }
    }

    /// Requests to join, unless this node's clock differs too much from those of the members, or is
    /// not compared with them yet. Then the node reads the members again later.
    fn join(&mut self, now: MonotonicMs, effects: &mut Vec<Effect>) {
        if self.clocks.verdict(now) != ClockVerdict::Join {
            self.membership = MembershipState::Seeking;
            return;
        }
        let after = self.members.incarnation(&self.node);
        let starts = after.map_or(0, |after| after.0 >> SALT_BITS) + 1;
        let salt = self.salt & ((1 << SALT_BITS) - 1);
        let member = Member {
            node: self.node.clone(),
            incarnation: Incarnation((starts << SALT_BITS) | salt),
        };
        self.heartbeat_due = now.plus_ms(HEARTBEAT_MS);
        self.membership = MembershipState::Joining {
            member: member.clone(),
            started: now,
        };
        effects.push(Effect::Change(Change::Join { member, after }));
    }

    fn on_leave(&mut self, now: MonotonicMs, effects: &mut Vec<Effect>) {
        if self.is_leaving {
            return;
        }
        self.is_leaving = true;
        match &mut self.membership {
            MembershipState::In(_) => self.heartbeat_due = now,
            _ => self.leave(effects),
        }
    }

    /// Ends the membership.
    fn leave(&mut self, effects: &mut Vec<Effect>) {
        self.membership = MembershipState::Out;
        effects.push(Effect::Left);
    }

    /// Drops all shards after the end of the lease, regardless of the store's rows.
    fn drop_after_lease(&mut self, now: MonotonicMs, effects: &mut Vec<Effect>) {
        if !self.may_act(now) {
            self.drop_all(effects);
        }
    }
}
