//! The likeliest course of states through the evidence, with a bounded look back: Viterbi's algorithm, which commits a
//! second as soon as all courses that are still possible agree on it.
//!
//! Hysteresis is the cost of a change: a pause is taken for a pause only if its evidence outweighs leaving and coming
//! back. Boundaries come out back-dated, where the evidence changes and not where it was noticed.

use serde::{Deserialize, Serialize};

use super::constants::{CHANGE_COST, DRIVE_UNSEEN_ENTRY_COST};
use super::frame::{Frame, KeptFrame};
use super::row::Row;

/// What a body can be doing. The order is that of the tables in [`super::constants`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum State {
    /// Staying.
    Still,
    /// On foot, level.
    Walk,
    /// On foot, changing floors.
    Climb,
    /// Carried up or down.
    Ride,
    /// In or on a vehicle.
    Drive,
}

/// How many states there are.
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

/// Log-likelihood of one second in each state, up to a constant.
pub(super) type Evidence = [f32; STATES];

/// Seconds of which the state may be open: the latency of a decision is at most this.
const DEPTH: usize = 16;

/// Log-odds that no evidence makes good again.
const GIVEN_UP: f32 = 1e4;

/// The decoder: scores of the best course into each state, and the way back.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct Decoder {
    scores: Evidence,
    /// Of each open second, for each state: the state before. The oldest first.
    back: Row<[u8; STATES], DEPTH>,
    frames: Row<KeptFrame, DEPTH>,
}

impl Decoder {
    /// Takes the next second; `is_unseen`: nothing in it shows that a vehicle moves. `commit` gets, in order, those whose
    /// state is now settled.
    pub(super) fn observe(
        &mut self,
        frame: KeptFrame,
        is_unseen: bool,
        evidence: &Evidence,
        mut commit: impl FnMut(&Frame, State),
    ) {
        if self.frames.len() == DEPTH {
            self.prune();
            self.commit(1, &mut commit);
        }
        let entry_cost = if is_unseen {
            DRIVE_UNSEEN_ENTRY_COST
        } else {
            0.0
        };
        // State by state from which one comes, all states to which one goes at once.
        let mut reached = [f32::NEG_INFINITY; STATES];
        let mut came = [0_u32; STATES];
        for (from, (before, costs)) in (0_u32..).zip(self.scores.iter().zip(&CHANGE_COST)) {
            let mut by = costs.map(|cost| before - cost);
            if from != State::Drive as u32 {
                by[State::Drive as usize] -= entry_cost;
            }
            for ((reached, came), by) in reached.iter_mut().zip(&mut came).zip(by) {
                let is_better = by > *reached;
                *came = if is_better { from } else { *came };
                *reached = if is_better { by } else { *reached };
            }
        }
        let came_from = came.map(|from| from as u8);
        let mut scores = reached;
        for (score, evidence) in scores.iter_mut().zip(evidence) {
            *score += evidence;
        }
        // Only differences matter; the best is kept at 0 so that a long session loses no precision.
        let best = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        for (kept, score) in self.scores.iter_mut().zip(scores) {
            *kept = score - best;
        }
        self.back.push(came_from);
        self.frames.push(frame);
        self.commit(self.agreed(), &mut commit);
    }

    /// Settles all open seconds: nothing follows that could bear on them.
    pub(super) fn flush(&mut self, mut commit: impl FnMut(&Frame, State)) {
        self.commit(self.frames.len(), &mut commit);
        self.scores = [0.0; STATES];
    }

    /// How many of the oldest open seconds have the same state in every course.
    fn agreed(&self) -> usize {
        // A bit for each state that some course has in the second looked at.
        let mut states = (1_u8 << STATES) - 1;
        for (place, back) in self.back.iter().enumerate().rev() {
            if states & (states - 1) == 0 {
                return place + 1;
            }
            let mut before = 0_u8;
            while states != 0 {
                let state = states.trailing_zeros() as usize;
                before |= 1 << (back.get(state).copied().unwrap_or(0) & 7);
                states &= states - 1;
            }
            states = before;
        }
        0
    }

    /// Gives up the courses that contradict what is about to be settled without agreement.
    fn prune(&mut self) {
        let mut courses = [0_u8, 1, 2, 3, 4];
        for place in (1..self.frames.len()).rev() {
            for state in &mut courses {
                *state = self.before(place, *state);
            }
        }
        let best = courses[usize::from(self.best())];
        for (score, &oldest) in self.scores.iter_mut().zip(&courses) {
            if oldest != best {
                *score -= GIVEN_UP;
            }
        }
    }

    fn best(&self) -> u8 {
        let mut best = 0_u8;
        for (number, &score) in self.scores.iter().enumerate() {
            if score > self.scores[usize::from(best)] {
                best = number as u8;
            }
        }
        best
    }

    fn before(&self, place: usize, state: u8) -> u8 {
        self.back
            .get(place)
            .and_then(|back| back.get(usize::from(state)))
            .copied()
            .unwrap_or(0)
    }

    /// Settles the oldest `count` seconds along the best course.
    fn commit(&mut self, count: usize, commit: &mut impl FnMut(&Frame, State)) {
        if count == 0 {
            return;
        }
        let mut state = self.best();
        let mut settled = [0_u8; DEPTH];
        for (settled, back) in settled.iter_mut().zip(self.back.iter()).rev() {
            *settled = state;
            state = back.get(usize::from(state)).copied().unwrap_or(0);
        }
        for (frame, &state) in self.frames.iter().zip(&settled).take(count) {
            commit(&frame.frame(), State::of(state));
        }
        self.back.drop_first(count);
        self.frames.drop_first(count);
    }
}
