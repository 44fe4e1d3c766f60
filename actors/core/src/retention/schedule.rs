//! Decides at which checks of the clock kept rows are renewed and old data is deleted.

/// The checks of the clock since the last sweep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SweepSchedule {
    checks_per_sweep: u64,
    checks: u64,
}

/// The work that is due at a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Due {
    /// Whether rows that must not expire are renewed.
    pub renews: bool,
    /// Whether old data is deleted.
    pub sweeps: bool,
}

impl SweepSchedule {
    /// Creates a schedule with this many checks between two sweeps.
    #[must_use]
    pub fn new(checks_per_sweep: u64) -> Self {
        Self {
            checks_per_sweep,
            checks: 0,
        }
    }

    /// Returns the work that is due at the next check. A sweep waits until the clock `may_delete`;
    /// a renewal deletes nothing, so it does not wait.
    pub fn on_check(&mut self, may_delete: bool) -> Due {
        self.checks += 1;
        let due = Due {
            renews: self.checks.is_multiple_of(self.checks_per_sweep),
            sweeps: may_delete && self.checks >= self.checks_per_sweep,
        };
        if due.sweeps {
            self.checks = 0;
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn due_at(schedule: &mut SweepSchedule, may_delete: bool) -> (bool, bool) {
        let due = schedule.on_check(may_delete);
        (due.renews, due.sweeps)
    }

    #[test]
    fn a_sweep_waits_for_the_clock_and_a_renewal_does_not() {
        let mut schedule = SweepSchedule::new(3);
        for (may_delete, due) in [
            (true, (false, false)),
            (true, (false, false)),
            (true, (true, true)),
            (true, (false, false)),
            (true, (false, false)),
            (false, (true, false)),
            (false, (false, false)),
            (true, (false, true)),
            (true, (false, false)),
            (true, (false, false)),
            (true, (true, true)),
        ] {
            assert_eq!(due_at(&mut schedule, may_delete), due);
        }
    }
}
