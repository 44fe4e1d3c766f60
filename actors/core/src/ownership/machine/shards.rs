//! The part of the ownership machine that claims, moves and releases shards.

use porchlight_schema::ids::{Shard, ShardSet};

use super::super::membership::HolderStatus;
use super::super::placement::Target;
use super::super::shard_view::Hold;
use super::super::{
    CLAIMS_IN_FLIGHT_MAX, Change, DOUBT_RETRY_MS, DRAINS_IN_FLIGHT_MAX, Effect, Member,
    MonotonicMs, Outcome, OwnerRow, SHARDS_WAIT_MS_MAX,
};
use super::{OwnershipMachine, ShardView};

impl OwnershipMachine {
    fn view(&mut self, shard: Shard) -> Option<&mut ShardView> {
        self.views.get_mut(usize::from(shard.0))
    }

    /// Returns the number of shards in one of the states that `is_counted` accepts.
    fn count(&self, is_counted: impl Fn(Hold) -> bool) -> usize {
        let views = self.views.iter();
        views.filter(|view| is_counted(view.hold)).count()
    }

    /// Stops acting for all shards immediately.
    pub(super) fn drop_all(&mut self, effects: &mut Vec<Effect>) {
        for (shard, view) in ShardSet::ALL.iter().zip(&mut self.views) {
            if let Some(generation) = view.hold.acting() {
                effects.push(Effect::Drop(shard, generation));
            }
            view.hold = Hold::None;
            view.read_requested_at = None;
        }
    }

