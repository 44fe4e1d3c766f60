//! Determines when a session ends without a stop (contract section 2).
//!
//! Silence is measured by a clock that does not jump, from the moment at which this process took
//! the session on. So neither a step of the wall clock nor an outage of the service ends a session
//! that is silent. Age counts from the session's creation by the wall clock, also through an
//! outage; while a process has the session, it is measured by the clock that does not jump.

use porchlight_schema::limits::{
    CLOCK_AHEAD_MS_MAX, RECONCILE_SILENT_FACTOR, RECONCILE_SILENT_MS, RECONCILE_SILENT_MS_MAX,
    RECONCILE_USUAL_FACTOR,
};
use porchlight_schema::session::{EndReason, SessionEnd};
use porchlight_schema::time::{DAY_MS, TimestampMs};

/// The greatest time beyond the maximum length at which the age of an adopted session is trusted,
/// milliseconds: no outage is as long, but a wrong wall clock is often off by months or years.
const OUTAGE_MS_MAX: i64 = 7 * DAY_MS;

/// The ends of the sessions that a process finds at its start are spread over this part of the idle
/// timeout.
const ADOPTED_SPREAD_DIVISOR: i64 = 30;

/// Limits on the length of sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lifetime {
    /// The setting `session.idle_timeout`, milliseconds.
    pub idle_ms: i64,
    /// The setting `session.max_duration`, milliseconds.
    pub max_ms: i64,
}

/// The stored times of a session that records, by the wall clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordedTimes {
    /// The time at which the service created the session.
    pub created_at: TimestampMs,
    /// The time at which the phone started the session.
    pub started_at: TimestampMs,
    /// The time at which the last batch was received, or the session was created.
    pub last_received_at: TimestampMs,
}

/// The silence and the age of a session, by a clock that does not jump.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Elapsed {
    /// Milliseconds since its last batch, or since this process took it on, whichever is later.
    pub silent_ms: i64,
    /// The age of the session in milliseconds.
    pub age_ms: i64,
}

/// Returns whether a session that the service creates now may have begun at `started_at`: at most
/// `back_ms_max` ago, and hardly ahead of the service's clock.
#[must_use]
pub fn may_start_at(started_at: TimestampMs, back_ms_max: i64, now: TimestampMs) -> bool {
    (-CLOCK_AHEAD_MS_MAX..=back_ms_max).contains(&now.since_ms(started_at))
}

/// Returns whether a session that began at `started_at` may end at `ended_at`: not before its
/// start, and hardly ahead of the service's clock.
#[must_use]
pub fn may_end_at(ended_at: TimestampMs, started_at: TimestampMs, now: TimestampMs) -> bool {
    ended_at >= started_at && ended_at.since_ms(now) <= CLOCK_AHEAD_MS_MAX
}

/// Returns how long a session is usually silent between two batches, in milliseconds, after a batch
/// that ended a silence of `silent_ms`. `usual_ms` is the value before, 0 at first.
///
/// A longer silence counts immediately. Shorter ones lower the value by a quarter each, because a
/// phone that was offline sends several batches together.
#[must_use]
pub fn usual_silence_ms(usual_ms: i64, silent_ms: i64) -> i64 {
    silent_ms.max(usual_ms - usual_ms / 4)
}

/// Returns the silence after which a session is reconciled next, in milliseconds. `usual_ms` comes
/// from [`usual_silence_ms`]. `reconciled_ms` is the silence when it was reconciled last, if that
/// was after its last batch. `spread`, of the session, delays the times by up to an eighth, so that
/// the sessions of a shard are not reconciled at the same time.
///
/// A session that is silent for no longer than usual costs nothing. The times grow with the
/// silence, so a session costs a number of reads that depends on its batches and not on how long it
/// is silent.
#[must_use]
pub fn reconcile_after_ms(usual_ms: i64, reconciled_ms: Option<i64>, spread: u8) -> i64 {
    let first_ms = usual_ms
        .saturating_mul(RECONCILE_USUAL_FACTOR)
        .clamp(RECONCILE_SILENT_MS, RECONCILE_SILENT_MS_MAX);
    let after_ms = reconciled_ms.map_or(first_ms, |silent_ms| {
        silent_ms
            .max(first_ms)
            .saturating_mul(RECONCILE_SILENT_FACTOR)
    });
    after_ms.saturating_add(after_ms / 8 / 256 * i64::from(spread))
}

impl Lifetime {
    /// Returns the time until a silent session ends, in milliseconds; at 0 or less the session is
    /// over.
    #[must_use]
    pub fn left_ms(&self, elapsed: Elapsed) -> i64 {
        (self.idle_ms - elapsed.silent_ms).min(self.max_ms - elapsed.age_ms)
    }

