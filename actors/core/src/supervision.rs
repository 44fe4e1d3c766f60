//! Supervision of actors: after a panic the actor is rebuilt from the store after a pause, a
//! limited number of times; then the batch at fault is quarantined. The shell performs both.

use std::time::Duration;

use porchlight_schema::limits::{RESTART_WINDOW_MS, RESTARTS_MAX};
use porchlight_schema::time::TimestampMs;

/// The first pause before a restart; each further one within the window is four times as long.
const BACK_OFF_FIRST: Duration = Duration::from_millis(50);
/// The factor by which each pause is longer than the previous one.
const BACK_OFF_FACTOR: u32 = 4;

/// The panics of one actor within the window.
#[derive(Debug, Clone, Copy, Default)]
pub struct Budget {
    since: TimestampMs,
    panics: u32,
}

/// The reaction to a panic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Rebuild the actor after this pause.
    Restart(Duration),
    /// The budget is spent: quarantine the batch at fault, then rebuild the actor.
    Quarantine,
}

impl Budget {
    /// Decides the reaction to a panic of the actor at `now`.
    pub fn on_panic(&mut self, now: TimestampMs) -> Verdict {
        let within = self.panics > 0 && now.since_ms(self.since) <= RESTART_WINDOW_MS as i64;
        if !within {
            *self = Self {
                since: now,
                panics: 0,
            };
        }
        self.panics += 1;
        if self.panics >= RESTARTS_MAX {
            *self = Self::default();
            return Verdict::Quarantine;
        }
        Verdict::Restart(BACK_OFF_FIRST * BACK_OFF_FACTOR.pow(self.panics - 1))
    }

    /// Panics within the window so far.
    #[must_use]
    pub fn panics(&self) -> u32 {
        self.panics
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_panics_in_a_minute_spend_the_budget() {
        let mut budget = Budget::default();
        assert_eq!(
            budget.on_panic(TimestampMs(0)),
            Verdict::Restart(Duration::from_millis(50))
        );
        assert_eq!(
            budget.on_panic(TimestampMs(30_000)),
            Verdict::Restart(Duration::from_millis(200))
        );
        assert_eq!(budget.on_panic(TimestampMs(60_000)), Verdict::Quarantine);
        assert_eq!(
            budget.on_panic(TimestampMs(60_001)),
            Verdict::Restart(Duration::from_millis(50)),
            "a new budget"
        );
    }

    #[test]
    fn panics_far_apart_do_not_spend_the_budget() {
        let mut budget = Budget::default();
        for minute in 0..10 {
            assert!(matches!(
                budget.on_panic(TimestampMs(minute * 61_000)),
                Verdict::Restart(_)
            ));
        }
    }
}
