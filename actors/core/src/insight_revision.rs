//! Decides the content of the next revision of a session's insight.

use porchlight_schema::insight::{InsightRecord, Score};
use porchlight_schema::session::Pod;
use porchlight_schema::time::TimestampMs;

/// The error message that customers see if an insight could not be computed.
const FAILED: &str = "The session could not be scored; its telemetry is kept.";

/// Returns the revision after the `stored` one. Without a score it says that scoring failed. Its
/// time is later than that of the stored revision, also if the clock was set back since then.
#[must_use]
pub fn next(
    stored: Option<&InsightRecord>,
    score: Option<Score>,
    pod: Option<Pod>,
    now: TimestampMs,
) -> InsightRecord {
    InsightRecord {
        revision: stored.map_or(1, |stored| stored.revision.saturating_add(1)),
        error_message: score.is_none().then(|| FAILED.to_owned()),
        score,
        pod,
        updated_at: stored.map_or(now, |stored| now.max(stored.updated_at.plus_ms(1))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn revisions_and_times_rise_whatever_the_clock_says() {
        let stored = |revision, at| InsightRecord {
            revision,
            updated_at: TimestampMs(at),
            ..next(None, None, None, TimestampMs(0))
        };
        for (before, now, revision, updated_at) in [
            (None, 5, 1, 5),
            (Some(stored(1, 5)), 9, 2, 9),
            (Some(stored(1, 5)), 5, 2, 6),
            (Some(stored(7, 5)), 2, 8, 6),
            (Some(stored(u32::MAX, 5)), 9, u32::MAX, 9),
        ] {
            let next = next(before.as_ref(), None, None, TimestampMs(now));
            assert_eq!(
                (next.revision, next.updated_at),
                (revision, TimestampMs(updated_at))
            );
            assert!(next.error_message.is_some() && next.score.is_none());
        }
    }
}
