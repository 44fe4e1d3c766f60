//! The machine of one node.

mod shards;

use porchlight_schema::ids::Shard;
use porchlight_schema::limits::SHARDS;

use super::membership::Membership;
use super::placement::Placement;
use super::slot::Slot;
use super::{
    Change, Effect, FENCE_MS, HEARTBEAT_MS, Incarnation, Input, Member, MemberRow, MonotonicMs,
    NodeName, OWNERS_READ_MS, Outcome, Standing,
};

/// Low bits of an incarnation that are chance, so that two processes that start under one name at the same moment do
/// not take each other's row for their own.
const SALT_BITS: u32 = 20;

/// How far the node is in the table of members.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Seat {
    /// It looks for its row.
    Seeking,
    /// It asked to join.
    Joining {
        member: Member,
        started: MonotonicMs,
    },
    /// It is in.
    In(Lease),
    /// It has left, or was replaced, and does nothing more.
    Out,
}

/// What a member's right to act rests on.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Lease {
    member: Member,
    /// The start of the last heartbeat (or of the joining) that is known to have been applied.
    good: MonotonicMs,
    /// Number of the last heartbeat that was asked for.
    beat: u64,
    /// When that was.
    beat_started: MonotonicMs,
    /// It is not answered yet.
    in_flight: bool,
}

/// Which shards one node holds. Give it every answer and a tick twice a second; do what it says; before each act for a
/// shard ask [`Self::holds`].
#[derive(Debug, Clone)]
pub struct OwnershipMachine {
    node: NodeName,
    salt: u64,
    seat: Seat,
    members: Membership,
    placement: Placement,
    /// Indexed by shard.
    slots: Vec<Slot>,
    /// All owners were read since the node joined.
    owners_known: bool,
    beat_due: MonotonicMs,
    owners_due: MonotonicMs,
    leaving: bool,
    /// The last word was said.
    left_asked: bool,
}

impl OwnershipMachine {
    /// The machine of the node of this name. `salt` is chance. It begins with its first [`Input::Tick`].
    #[must_use]
    pub fn new(node: NodeName, salt: u64) -> Self {
        Self {
            node,
            salt,
            seat: Seat::Seeking,
            members: Membership::default(),
            placement: Placement::default(),
            slots: vec![Slot::default(); SHARDS],
            owners_known: false,
            beat_due: MonotonicMs::default(),
            owners_due: MonotonicMs::default(),
            leaving: false,
            left_asked: false,
        }
    }

    /// The generation in which this node may act for the shard now; none where it may not. Good at the moment of asking
    /// only.
    #[must_use]
    pub fn holds(&self, shard: Shard, now: MonotonicMs) -> Option<u64> {
        let slot = self.slots.get(usize::from(shard.0))?;
        slot.hold.acting().filter(|_| self.may_act(now))
    }

    /// Shards held now.
    #[must_use]
    pub fn held(&self, now: MonotonicMs) -> usize {
        let holding = |slot: &&Slot| slot.hold.acting().is_some();
        if self.may_act(now) {
            self.slots.iter().filter(holding).count()
        } else {
            0
        }
    }

    /// Who holds a shard, as last read: where to hand a batch to. None where nobody does, or nothing was read yet.
    #[must_use]
    pub fn holder(&self, shard: Shard) -> Option<&NodeName> {
        let slot = self.slots.get(usize::from(shard.0))?;
        Some(&slot.holder()?.node)
    }

    /// Members that are not gone, as last read; this node among them.
    #[must_use]
    pub fn living(&self) -> usize {
        self.members.living()
    }

    /// The members that are not gone, as last read; this node among them.
    pub fn members(&self) -> impl Iterator<Item = &NodeName> {
        self.members.names()
    }

    /// When this node must stop acting, as far as its heartbeats are answered by now; none while it is not a member.
    #[must_use]
    pub fn acts_until(&self) -> Option<MonotonicMs> {
        match &self.seat {
            Seat::In(lease) => Some(lease.good.plus_ms(FENCE_MS)),
            _ => None,
        }
    }

