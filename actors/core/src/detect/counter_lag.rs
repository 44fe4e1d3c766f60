//! Measures how late the phone's step counter is, from another sign of walking.

use serde::{Deserialize, Serialize};

use super::parameters::gait::{COUNTER_LAG_CLEAR, COUNTER_LAG_SCORE_MAX, COUNTER_LAG_SEC_MAX};
use super::parameters::position::GAIT_BY_SPEED_MPS;
use super::parameters::runs::WALK_SPEED_MPS_MAX;

/// The number of delays that are compared, each a second longer than the one before.
const LAGS: usize = COUNTER_LAG_SEC_MAX + 1;

/// The delay of a step counter: the time shift at which its seconds of walking and rest agree best
/// with those of another sign, such as the speed over ground.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(crate) struct CounterLag {
    /// A bit for each of the last seconds in which the other sign showed a walk; the newest is the
    /// lowest.
    walked: u16,
    /// A bit for each of the last seconds in which the other sign showed rest; the newest is the
    /// lowest.
    rested: u16,
    /// The number of seconds that agree with the counter less those that disagree, by delay.
    scores: [i16; LAGS],
    lag_sec: u8,
}

impl CounterLag {
    /// Returns the delay in seconds; 0 until it is known.
    pub(crate) fn seconds(&self) -> usize {
        usize::from(self.lag_sec)
    }

    /// Processes the next second. `counts` is whether the counter shows a walk. `walks` is whether
    /// the other sign shows a walk (`true`) or rest (`false`), or `None` if it shows neither
    /// clearly.
    pub(crate) fn observe(&mut self, counts: bool, walks: Option<bool>) {
        self.walked = self.walked << 1 | u16::from(walks == Some(true));
        self.rested = self.rested << 1 | u16::from(walks == Some(false));
        // On a phone without another sign nothing is compared.
        if self.walked | self.rested == 0 {
            return;
        }
        let (same, other) = if counts {
            (self.walked, self.rested)
        } else {
            (self.rested, self.walked)
        };
        let mut best = usize::from(self.lag_sec).min(COUNTER_LAG_SEC_MAX);
        let mut is_full = false;
        for (lag, score) in self.scores.iter_mut().enumerate() {
            *score += i16::from(same >> lag & 1 != 0) - i16::from(other >> lag & 1 != 0);
            is_full |= score.unsigned_abs() >= COUNTER_LAG_SCORE_MAX;
        }
        for (lag, score) in self.scores.iter().enumerate() {
            if *score > self.scores[best] + COUNTER_LAG_CLEAR {
                best = lag;
            }
        }
        // While the scores are close, the delay stays unchanged.
        self.lag_sec = best as u8;
        if is_full {
            self.scores = self.scores.map(|score| score / 2);
        }
    }
}

/// Returns whether a speed over ground, m/s, is that of a walk (`true`) or of rest (`false`), or
/// `None` if it is neither.
pub(super) fn walks_by_speed(speed_mps: f32) -> Option<bool> {
    if (2.0 * GAIT_BY_SPEED_MPS..=WALK_SPEED_MPS_MAX).contains(&speed_mps) {
        Some(true)
    } else {
        (speed_mps <= 0.5 * GAIT_BY_SPEED_MPS).then_some(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the measured delay for a courier who walks and rests for 20 s each, with a counter
    /// that is late by `late_sec`.
    fn measured(late_sec: u32, has_speed: bool) -> usize {
        let mut lag = CounterLag::default();
        let walks = |t_sec: u32| t_sec / 20 % 2 == 1;
        for t_sec in late_sec..300 {
            let speed_mps = if walks(t_sec) { 1.3 } else { 0.1 };
            let walked = walks_by_speed(speed_mps).filter(|_| has_speed);
            lag.observe(walks(t_sec - late_sec), walked);
        }
        lag.seconds()
    }

    #[test]
    fn the_delay_of_a_counter_is_measured_against_the_speed() {
        for late_sec in [0, 3, 7, 10] {
            assert!(measured(late_sec, true).abs_diff(late_sec as usize) <= 1);
        }
    }

    #[test]
    fn without_a_speed_a_counter_counts_as_prompt() {
        assert_eq!(measured(9, false), 0);
    }
}
