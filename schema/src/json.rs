//! Parses JSON (RFC 8259) with numbers of any size.
//!
//! RFC 8259 does not bound numbers, but a double does: `1e400` is well-formed and out of every
//! range. serde_json reports it as a syntax error. This module reads it as a number outside every
//! range, so that it is reported with its pointer where a number is expected and ignored elsewhere.

use std::borrow::Cow;

use serde_json::Value;

/// Replacement for numbers beyond the doubles: it is outside every range and no longer than such a
/// number.
const BEYOND: &[u8] = b"1e308";

/// Parses a text.
///
/// # Errors
///
/// Returns an error with its position if the text is not JSON.
pub fn parse(text: &[u8]) -> Result<Value, serde_json::Error> {
    parse_as(text, |text| serde_json::from_slice(text))
}

/// Parses a text from a phone with `parse`, a parser of serde_json. Some apps cut a text within a
/// surrogate pair; the remaining half is read as the replacement character U+FFFD.
///
/// # Errors
///
/// Returns the error of `parse`.
pub fn parse_from_phone<T>(
    text: &[u8],
    parse: impl Fn(&[u8]) -> Result<T, serde_json::Error>,
) -> Result<T, serde_json::Error> {
    parse_as(text, |text| {
        parse(text).or_else(|error| match with_whole_pairs(text) {
            Cow::Borrowed(_) => Err(error),
            Cow::Owned(text) => parse(&text),
        })
    })
}

fn parse_as<T>(
    text: &[u8],
    parse: impl Fn(&[u8]) -> Result<T, serde_json::Error>,
) -> Result<T, serde_json::Error> {
    parse(text).or_else(|error| match within_doubles(text) {
        Cow::Borrowed(_) => Err(error),
        Cow::Owned(text) => parse(&text),
    })
}

/// Replaces each escaped half of a surrogate pair without its other half by `\ufffd`; all other
/// bytes keep their positions.
fn with_whole_pairs(text: &[u8]) -> Cow<'_, [u8]> {
    let mut whole = Cow::Borrowed(text);
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        let after = |length: usize| escaped_unit(text.get(at + length..).unwrap_or_default());
        at += match (byte, after(0)) {
            (b'\\', Some(0xd800..=0xdbff)) if matches!(after(6), Some(0xdc00..=0xdfff)) => 12,
            (b'\\', Some(0xd800..=0xdfff)) => {
                if let Some(half) = whole.to_mut().get_mut(at..at + 6) {
                    half.copy_from_slice(b"\\ufffd");
                }
                6
            }
            (b'\\', _) => 2,
            _ => 1,
        };
    }
    whole
}

/// Returns the UTF-16 unit of an escape `\uXXXX` at the start, if there is one.
fn escaped_unit(text: &[u8]) -> Option<u16> {
    let digits = text.strip_prefix(b"\\u")?.get(..4)?;
    let digits = std::str::from_utf8(digits).ok()?;
    u16::from_str_radix(digits, 16).ok()
}

/// Replaces each number that no double can hold by [`BEYOND`]; all other bytes keep their
/// positions.
fn within_doubles(text: &[u8]) -> Cow<'_, [u8]> {
    let mut within = Cow::Borrowed(text);
    let (mut at, mut in_string) = (0, false);
    while let Some(&byte) = text.get(at) {
        let length = match byte {
            b'\\' if in_string => 2,
            b'"' => {
                in_string = !in_string;
                1
            }
            b'-' | b'0'..=b'9' if !in_string => {
                let length = number_length(text.get(at..).unwrap_or_default());
                if let Some(number) = text.get(at..at + length)
                    && is_beyond(number)
                    && let Some(number) = within.to_mut().get_mut(at..at + length)
                {
                    replace(number);
                }
                length.max(1)
            }
            _ => 1,
        };
        at += length;
    }
    within
}

/// Returns whether a well-formed number is greater or less than every double.
fn is_beyond(number: &[u8]) -> bool {
    std::str::from_utf8(number)
        .ok()
        .and_then(|number| number.parse().ok())
        .is_some_and(f64::is_infinite)
}

