//! Points in time on the wall clock.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A point in time: milliseconds since 1970-01-01T00:00:00Z.
///
/// On the wire it is RFC 3339 in UTC with exactly three decimals (`2026-11-20T10:55:00.000Z`); what is finer
/// than a millisecond is cut off when a text is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct TimestampMs(pub i64);

/// The text is not an RFC 3339 time with an offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not an RFC 3339 time such as 2026-11-20T10:55:00.000Z")]
pub struct TimestampError;

impl TimestampMs {
    /// This time and `duration_ms` later (earlier where negative), kept within the range of the type.
    #[must_use]
    pub fn plus_ms(self, duration_ms: i64) -> Self {
        Self(self.0.saturating_add(duration_ms))
    }

    /// Milliseconds from `earlier` to this time; negative where `earlier` is the later one.
    #[must_use]
    pub fn since_ms(self, earlier: Self) -> i64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl fmt::Display for TimestampMs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let timestamp = jiff::Timestamp::from_millisecond(self.0).unwrap_or(jiff::Timestamp::MAX);
        write!(f, "{timestamp:.3}")
    }
}

impl FromStr for TimestampMs {
    type Err = TimestampError;

    fn from_str(text: &str) -> Result<Self, TimestampError> {
        // jiff reads more than RFC 3339 (a bracketed zone, a space, a comma): the length and the ends say which it is.
        let plain = text.len() >= 20 && text.len() <= 40 && !text.contains(['[', ',']);
        if !plain || !matches!(text.as_bytes().get(10), Some(b'T' | b't')) {
            return Err(TimestampError);
        }
        let timestamp: jiff::Timestamp = text.parse().map_err(|_| TimestampError)?;
        Ok(Self(timestamp.as_millisecond()))
    }
}

impl Serialize for TimestampMs {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            serializer.collect_str(self)
        } else {
            serializer.serialize_i64(self.0)
        }
    }
}

impl<'de> Deserialize<'de> for TimestampMs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            let text = String::deserialize(deserializer)?;
            text.parse().map_err(de::Error::custom)
        } else {
            i64::deserialize(deserializer).map(Self)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_written_with_three_decimals_and_read_with_any() {
        let time: TimestampMs = "2026-11-20T10:55:00Z".parse().unwrap();
        assert_eq!(time.to_string(), "2026-11-20T10:55:00.000Z");
        assert_eq!(
            "2026-11-20T11:55:00.5+01:00"
                .parse::<TimestampMs>()
                .unwrap(),
            time.plus_ms(500)
        );
        assert_eq!(
            "2026-11-20T10:55:00.000999Z"
                .parse::<TimestampMs>()
                .unwrap(),
            time
        );
    }

    #[test]
    fn what_is_not_rfc_3339_is_refused() {
        for text in [
            "",
            "2026-11-20",
            "2026-11-20T10:55:00",
            "2026-11-20 10:55:00Z",
            "yesterday",
            "1763636100",
        ] {
            assert_eq!(text.parse::<TimestampMs>(), Err(TimestampError), "{text}");
        }
    }
}
