//! Traccar Client (iOS, Android) and its SDK: a form or query of the OsmAnd protocol, or JSON.
//!
//! Formats: `OsmAndProtocolDecoder` of `traccar/traccar`; the JSON of version 9 with
//! `location.coords`; the array of the SDK's uploader. Speeds are in knots, but metres per second
//! within `coords`. Times are seconds since 1970, or milliseconds when they are too large for
//! seconds, or ISO 8601.

mod scan;

use porchlight_schema::sample::Location;
use serde_json::Value;

use super::json::{number, parsed, text};
use super::push::{Measurement, PayloadError, Push, activity, fix, is_end_word, not_negative};
use super::time::{time_ms, time_of};

/// The number of metres per second in a knot.
const KNOT_MPS: f64 = 1_852.0 / 3_600.0;

/// The decoded fields of a form or a query, in their order.
pub type Fields = [(String, String)];

/// Reads a form or a query, which holds one position; `payload` is its text. A form without a
/// position only shows that the app is running.
///
/// # Errors
///
/// Returns an error if a position has no time.
pub fn read_form(payload: &[u8], fields: &Fields) -> Result<Push, PayloadError> {
    let mut push = Push::of(payload);
    let field = |names: &[&str]| {
        let mut fields = fields.iter();
        fields
            .find(|(name, _)| names.contains(&name.as_str()))
            .map(|(_, value)| value.as_str())
    };
    let number = |names: &[&str]| {
        let value: f64 = field(names)?.trim().parse().ok()?;
        value.is_finite().then_some(value)
    };
    let both = field(&["location"]).and_then(|location| {
        let (lat, lng) = location.split_once(',')?;
        Some((lat.trim().parse().ok()?, lng.trim().parse().ok()?))
    });
    let place = both.or_else(|| Some((number(&["lat"])?, number(&["lon"])?)));
    let stamp = field(&["timestamp"]);
    let event = field(&["event"]).filter(|event| !event.is_empty());
    if place.is_none() && event.is_none() {
        return Ok(push);
    }
    let at_ms = stamp
        .and_then(time_ms)
        .ok_or_else(|| PayloadError::no_time("timestamp", stamp.is_some()))?;
    if let Some((lat, lng)) = place {
        let location = Location {
            accuracy_m: not_negative(number(&["accuracy"])),
            altitude_m: number(&["altitude"]).map(|altitude| altitude as f32),
            speed_mps: not_negative(number(&["speed"])).map(|knots| knots * KNOT_MPS as f32),
            bearing_deg: not_negative(number(&["bearing", "heading"])),
            mock: matches!(field(&["mock"]), Some("true" | "1")),
            ..fix(lat, lng)
        };
        push.add(at_ms, Measurement::Location(location));
    }
    if let Some(event) = event {
        add_event(&mut push, at_ms, event);
    }
    Ok(push.sorted())
}

/// Adds an event of the app as a mark only if it ends the session: other events concern the app.
fn add_event(push: &mut Push, at_ms: i64, event: &str) {
    if is_end_word(event) {
        push.add_word(at_ms, event);
    }
}

/// Reads JSON: one position or an array of positions, in the SDK's form or the form with
/// `location.coords`.
///
/// # Errors
///
/// Returns an error if the payload is not JSON, or neither an object nor an array.
pub fn read_json(payload: &[u8]) -> Result<Push, PayloadError> {
    match scan::scan(payload) {
        Some(push) => Ok(push),
        None => read_lenient(payload),
    }
}

/// Reads a payload that [`scan`] does not read: with escapes, or with values of unexpected types.
pub(super) fn read_lenient(payload: &[u8]) -> Result<Push, PayloadError> {
    let value = parsed(payload)?;
    let mut push = Push::of(payload);
    match &value {
        Value::Array(positions) => positions
            .iter()
            .for_each(|position| read_position(&mut push, position)),
        Value::Object(_) => read_position(&mut push, &value),
        _ => return Err(PayloadError::Missing("position")),
    }
    Ok(push.sorted())
}

fn read_position(push: &mut Push, position: &Value) {
    match position.get("location") {
        Some(Value::Array(locations)) => locations
            .iter()
            .for_each(|location| read_with_coords(push, location)),
        Some(location) => read_with_coords(push, location),
        None => read_flat(push, position),
    }
}

/// The fields of one position.
#[derive(Debug, Clone, Copy, Default)]
struct Position<'a> {
    at_ms: Option<i64>,
    lat: Option<f64>,
    lng: Option<f64>,
    accuracy: Option<f64>,
    altitude: Option<f64>,
    speed: Option<f64>,
    bearing: Option<f64>,
    is_mock: bool,
    event: Option<&'a str>,
    extra_event: Option<&'a str>,
    activity: Option<&'a str>,
    activity_percent: Option<f64>,
}

impl Position<'_> {
    /// Adds the position to a push; its speed is in units of `speed_mps` metres per second.
    fn add_to(&self, push: &mut Push, speed_mps: f32) {
        let Some(at_ms) = self.at_ms else {
            return push.skip();
        };
        if let Some((lat, lng)) = self.lat.zip(self.lng) {
            let location = Location {
                accuracy_m: not_negative(self.accuracy),
                altitude_m: self.altitude.map(|altitude| altitude as f32),
                speed_mps: not_negative(self.speed).map(|speed| speed * speed_mps),
                bearing_deg: not_negative(self.bearing),
                mock: self.is_mock,
                ..fix(lat, lng)
            };
            push.add(at_ms, Measurement::Location(location));
        }
        if let Some(activity_type) = self.activity.and_then(activity) {
            let percent = self.activity_percent.unwrap_or(0.0);
            let confidence = (percent / 100.0).clamp(0.0, 1.0) as f32;
            push.add(at_ms, Measurement::Activity(activity_type, confidence));
        }
        for event in [self.event, self.extra_event].into_iter().flatten() {
            add_event(push, at_ms, event);
        }
    }
}

/// Reads a position of the SDK: speed in knots.
fn read_flat(push: &mut Push, position: &Value) {
    let read = Position {
        at_ms: time_of(position.get("timestamp")),
        lat: number(position, "lat"),
        lng: number(position, "lon"),
        accuracy: number(position, "accuracy"),
        altitude: number(position, "altitude"),
        speed: number(position, "speed"),
        bearing: number(position, "bearing"),
        is_mock: is_true(position, "mock"),
        event: text(position, "event"),
        ..Position::default()
    };
    read.add_to(push, KNOT_MPS as f32);
}

/// Reads a position with `coords`: speed in metres per second, or -1 for none.
fn read_with_coords(push: &mut Push, location: &Value) {
    let part = |name: &str| location.get(name).unwrap_or(&Value::Null);
    let (coords, recognised) = (part("coords"), part("activity"));
    let read = Position {
        at_ms: time_of(location.get("timestamp")),
        lat: number(coords, "latitude"),
        lng: number(coords, "longitude"),
        accuracy: number(coords, "accuracy"),
        altitude: number(coords, "altitude"),
        speed: number(coords, "speed"),
        bearing: number(coords, "heading"),
        is_mock: is_true(location, "mock"),
        event: text(location, "event"),
        extra_event: text(part("extras"), "event"),
        activity: text(recognised, "type"),
        activity_percent: number(recognised, "confidence"),
    };
    read.add_to(push, 1.0);
}

fn is_true(object: &Value, name: &str) -> bool {
    object.get(name).and_then(Value::as_bool) == Some(true)
}