    /// Milliseconds since the start of the last good heartbeat; none while the node is not a member.
    #[must_use]
    pub fn heartbeat_age_ms(&self, now: MonotonicMs) -> Option<u64> {
        match &self.seat {
            Seat::In(lease) => Some(now.since_ms(lease.good)),
            _ => None,
        }
    }

    /// Takes in what happened at `now`, and says what to do.
    pub fn handle(&mut self, now: MonotonicMs, input: Input) -> Vec<Effect> {
        let mut effects = Vec::new();
        if matches!(self.seat, Seat::Out) {
            return effects;
        }
        self.fence(now, &mut effects);
        match input {
            Input::Tick => {}
            Input::Changed {
                started,
                change,
                outcome,
            } => self.on_changed(now, started, change, outcome, &mut effects),
            Input::Members(rows) => self.on_members(now, rows, &mut effects),
            Input::Owners(rows) => self.on_owners(rows, &mut effects),
            Input::Owner(shard, row) => self.on_owner(now, shard, row, &mut effects),
            Input::Drained(shard, generation) => self.on_drained(shard, generation, &mut effects),
            Input::Hint => self.owners_due = now,
            Input::Leave => self.on_leave(now, &mut effects),
        }
        self.go_on(now, &mut effects);
        effects
    }

    fn may_act(&self, now: MonotonicMs) -> bool {
        matches!(&self.seat, Seat::In(lease) if now.since_ms(lease.good) < FENCE_MS)
    }

    fn member(&self) -> Option<&Member> {
        match &self.seat {
            Seat::In(lease) => Some(&lease.member),
            _ => None,
        }
    }

    /// No heartbeat is under way.
    fn is_quiet(&self) -> bool {
        matches!(&self.seat, Seat::In(lease) if !lease.in_flight)
    }

