//! When the next group begins. A group has a price of its own: the sync, and waking all who wait and the actors that are
//! handed something, as much as two of its batches cost on their whole way. With few writes that is nobody's loss, and
//! each is written at once. With many, the processors are what is scarce, and a group that lets some more come shares
//! its price among them.

use std::time::Duration;

/// A group of fewer writes came from few who wait for each of theirs before they send another: nothing is gained by
/// keeping them.
const SHARED_FROM: usize = 4;
/// From so many writes a second on, groups are spaced.
const SPACED_FROM_PER_SEC: u32 = 8_000;
/// Then they begin so far apart at least: half of what a batch takes on its way under such a load.
const SPACE: Duration = Duration::from_millis(1);

/// How long after the begin of a group of `writes` writes the next one may begin; the one before it had begun `since`
/// earlier.
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
    fn only_a_load_of_many_is_spaced() {
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
