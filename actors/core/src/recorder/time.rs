//! Times in payloads of apps: seconds since 1970, or milliseconds when they are too large for
//! seconds, or ISO 8601.

use porchlight_schema::sample::json::Scalar;
use porchlight_schema::time::TimestampMs;
use serde_json::Value;

/// The greatest time in seconds since 1970, in the year 2038. A greater number is in milliseconds.
const SECONDS_MAX: f64 = 2_147_483_647.0;

/// Parses a time in the apps' formats into milliseconds since 1970.
pub(super) fn time_ms(text: &str) -> Option<i64> {
    let text = text.trim();
    if let Ok(at) = text.parse::<TimestampMs>() {
        return Some(at.0);
    }
    if let Ok(number) = text.parse::<f64>() {
        return time_of_number_ms(number);
    }
    // `+0100` without the colon, as iOS writes it, is ISO 8601 but not RFC 3339.
    let (head, tail) = text.split_at_checked(text.len().checked_sub(5)?)?;
    let mended = match tail.split_at_checked(3) {
        Some((hours, minutes))
            if hours.starts_with(['+', '-'])
                && minutes.bytes().all(|byte| byte.is_ascii_digit()) =>
        {
            format!("{head}{hours}:{minutes}")
        }
        _ => text.to_owned(),
    };
    let mended = mended.replacen(' ', "T", 1);
    let parsed = mended.parse().or_else(|_| format!("{mended}Z").parse());
    parsed.ok().map(|at: TimestampMs| at.0)
}

/// Returns the milliseconds since 1970 of a number in seconds or milliseconds.
fn time_of_number_ms(number: f64) -> Option<i64> {
    let is_time = number.is_finite() && number > 0.0 && number < 1e15;
    let factor = if number < SECONDS_MAX { 1_000.0 } else { 1.0 };
    is_time.then_some((number * factor) as i64)
}

/// Returns a time in JSON.
pub(super) fn time_of_scalar(scalar: Scalar<'_>) -> Option<i64> {
    match scalar {
        Scalar::Number(number) => time_of_number_ms(number),
        Scalar::Text(text) => time_ms(text),
        Scalar::Bool(_) | Scalar::Null => None,
    }
}

/// Returns a time in parsed JSON.
pub(super) fn time_of(value: Option<&Value>) -> Option<i64> {
    match value? {
        Value::Number(number) => time_of_number_ms(number.as_f64()?),
        Value::String(text) => time_ms(text),
        _ => None,
    }
}
