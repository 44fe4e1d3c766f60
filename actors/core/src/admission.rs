//! Limits the number of batches between their last byte and their acknowledgement to the measured
//! capacity of the node.
//!
//! The scarce resource (processors, the disk) differs between machines and over time, so the limit
//! is not a constant. It follows from a target for the average delay of an admitted batch by
//! Little's law: the number of batches that the node acknowledges in that time. The target itself
//! is measured: a multiple of the shortest recent delay while nothing was refused, which is the
//! delay of a batch that met no queue.
//!
//! - A mean delay above the target is a standing queue: the limit falls to the number acknowledged
//!   within the target's time, at most by half per step.
//! - If the limit was reached while the delay stayed below the target, it rises by its square root.
//! - If the limit was not reached, it stays.
//!
//! Sources: the rise by a square root is from the gradient limiters of Envoy (adaptive concurrency)
//! and Netflix (concurrency-limits); the rule that only a standing queue is too long is from CoDel
//! (RFC 8289). Their own measures do not fit. A gradient of delays mistakes the batching of group
//! commits for a queue, and the minimum delay of an interval is that of the batch that joined its
//! group last.

use porchlight_schema::limits::{
    INGEST_BATCHES_MAX, INGEST_BATCHES_MIN, INGEST_BATCHES_START, INGEST_DELAY_US_TARGET,
    LIGHT_TENANT_PARTS, LIGHT_TENANT_ROOM_MIN, LIGHT_TENANT_ROOM_PARTS, NODE_MAILBOX_MAX,
};

/// Returns whether a tenant is light: it has `batches` in flight, which is a small part of the
/// node's `limit`. A tenant that fills the node leaves room for light ones.
#[must_use]
pub fn is_light(batches: u32, limit: u32) -> bool {
    batches < limit / LIGHT_TENANT_PARTS
}

/// Returns whether a node with `under_way` batches in flight admits another one. The batches of a
/// light tenant may exceed the `limit` a little.
#[must_use]
pub fn has_batch_room(under_way: u32, limit: u32, is_light: bool) -> bool {
    let room = (limit / LIGHT_TENANT_ROOM_PARTS).max(LIGHT_TENANT_ROOM_MIN);
    under_way < limit || is_light && under_way < limit.saturating_add(room)
}

/// Returns whether a node with `waiting` acknowledged batches in the mailboxes of its sessions
/// admits another one. The batches of a light tenant may exceed the maximum a little.
#[must_use]
pub fn has_mailbox_room(waiting: u32, is_light: bool) -> bool {
    let room = NODE_MAILBOX_MAX / LIGHT_TENANT_ROOM_PARTS;
    waiting < NODE_MAILBOX_MAX || is_light && waiting < NODE_MAILBOX_MAX + room
}

/// The target as a multiple of the shortest recent mean delay, if that exceeds
/// [`INGEST_DELAY_US_TARGET`]: a slow disk is not an overloaded one.
const TARGET_OVER_BASE: u32 = 4;
/// The least number of intervals for which the shortest delay is remembered; at most twice as many.
/// With intervals of 100 ms this is half a minute.
const BASE_INTERVALS: u32 = 300;
/// Intervals with fewer acknowledged batches are ignored.
const ACKNOWLEDGED_MIN: u32 = 8;

/// The measurements of one interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Interval {
    /// The length of the interval in microseconds.
    pub length_us: u32,
    /// The number of acknowledged batches.
    pub acknowledged: u32,
    /// The sum of their delays in microseconds: queue delay, plus the time from the last byte to
    /// the acknowledgement.
    pub delay_sum_us: u64,
    /// Whether a batch was refused, or the limit was reached.
    pub was_full: bool,
}

/// The adaptive limit.
#[derive(Debug, Clone, PartialEq)]
pub struct AdmissionLimit {
    limit: f64,
    /// The shortest mean delay of the present span of intervals and of the previous one, in
    /// microseconds.
    base_us: [Option<u32>; 2],
    intervals: u32,
}

