//! Points in time of the wall clock.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// An hour in milliseconds.
pub const HOUR_MS: i64 = 3_600_000;
/// A day in milliseconds.
pub const DAY_MS: i64 = 24 * HOUR_MS;

/// A point in time: milliseconds since 1970-01-01T00:00:00Z.
///
/// On the wire it is RFC 3339 in UTC with exactly three decimals (`2026-11-20T10:55:00.000Z`).
/// Parsing truncates to milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct TimestampMs(pub i64);

/// The error for a text that is not an RFC 3339 time with an offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not an RFC 3339 time such as 2026-11-20T10:55:00.000Z")]
pub struct TimestampError;

impl TimestampMs {
    /// Adds `duration_ms`, which may be negative, and saturates.
    #[must_use]
    pub fn plus_ms(self, duration_ms: i64) -> Self {
        Self(self.0.saturating_add(duration_ms))
    }

    /// Parses like [`FromStr`], but rounds up to milliseconds: a bound of stored times, which are
    /// whole milliseconds, then includes and excludes the same ones as with all of its decimals.
    ///
    /// # Errors
    ///
    /// Returns [`TimestampError`] for any other text.
    pub fn parse_bound(text: &str) -> Result<Self, TimestampError> {
        let (time, is_whole) = read(text.as_bytes()).ok_or(TimestampError)?;
        Ok(time.plus_ms(i64::from(!is_whole)))
    }

    /// Returns the milliseconds from `earlier` to this time; negative if `earlier` is later.
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

    /// Parses the `date-time` of RFC 3339, section 5.6, and nothing else: any number of decimals,
    /// of which three count; `Z` or an offset with a colon; a leap second becomes the second before
    /// it. The years 0000 to 9999 are accepted, because `9999-12-31T23:59:59Z` is a common
    /// "forever".
    fn from_str(text: &str) -> Result<Self, TimestampError> {
        let read = read(text.as_bytes()).ok_or(TimestampError);
        read.map(|(time, _)| time)
    }
}

/// Parses a `date-time` to milliseconds. Also returns whether the text is a whole number of
/// milliseconds. Returns `None` if the text is something else.
fn read(text: &[u8]) -> Option<(TimestampMs, bool)> {
    let (date_time, rest) = text.split_at_checked(b"2026-11-20T10:55:00".len())?;
    let [
        y0,
        y1,
        y2,
        y3,
        b'-',
        o0,
        o1,
        b'-',
        d0,
        d1,
        b'T' | b't',
        time @ ..,
    ] = date_time
    else {
        return None;
    };
    let [h0, h1, b':', m0, m1, b':', s0, s1] = time else {
        return None;
    };
    let year = number(&[*y0, *y1, *y2, *y3])?;
    let (month, day) = (number(&[*o0, *o1])?, number(&[*d0, *d1])?);
    let (hour, minute) = (number(&[*h0, *h1])?, number(&[*m0, *m1])?);
    let second = number(&[*s0, *s1])?;
    if hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let (millisecond, is_whole, offset) = decimals(rest)?;
    let date = jiff::civil::Date::new(
        i16::try_from(year).ok()?,
        i8::try_from(month).ok()?,
        i8::try_from(day).ok()?,
    );
    let days = date.ok()?.duration_since(jiff::civil::date(1970, 1, 1));
    let seconds = days.as_secs() + hour * 3_600 + minute * 60 + second.min(59);
    let time = TimestampMs((seconds - offset_sec(offset)?) * 1_000 + millisecond);
    Some((time, is_whole))
}

/// Parses decimal digits and nothing else.
fn number(digits: &[u8]) -> Option<i64> {
    digits.iter().try_fold(0, |sum: i64, digit| {
        digit
            .is_ascii_digit()
            .then(|| sum * 10 + i64::from(digit - b'0'))
    })
}

/// Parses optional decimals to milliseconds. Also returns whether all further decimals are 0, and
/// the rest of the text.
fn decimals(rest: &[u8]) -> Option<(i64, bool, &[u8])> {
    let [b'.', rest @ ..] = rest else {
        return Some((0, true, rest));
    };
    let length = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, rest) = rest.split_at_checked(length)?;
    let hundred = i64::from(digits.first()? - b'0') * 100;
    let ten = digits
        .get(1)
        .map_or(0, |digit| i64::from(digit - b'0') * 10);
    let one = digits.get(2).map_or(0, |digit| i64::from(digit - b'0'));
    let is_whole = digits.iter().skip(3).all(|&digit| digit == b'0');
    Some((hundred + ten + one, is_whole, rest))
}

