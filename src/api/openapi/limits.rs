//! The numbers that the document names as `$NAME`.

use porchlight_schema::limits::{
    ACCESS_ARCHIVE_SENT_MS_MAX, ACCESS_DOWNLOAD_MS, ACKNOWLEDGED_RANGES_MAX,
    ADDRESS_ACCURACY_M_MAX, ADDRESS_FLOOR_MAX, ADDRESS_FLOOR_MIN, ADDRESS_GATES_MAX,
    ATTEMPT_MS_MAX, ATTEMPTS_MAX, AUDIT_KEPT_MS, BATCH_SAMPLES_MAX, BATCH_SENT_BYTES_MAX,
    BATCH_SEQ_MAX, BATCH_UNPACKED_BYTES_MAX, CLOCK_AHEAD_MS_MAX, CURSOR_CHARS_MAX,
    DEVICE_SENSOR_CHARS_MAX, DEVICE_SENSORS_MAX, FAULTS_MAX, GAP_SKIPPED_AFTER_BATCHES,
    GAP_SKIPPED_AFTER_T_MS, IDEMPOTENCY_MS, IMU_DURATION_MS_MAX, IMU_VALUES_MAX,
    KEY_REQUESTS_PER_SECOND_DEFAULT, KIND_LAG_MS_MAX, LATE_WINDOW_MS, LINK_REQUESTS_PER_SEC,
    MARK_NAME_CHARS_MAX, NDJSON_FAULTY_LINES_MAX, NDJSON_SENT_BYTES_MAX, NDJSON_UNPACKED_BYTES_MAX,
    PAGE_ROWS_DEFAULT, PAGE_ROWS_MAX, PRIVACY_MARKS_MAX, PRIVACY_OPEN_REQUESTS_MAX,
    PRIVACY_REASON_CHARS_MAX, PRIVACY_REQUEST_ID_CHARS_MAX, RECORDER_EXPIRES_SEC_DEFAULT,
    RECORDER_EXPIRES_SEC_MAX, RECORDER_EXPIRES_SEC_MIN, REQUEST_BODY_BYTES_MAX,
    RETENTION_DAYS_DEFAULT, RETRY_BY_FILTER_MAX, REVIEW_NOTE_CHARS_MAX, SAMPLE_T_MS_MAX,
    SECRET_OVERLAP_SEC_DEFAULT, SECRET_OVERLAP_SEC_MAX, SESSION_DURATION_MINUTES_DEFAULT,
    SESSION_IDLE_MINUTES_DEFAULT, STARTED_AT_BACK_MS_MAX, STOREY_HEIGHT_M_MAX, STOREY_HEIGHT_M_MIN,
    TEXT_CHARS_MAX, TIMEOUT_LATE_WINDOW_MS, TOKEN_GRACE_MS, URL_CHARS_MAX,
};
use porchlight_schema::session::Address;
use serde_json::{Number, Value};

const KIB: f64 = 1_024.0;
const MIB: f64 = 1_024.0 * KIB;
const SECOND_MS: f64 = 1_000.0;
const MINUTE_MS: f64 = 60.0 * SECOND_MS;
const HOUR_MS: f64 = 60.0 * MINUTE_MS;