impl Default for AdmissionLimit {
    fn default() -> Self {
        Self {
            limit: f64::from(INGEST_BATCHES_START),
            base_us: [None; 2],
            intervals: 0,
        }
    }
}

impl AdmissionLimit {
    /// Returns the limit, from [`INGEST_BATCHES_MIN`] to [`INGEST_BATCHES_MAX`].
    #[must_use]
    pub fn limit(&self) -> u32 {
        self.limit as u32
    }

    /// Returns the target for the mean delay, microseconds.
    #[must_use]
    pub fn target_us(&self) -> u32 {
        let base_us = self.base_us.into_iter().flatten().min().unwrap_or(0);
        base_us
            .saturating_mul(TARGET_OVER_BASE)
            .max(INGEST_DELAY_US_TARGET)
    }

    /// Adapts to the measurements of an interval.
    pub fn observe(&mut self, interval: &Interval) {
        if interval.acknowledged < ACKNOWLEDGED_MIN || interval.length_us == 0 {
            return;
        }
        let delay_us = interval.delay_sum_us / u64::from(interval.acknowledged);
        // While the limit is reached, the limit itself determines the delay. Using it as the
        // shortest delay would raise the target, the limit and the next delay for as long as the
        // load lasts.
        if !interval.was_full {
            self.remember(u32::try_from(delay_us).unwrap_or(u32::MAX));
        }
        let target_us = self.target_us();
        if delay_us > u64::from(target_us) {
            let per_us = f64::from(interval.acknowledged) / f64::from(interval.length_us);
            let managed = per_us * f64::from(target_us);
            self.set(managed.clamp(self.limit / 2.0, self.limit));
        } else if interval.was_full {
            self.set(self.limit + self.limit.sqrt());
        }
    }

    fn set(&mut self, limit: f64) {
        let (min, max) = (INGEST_BATCHES_MIN, INGEST_BATCHES_MAX);
        self.limit = limit.clamp(f64::from(min), f64::from(max));
    }

