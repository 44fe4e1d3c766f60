//! The part of the ownership machine that claims, moves and releases shards.

use porchlight_schema::ids::Shard;

use super::super::membership::Life;
use super::super::placement::Place;
use super::super::slot::Hold;
use super::super::{
    CLAIMS_IN_FLIGHT_MAX, Change, DOUBT_RETRY_MS, DRAINS_IN_FLIGHT_MAX, Effect, Member,
    MonotonicMs, Outcome, OwnerRow,
};
use super::{OwnershipMachine, Slot};

/// Returns all shards, in order.
fn shards() -> impl Iterator<Item = Shard> {
    (0..=u8::MAX).map(Shard)
}

impl OwnershipMachine {
    fn slot(&mut self, shard: Shard) -> Option<&mut Slot> {
        self.slots.get_mut(usize::from(shard.0))
    }

    fn in_flight(&self, is: impl Fn(Hold) -> bool) -> usize {
        self.slots.iter().filter(|slot| is(slot.hold)).count()
    }

    pub(super) fn drop_all(&mut self, effects: &mut Vec<Effect>) {
        for (shard, slot) in shards().zip(&mut self.slots) {
            if let Some(generation) = slot.hold.acting() {
                effects.push(Effect::Drop(shard, generation));
            }
            slot.hold = Hold::None;
            slot.asked = None;
        }
    }

    /// Repeats requests for reads that resolve a doubt and have not been answered.
    pub(super) fn settle_doubts(&mut self, now: MonotonicMs, effects: &mut Vec<Effect>) {
        for (shard, slot) in shards().zip(&mut self.slots) {
            if slot
                .asked
                .is_some_and(|at| now.since_ms(at) >= DOUBT_RETRY_MS)
            {
                slot.asked = Some(now);
                effects.push(Effect::ReadOwner(shard));
            }
        }
    }

    /// Claims shards that should be this node's and have no owner; drains shards that should be
    /// another's.
    pub(super) fn plan(&mut self, now: MonotonicMs, effects: &mut Vec<Effect>) {
        let Some(me) = self.member().cloned().filter(|_| self.may_act(now)) else {
            return;
        };
        if !self.owners_known {
            return;
        }
        if self.leaving {
            self.plan_leaving(&me, effects);
            return;
        }
        let (up, settled) = (self.members.up(now), self.members.settled(now));
        self.placement.update(&self.node, up, settled);
        let mut claims =
            self.in_flight(|hold| matches!(hold, Hold::Claiming(_) | Hold::Doubted(_)));
        let mut drains =
            self.in_flight(|hold| matches!(hold, Hold::Draining(_) | Hold::Releasing(_)));
        for shard in shards() {
            let place = self.placement.of(shard);
            let Some(slot) = self.slots.get_mut(usize::from(shard.0)) else {
                continue;
            };
            match slot.hold {
                Hold::None if place == Place::Mine && claims < CLAIMS_IN_FLIGHT_MAX => {
                    let free = match slot.holder() {
                        None => slot.known.is_some(),
                        // A claim of this node that it no longer holds, or of an earlier
                        // incarnation.
                        Some(holder) if holder.node == me.node => true,
                        Some(holder) => self.members.life(now, holder) == Life::Over,
                    };
                    if free {
                        claims += 1;
                        let from = slot.generation();
                        slot.hold = Hold::Claiming(from);
                        effects.push(Effect::Change(Change::Claim {
                            shard,
                            member: me.clone(),
                            from,
                        }));
                    }
                }
                Hold::Held(generation)
                    if place == Place::Anothers && drains < DRAINS_IN_FLIGHT_MAX =>
                {
                    drains += 1;
                    slot.hold = Hold::Draining(generation);
                    effects.push(Effect::Drain(shard, generation));
                }
                // A claim that was applied although its answer was lost, of a shard that belongs to
                // another node by now.
                Hold::None
                    if place == Place::Anothers
                        && drains < DRAINS_IN_FLIGHT_MAX
                        && slot.holder() == Some(&me) =>
                {
                    drains += 1;
                    let generation = slot.generation();
                    slot.hold = Hold::Releasing(generation);
                    effects.push(Effect::Change(Change::Release {
                        shard,
                        member: me.clone(),
                        generation,
                    }));
                }
                _ => {}
            }
        }
    }

