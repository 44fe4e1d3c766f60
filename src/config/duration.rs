//! Human-readable durations: `90s`, `30m`, `12h`, `90d`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A duration written as an integer and a unit (`ms`, `s`, `m`, `h`, `d`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct HumanDuration(Duration);

/// The error for a text that is not a duration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a duration such as 90s, 30m, 12h or 90d")]
pub struct DurationError;

/// Units and their milliseconds, longest first.
const UNITS_MS: [(&str, u64); 5] = [
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1_000),
    ("ms", 1),
];

impl HumanDuration {
    /// Creates a duration from milliseconds; negative values count as 0.
    pub(super) fn from_millis(millis: i64) -> Self {
        Self(Duration::from_millis(u64::try_from(millis).unwrap_or(0)))
    }

    /// Returns a duration in seconds.
    #[must_use]
    pub const fn from_seconds(seconds: u64) -> Self {
        Self(Duration::from_secs(seconds))
    }

    /// Returns a duration in minutes.
    #[must_use]
    pub const fn from_minutes(minutes: u64) -> Self {
        Self(Duration::from_secs(minutes * 60))
    }

    /// Returns a duration in days.
    #[must_use]
    pub const fn from_days(days: u64) -> Self {
        Self::from_minutes(days * 24 * 60)
    }

    /// Returns the duration.
    #[must_use]
    pub const fn as_duration(self) -> Duration {
        self.0
    }

    /// Returns the duration in milliseconds.
    #[must_use]
    pub fn as_millis(self) -> i64 {
        i64::try_from(self.0.as_millis()).unwrap_or(i64::MAX)
    }
}

impl FromStr for HumanDuration {
    type Err = DurationError;

    fn from_str(text: &str) -> Result<Self, DurationError> {
        let digits = text
            .find(|letter: char| !letter.is_ascii_digit())
            .ok_or(DurationError)?;
        let (number, unit) = text.split_at(digits);
        let (_, unit_ms) = UNITS_MS
            .into_iter()
            .find(|&(name, _)| name == unit)
            .ok_or(DurationError)?;
        let number: u64 = number.parse().map_err(|_| DurationError)?;
        number
            .checked_mul(unit_ms)
            .map(|duration_ms| Self(Duration::from_millis(duration_ms)))
            .ok_or(DurationError)
    }
}

impl fmt::Display for HumanDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let duration_ms = self.as_millis().unsigned_abs();
        let (unit, unit_ms) = UNITS_MS
            .into_iter()
            .find(|&(_, unit_ms)| duration_ms.is_multiple_of(unit_ms))
            .unwrap_or(("ms", 1));
        write!(f, "{}{unit}", duration_ms / unit_ms)
    }
}

impl Serialize for HumanDuration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for HumanDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_round_trip() {
        for text in ["1500ms", "90s", "30m", "12h", "90d"] {
            assert_eq!(
                text.parse::<HumanDuration>()
                    .map(|duration| duration.to_string())
                    .as_deref(),
                Ok(text)
            );
        }
        assert_eq!("120s".parse::<HumanDuration>().unwrap().to_string(), "2m");
        for text in [
            "",
            "30",
            "m",
            "-1s",
            "1.5h",
            "1 h",
            "99999999999999999999d",
            "1w",
        ] {
            assert_eq!(text.parse::<HumanDuration>(), Err(DurationError), "{text}");
        }
    }
}
