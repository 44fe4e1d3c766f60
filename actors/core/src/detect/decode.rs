//! The likeliest course of states through the evidence, with a bounded look back: Viterbi's algorithm, which commits a
//! second as soon as all courses that are still possible agree on it.
//!
//! Hysteresis is the cost of a change: a pause is taken for a pause only if its evidence outweighs leaving and coming
//! back. Boundaries come out back-dated, where the evidence changes and not where it was noticed.

use serde::{Deserialize, Serialize};

use super::constants::{CHANGE_COST, DRIVE_UNSEEN_ENTRY_COST};
use super::frame::{Frame, KeptFrame};

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
    back: [[u8; STATES]; DEPTH],
    frames: [KeptFrame; DEPTH],
    open: u8,
}

impl Decoder {
    /// Takes the next second; `commit` gets, in order, those whose state is now settled.
    pub(super) fn observe(
        &mut self,
        frame: &Frame,
        evidence: &Evidence,
        mut commit: impl FnMut(&Frame, State),
    ) {
        if usize::from(self.open) == DEPTH {
            self.prune();
            self.commit(1, &mut commit);
        }
        let is_unseen = frame.speed_mps.is_none() && frame.vehicle <= 0.0;
        let mut scores = [0.0_f32; STATES];
        let mut came_from = [0_u8; STATES];
        for (to, (score, came)) in scores.iter_mut().zip(&mut came_from).enumerate() {
            let mut best = f32::NEG_INFINITY;
            for (from, before) in self.scores.iter().enumerate() {
                let mut reached = before - CHANGE_COST[from][to];
                if is_unseen && to == State::Drive as usize && from != to {
                    reached -= DRIVE_UNSEEN_ENTRY_COST;
                }
                if reached > best {
                    (best, *came) = (reached, from as u8);
                }
            }
            *score = best + evidence[to];
        }
        // Only differences matter; the best is kept at 0 so that a long session loses no precision.
        let best = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        for (kept, score) in self.scores.iter_mut().zip(scores) {
            *kept = score - best;
        }
        let place = usize::from(self.open);
        if let (Some(back), Some(kept)) = (self.back.get_mut(place), self.frames.get_mut(place)) {
            (*back, *kept) = (came_from, KeptFrame::of(frame));
            self.open += 1;
        }
        self.commit(self.agreed(), &mut commit);
    }

    /// Settles all open seconds: nothing follows that could bear on them.
    pub(super) fn flush(&mut self, mut commit: impl FnMut(&Frame, State)) {
        self.commit(usize::from(self.open), &mut commit);
        self.scores = [0.0; STATES];
    }

    /// How many of the oldest open seconds have the same state in every course.
    fn agreed(&self) -> usize {
        let mut courses = [0_u8, 1, 2, 3, 4];
        let open = usize::from(self.open);
        for place in (0..open).rev() {
            if courses.iter().all(|&state| state == courses[0]) {
                return place + 1;
            }
            for state in &mut courses {
                *state = self.before(place, *state);
            }
        }
        0
    }

    /// Gives up the courses that contradict what is about to be settled without agreement.
    fn prune(&mut self) {
        let mut courses = [0_u8, 1, 2, 3, 4];
        for place in (1..usize::from(self.open)).rev() {
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
        let open = usize::from(self.open);
        let mut state = self.best();
        let mut settled = [0_u8; DEPTH];
        for place in (0..open).rev() {
            settled[place] = state;
            state = self.before(place, state);
        }
        for (frame, &state) in self.frames.iter().zip(&settled).take(count) {
            commit(&frame.frame(), State::of(state));
        }
        self.back.copy_within(count..open, 0);
        self.frames.copy_within(count..open, 0);
        self.open = (open - count) as u8;
    }
}
