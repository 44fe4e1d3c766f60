//! Decides the recovery of an actor that has panicked. The actor is rebuilt from the store after a
//! pause, a limited number of times; then the batch at fault is quarantined. Computations over a
//! session's whole journal leave out such batches. The shell performs these actions.

use std::collections::BTreeSet;
use std::time::Duration;

use porchlight_schema::limits::{RESTART_WINDOW_MS, RESTARTS_MAX, SCORING_QUARANTINES_MAX};
use porchlight_schema::time::TimestampMs;

/// The first pause before a restart; each further pause within the window is [`BACK_OFF_FACTOR`]
/// times as long.
const BACK_OFF_FIRST: Duration = Duration::from_millis(50);
/// The factor by which each pause is longer than the previous one.
const BACK_OFF_FACTOR: u32 = 4;
/// The pause before a restart when the budget is spent, but no batch is at fault.
const BACK_OFF_WITHOUT_BATCH: Duration = Duration::from_secs(1);

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
    /// The budget is spent: quarantine the batch with this `seq`, then rebuild the actor.
    Quarantine(u32),
}

impl Budget {
    /// Decides the reaction to a panic of the actor at `now`. `seq` is the batch at which it
    /// panicked, if any.
    pub fn on_panic(&mut self, now: TimestampMs, seq: Option<u32>) -> Verdict {
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
            return seq.map_or(
                Verdict::Restart(BACK_OFF_WITHOUT_BATCH),
                Verdict::Quarantine,
            );
        }
        Verdict::Restart(BACK_OFF_FIRST * BACK_OFF_FACTOR.pow(self.panics - 1))
    }

    /// Returns the number of panics within the window so far.
    #[must_use]
    pub fn panics(&self) -> u32 {
        self.panics
    }

    /// Returns whether the actor may restart from its snapshot. After a panic the state itself is
    /// suspect: a batch is quarantined only if a machine built from nothing panics at it too.
    #[must_use]
    pub fn trusts_snapshot(&self) -> bool {
        self.panics == 0
    }
}

/// The batches that a computation over a session's whole journal leaves out, because a detector
/// panics at them. The computation starts again without each batch that is added.
#[derive(Debug, Clone)]
pub struct LeftOut {
    seqs: BTreeSet<u32>,
    /// The number of batches that may still be added.
    further: usize,
}

impl LeftOut {
    /// Leaves out the batches that were quarantined before.
    #[must_use]
    pub fn new(quarantined: impl IntoIterator<Item = u32>) -> Self {
        Self {
            seqs: quarantined.into_iter().collect(),
            further: SCORING_QUARANTINES_MAX,
        }
    }

    /// Returns the `seq` of each batch that is left out.
    #[must_use]
    pub fn seqs(&self) -> &BTreeSet<u32> {
        &self.seqs
    }

    /// Leaves out one more batch. Returns `false` if there were too many, so that the panics have
    /// another cause than these batches.
    #[must_use]
    pub fn add(&mut self, seq: u32) -> bool {
        let Some(further) = self.further.checked_sub(1) else {
            return false;
        };
        self.further = further;
        self.seqs.insert(seq);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a computation in which a detector panics at each of `faulty`, and returns whether it
    /// succeeds in the end.
    fn succeeds(faulty: std::ops::Range<u32>) -> bool {
        let mut left_out = LeftOut::new([1_000]);
        loop {
            let panics_at = faulty.clone().find(|seq| !left_out.seqs().contains(seq));
            match panics_at {
                None => return true,
                Some(seq) if left_out.add(seq) => {}
                Some(_) => return false,
            }
        }
    }

    #[test]
    fn a_computation_succeeds_without_as_many_batches_as_allowed() {
        let max = SCORING_QUARANTINES_MAX as u32;
        assert!(succeeds(0..0));
        assert!(succeeds(0..max));
        assert!(!succeeds(0..max + 1));
    }

    #[test]
    fn a_snapshot_is_trusted_until_the_first_panic() {
        let mut budget = Budget::default();
        assert!(budget.trusts_snapshot());
        budget.on_panic(TimestampMs(0), None);
        assert!(!budget.trusts_snapshot());
    }

    #[test]
    fn three_panics_in_a_minute_spend_the_budget() {
        let mut budget = Budget::default();
        assert_eq!(
            budget.on_panic(TimestampMs(0), Some(7)),
            Verdict::Restart(Duration::from_millis(50))
        );
        assert_eq!(
            budget.on_panic(TimestampMs(30_000), Some(7)),
            Verdict::Restart(Duration::from_millis(200))
        );
        assert_eq!(
            budget.on_panic(TimestampMs(60_000), Some(7)),
            Verdict::Quarantine(7)
        );
        assert_eq!(
            budget.on_panic(TimestampMs(60_001), Some(7)),
            Verdict::Restart(Duration::from_millis(50)),
            "a new budget"
        );
    }

    #[test]
    fn a_panic_without_a_batch_quarantines_nothing() {
        let mut budget = Budget::default();
        for pause_ms in [50, 200, 1_000, 50] {
            assert_eq!(
                budget.on_panic(TimestampMs(0), None),
                Verdict::Restart(Duration::from_millis(pause_ms))
            );
        }
    }

    #[test]
    fn panics_far_apart_do_not_spend_the_budget() {
        let mut budget = Budget::default();
        for minute in 0..10 {
            assert!(matches!(
                budget.on_panic(TimestampMs(minute * 61_000), Some(7)),
                Verdict::Restart(_)
            ));
        }
    }
}
