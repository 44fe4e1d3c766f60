//! Decides when the next group begins.
//!
//! A group has a fixed cost: the sync, and waking all callers and actors, about as much as two of
//! its batches cost in total. With few writes this does not matter, and each one is written
//! immediately. With many writes processor time is scarce, and a group that waits for a few more
//! shares its cost among them.

use std::time::Duration;

/// A group with fewer writes came from few callers who wait for each write before the next one:
/// waiting gains nothing.
const SHARED_FROM: usize = 4;
/// Groups are spaced from this many writes per second on.
const SPACED_FROM_PER_SEC: u32 = 8_000;
/// Minimum distance between the starts of spaced groups: half of a batch's latency under such a
/// load.
const SPACE: Duration = Duration::from_millis(1);

/// How long after the start of a group of `writes` writes the next one may start, if the previous
/// group started `since` earlier.
pub(super) fn space(writes: usize, since: Duration) -> Duration {
    let in_that_time = u32::try_from(writes).unwrap_or(u32::MAX);
    let would_be = since.saturating_mul(SPACED_FROM_PER_SEC);
    let are_many = would_be <= Duration::from_secs(1).saturating_mul(in_that_time);
    if writes >= SHARED_FROM && are_many {
        SPACE
    } else {
        Duration::ZERO
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_concurrent_load_is_spaced() {
        let us = Duration::from_micros;
        for (writes, since, expected) in [
            (1, us(500), Duration::ZERO),
            (1, us(20), Duration::ZERO),
            (4, us(501), Duration::ZERO),
            (4, us(500), SPACE),
            (40, us(1_000), SPACE),
            (7, us(1_000), Duration::ZERO),
            (0, us(60_000_000), Duration::ZERO),
            (512, Duration::MAX, Duration::ZERO),
        ] {
            assert_eq!(space(writes, since), expected, "{writes} within {since:?}");
        }
    }
}
