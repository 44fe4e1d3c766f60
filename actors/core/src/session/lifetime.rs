//! When a session is over without anybody saying so (contract section 2).

use porchlight_schema::session::{EndReason, SessionEnd};
use porchlight_schema::time::TimestampMs;

/// How long sessions may last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lifetime {
    /// `session.idle_timeout`.
    pub idle_ms: i64,
    /// `session.max_duration`.
    pub max_ms: i64,
}

impl Lifetime {
    /// When a session that was made at `created_at` and last heard at `heard_at` is over, if nothing more comes.
    #[must_use]
    pub fn deadline(&self, created_at: TimestampMs, heard_at: TimestampMs) -> TimestampMs {
        heard_at
            .plus_ms(self.idle_ms)
            .min(created_at.plus_ms(self.max_ms))
    }

    /// How such a session ends, if it is over at `now`. `started_at` bounds the end from below: a phone that was
    /// offline may have begun after it was last heard of by the service's clock.
    #[must_use]
    pub fn end(
        &self,
        created_at: TimestampMs,
        started_at: TimestampMs,
        heard_at: TimestampMs,
        now: TimestampMs,
    ) -> Option<SessionEnd> {
        let too_old_at = created_at.plus_ms(self.max_ms);
        let idle_at = heard_at.plus_ms(self.idle_ms);
        let (reason, ended_at) = if now >= idle_at && idle_at <= too_old_at {
            (EndReason::Idle, heard_at)
        } else if now >= too_old_at {
            (EndReason::TooLong, too_old_at)
        } else {
            return None;
        };
        Some(SessionEnd {
            ended_at: ended_at.max(started_at),
            completed_at: now,
            reason,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIFETIME: Lifetime = Lifetime {
        idle_ms: 1_000,
        max_ms: 5_000,
    };

    fn end(heard_ms: i64, now_ms: i64) -> Option<(EndReason, i64)> {
        let end = LIFETIME.end(
            TimestampMs(0),
            TimestampMs(0),
            TimestampMs(heard_ms),
            TimestampMs(now_ms),
        )?;
        Some((end.reason, end.ended_at.0))
    }

    #[test]
    fn silence_ends_a_session_at_its_last_word_and_age_at_its_limit() {
        assert_eq!(end(500, 1_499), None);
        assert_eq!(end(500, 1_500), Some((EndReason::Idle, 500)));
        assert_eq!(
            end(500, 90_000),
            Some((EndReason::Idle, 500)),
            "found late, after the service was away"
        );
        assert_eq!(end(4_900, 4_999), None);
        assert_eq!(end(4_900, 5_000), Some((EndReason::TooLong, 5_000)));
        assert_eq!(
            LIFETIME.deadline(TimestampMs(0), TimestampMs(4_900)),
            TimestampMs(5_000)
        );
    }
}
