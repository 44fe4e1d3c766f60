//! Overland (iOS, Android): an array of GeoJSON features for each request.
//!
//! Format: README of `aaronpk/Overland-iOS`. Speeds are in metres per second, and -1 means "none".
//! A session ends with an ended trip, or with a feature whose property `action` is one of the end
//! words.

mod scan;

use porchlight_schema::sample::ActivityType;
use porchlight_schema::sample::Location;
use serde_json::Value;

use super::json::{number, text};
use super::message::{Measured, Message, PayloadError, activity, fix, not_negative};
use super::traccar::time_of;

/// The assumed confidence of the motion coprocessor, which does not report one.
const ACTIVITY_CONFIDENCE: f32 = 0.5;
/// If the app reports several states, the first of these counts: a phone that rests in a moving car
/// is in a car.
const MOTION_ORDER: [ActivityType; 5] = [
    ActivityType::Driving,
    ActivityType::Cycling,
    ActivityType::Running,
    ActivityType::Walking,
    ActivityType::Still,
];

/// Reads a request.
///
/// # Errors
///
/// Returns an error if the payload is not JSON, or has no `locations`.
pub fn read(payload: &[u8]) -> Result<Message, PayloadError> {
    match scan::scan(payload) {
        Some(message) => Ok(message),
        None => read_lenient(payload),
    }
}

/// Reads a request that [`scan`] does not read: with escapes, or with values of unexpected types.
pub(super) fn read_lenient(payload: &[u8]) -> Result<Message, PayloadError> {
    let value: Value = serde_json::from_slice(payload)
        .map_err(|error| PayloadError::Malformed(error.to_string()))?;
    let mut message = Message::of(payload);
    let locations = value.get("locations").and_then(Value::as_array);
    for feature in locations.ok_or(PayloadError::Missing("locations"))? {
        read_feature(&mut message, feature);
    }
    Ok(message.sorted())
}

fn read_feature(message: &mut Message, feature: &Value) {
    let properties = feature.get("properties").unwrap_or(&Value::Null);
    if text(properties, "type") == Some("trip") {
        // The position of a trip is the place where it began; only its end matters.
        match time_of(properties.get("end")) {
            Some(ended_at_ms) => message.add_word(ended_at_ms, "end"),
            None => message.skip(),
        }
        return;
    }
    let Some(at_ms) = time_of(properties.get("timestamp")) else {
        return message.skip();
    };
    let coordinate = |place: usize| {
        let coordinates = feature.get("geometry")?.get("coordinates")?;
        coordinates.get(place)?.as_f64()
    };
    if let Some((lng, lat)) = coordinate(0).zip(coordinate(1)) {
        let location = Location {
            accuracy_m: not_negative(number(properties, "horizontal_accuracy")),
            altitude_m: number(properties, "altitude").map(|altitude| altitude as f32),
            speed_mps: not_negative(number(properties, "speed")),
            bearing_deg: not_negative(number(properties, "course")),
            ..fix(lat, lng)
        };
        message.add(at_ms, Measured::Location(location));
    }
    let states = properties.get("motion").and_then(Value::as_array);
    let states = states.into_iter().flatten().filter_map(Value::as_str);
    let states: Vec<_> = states.filter_map(activity).collect();
    if let Some(&state) = MOTION_ORDER.iter().find(|state| states.contains(state)) {
        message.add(at_ms, Measured::Activity(state, ACTIVITY_CONFIDENCE));
    }
    if let Some(action) = text(properties, "action")
        && super::message::is_end_word(action)
    {
        message.add_word(at_ms, action);
    }
}