    /// Returns the initial age of an existing session that a process adopts, in milliseconds.
    ///
    /// This age is the only use of the wall clock, which may be wrong. An age that is negative, or
    /// beyond the maximum length by more than a week, is not trusted: the age counts from now on. A
    /// trusted age beyond the maximum length ends the session immediately. A phone that was offline
    /// during an outage loses nothing: its telemetry and its stop are accepted for 24 h after that
    /// end.
    #[must_use]
    pub fn age_when_adopted_ms(&self, created_at: TimestampMs, now: TimestampMs) -> i64 {
        let age_ms = now.since_ms(created_at);
        let is_trusted = (0..=self.max_ms.saturating_add(OUTAGE_MS_MAX)).contains(&age_ms);
        if is_trusted { age_ms } else { 0 }
    }

    /// Returns the time until the first deadline of a session that was found at a start, in
    /// milliseconds. The session has `left_ms` left, and is reconciled after `reconcile_after_ms`
    /// if other nodes may have received its batches.
    ///
    /// The journal of each session is read before its end, and thousands must not be read at the
    /// same time. So `spread`, of the session, delays its end by up to a thirtieth of the timeout.
    #[must_use]
    pub fn due_after_adoption_ms(
        &self,
        left_ms: i64,
        spread: u16,
        reconcile_after_ms: Option<i64>,
    ) -> i64 {
        let spread_max_ms = self.idle_ms / ADOPTED_SPREAD_DIVISOR;
        let spread_ms = spread_max_ms * i64::from(spread) / i64::from(u16::MAX);
        let due_ms = left_ms.max(0).saturating_add(spread_ms);
        reconcile_after_ms.map_or(due_ms, |after_ms| due_ms.min(after_ms))
    }

