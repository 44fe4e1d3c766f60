//! Finds the most likely sequence of states for the evidence by Viterbi's algorithm, with a bounded
//! look back. A second is decided as soon as all possible sequences agree on its state.
//!
//! Each change of state has a cost, which gives hysteresis: a pause is accepted only if its
//! evidence outweighs the cost of leaving a state and coming back. A boundary lies where the
//! evidence changes, and not where the change was recognised.

use serde::{Deserialize, Serialize};

use super::frame::KeptFrame;
use super::parameters::changes::CHANGE_COST;
use super::parameters::runs::{DRIVE_UNSEEN_ENTRY_COST, DRIVE_UNSEEN_LAG_MAX};
use super::short_queue::ShortQueue;

/// The possible states of a body, in the order of the tables in [`super::parameters`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum State {
    /// The body stays in place.
    Still,
    /// The body is on foot, on the level.
    Walk,
    /// The body is on foot, changing floors.
    Climb,
    /// The body is carried up or down.
    Ride,
    /// The body is in or on a vehicle.
    Drive,
}

/// The number of states.
pub(super) const STATES: usize = 5;

impl State {
    const ALL: [Self; STATES] = [
        Self::Still,
        Self::Walk,
        Self::Climb,
        Self::Ride,
        Self::Drive,
    ];

    fn of(number: u8) -> Self {
        Self::ALL
            .get(usize::from(number))
            .copied()
            .unwrap_or(Self::Still)
    }
}

/// The log-likelihood of one second in each state, up to a constant.
pub(super) type Evidence = [f32; STATES];

/// The maximum number of seconds whose state may be open, which bounds the latency of a decision.
const DEPTH: usize = 16;

/// The log-odds by which the score of an excluded sequence is lowered: no evidence outweighs it.
const IMPOSSIBLE: f32 = 1e4;

/// The number of states processed together, which is two vectors of the processor. Lanes beyond
/// [`STATES`] are unused.
const LANES: usize = 8;

/// [`CHANGE_COST`] with as many columns as there are lanes.
const LANE_COSTS: [[f32; LANES]; STATES] = lane_costs();

const fn lane_costs() -> [[f32; LANES]; STATES] {
    let mut costs = [[0.0; LANES]; STATES];
    let mut place = 0;
    while place < STATES * STATES {
        costs[place / STATES][place % STATES] = CHANGE_COST[place / STATES][place % STATES];
        place += 1;
    }
    costs
}

/// The limits of the scores, by best state (row) and other state (column). If the scores of the
/// other states lie below them, each state is best reached from the best one. A sequence through a
/// third state then costs more, too.
const DOMINATED: [Evidence; STATES] = dominated();

/// A margin far above the rounding error of a score.
const ROUNDING: f32 = 0.01;

const fn dominated() -> [Evidence; STATES] {
    let mut limits = [[f32::INFINITY; STATES]; STATES];
    let mut place = 0;
    while place < STATES * STATES * STATES {
        let (best, other) = (place / STATES / STATES, place / STATES % STATES);
        let to = place % STATES;
        let limit = CHANGE_COST[other][to] - CHANGE_COST[best][to] - ROUNDING;
        if best != other && limit < limits[best][other] {
            limits[best][other] = limit;
        }
        place += 1;
    }
    limits
}

/// The state before each state of a second: three bits each, those of the first state the lowest.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
struct BackPointers(u16);

impl BackPointers {
    /// Returns pointers with the same state before each state.
    #[inline]
    fn all_from(state: u8) -> Self {
        Self(u16::from(state & 7) * 0o1_1111)
    }

    #[inline]
    fn of(came_from: [u32; LANES]) -> Self {
        let [still, walk, climb, ride, drive, ..] = came_from;
        Self((still | walk << 3 | climb << 6 | ride << 9 | drive << 12) as u16)
    }

    /// Returns the state before `state`. If that is not a state, or was read from a damaged
    /// snapshot, returns any number up to 7.
    #[inline]
    fn before(self, state: u8) -> u8 {
        (u32::from(self.0) >> (3 * u32::from(state & 7)) & 7) as u8
    }

