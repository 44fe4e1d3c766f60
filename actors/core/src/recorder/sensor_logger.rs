//! Sensor Logger (iOS, Android): HTTP push, one JSON object for each batch period.
//!
//! Format: `PUSHING.md` and `UNITS.md` of `tszheichoi/awesome-sensor-logger`. Times are nanoseconds since 1970; negative
//! accuracies, speeds and bearings mean "none"; pressure is in millibars, which are hectopascals.

use porchlight_schema::sample::Location;
use serde::Deserialize;

use super::json::{Number, Text, Whole};
use super::message::{
    Measured, Message, MessageNumber, PayloadError, activity, digest_of, fix, not_negative,
};
use super::motion::Vectors;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Push<'a> {
    #[serde(default)]
    message_id: Whole,
    #[serde(default, borrow)]
    session_id: Text<'a>,
    #[serde(default, borrow)]
    device_id: Text<'a>,
    #[serde(borrow)]
    payload: Vec<Entry<'a>>,
}

#[derive(Deserialize)]
struct Entry<'a> {
    #[serde(default, borrow)]
    name: Text<'a>,
    #[serde(default)]
    time: Whole,
    #[serde(default, borrow)]
    values: Values<'a>,
}

/// The fields of all supported sensors.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Values<'a> {
    x: Number,
    y: Number,
    z: Number,
    pressure: Number,
    steps: Number,
    #[serde(borrow)]
    activity: Text<'a>,
    #[serde(borrow)]
    confidence: Text<'a>,
    #[serde(borrow)]
    text: Text<'a>,
    latitude: Number,
    longitude: Number,
    altitude: Number,
    speed: Number,
    bearing: Number,
    horizontal_accuracy: Number,
}

impl Values<'_> {
    fn vector(&self) -> Option<[f32; 3]> {
        Some([self.x.0? as f32, self.y.0? as f32, self.z.0? as f32])
    }

    fn location(&self) -> Option<Location> {
        Some(Location {
            accuracy_m: not_negative(self.horizontal_accuracy.0),
            altitude_m: self.altitude.0.map(|altitude| altitude as f32),
            speed_mps: not_negative(self.speed.0),
            bearing_deg: not_negative(self.bearing.0),
            ..fix(self.latitude.0?, self.longitude.0?)
        })
    }

    /// Returns the measurement of any sensor without vectors.
    fn measured(&self, sensor: &str) -> Option<Measured> {
        Some(match sensor {
            "location" => Measured::Location(self.location()?),
            "barometer" => Measured::Pressure(self.pressure.0? as f32),
            "pedometer" => Measured::Steps(self.steps.0.filter(|&steps| steps >= 0.0)? as u32),
            "activity" => Measured::Activity(activity(self.activity.as_str())?, self.confidence()),
            _ => return None,
        })
    }

    /// Returns the confidence: the app describes it in words, which are mapped to a third, two
    /// thirds and one.
    fn confidence(&self) -> f32 {
        match self.confidence.as_str() {
            "low" => 0.33,
            "medium" => 0.67,
            "high" => 1.0,
            _ => 0.0,
        }
    }
}

/// Reads a push.
///
/// # Errors
///
/// Returns an error if the payload is not JSON, or has no `payload`.
pub fn read(payload: &[u8]) -> Result<Message, PayloadError> {
    let push: Push<'_> = serde_json::from_slice(payload)
        .map_err(|error| PayloadError::Malformed(error.to_string()))?;
    let mut message = Message::of(payload);
    let recording = (push.session_id.0.as_ref()).map(|session_id| {
        digest_of(format!("{session_id} {}", push.device_id.as_str()).as_bytes())
    });
    let number = push.message_id.0.and_then(|id| u32::try_from(id).ok());
    message.number = recording
        .zip(number)
        .map(|(recording, number)| MessageNumber { recording, number });
    let mut vectors = Vectors::default();
    for entry in &push.payload {
        let sensor = entry.name.as_str().to_ascii_lowercase();
        let Some(at_ns) = entry.time.0.filter(|&at_ns| at_ns > 0) else {
            message.skip();
            continue;
        };
        let vector = entry.values.vector();
        let of_vectors = match sensor.as_str() {
            "accelerometer" => Some(&mut vectors.user),
            "gravity" => Some(&mut vectors.gravity),
            "totalacceleration" => Some(&mut vectors.total),
            "gyroscope" => Some(&mut vectors.turn),
            _ => None,
        };
        let at_ms = at_ns / 1_000_000;
        match (of_vectors, vector) {
            (Some(of_vectors), Some(vector)) => of_vectors.push((at_ns, vector)),
            (None, Some(vector)) if sensor == "magnetometer" => {
                message.add(at_ms, Measured::Magnetic(vector));
            }
            (None, _) if sensor == "annotation" => {
                message.add_word(at_ms, entry.values.text.as_str());
            }
            _ => match entry.values.measured(&sensor) {
                Some(what) => message.add(at_ms, what),
                None => message.skip(),
            },
        }
    }
    vectors.into_arrays(&mut message);
    Ok(message.sorted())
}