    /// What is due, whatever the input was.
    fn go_on(&mut self, now: MonotonicMs, effects: &mut Vec<Effect>) {
        match &mut self.seat {
            Seat::Out => {}
            Seat::Seeking | Seat::Joining { .. } => {
                if now >= self.beat_due {
                    self.beat_due = now.plus_ms(HEARTBEAT_MS);
                    effects.push(Effect::ReadMembers { serial: true });
                }
            }
            Seat::In(lease) => {
                if now >= self.beat_due && !lease.in_flight {
                    self.beat_due = now.plus_ms(HEARTBEAT_MS);
                    lease.beat += 1;
                    lease.beat_started = now;
                    lease.in_flight = true;
                    effects.push(Effect::Change(Change::Beat {
                        member: lease.member.clone(),
                        beat: lease.beat,
                        standing: if self.leaving {
                            Standing::Leaving
                        } else {
                            Standing::Up
                        },
                    }));
                }
                if now >= self.owners_due {
                    self.owners_due = now.plus_ms(OWNERS_READ_MS);
                    effects.push(Effect::ReadOwners);
                }
                self.settle_doubts(now, effects);
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
            Change::Beat { member, beat, .. } => self.on_beat(&member, beat, outcome, effects),
            // Whoever did it, or whether the member beat after all: the next reading tells.
            Change::MarkGone { .. } => effects.push(Effect::ReadMembers {
                serial: outcome != Outcome::Applied,
            }),
            Change::Leave { .. } => {
                // Unknown or refused, the others find out by the silence.
                self.seat = Seat::Out;
                effects.push(Effect::Left);
            }
            Change::Claim {
                shard,
                member,
                from,
            } => self.on_claimed(now, shard, &member, from, outcome, effects),
            Change::Release {
                shard, generation, ..
            } => self.on_released(now, shard, generation, outcome, effects),
        }
    }

    fn on_joined(
        &mut self,
        now: MonotonicMs,
        asked: MonotonicMs,
        joined: &Member,
        outcome: Outcome,
        effects: &mut Vec<Effect>,
    ) {
        let Seat::Joining { member, .. } = &self.seat else {
            return;
        };
        if member != joined {
            return;
        }
        match outcome {
            Outcome::Applied => self.enter(now, joined.clone(), asked, effects),
            Outcome::Refused => {
                self.seat = Seat::Seeking;
                self.beat_due = now.plus_ms(HEARTBEAT_MS);
                effects.push(Effect::ReadMembers { serial: true });
            }
            Outcome::Unknown => effects.push(Effect::ReadMembers { serial: true }),
        }
    }

    fn enter(
        &mut self,
        now: MonotonicMs,
        member: Member,
        good: MonotonicMs,
        effects: &mut Vec<Effect>,
    ) {
        self.seat = Seat::In(Lease {
            member,
            good,
            beat: 0,
            beat_started: good,
            in_flight: false,
        });
        self.beat_due = now.plus_ms(HEARTBEAT_MS);
        self.owners_known = false;
        self.owners_due = now;
        effects.push(Effect::ReadMembers { serial: false });
    }

    fn on_beat(&mut self, member: &Member, beat: u64, outcome: Outcome, effects: &mut Vec<Effect>) {
        let Seat::In(lease) = &mut self.seat else {
            return;
        };
        if lease.member != *member || lease.beat != beat {
            return;
        }
        lease.in_flight = false;
        if outcome == Outcome::Applied {
            lease.good = lease.beat_started;
        }
        // Refused: gone, or replaced; the row says which. Unknown: the row says whether it came through.
        let serial = outcome != Outcome::Applied;
        effects.push(Effect::ReadMembers { serial });
    }

    fn on_members(&mut self, now: MonotonicMs, rows: Vec<MemberRow>, effects: &mut Vec<Effect>) {
        let changed = self.members.read(now, rows);
        if changed {
            self.owners_due = now;
        }
        let row = self.members.row(&self.node).cloned();
        match &mut self.seat {
            Seat::Out => {}
            Seat::Seeking => self.join(now, effects),
            Seat::Joining { member, started } => {
                let (member, started) = (member.clone(), *started);
                match row {
                    Some(row) if row.member == member && row.standing != Standing::Gone => {
                        self.enter(now, member, started, effects);
                    }
                    // Not there (yet): the answer to the joining, or the next read, decides.
                    _ if now.since_ms(started) < HEARTBEAT_MS * 2 => {}
                    _ => self.join(now, effects),
                }
            }
            Seat::In(lease) => {
                let Some(row) = row else { return };
                if row.member.incarnation > lease.member.incarnation {
                    self.drop_all(effects);
                    self.seat = Seat::Out;
                    effects.push(Effect::Replaced);
                } else if row.standing == Standing::Gone {
                    self.drop_all(effects);
                    self.join(now, effects);
                } else if row.beat == lease.beat && !lease.in_flight {
                    // A heartbeat whose answer was lost did come through.
                    lease.good = lease.good.max(lease.beat_started);
                }
            }
        }
        if self.may_act(now) {
            for (member, beat) in self.members.overdue(now, &self.node) {
                effects.push(Effect::Change(Change::MarkGone { member, beat }));
            }
        }
    }

    fn join(&mut self, now: MonotonicMs, effects: &mut Vec<Effect>) {
        let after = self.members.incarnation(&self.node);
        let lives = after.map_or(0, |after| after.0 >> SALT_BITS) + 1;
        let salt = self.salt & ((1 << SALT_BITS) - 1);
        let member = Member {
            node: self.node.clone(),
            incarnation: Incarnation((lives << SALT_BITS) | salt),
        };
        self.beat_due = now.plus_ms(HEARTBEAT_MS);
        self.seat = Seat::Joining {
            member: member.clone(),
            started: now,
        };
        effects.push(Effect::Change(Change::Join { member, after }));
    }

    fn on_leave(&mut self, now: MonotonicMs, effects: &mut Vec<Effect>) {
        if self.leaving {
            return;
        }
        self.leaving = true;
        match &mut self.seat {
            Seat::In(_) => self.beat_due = now,
            _ => {
                self.seat = Seat::Out;
                effects.push(Effect::Left);
            }
        }
    }

    /// Past the end of the lease nothing is held, whatever the store's rows say.
    fn fence(&mut self, now: MonotonicMs, effects: &mut Vec<Effect>) {
        if !self.may_act(now) {
            self.drop_all(effects);
        }
    }
}