    /// Returns a bit for each state that comes before any state.
    #[inline]
    fn all_before(self) -> u8 {
        (0..STATES as u8).fold(0, |before, state| before | 1 << self.before(state))
    }

    /// Returns a bit for each state that comes before any of the states whose bits are set.
    #[inline]
    fn before_all(self, mut states: u8) -> u8 {
        if self == Self::all_from(self.before(0)) {
            return 1 << self.before(0);
        }
        let mut before = 0_u8;
        while states != 0 {
            before |= 1 << self.before(states.trailing_zeros() as u8);
            states &= states - 1;
        }
        before
    }
}

/// The decoder: the score of the best sequence that ends in each state, and the pointers back along
/// that sequence.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct Decoder {
    scores: Evidence,
    /// The state with the best score.
    best: u8,
    /// The open seconds, oldest first.
    open: ShortQueue<Open, DEPTH>,
}

/// A second whose state is open.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct Open {
    frame: KeptFrame,
    /// The state before each of its states.
    back: BackPointers,
    /// A bit for each state that the second has in a sequence that leads to the newest second.
    states: u8,
}

/// The bits of all states.
const ALL_STATES: u8 = (1 << STATES) - 1;

impl Decoder {
    /// Takes the next second; `is_unseen` means that nothing in it shows a moving vehicle. `commit`
    /// receives, in order, the seconds whose state is now decided.
    pub(super) fn observe(
        &mut self,
        frame: KeptFrame,
        is_unseen: bool,
        evidence: &Evidence,
        mut commit: impl FnMut(&KeptFrame, State),
    ) {
        if self.open.len() == DEPTH {
            let oldest = self.prune();
            self.commit(1, oldest, &mut commit);
        }
        let entry_cost = if is_unseen {
            self.exclude_hopeless_drive();
            DRIVE_UNSEEN_ENTRY_COST
        } else {
            0.0
        };
        let by_best = self.step_from_best(entry_cost);
        if by_best.is_some() {
            // All sequences pass through the best state of the second before, so the open seconds
            // are decided.
            if let [second] = &*self.open {
                commit(&second.frame, State::of(self.best));
                self.open.clear();
            } else {
                self.commit(self.open.len(), self.best, &mut commit);
            }
        }
        let (reached, back_pointers) = by_best.unwrap_or_else(|| self.step(entry_cost));
        let (mut best, mut best_score) = (0, f32::NEG_INFINITY);
        for (state, (score, (reached, evidence))) in
            (0_u8..).zip(self.scores.iter_mut().zip(reached.iter().zip(evidence)))
        {
            *score = reached + evidence;
            let is_better = *score > best_score;
            best = if is_better { state } else { best };
            best_score = if is_better { *score } else { best_score };
        }
        self.best = best;
        // Only differences matter. The best score is kept at 0 so that a long session loses no
        // precision.
        self.scores = self.scores.map(|score| score - best_score);
        self.open.push(Open {
            frame,
            back: back_pointers,
            states: ALL_STATES,
        });
        if by_best.is_none()
            && let Some((agreed, state)) = self.agreed_seconds()
        {
            self.commit(agreed, state, &mut commit);
        }
    }

    /// Excludes a drive with so low a score that a new drive from the best state will have a higher
    /// one as soon as a fix shows a moving vehicle. The high cost of entering a vehicle unseen
    /// would otherwise keep the old drive possible, and no second since the last fix could be
    /// decided.
    #[inline]
    fn exclude_hopeless_drive(&mut self) {
        let cost = |costs: &Evidence| costs[State::Drive as usize];
        let entry_cost = CHANGE_COST.get(usize::from(self.best)).map_or(0.0, cost);
        let [_, _, _, _, drive] = &mut self.scores;
        if *drive < -entry_cost - DRIVE_UNSEEN_LAG_MAX {
            *drive = -IMPOSSIBLE;
        }
    }

