//! Decides which failures of a repeated operation are logged.

/// The minimum time between two lines about one operation that keeps failing, milliseconds.
const LINE_INTERVAL_MS: u64 = 60_000;

/// The failures of an operation that is repeated until it succeeds. The first failure is logged,
/// and then one a minute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FailureLog {
    /// The time of the last line about the failures that continue.
    logged_at_ms: Option<u64>,
    /// The number of failures since that line.
    unlogged: u32,
}

impl FailureLog {
    /// Records a failure at `now_ms` of a monotonic clock. Returns the number of failures to log in
    /// one line, this one included; `None` if there is no line to write now.
    pub fn on_failure(&mut self, now_ms: u64) -> Option<u32> {
        self.unlogged = self.unlogged.saturating_add(1);
        let is_due = |at_ms: u64| now_ms.saturating_sub(at_ms) >= LINE_INTERVAL_MS;
        if !self.logged_at_ms.is_none_or(is_due) {
            return None;
        }
        self.logged_at_ms = Some(now_ms);
        Some(std::mem::take(&mut self.unlogged))
    }

    /// Records a success. Returns whether failures preceded it, so that a line says that the
    /// operation succeeds again.
    pub fn on_success(&mut self) -> bool {
        std::mem::take(self).logged_at_ms.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_failure_is_logged_and_then_one_a_minute() {
        let mut failures = FailureLog::default();
        assert!(!failures.on_success(), "nothing failed");
        assert_eq!(failures.on_failure(5), Some(1));
        let lines: Vec<u32> = (1..=1_200)
            .filter_map(|number| failures.on_failure(5 + number * 100))
            .collect();
        assert_eq!(lines, [600, 600], "two lines in two minutes");
        assert!(failures.on_success());
        assert!(!failures.on_success());
        assert_eq!(failures.on_failure(130_000), Some(1), "another outage");
    }
}