    /// Returns the end of a session, or `None` if it is not over. `now` is the wall clock's time.
    ///
    /// A session never ends before `started_at`, because a phone that was offline may have begun
    /// after the service last received data.
    #[must_use]
    pub fn end(
        &self,
        times: RecordedTimes,
        elapsed: Elapsed,
        now: TimestampMs,
    ) -> Option<SessionEnd> {
        let idle_left_ms = self.idle_ms - elapsed.silent_ms;
        let age_left_ms = self.max_ms - elapsed.age_ms;
        let (reason, ended_at) = if idle_left_ms <= 0 && idle_left_ms <= age_left_ms {
            (EndReason::Idle, times.last_received_at)
        } else if age_left_ms <= 0 {
            let too_old_at = times.created_at.plus_ms(self.max_ms);
            (
                EndReason::TooLong,
                too_old_at.min(now).max(times.last_received_at),
            )
        } else {
            return None;
        };
        Some(SessionEnd {
            ended_at: ended_at.max(times.started_at),
            completed_at: now,
            reason,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LIFETIME: Lifetime = Lifetime {
        idle_ms: 1_000,
        max_ms: 5_000,
    };

    fn times(received_ms: i64) -> RecordedTimes {
        RecordedTimes {
            created_at: TimestampMs(0),
            started_at: TimestampMs(0),
            last_received_at: TimestampMs(received_ms),
        }
    }

    /// Ends a session that was created at 0 by both clocks and last received data at `received_ms`,
    /// at `now_ms`.
    fn end(received_ms: i64, now_ms: i64) -> Option<(EndReason, i64)> {
        let elapsed = Elapsed {
            silent_ms: now_ms - received_ms,
            age_ms: now_ms,
        };
        let end = LIFETIME.end(times(received_ms), elapsed, TimestampMs(now_ms))?;
        Some((end.reason, end.ended_at.0))
    }

    #[test]
    fn a_long_silence_costs_few_reconciliations() {
        for spread in [0, 128, 255] {
            let mut times = vec![reconcile_after_ms(0, None, spread)];
            while times[times.len() - 1] < 24 * 3_600_000 {
                let last = times.last().copied();
                times.push(reconcile_after_ms(0, last, spread));
            }
            assert!((120_000..136_000).contains(&times[0]), "{times:?}");
            assert!((480_000..620_000).contains(&times[1]), "{times:?}");
            assert!(times.len() <= 6, "in a day: {times:?}");
        }
        assert_eq!(reconcile_after_ms(0, Some(i64::MAX), 255), i64::MAX);
        // The silence may turn out to be shorter, when a batch is found that another node received.
        assert_eq!(reconcile_after_ms(0, Some(5), 0), 480_000);
    }

    #[test]
    fn a_phone_with_a_slow_pace_is_not_reconciled_between_its_batches() {
        let mut usual_ms = 0;
        for minute in 1..=20 {
            usual_ms = usual_silence_ms(usual_ms, minute * 60_000);
            let after_ms = reconcile_after_ms(usual_ms, None, 0);
            assert!(after_ms >= (2 * minute * 60_000).min(20 * 60_000));
        }
        // At any pace, the first time comes within 22.5 minutes.
        let late_ms = reconcile_after_ms(i64::MAX, None, 255);
        assert!(late_ms <= 1_350_000, "{late_ms}");
    }

    #[test]
    fn a_fast_pace_replaces_a_slow_one_within_ten_batches() {
        // A phone was offline for ten minutes and then sends six batches together.
        let mut usual_ms = usual_silence_ms(0, 600_000);
        for _ in 0..6 {
            usual_ms = usual_silence_ms(usual_ms, 50);
        }
        assert!(reconcile_after_ms(usual_ms, None, 0) > 180_000);
        for _ in 0..4 {
            usual_ms = usual_silence_ms(usual_ms, 1_000);
        }
        assert_eq!(reconcile_after_ms(usual_ms, None, 0), 120_000);
    }

    #[test]
    fn silence_ends_a_session_at_its_last_batch_and_age_at_its_limit() {
        assert_eq!(end(500, 1_499), None);
        assert_eq!(end(500, 1_500), Some((EndReason::Idle, 500)));
        assert_eq!(
            end(500, 90_000),
            Some((EndReason::Idle, 500)),
            "found late, by a process that was busy"
        );
        assert_eq!(end(4_900, 4_999), None);
        assert_eq!(end(4_900, 5_000), Some((EndReason::TooLong, 5_000)));
        let elapsed = Elapsed {
            silent_ms: 100,
            age_ms: 4_500,
        };
        assert_eq!(LIFETIME.left_ms(elapsed), 500);
    }

    #[test]
    fn an_adopted_session_keeps_its_age_through_an_outage() {
        let adopted = |now_ms| {
            let now = TimestampMs(now_ms);
            let elapsed = Elapsed {
                silent_ms: 0,
                age_ms: LIFETIME.age_when_adopted_ms(TimestampMs(0), now),
            };
            let end = LIFETIME.end(times(500), elapsed, now);
            (
                elapsed.age_ms,
                end.map(|end| (end.reason, end.ended_at.0, end.completed_at.0)),
            )
        };
        assert_eq!(adopted(3_000), (3_000, None));
        assert_eq!(adopted(4_999), (4_999, None), "1 ms is left");
        let too_long = |now_ms| (now_ms, Some((EndReason::TooLong, 5_000, now_ms)));
        assert_eq!(adopted(5_000), too_long(5_000));
        assert_eq!(adopted(3 * 86_400_000), too_long(3 * 86_400_000));
    }

    #[test]
    fn a_phone_whose_clock_is_far_ahead_neither_starts_nor_ends_a_session() {
        let (now, ahead) = (TimestampMs(1_000_000), CLOCK_AHEAD_MS_MAX);
        for (started_ms, may_start) in [
            (-ahead - 1, false),
            (-ahead, true),
            (900, true),
            (901, false),
        ] {
            let started_at = now.plus_ms(-started_ms);
            assert_eq!(
                may_start_at(started_at, 900, now),
                may_start,
                "{started_ms}"
            );
        }
        for (ended_ms, may_end) in [
            (-901, false),
            (-900, true),
            (ahead, true),
            (ahead + 1, false),
        ] {
            let ended_at = now.plus_ms(ended_ms);
            assert_eq!(
                may_end_at(ended_at, now.plus_ms(-900), now),
                may_end,
                "{ended_ms}"
            );
        }
    }

    #[test]
    fn the_ends_of_adopted_sessions_are_spread() {
        let lifetime = Lifetime {
            idle_ms: 1_800_000,
            max_ms: 43_200_000,
        };
        let due_ms = |left_ms, spread| lifetime.due_after_adoption_ms(left_ms, spread, None);
        assert_eq!(due_ms(1_800_000, 0), 1_800_000);
        assert_eq!(due_ms(1_800_000, u16::MAX), 1_860_000);
        assert_eq!(due_ms(-5, 0), 0);
        assert_eq!(due_ms(i64::MAX, u16::MAX), i64::MAX);
        let shared = lifetime.due_after_adoption_ms(1_800_000, u16::MAX, Some(120_000));
        assert_eq!(shared, 120_000);
    }

    #[test]
    fn an_age_caused_by_a_wrong_clock_is_ignored() {
        let age = |now_ms| LIFETIME.age_when_adopted_ms(TimestampMs(0), TimestampMs(now_ms));
        assert_eq!(age(5_000 + OUTAGE_MS_MAX), 5_000 + OUTAGE_MS_MAX);
        assert_eq!(age(5_001 + OUTAGE_MS_MAX), 0);
        assert_eq!(age(-1), 0);
        assert_eq!(age(100 * 86_400_000), 0, "the clock is 100 days ahead");
        assert_eq!(age(-100 * 86_400_000), 0, "the clock is 100 days behind");
    }

    proptest! {
        #[test]
        fn the_wall_clock_never_ends_a_session(now_ms in any::<i32>(), received_ms in any::<i32>(), silent_ms in 0_i64..1_000, age_ms in 0_i64..5_000) {
            let elapsed = Elapsed { silent_ms, age_ms };
            let now = TimestampMs(i64::from(now_ms));
            prop_assert_eq!(LIFETIME.end(times(i64::from(received_ms)), elapsed, now), None);
        }

        #[test]
        fn a_session_is_over_when_no_time_is_left(now_ms in any::<i32>(), silent_ms in 0_i64..3_000, age_ms in 0_i64..9_000) {
            let elapsed = Elapsed { silent_ms, age_ms };
            let end = LIFETIME.end(times(0), elapsed, TimestampMs(i64::from(now_ms)));
            prop_assert_eq!(end.is_some(), LIFETIME.left_ms(elapsed) <= 0);
        }
    }
}