    /// Repeats unanswered serial reads, which resolve writes in doubt.
    pub(super) fn retry_doubt_reads(&mut self, now: MonotonicMs, effects: &mut Vec<Effect>) {
        for (shard, view) in ShardSet::ALL.iter().zip(&mut self.views) {
            if view
                .read_requested_at
                .is_some_and(|at| now.since_ms(at) >= DOUBT_RETRY_MS)
            {
                view.read_requested_at = Some(now);
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
        if !self.are_owners_known {
            return;
        }
        if self.is_leaving {
            self.plan_leaving(&me, effects);
            return;
        }
        let (up, established) = (self.members.up(now), self.members.established(now));
        self.placement.update(&self.node, up, established);
        let mut claims = self.count(|hold| matches!(hold, Hold::Claiming(_) | Hold::InDoubt(_)));
        let mut drains = self.count(|hold| matches!(hold, Hold::Draining(_) | Hold::Releasing(_)));
        for shard in ShardSet::ALL.iter() {
            let target = self.placement.of(shard);
            let Some(view) = self.views.get_mut(usize::from(shard.0)) else {
                continue;
            };
            match view.hold {
                Hold::None if target == Target::ThisNode && claims < CLAIMS_IN_FLIGHT_MAX => {
                    let free = match view.holder() {
                        None => view.known.is_some(),
                        // The claim is an old one of this node: its lease has expired, or an
                        // earlier incarnation made it.
                        Some(holder) if holder.node == me.node => true,
                        Some(holder) => {
                            self.members.holder_status(now, holder) == HolderStatus::Ended
                        }
                    };
                    if free {
                        claims += 1;
                        let from = view.generation();
                        view.hold = Hold::Claiming(from);
                        effects.push(Effect::Change(Change::Claim {
                            shard,
                            member: me.clone(),
                            from,
                        }));
                    }
                }
                Hold::Held(generation)
                    if target == Target::OtherNode && drains < DRAINS_IN_FLIGHT_MAX =>
                {
                    drains += 1;
                    view.hold = Hold::Draining(generation);
                    effects.push(Effect::Drain(shard, generation));
                }
                // A claim that was applied although its answer was lost, of a shard that belongs to
                // another node by now.
                Hold::None
                    if target == Target::OtherNode
                        && drains < DRAINS_IN_FLIGHT_MAX
                        && view.holder() == Some(&me) =>
                {
                    drains += 1;
                    let generation = view.generation();
                    view.hold = Hold::Releasing(generation);
                    effects.push(Effect::Change(Change::Release {
                        shard,
                        member: me.clone(),
                        generation,
                    }));
                }
                _ => {}
            }
        }
        self.note_received_shards(now);
    }

    /// Notes that this node holds all shards that belong to it, or has waited long enough for them.
    fn note_received_shards(&mut self, now: MonotonicMs) {
        if self.has_received_shards {
            return;
        }
        let is_missing = |(shard, view): (Shard, &ShardView)| {
            self.placement.of(shard) == Target::ThisNode && view.hold.acting().is_none()
        };
        let is_established = self.members.established(now).any(|node| *node == self.node);
        let has_all = is_established && !ShardSet::ALL.iter().zip(&self.views).any(is_missing);
        let has_waited = self
            .first_joined_at
            .is_some_and(|at| now.since_ms(at) >= SHARDS_WAIT_MS_MAX);
        self.has_received_shards = has_all || has_waited;
    }

    /// Drains all shards, and then requests to leave.
    fn plan_leaving(&mut self, me: &Member, effects: &mut Vec<Effect>) {
        let mut drains = self.count(|hold| matches!(hold, Hold::Draining(_) | Hold::Releasing(_)));
        for (shard, view) in ShardSet::ALL.iter().zip(&mut self.views) {
            if let Hold::Held(generation) = view.hold
                && drains < DRAINS_IN_FLIGHT_MAX
            {
                drains += 1;
                view.hold = Hold::Draining(generation);
                effects.push(Effect::Drain(shard, generation));
            }
        }
        let has_any = self.views.iter().any(|view| view.hold != Hold::None);
        // An unanswered heartbeat may still write the row of this member.
        if !has_any && self.is_heartbeat_answered() && !self.is_leave_requested {
            self.is_leave_requested = true;
            effects.push(Effect::Change(Change::Leave { member: me.clone() }));
        }
    }

    pub(super) fn on_owners(&mut self, rows: Vec<OwnerRow>, effects: &mut Vec<Effect>) {
        self.are_owners_known |= self.member().is_some();
        for view in &mut self.views {
            view.known.get_or_insert((0, None));
        }
        for row in rows {
            self.on_owner_row(row.shard, Some(row), effects);
        }
    }

    /// Processes a read of a shard's row. A higher generation than the one held is another node's
    /// claim.
    fn on_owner_row(&mut self, shard: Shard, row: Option<OwnerRow>, effects: &mut Vec<Effect>) {
        let Some(view) = self.view(shard) else { return };
        view.read(row);
        let generation = view.generation();
        if view.hold.stored().is_some_and(|held| held < generation) {
            if let Some(held) = view.hold.acting() {
                effects.push(Effect::Drop(shard, held));
            }
            view.hold = Hold::None;
            view.read_requested_at = None;
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
        self.on_owner_row(shard, row, effects);
        let may_act = self.may_act(now);
        let Some(me) = self.member().cloned() else {
            return;
        };
        let Some(view) = self.view(shard) else { return };
        if view.read_requested_at.take().is_none() {
            return;
        }
        let is_mine = view.holder() == Some(&me);
        match view.hold {
            Hold::InDoubt(from) if is_mine && view.generation() == from + 1 && may_act => {
                view.hold = Hold::Held(from + 1);
                effects.push(Effect::Start(shard, from + 1));
            }
            Hold::InDoubt(_) => view.hold = Hold::None,
            Hold::Releasing(generation) if is_mine => {
                effects.push(Effect::Change(Change::Release {
                    shard,
                    member: me,
                    generation,
                }));
            }
            Hold::Releasing(_) => view.hold = Hold::None,
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
        let Some(view) = self.view(shard) else { return };
        // A shard that was fenced in the meantime appears in a read as a claim that this node does
        // not hold.
        if view.hold != Hold::Claiming(from) {
            return;
        }
        match outcome {
            Outcome::Applied if may_act => {
                view.known = Some((from + 1, Some(member.clone())));
                view.hold = Hold::Held(from + 1);
                effects.push(Effect::Start(shard, from + 1));
            }
            Outcome::Applied => view.hold = Hold::None,
            Outcome::Refused => {
                view.hold = Hold::None;
                view.known = None;
                view.read_requested_at = Some(now);
                effects.push(Effect::ReadOwner(shard));
            }
            Outcome::Unknown => {
                view.hold = Hold::InDoubt(from);
                view.read_requested_at = Some(now);
                effects.push(Effect::ReadOwner(shard));
            }
        }
    }

    pub(super) fn on_drained(&mut self, shard: Shard, generation: u64, effects: &mut Vec<Effect>) {
        let Some(member) = self.member().cloned() else {
            return;
        };
        let Some(view) = self.view(shard) else { return };
        if view.hold == Hold::Draining(generation) {
            view.hold = Hold::Releasing(generation);
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
        let Some(view) = self.view(shard) else { return };
        if view.hold != Hold::Releasing(generation) {
            return;
        }
        if outcome == Outcome::Applied {
            view.hold = Hold::None;
            view.known = Some((generation, None));
        } else {
            view.read_requested_at = Some(now);
            effects.push(Effect::ReadOwner(shard));
        }
    }
}