    fn remember(&mut self, delay_us: u32) {
        let [newest, before] = &mut self.base_us;
        if self.intervals >= BASE_INTERVALS {
            *before = newest.take();
            self.intervals = 0;
        }
        self.intervals += 1;
        *newest = Some(newest.map_or(delay_us, |base_us| base_us.min(delay_us)));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const INTERVAL_US: u32 = 100_000;

    /// Simulates a node that acknowledges `per_sec` batches per second, none faster than `base_us`,
    /// with `offered` concurrent batches.
    fn run(limit: &mut AdmissionLimit, per_sec: f64, base_us: f64, offered: u32, intervals: u32) {
        for _ in 0..intervals {
            let under_way = f64::from(offered.min(limit.limit()));
            let delay_us = (under_way / per_sec * 1e6).max(base_us);
            let acknowledged = under_way / delay_us * f64::from(INTERVAL_US);
            limit.observe(&Interval {
                length_us: INTERVAL_US,
                acknowledged: acknowledged as u32,
                delay_sum_us: (acknowledged * delay_us) as u64,
                was_full: offered >= limit.limit(),
            });
        }
    }

    #[test]
    fn a_light_tenant_has_less_than_its_part_of_the_limit() {
        assert!(is_light(15, 64) && !is_light(16, 64));
        assert!(
            !is_light(0, 0),
            "a node without a limit has no light tenant"
        );
    }

    #[test]
    fn only_light_tenants_use_the_room_beyond_the_limit() {
        for limit in [INGEST_BATCHES_MIN, INGEST_BATCHES_START, INGEST_BATCHES_MAX] {
            let room = (limit / LIGHT_TENANT_ROOM_PARTS).max(LIGHT_TENANT_ROOM_MIN);
            assert!(has_batch_room(limit - 1, limit, false));
            assert!(!has_batch_room(limit, limit, false));
            assert!(has_batch_room(limit, limit, true));
            assert!(has_batch_room(limit + room - 1, limit, true));
            assert!(!has_batch_room(limit + room, limit, true));
        }
        let most = NODE_MAILBOX_MAX + NODE_MAILBOX_MAX / LIGHT_TENANT_ROOM_PARTS;
        assert!(has_mailbox_room(NODE_MAILBOX_MAX - 1, false));
        assert!(!has_mailbox_room(NODE_MAILBOX_MAX, false));
        assert!(has_mailbox_room(most - 1, true) && !has_mailbox_room(most, true));
    }

    #[test]
    fn the_limit_settles_where_the_delay_meets_the_target() {
        for (per_sec, base_us) in [(30_000.0, 800.0), (100_000.0, 800.0), (40_000.0, 4_000.0)] {
            let mut limit = AdmissionLimit::default();
            run(&mut limit, per_sec, base_us, 10, 5);
            run(&mut limit, per_sec, base_us, 100_000, 100);
            let managed = per_sec * f64::from(limit.target_us()) / 1e6;
            let share = f64::from(limit.limit()) / managed;
            assert!(
                (0.9..1.15).contains(&share),
                "{per_sec} {base_us}: {limit:?}"
            );
        }
    }

    #[test]
    fn a_constant_load_does_not_raise_the_target() {
        let mut limit = AdmissionLimit::default();
        run(&mut limit, 30_000.0, 800.0, 10, 5);
        let target_us = limit.target_us();
        run(&mut limit, 30_000.0, 800.0, 100_000, 5_000);
        assert_eq!(limit.target_us(), target_us);
        let delay_us = f64::from(limit.limit()) / 30_000.0 * 1e6;
        assert!(delay_us < 1.2 * f64::from(target_us), "{delay_us}");
    }

    #[test]
    fn the_limit_follows_a_machine_that_slows_down_and_recovers() {
        let mut limit = AdmissionLimit::default();
        run(&mut limit, 100_000.0, 500.0, 10, 5);
        run(&mut limit, 100_000.0, 500.0, 10_000, 100);
        let fast = limit.limit();
        run(&mut limit, 20_000.0, 500.0, 10_000, 10);
        let slow = limit.limit();
        assert!(slow < fast / 3, "{fast} {slow}");
        run(&mut limit, 100_000.0, 500.0, 10_000, 60);
        assert!(limit.limit() > 3 * slow, "{slow} {limit:?}");
    }

    #[test]
    fn a_load_below_the_limit_does_not_change_it() {
        let mut limit = AdmissionLimit::default();
        run(&mut limit, 10_000.0, 600.0, 20, 1_000);
        assert_eq!(
            limit,
            AdmissionLimit {
                limit: f64::from(INGEST_BATCHES_START),
                ..limit.clone()
            }
        );
    }

    #[test]
    fn an_idle_interval_changes_nothing() {
        let mut limit = AdmissionLimit::default();
        let before = limit.clone();
        limit.observe(&Interval {
            length_us: 10_000_000,
            acknowledged: 1,
            delay_sum_us: 9_000_000,
            was_full: true,
        });
        limit.observe(&Interval::default());
        assert_eq!(limit, before);
    }

    #[test]
    fn a_slow_disk_is_not_an_overload() {
        let mut limit = AdmissionLimit::default();
        run(&mut limit, 1e9, 20_000.0, INGEST_BATCHES_START - 1, 1_000);
        assert_eq!(limit.limit(), INGEST_BATCHES_START);
        assert_eq!(limit.target_us(), 80_000);
    }

    proptest! {
        #[test]
        fn the_limit_stays_within_its_bounds(intervals in proptest::collection::vec(
            (any::<u32>(), any::<u32>(), any::<u64>(), any::<bool>()), 0..200)) {
            let mut limit = AdmissionLimit::default();
            for (length_us, acknowledged, delay_sum_us, was_full) in intervals {
                let before = limit.limit();
                limit.observe(&Interval { length_us, acknowledged, delay_sum_us, was_full });
                prop_assert!((INGEST_BATCHES_MIN..=INGEST_BATCHES_MAX).contains(&limit.limit()));
                prop_assert!(limit.limit() >= before / 2, "by at most half in one step");
            }
        }
    }
}
