//! The present activity of a recorder.

use porchlight_schema::limits::RECORDER_RECEIVING_MS;
use porchlight_schema::sample::Kind;
use porchlight_schema::time::TimestampMs;

use super::RecorderState;

/// The present activity of a recorder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activity {
    /// No push has arrived yet.
    Waiting,
    /// A push arrived within [`RECORDER_RECEIVING_MS`].
    Receiving,
    /// The last push is older.
    Silent,
    /// The recorder's newest session has ended.
    Recorded,
}

impl Activity {
    /// Returns the word on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Receiving => "receiving",
            Self::Silent => "silent",
            Self::Recorded => "recorded",
        }
    }
}

impl RecorderState {
    /// Returns the activity at `now`. `has_ended` is whether the newest session has ended.
    #[must_use]
    pub fn activity(&self, now: TimestampMs, has_ended: bool) -> Activity {
        match self.last_heard_at {
            _ if has_ended => Activity::Recorded,
            None => Activity::Waiting,
            Some(_) if self.is_receiving(now) => Activity::Receiving,
            Some(_) => Activity::Silent,
        }
    }

    /// Returns the received values per second, by kind, over the last pushes; none while no push
    /// arrives.
    #[must_use]
    pub fn recent_rates_hz(&self, now: TimestampMs) -> Vec<(Kind, f64)> {
        if self.is_receiving(now) {
            self.rates_hz()
        } else {
            Vec::new()
        }
    }

    fn is_receiving(&self, now: TimestampMs) -> bool {
        self.last_heard_at
            .is_some_and(|heard_at| now.since_ms(heard_at) <= RECORDER_RECEIVING_MS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_push_without_readings_counts_as_received() {
        let heard_at = TimestampMs(1_763_636_100_000);
        let mut state = RecorderState::default();
        assert_eq!(state.activity(heard_at, false), Activity::Waiting);
        state.last_heard_at = Some(heard_at);
        for (after_ms, activity) in [
            (0, Activity::Receiving),
            (RECORDER_RECEIVING_MS, Activity::Receiving),
            (RECORDER_RECEIVING_MS + 1, Activity::Silent),
        ] {
            let now = heard_at.plus_ms(after_ms);
            assert_eq!(state.activity(now, false), activity, "{after_ms} ms later");
            assert_eq!(state.activity(now, true), Activity::Recorded);
            assert!(state.recent_rates_hz(now).is_empty());
        }
    }
}