/// Overwrites a number with [`BEYOND`], its sign, and trailing spaces.
fn replace(number: &mut [u8]) {
    let unsigned = match number {
        [b'-', unsigned @ ..] => unsigned,
        unsigned => unsigned,
    };
    let beyond = BEYOND.iter().chain(std::iter::repeat(&b' '));
    for (byte, new) in unsigned.iter_mut().zip(beyond) {
        *byte = *new;
    }
}

/// Returns the length of the number at the start, or 0 if there is no number.
fn number_length(bytes: &[u8]) -> usize {
    let digits = |from: usize| {
        let rest = bytes.get(from..).unwrap_or_default();
        rest.iter().take_while(|byte| byte.is_ascii_digit()).count()
    };
    let is = |at: usize, bytes_there: &[u8]| {
        bytes.get(at).is_some_and(|byte| bytes_there.contains(byte))
    };
    let from = usize::from(is(0, b"-"));
    let whole = if is(from, b"0") { 1 } else { digits(from) };
    if whole == 0 {
        return 0;
    }
    let mut to = from + whole;
    if is(to, b".") && digits(to + 1) > 0 {
        to += 1 + digits(to + 1);
    }
    if is(to, b"eE") {
        let sign = usize::from(is(to + 1, b"+-"));
        let exponent = digits(to + 1 + sign);
        if exponent > 0 {
            to += 1 + sign + exponent;
        }
    }
    to
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_a_surrogate_pair_of_a_phone_is_read_as_the_replacement_character() {
        let read =
            |text: &str| parse_from_phone(text.as_bytes(), |text| serde_json::from_slice(text));
        for (escaped, meant) in [
            (r"a\ud83d", "a\u{fffd}"),
            (r"\uDE00b", "\u{fffd}b"),
            (r"\ud83d\ud83d\ude00", "\u{fffd}\u{1f600}"),
            (r"\ud83d\u0041", "\u{fffd}A"),
            (r"\\ud83d", r"\ud83d"),
            (r"\ud83d\ude00 1", "\u{1f600} 1"),
        ] {
            let text = format!(r#"{{"a":"{escaped}","b":1e999}}"#);
            let value: Value = read(&text).unwrap();
            assert_eq!(
                (value["a"].as_str(), value["b"].as_f64()),
                (Some(meant), Some(1e308))
            );
        }
        assert!(read(r#"{"a":"\ud83d"#).is_err() && read(r#"{"a":"\ud83"}"#).is_err());
        assert!(parse(br#""\ud83d""#).is_err());
    }

    #[test]
    fn a_number_beyond_the_doubles_is_parsed_as_a_number() {
        let long = "9".repeat(400);
        for number in [
            "1e309",
            "-1e400",
            "1.5E+999",
            "0.1e99999999999999999999",
            &long,
        ] {
            let text = format!(r#"{{"a":{number},"b":[{number} , "1e999\"1e999"],"c":1.5}}"#);
            let value = parse(text.as_bytes()).unwrap();
            assert_eq!(value["a"].as_f64().unwrap().abs(), 1e308, "{number}");
            assert_eq!(value["a"].as_f64().unwrap() < 0.0, number.starts_with('-'));
            assert_eq!(value["b"][0], value["a"]);
            assert_eq!(value["b"][1], "1e999\"1e999");
            assert_eq!(value["c"], 1.5);
        }
    }

    #[test]
    fn invalid_json_is_not_repaired() {
        for text in [
            "01e400",
            "1.e400",
            ".1e400",
            "+1e400",
            "1e400x",
            "--1e400",
            "[1e400",
            "[1e400 1e400]",
            "1e400 1",
            "{1e400:1}",
            "[1e400,]",
            "1e400e400",
            "1e+",
            "\"1e400",
            "[1e400,NaN]",
        ] {
            assert!(parse(text.as_bytes()).is_err(), "{text}");
        }
    }
}