/// Parses `Z` or `+01:00` to seconds ahead of UTC.
fn offset_sec(offset: &[u8]) -> Option<i64> {
    match offset {
        b"Z" | b"z" => Some(0),
        [sign @ (b'+' | b'-'), h0, h1, b':', m0, m1] => {
            let (hours, minutes) = (number(&[*h0, *h1])?, number(&[*m0, *m1])?);
            let sec = (hours <= 23 && minutes <= 59).then_some(hours * 3_600 + minutes * 60)?;
            Some(if *sign == b'-' { -sec } else { sec })
        }
        _ => None,
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
    fn times_are_written_with_three_decimals_and_read_with_any() {
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
    fn a_bound_is_rounded_up_to_milliseconds() {
        for (text, bound) in [
            ("2026-11-20T10:55:00Z", "2026-11-20T10:55:00.000Z"),
            ("2026-11-20T10:55:00.123000Z", "2026-11-20T10:55:00.123Z"),
            ("2026-11-20T10:55:00.1239Z", "2026-11-20T10:55:00.124Z"),
            (
                "2026-11-20T10:55:59.9990001+00:00",
                "2026-11-20T10:56:00.000Z",
            ),
        ] {
            let rounded = TimestampMs::parse_bound(text).unwrap();
            assert_eq!(rounded.to_string(), bound, "{text}");
        }
        assert_eq!(TimestampMs::parse_bound("today"), Err(TimestampError));
    }

    #[test]
    fn every_rfc_3339_form_is_read() {
        for (text, same) in [
            ("2026-11-20t10:55:00z", "2026-11-20T10:55:00Z"),
            ("2026-11-20T10:55:00-00:00", "2026-11-20T10:55:00Z"),
            ("2026-11-20T16:40:00+05:45", "2026-11-20T10:55:00Z"),
            ("2026-11-19T23:55:00-11:00", "2026-11-20T10:55:00Z"),
            ("2026-12-31T23:59:60Z", "2026-12-31T23:59:59Z"),
            (
                "2026-11-20T10:55:00.1239999999999999999999999999999999999999Z",
                "2026-11-20T10:55:00.123Z",
            ),
            ("1969-12-31T23:59:59.999Z", "1969-12-31T23:59:59.999Z"),
        ] {
            let (text, same): (TimestampMs, TimestampMs) =
                (text.parse().unwrap(), same.parse().unwrap());
            assert_eq!(text, same);
        }
        // The first and the last representable second are valid and ordered.
        let [first, last]: [TimestampMs; 2] =
            ["0000-01-01T00:00:00Z", "9999-12-31T23:59:59Z"].map(|text| text.parse().unwrap());
        assert_eq!(first.0, -62_167_219_200_000);
        assert_eq!(last.0, 253_402_300_799_000);
    }

    #[test]
    fn other_forms_than_rfc_3339_are_refused() {
        for text in [
            "",
            "2026-11-20",
            "2026-11-20T10:55:00",
            "2026-11-20 10:55:00Z",
            "yesterday",
            "1763636100",
            "2026-11-20T10:55:00+0100",
            "2026-11-20T10:55:00+01",
            "2026-11-20T10:55:00+24:00",
            "2026-11-20T10:55:00+01:00:30",
            "2026-11-20T10:55:00Z[Europe/Berlin]",
            "2026-11-20T10:55:00,5Z",
            "2026-11-20T10:55:00.Z",
            "2026-11-20T10:55Z",
            "2026-11-20T24:00:00Z",
            "2026-02-29T10:55:00Z",
            "2026-11-20T10:55:61Z",
            "+002026-11-20T10:55:00Z",
            "2026-11-20T10:55:00Z ",
            "\u{662}026-11-20T10:55:00Z",
        ] {
            assert_eq!(text.parse::<TimestampMs>(), Err(TimestampError), "{text}");
        }
    }
}
