//! OwnTracks (iOS, Android) in HTTP mode: one JSON object for each push.
//!
//! Format: the booklet's pages on JSON and on HTTP. `tst` is in seconds since 1970, `vel` in
//! kilometres per hour, `p` in kilopascals, and `steps` counts the steps between `from` and `to`.
//! Unused types are accepted and ignored.

mod scan;

use porchlight_schema::sample::{ActivityType, Location};
use serde_json::Value;

use super::json::{number, parsed, text};
use super::push::{Measurement, PayloadError, Push, activity, fix, not_negative};
use super::time::time_of;

/// The number of metres per second in a kilometre per hour.
const KMH_MPS: f32 = 1.0 / 3.6;
/// The number of hectopascals in a kilopascal.
const KPA_HPA: f64 = 10.0;
/// The assumed confidence of a recogniser that does not report one.
const ACTIVITY_CONFIDENCE: f32 = 0.5;

/// Reads a push of OwnTracks. An empty body shows only that the app runs.
///
/// # Errors
///
/// Returns an error if the payload is not a JSON object, or if a position has no time.
pub fn read(payload: &[u8]) -> Result<Push, PayloadError> {
    match scan::scan(payload) {
        Some(report) => report.read_push(payload),
        None => read_lenient(payload),
    }
}

/// Reads a push that [`scan`] does not read: an empty one, or one with escapes or with values of
/// unexpected types.
pub(super) fn read_lenient(payload: &[u8]) -> Result<Push, PayloadError> {
    if payload.iter().all(u8::is_ascii_whitespace) {
        return Ok(Push::of(payload));
    }
    let value = parsed(payload)?;
    if !value.is_object() {
        return Err(PayloadError::Missing("_type"));
    }
    let activities = value.get("motionactivities").and_then(Value::as_array);
    let names = activities.into_iter().flatten().filter_map(Value::as_str);
    let report = Report {
        kind: text(&value, "_type"),
        at_ms: time_of(value.get("tst")),
        from_ms: time_of(value.get("from")),
        to_ms: time_of(value.get("to")),
        lat: number(&value, "lat"),
        lng: number(&value, "lon"),
        accuracy: number(&value, "acc"),
        altitude: number(&value, "alt"),
        speed_kmh: number(&value, "vel"),
        course: number(&value, "cog"),
        pressure_kpa: number(&value, "p"),
        steps: number(&value, "steps"),
        activity: names.filter_map(activity).next(),
        poi: text(&value, "poi"),
        desc: text(&value, "desc"),
    };
    report.read_push(payload)
}

/// The fields of a push.
#[derive(Debug, Clone, Copy, Default)]
struct Report<'a> {
    kind: Option<&'a str>,
    at_ms: Option<i64>,
    from_ms: Option<i64>,
    to_ms: Option<i64>,
    lat: Option<f64>,
    lng: Option<f64>,
    accuracy: Option<f64>,
    altitude: Option<f64>,
    speed_kmh: Option<f64>,
    course: Option<f64>,
    pressure_kpa: Option<f64>,
    steps: Option<f64>,
    /// The first recognised activity that describes motion.
    activity: Option<ActivityType>,
    poi: Option<&'a str>,
    desc: Option<&'a str>,
}

impl Report<'_> {
    fn read_push(&self, payload: &[u8]) -> Result<Push, PayloadError> {
        let mut push = Push::of(payload);
        match self.kind {
            Some("location") => {
                let at_ms = self.at_ms.ok_or(PayloadError::Missing("tst"))?;
                self.add_location(&mut push, at_ms);
            }
            Some("steps") => self.add_steps(&mut push),
            Some("transition") => match self.at_ms {
                Some(at_ms) => self.add_transition(&mut push, at_ms),
                None => push.skip(),
            },
            // The position of a waypoint is that of a region, not of the phone.
            Some("waypoint") => {
                if let Some((at_ms, desc)) = self.at_ms.zip(self.desc) {
                    push.add_word(at_ms, desc);
                }
            }
            _ => push.skip(),
        }
        Ok(push.sorted())
    }

    fn add_location(&self, push: &mut Push, at_ms: i64) {
        if let Some((lat, lng)) = self.lat.zip(self.lng) {
            let location = Location {
                accuracy_m: not_negative(self.accuracy),
                altitude_m: self.altitude.map(|altitude| altitude as f32),
                speed_mps: not_negative(self.speed_kmh).map(|kmh| kmh * KMH_MPS),
                bearing_deg: not_negative(self.course),
                ..fix(lat, lng)
            };
            push.add(at_ms, Measurement::Location(location));
        } else {
            push.skip();
        }
        if let Some(kpa) = self.pressure_kpa {
            push.add(at_ms, Measurement::Pressure((kpa * KPA_HPA) as f32));
        }
        if let Some(activity_type) = self.activity {
            push.add(
                at_ms,
                Measurement::Activity(activity_type, ACTIVITY_CONFIDENCE),
            );
        }
        for word in [self.poi, self.desc].into_iter().flatten() {
            push.add_word(at_ms, word);
        }
    }

    /// Adds the crossing of a region's border: the position is optional, and `wtst` is the time at
    /// which the region was made.
    fn add_transition(&self, push: &mut Push, at_ms: i64) {
        if let Some((lat, lng)) = self.lat.zip(self.lng) {
            let location = Location {
                accuracy_m: not_negative(self.accuracy),
                ..fix(lat, lng)
            };
            push.add(at_ms, Measurement::Location(location));
        }
        if let Some(desc) = self.desc {
            push.add_word(at_ms, desc);
        }
    }

    /// Adds the steps between two times as a count that begins at 0, since a decreasing count is a
    /// restart.
    fn add_steps(&self, push: &mut Push) {
        let steps = self.steps.filter(|&steps| steps >= 0.0);
        match (steps, self.from_ms, self.to_ms.or(self.at_ms)) {
            (Some(steps), Some(from_ms), Some(to_ms)) if from_ms < to_ms => {
                push.add(from_ms, Measurement::Steps(0));
                push.add(to_ms, Measurement::Steps(steps as u32));
            }
            _ => push.skip(),
        }
    }
}
