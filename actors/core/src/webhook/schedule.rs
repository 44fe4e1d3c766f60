//! The retry schedule of failed messages (contract section 6).

use porchlight_schema::limits::{RETRY_DELAYS_MS, RETRY_JITTER_PARTS};
use porchlight_schema::time::TimestampMs;

/// Returns the due time of the next attempt after `finished` failed attempts, the last of them at
/// `failed_at`. Returns `None` if the schedule is exhausted.
///
/// The delay is never shorter than the contract's step: jitter only adds, at most one part in
/// [`RETRY_JITTER_PARTS`]. `random` is any number; the same number gives the same time.
#[must_use]
pub fn next_due(finished: u32, failed_at: TimestampMs, random: u64) -> Option<TimestampMs> {
    let step = usize::try_from(finished.checked_sub(1)?).ok()?;
    let delay_ms = *RETRY_DELAYS_MS.get(step)?;
    let jitter_ms = random % (delay_ms / RETRY_JITTER_PARTS + 1);
    Some(failed_at.plus_ms(i64::try_from(delay_ms + jitter_ms).unwrap_or(i64::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FAILED_AT: TimestampMs = TimestampMs(1_763_636_100_000);

    #[test]
    fn the_steps_match_the_contract() {
        let minutes = [1, 5, 30, 120, 1440];
        for (finished, minutes) in (1..).zip(minutes) {
            let due = next_due(finished, FAILED_AT, 0).unwrap();
            assert_eq!(due.since_ms(FAILED_AT), minutes * 60_000);
        }
        for finished in [0, 6, 7, u32::MAX] {
            assert_eq!(next_due(finished, FAILED_AT, 0), None);
        }
    }

    proptest! {
        #[test]
        fn jitter_adds_at_most_a_tenth(finished in 1_u32..=5, random: u64) {
            let step_ms = RETRY_DELAYS_MS[finished as usize - 1] as i64;
            let wait_ms = next_due(finished, FAILED_AT, random).unwrap().since_ms(FAILED_AT);
            prop_assert!(wait_ms >= step_ms && wait_ms <= step_ms + step_ms / 10);
        }
    }
}
