//! Decides whether stored sessions are old enough to be deleted, although their age depends on a
//! wall clock that may be wrong.
//!
//! A deletion is permanent, and a machine may start with a clock that is wrong by years. So the
//! clock must agree with the newest stored time at the start of the process, advanced by a clock
//! that does not jump.

mod learned;
mod policy;
mod removal;
mod schedule;

pub use learned::{PLACE_ROW, TRACE_ROW, belongs_to_session, is_of_one_session};
pub use policy::{
    AUDIT_FIELD, DataClass, PolicyRefused, RetentionBounds, RetentionPolicy, Span, SweepProgress,
    next_span,
};
use porchlight_schema::limits::{
    RETENTION_CLOCK_DIFFERENCE_MS_MAX, RETENTION_CLOCK_TRUSTED_AFTER_MS, SWEEP_SESSIONS_PARTS,
};
use porchlight_schema::time::TimestampMs;
pub use removal::Removal;
pub use schedule::{Due, SweepSchedule};

/// The difference between the wall clock and the stored times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClockDisagrees {
    /// The clock is ahead, by this many milliseconds.
    Ahead(i64),
    /// The clock is behind, by this many milliseconds.
    Behind(i64),
}

/// The knowledge of a process about its wall clock. Uptimes are milliseconds of a clock that does
/// not jump.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetentionGuard {
    /// The newest stored time when the process began; `None`: the store was empty.
    newest_at_start: Option<TimestampMs>,
    wall_at_start: TimestampMs,
    uptime_at_start_ms: i64,
}

impl RetentionGuard {
    /// Creates a guard of a process that begins now, on a store whose newest time is
    /// `newest_stored`.
    #[must_use]
    pub fn new(newest_stored: Option<TimestampMs>, now: TimestampMs, uptime_ms: i64) -> Self {
        Self {
            newest_at_start: newest_stored,
            wall_at_start: now,
            uptime_at_start_ms: uptime_ms,
        }
    }

    /// Checks whether old sessions may be deleted by a wall clock that shows `now`.
    ///
    /// A clock that disagreed at the start, for example after an outage of days, is trusted once it
    /// has run evenly with the other clock for a week.
    ///
    /// # Errors
    ///
    /// Returns an error if the clock differs by more than a day from the expected time.
    pub fn check(&self, now: TimestampMs, uptime_ms: i64) -> Result<(), ClockDisagrees> {
        let elapsed_ms = uptime_ms - self.uptime_at_start_ms;
        agrees(self.wall_at_start.plus_ms(elapsed_ms), now)?;
        match self.newest_at_start {
            Some(newest) if elapsed_ms < RETENTION_CLOCK_TRUSTED_AFTER_MS => {
                agrees(newest.plus_ms(elapsed_ms), now)
            }
            _ => Ok(()),
        }
    }
}

fn agrees(expected: TimestampMs, now: TimestampMs) -> Result<(), ClockDisagrees> {
    let ahead_ms = now.since_ms(expected);
    if ahead_ms > RETENTION_CLOCK_DIFFERENCE_MS_MAX {
        Err(ClockDisagrees::Ahead(ahead_ms))
    } else if ahead_ms < -RETENTION_CLOCK_DIFFERENCE_MS_MAX {
        Err(ClockDisagrees::Behind(-ahead_ms))
    } else {
        Ok(())
    }
}

/// Returns the maximum number of sessions that one sweep may delete from a store with `completed`
/// sessions.
#[must_use]
pub fn sessions_max(completed: u64) -> u64 {
    completed.div_ceil(SWEEP_SESSIONS_PARTS)
}

#[cfg(test)]
mod tests {
    use porchlight_schema::time::DAY_MS;
    use proptest::prelude::*;

    use super::*;

    const NOW: TimestampMs = TimestampMs(1_800_000_000_000);

    #[test]
    fn a_wrong_clock_at_the_start_deletes_nothing() {
        let started = |days: i64| RetentionGuard::new(Some(NOW), NOW.plus_ms(days * DAY_MS), 0);
        let check = |days: i64| {
            let hour_ms = 3_600_000;
            started(days).check(NOW.plus_ms(days * DAY_MS + hour_ms), hour_ms)
        };
        assert_eq!(check(0), Ok(()));
        assert_eq!(check(1), Ok(()));
        assert_eq!(check(-1), Ok(()));
        assert_eq!(check(100), Err(ClockDisagrees::Ahead(100 * DAY_MS)));
        assert_eq!(check(-100), Err(ClockDisagrees::Behind(100 * DAY_MS)));
    }

    #[test]
    fn a_clock_step_at_runtime_deletes_nothing() {
        let guard = RetentionGuard::new(None, NOW, 5);
        assert_eq!(guard.check(NOW.plus_ms(DAY_MS), 5 + DAY_MS), Ok(()));
        let ahead = guard.check(NOW.plus_ms(3 * DAY_MS), 5 + DAY_MS);
        assert_eq!(ahead, Err(ClockDisagrees::Ahead(2 * DAY_MS)));
        let behind = guard.check(NOW.plus_ms(-2 * DAY_MS), 5);
        assert_eq!(behind, Err(ClockDisagrees::Behind(2 * DAY_MS)));
    }

    #[test]
    fn after_a_long_outage_the_clock_is_trusted_after_a_steady_week() {
        let back = NOW.plus_ms(5 * DAY_MS);
        let guard = RetentionGuard::new(Some(NOW), back, 0);
        assert!(guard.check(back.plus_ms(6 * DAY_MS), 6 * DAY_MS).is_err());
        assert_eq!(guard.check(back.plus_ms(7 * DAY_MS), 7 * DAY_MS), Ok(()));
        assert!(guard.check(back.plus_ms(107 * DAY_MS), 7 * DAY_MS).is_err());
    }

    proptest! {
        #[test]
        fn a_sweep_deletes_at_most_a_twentieth_and_terminates(completed in 0_u64..1_000_000) {
            let max = sessions_max(completed);
            prop_assert!(max <= completed / 20 + 1);
            prop_assert_eq!(max == 0, completed == 0);
        }
    }
}
