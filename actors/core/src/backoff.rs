//! Computes the pauses between attempts at an operation that fails repeatedly.

use std::time::Duration;

/// The failures of one operation, and the pause that follows from their number. Each pause is twice
/// as long as the previous one, up to a maximum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    first_ms: u64,
    max_ms: u64,
    failures: u32,
}

impl Backoff {
    /// Returns a backoff without failures, whose first pause is `first_ms` and whose longest one is
    /// `max_ms`.
    #[must_use]
    pub const fn new(first_ms: u64, max_ms: u64) -> Self {
        Self {
            first_ms,
            max_ms,
            failures: 0,
        }
    }

    /// Returns the number of failures.
    #[must_use]
    pub const fn failures(&self) -> u32 {
        self.failures
    }

    /// Records a failure, and returns the pause before the next attempt.
    pub fn on_failure(&mut self) -> Duration {
        let factor = 1_u64.checked_shl(self.failures).unwrap_or(u64::MAX);
        self.failures = self.failures.saturating_add(1);
        Duration::from_millis(self.first_ms.saturating_mul(factor).min(self.max_ms))
    }

    /// Records a failure that another writer has caused, and returns a pause between half of the
    /// usual one and all of it. `random` is any number: writers with different numbers do not
    /// collide again.
    pub fn on_collision(&mut self, random: u64) -> Duration {
        let half = self.on_failure() / 2;
        let half_us = u64::try_from(half.as_micros()).unwrap_or(u64::MAX - 1);
        half + Duration::from_micros(random % (half_us + 1))
    }

    /// Records a collision like [`Self::on_collision`], and returns the pause before the next
    /// round; `None` if this was the last one of `rounds_max`.
    pub fn next_round(&mut self, rounds_max: u32, random: u64) -> Option<Duration> {
        let pause = self.on_collision(random);
        (self.failures < rounds_max).then_some(pause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_pause_is_twice_as_long_up_to_the_maximum() {
        let mut backoff = Backoff::new(200, 5_000);
        let pauses_ms = [200, 400, 800, 1_600, 3_200, 5_000, 5_000];
        for (failures, ms) in (1..).zip(pauses_ms) {
            assert_eq!(backoff.on_failure(), Duration::from_millis(ms));
            assert_eq!(backoff.failures(), failures);
        }
    }

    #[test]
    fn the_pause_after_a_collision_is_between_half_of_the_usual_one_and_all_of_it() {
        let pause_us = |random| Backoff::new(200, 5_000).on_collision(random).as_micros();
        assert_eq!(pause_us(0), 100_000);
        assert_eq!(pause_us(1), 100_001);
        assert_eq!(pause_us(100_000), 200_000);
        assert!((100_000..=200_000).contains(&pause_us(u64::MAX)));
        let mut backoff = Backoff::new(200, 5_000);
        assert_eq!(backoff.on_failure(), Duration::from_millis(200));
        assert_eq!(backoff.on_collision(0), Duration::from_millis(200));
        assert_eq!(backoff.failures(), 2);
    }

    #[test]
    fn a_change_ends_after_its_last_round() {
        let rounds = |random: u64| {
            let mut backoff = Backoff::new(10, 500);
            std::iter::from_fn(move || backoff.next_round(20, random)).collect::<Vec<_>>()
        };
        for random in [0, 7, u64::MAX] {
            let pauses = rounds(random);
            assert_eq!(pauses.len(), 19, "the last round has no pause");
            let waited: Duration = pauses.iter().sum();
            assert!((3..8).contains(&waited.as_secs()), "{waited:?}");
        }
        assert_ne!(rounds(0), rounds(7), "writers with other numbers part");
    }

    #[test]
    fn any_number_of_failures_has_a_pause() {
        let mut backoff = Backoff::new(200, 30_000);
        for _ in 0..1_000 {
            assert!(backoff.on_failure() <= Duration::from_secs(30));
        }
        assert_eq!(backoff.on_failure(), Duration::from_secs(30));
    }
}
