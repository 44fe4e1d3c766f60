//! OwnTracks (iOS, Android) in HTTP mode: one JSON object for each message.
//!
//! Format: the booklet's pages on JSON and on HTTP. `tst` is in seconds since 1970, `vel` in
//! kilometres per hour, `p` in kilopascals, and `steps` counts the steps between `from` and `to`.
//! Unused types are accepted and ignored.

use porchlight_schema::sample::Location;
use serde_json::Value;

use super::json::{number, text};
use super::message::{Measured, Message, PayloadError, activity, fix, not_negative};
use super::traccar::time_of;

/// The number of metres per second in a kilometre per hour.
const KMH_MPS: f32 = 1.0 / 3.6;
/// The number of hectopascals in a kilopascal.
const KPA_HPA: f64 = 10.0;
/// The assumed confidence of a recogniser that does not report one.
const ACTIVITY_CONFIDENCE: f32 = 0.5;

/// Reads a message. An empty body is a sign of life.
///
/// # Errors
///
/// Returns an error if the payload is not a JSON object, or if a position has no time.
pub fn read(payload: &[u8]) -> Result<Message, PayloadError> {
    let mut message = Message::of(payload);
    if payload.iter().all(u8::is_ascii_whitespace) {
        return Ok(message);
    }
    let value: Value = serde_json::from_slice(payload)
        .map_err(|error| PayloadError::Malformed(error.to_string()))?;
    if !value.is_object() {
        return Err(PayloadError::Missing("_type"));
    }
    let at_ms = time_of(value.get("tst"));
    match text(&value, "_type") {
        Some("location") => {
            let at_ms = at_ms.ok_or(PayloadError::Missing("tst"))?;
            read_location(&mut message, &value, at_ms);
        }
        Some("steps") => read_steps(&mut message, &value, at_ms),
        Some("transition") => match at_ms {
            Some(at_ms) => read_transition(&mut message, &value, at_ms),
            None => message.skip(),
        },
        // The position of a waypoint is that of a region, not of the phone.
        Some("waypoint") => {
            if let Some((at_ms, desc)) = at_ms.zip(text(&value, "desc")) {
                message.add_word(at_ms, desc);
            }
        }
        _ => message.skip(),
    }
    Ok(message.sorted())
}

fn read_location(message: &mut Message, value: &Value, at_ms: i64) {
    if let Some((lat, lng)) = number(value, "lat").zip(number(value, "lon")) {
        let location = Location {
            accuracy_m: not_negative(number(value, "acc")),
            altitude_m: number(value, "alt").map(|altitude| altitude as f32),
            speed_mps: not_negative(number(value, "vel")).map(|kmh| kmh * KMH_MPS),
            bearing_deg: not_negative(number(value, "cog")),
            ..fix(lat, lng)
        };
        message.add(at_ms, Measured::Location(location));
    } else {
        message.skip();
    }
    if let Some(kpa) = number(value, "p") {
        message.add(at_ms, Measured::Pressure((kpa * KPA_HPA) as f32));
    }
    let activities = value.get("motionactivities").and_then(Value::as_array);
    let recognised = activities.into_iter().flatten().filter_map(Value::as_str);
    if let Some(activity_type) = recognised.filter_map(activity).next() {
        message.add(
            at_ms,
            Measured::Activity(activity_type, ACTIVITY_CONFIDENCE),
        );
    }
    for word in ["poi", "desc"] {
        if let Some(word) = text(value, word) {
            message.add_word(at_ms, word);
        }
    }
}

/// Reads the crossing of a region's border: the position is optional, and `wtst` is the time at which
/// the region was made.
fn read_transition(message: &mut Message, value: &Value, at_ms: i64) {
    if let Some((lat, lng)) = number(value, "lat").zip(number(value, "lon")) {
        let location = Location {
            accuracy_m: not_negative(number(value, "acc")),
            ..fix(lat, lng)
        };
        message.add(at_ms, Measured::Location(location));
    }
    if let Some(desc) = text(value, "desc") {
        message.add_word(at_ms, desc);
    }
}

/// Reads the steps between two times as a count that begins at 0, since a decreasing count is a
/// restart.
fn read_steps(message: &mut Message, value: &Value, at_ms: Option<i64>) {
    let steps = number(value, "steps").filter(|&steps| steps >= 0.0);
    let to_ms = time_of(value.get("to")).or(at_ms);
    let from_ms = time_of(value.get("from"));
    match (steps, from_ms, to_ms) {
        (Some(steps), Some(from_ms), Some(to_ms)) if from_ms < to_ms => {
            message.add(from_ms, Measured::Steps(0));
            message.add(to_ms, Measured::Steps(steps as u32));
        }
        _ => message.skip(),
    }
}