    /// Returns the result of [`Decoder::step`] if the best state leads by so much that each state
    /// is best reached from it, which holds in most seconds.
    #[inline]
    fn step_from_best(&self, entry_cost: f32) -> Option<(Evidence, BackPointers)> {
        let best = usize::from(self.best);
        let (limits, costs) = (DOMINATED.get(best)?, CHANGE_COST.get(best)?);
        let is_dominated = self
            .scores
            .iter()
            .zip(limits)
            .all(|(score, limit)| score < limit);
        let mut reached = costs.map(|cost| 0.0 - cost);
        let [_, _, _, _, drive] = self.scores;
        let [_, _, _, _, by_change] = &mut reached;
        if self.best != State::Drive as u8 {
            *by_change -= entry_cost;
        }
        // Continuing to drive costs no entry.
        let drives_on = self.best != State::Drive as u8 && drive >= *by_change - ROUNDING;
        (is_dominated && !drives_on).then(|| (reached, BackPointers::all_from(self.best)))
    }

    /// Returns the best score with which each state is reached, and the state before. `entry_cost`
    /// is the extra cost of beginning to drive.
    #[inline]
    fn step(&self, entry_cost: f32) -> (Evidence, BackPointers) {
        let mut entry_costs = [0.0; LANES];
        entry_costs[State::Drive as usize] = entry_cost;
        // The outer loop iterates over the source states and processes all target states together.
        let mut reached = [f32::NEG_INFINITY; LANES];
        let mut came = [0_u32; LANES];
        for (from, (before, costs)) in (0_u32..).zip(self.scores.iter().zip(&LANE_COSTS)) {
            if from == State::Drive as u32 {
                entry_costs = [0.0; LANES];
            }
            for lane in 0..LANES {
                let by = before - costs[lane] - entry_costs[lane];
                let is_better = by > reached[lane];
                came[lane] = if is_better { from } else { came[lane] };
                reached[lane] = if is_better { by } else { reached[lane] };
            }
        }
        let [still, walk, climb, ride, drive, ..] = reached;
        ([still, walk, climb, ride, drive], BackPointers::of(came))
    }

    /// Returns whether the newest second is best explained by a drive.
    pub(super) fn drives(&self) -> bool {
        self.best == State::Drive as u8
    }

    /// Decides all open seconds, because no later second follows them directly.
    pub(super) fn flush(&mut self, mut commit: impl FnMut(&KeptFrame, State)) {
        self.commit(self.open.len(), self.best, &mut commit);
        self.scores = [0.0; STATES];
        self.best = 0;
    }

    /// Returns how many of the oldest open seconds have the same state in every sequence that leads
    /// to the newest, and the state of the last of them.
    fn agreed_seconds(&mut self) -> Option<(usize, u8)> {
        let (newest, older) = self.open.split_last_mut()?;
        let mut states = newest.back.all_before();
        for (place, second) in older.iter_mut().enumerate().rev() {
            if second.states == states {
                // The older seconds have not changed either.
                return None;
            }
            second.states = states;
            if states.is_power_of_two() {
                return Some((place + 1, states.trailing_zeros() as u8));
            }
            states = second.back.before_all(states);
        }
        None
    }

    /// Discards the sequences that contradict the best one in the second that is decided next.
    /// Returns the state of that second.
    fn prune(&mut self) -> u8 {
        let mut states = [0_u8, 1, 2, 3, 4];
        for place in (1..self.open.len()).rev() {
            for state in &mut states {
                *state = self.before(place, *state);
            }
        }
        let best = states.get(usize::from(self.best)).copied().unwrap_or(0);
        for (score, &oldest) in self.scores.iter_mut().zip(&states) {
            if oldest != best {
                *score -= IMPOSSIBLE;
            }
        }
        best
    }

    fn before(&self, place: usize, state: u8) -> u8 {
        self.open
            .get(place)
            .map_or(0, |second| second.back.before(state))
    }

    /// Decides the oldest `count` seconds with their states in the best sequence, which has `state`
    /// in the last of them.
    fn commit(&mut self, count: usize, mut state: u8, commit: &mut impl FnMut(&KeptFrame, State)) {
        let mut decided = [0_u8; DEPTH];
        let seconds = self.open.get(..count).unwrap_or_default();
        for (decided, second) in decided.iter_mut().zip(seconds).rev() {
            *decided = state;
            state = second.back.before(state);
        }
        for (second, &state) in seconds.iter().zip(&decided) {
            commit(&second.frame, State::of(state));
        }
        self.open.drop_first(count);
    }