    fn plan_leaving(&mut self, me: &Member, effects: &mut Vec<Effect>) {
        let mut drains =
            self.in_flight(|hold| matches!(hold, Hold::Draining(_) | Hold::Releasing(_)));
        for (shard, slot) in shards().zip(&mut self.slots) {
            if let Hold::Held(generation) = slot.hold
                && drains < DRAINS_IN_FLIGHT_MAX
            {
                drains += 1;
                slot.hold = Hold::Draining(generation);
                effects.push(Effect::Drain(shard, generation));
            }
        }
        let has_any = self.slots.iter().any(|slot| slot.hold != Hold::None);
        let said_so = self.is_quiet();
        if !has_any && said_so && !self.left_asked {
            self.left_asked = true;
            effects.push(Effect::Change(Change::Leave { member: me.clone() }));
        }
    }

    pub(super) fn on_owners(&mut self, rows: Vec<OwnerRow>, effects: &mut Vec<Effect>) {
        self.owners_known |= self.member().is_some();
        for slot in &mut self.slots {
            slot.known.get_or_insert((0, None));
        }
        for row in rows {
            self.learn(row.shard, Some(row), effects);
        }
    }

    /// Processes a read. A higher generation than the one held is another node's claim.
    fn learn(&mut self, shard: Shard, row: Option<OwnerRow>, effects: &mut Vec<Effect>) {
        let Some(slot) = self.slot(shard) else { return };
        slot.read(row);
        let generation = slot.generation();
        if slot.hold.stored().is_some_and(|held| held < generation) {
            if let Some(held) = slot.hold.acting() {
                effects.push(Effect::Drop(shard, held));
            }
            slot.hold = Hold::None;
            slot.asked = None;
        }
    }

    /// Processes a serial read, which resolves doubts.
    pub(super) fn on_owner(
        &mut self,
        now: MonotonicMs,
        shard: Shard,
        row: Option<OwnerRow>,
        effects: &mut Vec<Effect>,
    ) {
        self.learn(shard, row, effects);
        let may_act = self.may_act(now);
        let Some(me) = self.member().cloned() else {
            return;
        };
        let Some(slot) = self.slot(shard) else { return };
        if slot.asked.take().is_none() {
            return;
        }
        let is_mine = slot.holder() == Some(&me);
        match slot.hold {
            Hold::Doubted(from) if is_mine && slot.generation() == from + 1 && may_act => {
                slot.hold = Hold::Held(from + 1);
                effects.push(Effect::Start(shard, from + 1));
            }
            Hold::Doubted(_) => slot.hold = Hold::None,
            Hold::Releasing(generation) if is_mine => {
                effects.push(Effect::Change(Change::Release {
                    shard,
                    member: me,
                    generation,
                }));
            }
            Hold::Releasing(_) => slot.hold = Hold::None,
            _ => {}
        }
    }

    pub(super) fn on_claimed(
        &mut self,
        now: MonotonicMs,
        shard: Shard,
        member: &Member,
        from: u64,
        outcome: Outcome,
        effects: &mut Vec<Effect>,
    ) {
        let may_act = self.may_act(now) && self.member() == Some(member);
        let Some(slot) = self.slot(shard) else { return };
        // A shard that was fenced in the meantime appears in a read as a claim that this node does
        // not hold.
        if slot.hold != Hold::Claiming(from) {
            return;
        }
        match outcome {
            Outcome::Applied if may_act => {
                slot.known = Some((from + 1, Some(member.clone())));
                slot.hold = Hold::Held(from + 1);
                effects.push(Effect::Start(shard, from + 1));
            }
            Outcome::Applied => slot.hold = Hold::None,
            Outcome::Refused => {
                slot.hold = Hold::None;
                slot.known = None;
                slot.asked = Some(now);
                effects.push(Effect::ReadOwner(shard));
            }
            Outcome::Unknown => {
                slot.hold = Hold::Doubted(from);
                slot.asked = Some(now);
                effects.push(Effect::ReadOwner(shard));
            }
        }
    }

    pub(super) fn on_drained(&mut self, shard: Shard, generation: u64, effects: &mut Vec<Effect>) {
        let Some(member) = self.member().cloned() else {
            return;
        };
        let Some(slot) = self.slot(shard) else { return };
        if slot.hold == Hold::Draining(generation) {
            slot.hold = Hold::Releasing(generation);
            effects.push(Effect::Change(Change::Release {
                shard,
                member,
                generation,
            }));
        }
    }

    pub(super) fn on_released(
        &mut self,
        now: MonotonicMs,
        shard: Shard,
        generation: u64,
        outcome: Outcome,
        effects: &mut Vec<Effect>,
    ) {
        let Some(slot) = self.slot(shard) else { return };
        if slot.hold != Hold::Releasing(generation) {
            return;
        }
        if outcome == Outcome::Applied {
            slot.hold = Hold::None;
            slot.known = Some((generation, None));
        } else {
            slot.asked = Some(now);
            effects.push(Effect::ReadOwner(shard));
        }
    }
}
