//! Overland (iOS, Android): an array of GeoJSON features for each request.
//!
//! Format: README of `aaronpk/Overland-iOS`. Speeds are in metres per second, and -1 means "none".
//! A session ends with an ended trip, or with a feature whose property `action` is one of the end
//! words.

mod scan;

use porchlight_schema::sample::ActivityType;
use porchlight_schema::sample::Location;
use serde_json::Value;

use super::json::{number, parsed, text};
use super::push::{Measurement, PayloadError, Push, activity, fix, is_end_word, not_negative};
use super::time::time_of;

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
pub fn read(payload: &[u8]) -> Result<Push, PayloadError> {
    match scan::scan(payload) {
        Some(push) => Ok(push),
        None => read_lenient(payload),
    }
}

/// Reads a request that [`scan`] does not read: with escapes, or with values of unexpected types.
pub(super) fn read_lenient(payload: &[u8]) -> Result<Push, PayloadError> {
    let value = parsed(payload)?;
    let mut push = Push::of(payload);
    let locations = value.get("locations").and_then(Value::as_array);
    for feature in locations.ok_or(PayloadError::Missing("locations"))? {
        read_feature(&mut push, feature);
    }
    Ok(push.sorted())
}

/// The fields of one feature.
#[derive(Debug, Clone, Copy, Default)]
struct Feature<'a> {
    kind: Option<&'a str>,
    at_ms: Option<i64>,
    end_ms: Option<i64>,
    /// Longitude and latitude.
    coordinates: [Option<f64>; 2],
    accuracy: Option<f64>,
    altitude: Option<f64>,
    speed: Option<f64>,
    course: Option<f64>,
    /// The place of the state in [`MOTION_ORDER`].
    motion: Option<usize>,
    action: Option<&'a str>,
}

impl Feature<'_> {
    fn add_to(&self, push: &mut Push) {
        if self.kind == Some("trip") {
            // The position of a trip is the place where it began; only its end matters.
            return match self.end_ms {
                Some(ended_at_ms) => push.add_word(ended_at_ms, "end"),
                None => push.skip(),
            };
        }
        let Some(at_ms) = self.at_ms else {
            return push.skip();
        };
        if let [Some(lng), Some(lat)] = self.coordinates {
            let location = Location {
                accuracy_m: not_negative(self.accuracy),
                altitude_m: self.altitude.map(|altitude| altitude as f32),
                speed_mps: not_negative(self.speed),
                bearing_deg: not_negative(self.course),
                ..fix(lat, lng)
            };
            push.add(at_ms, Measurement::Location(location));
        }
        if let Some(&state) = self.motion.and_then(|place| MOTION_ORDER.get(place)) {
            push.add(at_ms, Measurement::Activity(state, ACTIVITY_CONFIDENCE));
        }
        if let Some(action) = self.action.filter(|action| is_end_word(action)) {
            push.add_word(at_ms, action);
        }
    }
}

/// Returns the place of a state of the app in [`MOTION_ORDER`].
fn place_of_state(name: &str) -> Option<usize> {
    let state = activity(name)?;
    MOTION_ORDER.iter().position(|&known| known == state)
}

fn read_feature(push: &mut Push, feature: &Value) {
    let properties = feature.get("properties").unwrap_or(&Value::Null);
    let coordinate = |place: usize| {
        let coordinates = feature.get("geometry")?.get("coordinates")?;
        coordinates.get(place)?.as_f64()
    };
    let states = properties.get("motion").and_then(Value::as_array);
    let states = states.into_iter().flatten().filter_map(Value::as_str);
    let read = Feature {
        kind: text(properties, "type"),
        at_ms: time_of(properties.get("timestamp")),
        end_ms: time_of(properties.get("end")),
        coordinates: [coordinate(0), coordinate(1)],
        accuracy: number(properties, "horizontal_accuracy"),
        altitude: number(properties, "altitude"),
        speed: number(properties, "speed"),
        course: number(properties, "course"),
        motion: states.filter_map(place_of_state).min(),
        action: text(properties, "action"),
    };
    read.add_to(push);
}