/// Every name that the source may use, and its value in the unit that the name ends in. All values
/// are small enough to be exact in an `f64`.
pub(super) const NAMED: &[(&str, f64)] = &[
    (
        "ACCESS_ARCHIVE_SENT_MINUTES",
        ACCESS_ARCHIVE_SENT_MS_MAX as f64 / MINUTE_MS,
    ),
    ("ACCESS_DOWNLOAD_HOURS", ACCESS_DOWNLOAD_MS as f64 / HOUR_MS),
    ("ACKNOWLEDGED_RANGES_MAX", ACKNOWLEDGED_RANGES_MAX as f64),
    (
        "ADDRESS_ACCURACY_M_DEFAULT",
        Address::ACCURACY_M_DEFAULT as f64,
    ),
    ("ADDRESS_ACCURACY_M_MAX", ADDRESS_ACCURACY_M_MAX),
    ("ADDRESS_FLOOR_MAX", ADDRESS_FLOOR_MAX as f64),
    ("ADDRESS_FLOOR_MIN", ADDRESS_FLOOR_MIN as f64),
    ("ADDRESS_GATES_MAX", ADDRESS_GATES_MAX as f64),
    ("ATTEMPTS_MAX", ATTEMPTS_MAX as f64),
    ("ATTEMPT_SECONDS", ATTEMPT_MS_MAX as f64 / SECOND_MS),
    ("AUDIT_DAYS", AUDIT_KEPT_MS as f64 / (24.0 * HOUR_MS)),
    ("BATCH_SAMPLES_MAX", BATCH_SAMPLES_MAX as f64),
    ("BATCH_SENT_MIB", BATCH_SENT_BYTES_MAX as f64 / MIB),
    ("BATCH_SEQ_MAX", BATCH_SEQ_MAX as f64),
    ("BATCH_UNPACKED_MIB", BATCH_UNPACKED_BYTES_MAX as f64 / MIB),
    ("CLOCK_AHEAD_MINUTES", CLOCK_AHEAD_MS_MAX as f64 / MINUTE_MS),
    ("CURSOR_CHARS_MAX", CURSOR_CHARS_MAX as f64),
    ("DEVICE_SENSORS_MAX", DEVICE_SENSORS_MAX as f64),
    ("DEVICE_SENSOR_CHARS_MAX", DEVICE_SENSOR_CHARS_MAX as f64),
    ("FAULTS_MAX", FAULTS_MAX as f64),
    ("GAP_BATCHES", GAP_SKIPPED_AFTER_BATCHES as f64),
    ("GAP_SECONDS", GAP_SKIPPED_AFTER_T_MS as f64 / SECOND_MS),
    ("IDEMPOTENCY_HOURS", IDEMPOTENCY_MS as f64 / HOUR_MS),
    ("IDLE_TIMEOUT_MINUTES", SESSION_IDLE_MINUTES_DEFAULT as f64),
    ("IMU_SECONDS_MAX", IMU_DURATION_MS_MAX as f64 / SECOND_MS),
    ("IMU_VALUES_MAX", IMU_VALUES_MAX as f64),
    ("KIND_LAG_SECONDS", KIND_LAG_MS_MAX as f64 / SECOND_MS),
    ("LATE_WINDOW_MINUTES", LATE_WINDOW_MS as f64 / MINUTE_MS),
    ("LINK_REQUESTS_PER_SEC", LINK_REQUESTS_PER_SEC as f64),
    ("MARK_NAME_CHARS_MAX", MARK_NAME_CHARS_MAX as f64),
    (
        "MAX_DURATION_HOURS",
        SESSION_DURATION_MINUTES_DEFAULT as f64 / 60.0,
    ),
    ("NDJSON_FAULTY_LINES_MAX", NDJSON_FAULTY_LINES_MAX as f64),
    ("NDJSON_SENT_MIB", NDJSON_SENT_BYTES_MAX as f64 / MIB),
    (
        "NDJSON_UNPACKED_MIB",
        NDJSON_UNPACKED_BYTES_MAX as f64 / MIB,
    ),
    ("PAGE_ROWS_DEFAULT", PAGE_ROWS_DEFAULT as f64),
    ("PAGE_ROWS_MAX", PAGE_ROWS_MAX as f64),
    ("PRIVACY_MARKS_MAX", PRIVACY_MARKS_MAX as f64),
    (
        "PRIVACY_OPEN_REQUESTS_MAX",
        PRIVACY_OPEN_REQUESTS_MAX as f64,
    ),
    (
        "RATE_LIMIT_PER_SECOND",
        KEY_REQUESTS_PER_SECOND_DEFAULT as f64,
    ),
    (
        "RECORDER_EXPIRES_SEC_DEFAULT",
        RECORDER_EXPIRES_SEC_DEFAULT as f64,
    ),
    ("RECORDER_EXPIRES_SEC_MAX", RECORDER_EXPIRES_SEC_MAX as f64),
    ("RECORDER_EXPIRES_SEC_MIN", RECORDER_EXPIRES_SEC_MIN as f64),
    ("REQUEST_BODY_KIB", REQUEST_BODY_BYTES_MAX as f64 / KIB),
    ("RETENTION_DAYS", RETENTION_DAYS_DEFAULT as f64),
    ("REVIEW_NOTE_CHARS_MAX", REVIEW_NOTE_CHARS_MAX as f64),
    ("RETRY_BY_FILTER_MAX", RETRY_BY_FILTER_MAX as f64),
    ("SAMPLE_T_SECONDS_MAX", SAMPLE_T_MS_MAX as f64 / SECOND_MS),
    (
        "SECRET_OVERLAP_SEC_DEFAULT",
        SECRET_OVERLAP_SEC_DEFAULT as f64,
    ),
    ("SECRET_OVERLAP_SEC_MAX", SECRET_OVERLAP_SEC_MAX as f64),
    (
        "STARTED_BACK_HOURS",
        STARTED_AT_BACK_MS_MAX as f64 / HOUR_MS,
    ),
    ("STOREY_HEIGHT_M_MAX", STOREY_HEIGHT_M_MAX),
    ("STOREY_HEIGHT_M_MIN", STOREY_HEIGHT_M_MIN),
    ("PRIVACY_REASON_CHARS_MAX", PRIVACY_REASON_CHARS_MAX as f64),
    (
        "PRIVACY_REQUEST_ID_CHARS_MAX",
        PRIVACY_REQUEST_ID_CHARS_MAX as f64,
    ),
    ("TEXT_CHARS_MAX", TEXT_CHARS_MAX as f64),
    (
        "TIMEOUT_LATE_WINDOW_HOURS",
        TIMEOUT_LATE_WINDOW_MS as f64 / HOUR_MS,
    ),
    ("TOKEN_GRACE_HOURS", TOKEN_GRACE_MS as f64 / HOUR_MS),
    ("URL_CHARS_MAX", URL_CHARS_MAX as f64),
];

