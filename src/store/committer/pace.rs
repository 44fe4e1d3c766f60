//! Decides when the next group begins.
//!
//! A group has a fixed cost: the sync, and waking all callers and actors, about as much as two of
//! its batches cost in total. With few writes this does not matter, and each one is written
//! immediately. With more writes a group that waits for a few of them shares its cost among them.
//! Only writes whose callers wait for a sync count: work in the background, such as an erasure,
//! must not delay the clients' writes.

use std::time::Duration;

/// The minimum number of writes with which one group alone causes spacing. A group with fewer comes
/// from few callers, each of which waits for its write before the next one, so waiting gains
/// nothing.
const SHARED_WRITES_MIN: usize = 4;
/// The minimum time between the starts of spaced groups. A batch waits for half of it on average,
/// and four batches share a group at 2,000 per second.
const SPACING: Duration = Duration::from_millis(2);
/// If one group alone has this rate of writes per second, the next group is spaced without a
/// measurement over [`MEASURING_PERIOD`].
const SPACED_IMMEDIATELY_WRITES_PER_SEC: u32 = 8_000;
/// Groups are spaced from this rate of writes per second on, measured over [`MEASURING_PERIOD`].
/// With fewer, a shared group saves little, and waiting would double the latency of the callers.
const SPACED_WRITES_PER_SEC: u32 = 1_600;
/// The period over which the rate of writes is measured for [`SPACED_WRITES_PER_SEC`].
const MEASURING_PERIOD: Duration = Duration::from_millis(40);
/// The number of groups spaced by the measured rate that are counted together.
const COUNTED_GROUPS: u32 = 8;
/// The least number of writes in [`COUNTED_GROUPS`] groups for which spacing continues: fewer came
/// from few callers, each of which waits for its write.
const COUNTED_WRITES_MIN: u32 = 17;
/// The time for which each group begins immediately after groups with fewer than
/// [`COUNTED_WRITES_MIN`] writes.
const UNSPACED_PERIOD: Duration = Duration::from_millis(250);

/// A number of groups and of their writes.
#[derive(Debug, Clone, Copy, Default)]
struct Counted {
    groups: u32,
    writes: u32,
}

/// The rate of writes in recent groups, which decides when the next group begins.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// The writes of the current period, and its length so far.
    writes: u32,
    elapsed: Duration,
    /// Whether the last complete period had a rate of [`SPACED_WRITES_PER_SEC`].
    is_moderate: bool,
    /// Whether the present group waited for [`SPACING`] because of the measured rate.
    has_waited: bool,
    /// The groups spaced by the measured rate since the last decision about them.
    counted: Counted,
    /// The time left in which each group begins immediately.
    unspaced: Duration,
}

impl Pace {
    /// Returns the time from the start of a group of `writes` synced writes to the earliest start
    /// of the next group. The previous group started `since` earlier.
    pub(super) fn spacing(&mut self, writes: usize, since: Duration) -> Duration {
        let group_writes = u32::try_from(writes).unwrap_or(u32::MAX);
        self.measure(group_writes, since);
        self.unspaced = self.unspaced.saturating_sub(since);
        if std::mem::take(&mut self.has_waited) {
            self.count(group_writes);
        }
        if writes >= SHARED_WRITES_MIN
            && reaches(SPACED_IMMEDIATELY_WRITES_PER_SEC, group_writes, since)
        {
            SPACING
        } else if self.is_moderate && self.unspaced.is_zero() {
            self.has_waited = true;
            SPACING
        } else {
            Duration::ZERO
        }
    }

    fn count(&mut self, writes: u32) {
        self.counted.groups += 1;
        self.counted.writes = self.counted.writes.saturating_add(writes);
        if self.counted.groups == COUNTED_GROUPS {
            if self.counted.writes < COUNTED_WRITES_MIN {
                self.unspaced = UNSPACED_PERIOD;
            }
            self.counted = Counted::default();
        }
    }

    fn measure(&mut self, writes: u32, since: Duration) {
        self.writes = self.writes.saturating_add(writes);
        self.elapsed = self.elapsed.saturating_add(since);
        if self.elapsed >= MEASURING_PERIOD {
            self.is_moderate = reaches(SPACED_WRITES_PER_SEC, self.writes, self.elapsed);
            self.writes = 0;
            self.elapsed = Duration::ZERO;
        }
    }
}

/// Returns whether `writes` in `time` are at least `per_sec` writes per second.
fn reaches(per_sec: u32, writes: u32, time: Duration) -> bool {
    time.saturating_mul(per_sec) <= Duration::from_secs(1).saturating_mul(writes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn us(us: u64) -> Duration {
        Duration::from_micros(us)
    }

    #[test]
    fn one_group_with_a_high_rate_is_spaced_immediately() {
        for (writes, since, expected) in [
            (1, us(500), Duration::ZERO),
            (1, us(20), Duration::ZERO),
            (4, us(501), Duration::ZERO),
            (4, us(500), SPACING),
            (40, us(1_000), SPACING),
            (7, us(1_000), Duration::ZERO),
            (0, us(60_000_000), Duration::ZERO),
            (512, Duration::MAX, Duration::ZERO),
        ] {
            let space = Pace::default().spacing(writes, since);
            assert_eq!(space, expected, "{writes} within {since:?}");
        }
    }

    /// Simulates arrivals at a fixed rate, independent of the groups. Returns the largest group of
    /// the second second, and whether any group of it waited.
    fn open_loop(per_sec: u64) -> (usize, bool) {
        let (mut pace, mut now_us, mut begun_us) = (Pace::default(), 0_u64, 0_u64);
        let (mut written, mut most, mut spaced) = (0, 0, false);
        let mut not_before_us = 0;
        while now_us < 2_000_000 {
            // A group begins when a write waits and the spacing has passed.
            let next_us = (written + 1) * 1_000_000 / per_sec;
            now_us = now_us.max(next_us).max(not_before_us);
            let arrived = now_us * per_sec / 1_000_000;
            let writes = (arrived - written) as usize;
            written = arrived;
            let space = pace.spacing(writes, us(now_us - begun_us));
            begun_us = now_us;
            not_before_us = now_us + space.as_micros() as u64;
            // The write and the sync of a group take this time.
            now_us += 150;
            if now_us > 1_000_000 {
                most = most.max(writes);
                spaced |= !space.is_zero();
            }
        }
        (most, spaced)
    }

    #[test]
    fn a_moderate_load_shares_groups_and_a_small_one_does_not_wait() {
        assert_eq!(open_loop(2_000), (4, true));
        for per_sec in [600, 1_400] {
            assert_eq!(open_loop(per_sec), (1, false));
        }
    }

    #[test]
    fn one_or_two_callers_who_wait_for_each_write_are_seldom_delayed() {
        for callers in [1, 2] {
            let mut pace = Pace::default();
            let (mut waited, mut since) = (Duration::ZERO, us(300));
            let groups = 20_000;
            for _ in 0..groups {
                let space = pace.spacing(callers, since);
                waited += space;
                since = space.max(us(300));
            }
            assert!(waited < us(300) * groups / 8, "{callers}: {waited:?}");
        }
    }
}