    /// Returns the number of bytes on the heap.
    pub(super) fn heap_bytes(&self) -> usize {
        self.open.heap_bytes()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// A step taken from the best state alone equals, bit for bit, the step that compares all
        /// states.
        #[test]
        fn a_step_from_the_best_state_equals_the_full_step(
            best in 0_u8..STATES as u8,
            below in prop::array::uniform5(prop_oneof![0.001_f32..12.0, 0.0_f32..40.0, 1e4_f32..1.2e4]),
            is_unseen in any::<bool>(),
        ) {
            let mut scores = below.map(|below| -below);
            scores[usize::from(best)] = 0.0;
            let decoder = Decoder { scores, best, ..Decoder::default() };
            let entry_cost = if is_unseen { DRIVE_UNSEEN_ENTRY_COST } else { 0.0 };
            let (reached, back_pointers) = decoder.step(entry_cost);
            if let Some((by_best, way_by_best)) = decoder.step_from_best(entry_cost) {
                prop_assert_eq!(by_best.map(f32::to_bits), reached.map(f32::to_bits));
                prop_assert_eq!(way_by_best, back_pointers);
            }
        }

        /// The cached states of each open second are those of the sequences that lead to the newest
        /// second, and the open second is decided as soon as only one state is left.
        #[test]
        fn cached_states_of_open_seconds_match_the_back_pointers(
            seconds in prop::collection::vec((prop::array::uniform5(-2.0_f32..2.0), any::<bool>()), 1..120),
        ) {
            let (mut decoder, mut decided) = (Decoder::default(), 0);
            for (taken, (evidence, is_unseen)) in (1..).zip(&seconds) {
                decoder.observe(KeptFrame::default(), *is_unseen, evidence, |_, _| decided += 1);
                prop_assert_eq!(decided + decoder.open.len(), taken);
                let mut states = ALL_STATES;
                for second in decoder.open.iter().rev() {
                    prop_assert_eq!(second.states, states);
                    prop_assert!(!states.is_power_of_two());
                    states = second.back.before_all(states);
                }
            }
        }

        /// The states before a set of states are the union of the states before each of them.
        #[test]
        fn back_pointers_of_a_set_are_the_union_of_its_states(came in prop::array::uniform8(0_u32..STATES as u32), states in 1_u8..32) {
            let back_pointers = BackPointers::of(came);
            let each = (0..STATES as u8)
                .filter(|&state| states >> state & 1 == 1)
                .fold(0, |before, state| before | 1 << came[usize::from(state)]);
            prop_assert_eq!(back_pointers.before_all(states), each);
            prop_assert_eq!(back_pointers.all_before(), back_pointers.before_all(31));
        }
    }

    /// The courier stands at the door, and the last fix was some seconds ago.
    #[test]
    fn a_stay_is_decided_within_seconds_although_fixes_end() {
        let (seen, unseen) = (
            [1.0, -1.0, -1.8, -1.0, -1.8],
            [1.0, -1.0, -1.8, -1.0, -0.15],
        );
        let mut decoder = Decoder::default();
        let mut open_sec_max = 0;
        for second in 0..60 {
            let is_unseen = second >= 10;
            let evidence = if is_unseen { &unseen } else { &seen };
            decoder.observe(KeptFrame::default(), is_unseen, evidence, |_, _| {});
            open_sec_max = open_sec_max.max(decoder.open.len());
        }
        assert!(open_sec_max <= 6, "{open_sec_max} seconds were open");
    }

    #[test]
    fn a_clear_walk_uses_the_step_from_the_best_state() {
        let scores = [-9.0, 0.0, -9.0, -14.0, -9.0];
        let decoder = Decoder {
            scores,
            best: State::Walk as u8,
            ..Decoder::default()
        };
        assert!(decoder.step_from_best(0.0).is_some());
    }
}