/// Returns the value of a name, or `None` if there is no such name.
fn value_of(name: &str) -> Option<f64> {
    let named = NAMED.iter().find(|(known, _)| *known == name);
    named.map(|(_, value)| *value)
}

/// Returns the value as a number of the document.
fn number(value: f64) -> Option<Value> {
    let number = if value.fract() == 0.0 {
        Number::from(value as i64)
    } else {
        Number::from_f64(value)?
    };
    Some(Value::Number(number))
}

/// Returns the value as words of a text, with a comma before each third digit.
fn words(value: f64) -> String {
    if value.fract() != 0.0 || value < 0.0 {
        return value.to_string();
    }
    let digits = format!("{value:.0}");
    let mut words = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            words.push(',');
        }
        words.push(digit);
    }
    words
}

/// Replaces each `$NAME` of a text. A text that is nothing but one name becomes a number.
///
/// # Errors
///
/// Returns the first name that has no value.
pub(super) fn substituted(text: &str) -> Result<Value, String> {
    if let Some(name) = text.strip_prefix('$')
        && is_name(name)
    {
        return value_of(name).and_then(number).ok_or(name.to_owned());
    }
    let mut parts = text.split('$');
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let length = part.find(|letter| !is_letter(letter)).unwrap_or(part.len());
        let (name, rest) = part.split_at(length);
        if is_name(name) {
            let value = value_of(name).ok_or(name.to_owned())?;
            out.push_str(&words(value));
        } else {
            out.push('$');
            out.push_str(name);
        }
        out.push_str(rest);
    }
    Ok(Value::String(out))
}

fn is_letter(letter: char) -> bool {
    letter.is_ascii_uppercase() || letter.is_ascii_digit() || letter == '_'
}

/// Returns whether a word has the form of a limit's name: at least two capitals. `$ref` and
/// `$response` do not.
fn is_name(word: &str) -> bool {
    word.len() > 1
        && word.starts_with(|letter: char| letter.is_ascii_uppercase())
        && word.chars().all(is_letter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limit_names_become_numbers_alone_and_words_in_texts() {
        assert_eq!(substituted("$PAGE_ROWS_MAX").unwrap(), 200);
        assert_eq!(substituted("$STOREY_HEIGHT_M_MIN").unwrap(), 1.5);
        assert_eq!(substituted("$ADDRESS_FLOOR_MIN").unwrap(), -20);
        assert_eq!(
            substituted("At most $BATCH_SAMPLES_MAX, or $BATCH_SENT_MIB MiB.").unwrap(),
            "At most 20,000, or 1 MiB."
        );
        for text in ["$response.body#/id", "^[a-z]+$", "a $ b"] {
            assert_eq!(substituted(text).unwrap(), text);
        }
        assert_eq!(substituted("$NO_SUCH").unwrap_err(), "NO_SUCH");
        assert_eq!(substituted("Up to $NO_SUCH.").unwrap_err(), "NO_SUCH");
    }
}
