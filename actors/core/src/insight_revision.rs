//! Decides the content of the next revision of a session's insight.

use porchlight_schema::insight::{InsightRecord, Score};
use porchlight_schema::session::Pod;
use porchlight_schema::time::TimestampMs;

/// The error message that customers see if an insight could not be computed.
const FAILED: &str = "The session could not be scored; its telemetry is kept.";

/// Returns the revision after the `stored` one. Without a score it says that scoring failed. Its
/// time is later than that of the stored revision, and that of the first one is not earlier than
/// `shown_at`, the latest `updatedAt` of the session without an insight. Both hold also if the clock
/// was set back since then.
#[must_use]
pub fn next(
    stored: Option<&InsightRecord>,
    score: Option<Score>,
    pod: Option<Pod>,
    shown_at: TimestampMs,
    now: TimestampMs,
) -> InsightRecord {
    let earliest = stored.map_or(shown_at, |stored| stored.updated_at.plus_ms(1));
    InsightRecord {
        revision: stored.map_or(1, |stored| stored.revision.saturating_add(1)),
        error_message: score.is_none().then(|| FAILED.to_owned()),
        score,
        pod,
        updated_at: now.max(earliest),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHOWN_AT: TimestampMs = TimestampMs(4);

    /// In the second case, the clock was set back between the start of the session and its score.
    #[test]
    fn revisions_and_times_rise_whatever_the_clock_says() {
        let stored = |revision, at| InsightRecord {
            revision,
            updated_at: TimestampMs(at),
            ..next(None, None, None, SHOWN_AT, TimestampMs(0))
        };
        for (before, now, revision, updated_at) in [
            (None, 5, 1, 5),
            (None, 2, 1, 4),
            (Some(stored(1, 5)), 9, 2, 9),
            (Some(stored(1, 5)), 5, 2, 6),
            (Some(stored(7, 5)), 2, 8, 6),
            (Some(stored(u32::MAX, 5)), 9, u32::MAX, 9),
        ] {
            let next = next(before.as_ref(), None, None, SHOWN_AT, TimestampMs(now));
            assert_eq!(
                (next.revision, next.updated_at),
                (revision, TimestampMs(updated_at))
            );
            assert!(next.error_message.is_some() && next.score.is_none());
        }
    }
}
