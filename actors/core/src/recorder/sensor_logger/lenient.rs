//! Reads pushes with escapes or with values of unexpected types, which count as absent.

use serde::Deserialize;

use super::{Entries, FIELDS, Origin, Sensor, Values};
use crate::recorder::json::{Number, Text, Whole};
use crate::recorder::push::{PayloadError, Push};

/// A push as it is deserialized.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawPush<'a> {
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
    values: Option<EntryValues<'a>>,
}

/// The fields of all supported sensors.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct EntryValues<'a> {
    x: Number,
    y: Number,
    z: Number,
    pressure: Number,
    steps: Number,
    latitude: Number,
    longitude: Number,
    altitude: Number,
    speed: Number,
    bearing: Number,
    horizontal_accuracy: Number,
    #[serde(borrow)]
    activity: Text<'a>,
    #[serde(borrow)]
    confidence: Text<'a>,
    #[serde(borrow)]
    text: Text<'a>,
}

impl EntryValues<'_> {
    fn as_values(&self) -> Values<'_> {
        // In the order of `Field`.
        let numbers: [Number; FIELDS] = [
            self.x,
            self.y,
            self.z,
            self.pressure,
            self.steps,
            self.latitude,
            self.longitude,
            self.altitude,
            self.speed,
            self.bearing,
            self.horizontal_accuracy,
        ];
        Values {
            numbers: numbers.map(|number| number.0.unwrap_or(f64::NAN)),
            activity: self.activity.as_str(),
            confidence: self.confidence.as_str(),
            text: self.text.as_str(),
        }
    }
}

/// Reads a push.
///
/// # Errors
///
/// Returns an error if the payload is not JSON, or has no list of entries.
pub(super) fn read(payload: &[u8]) -> Result<Push, PayloadError> {
    PayloadError::check_values(payload)?;
    let raw: RawPush<'_> = serde_json::from_slice(payload).map_err(|error| {
        if error.is_data() {
            PayloadError::Missing("payload of entries")
        } else {
            PayloadError::Malformed(error.to_string())
        }
    })?;
    let mut entries = Entries::default();
    for entry in &raw.payload {
        let sensor = Sensor::from_name(entry.name.as_str().as_bytes());
        let values = entry.values.as_ref().map(EntryValues::as_values);
        entries.add(sensor, entry.time.0, &values.unwrap_or_default());
    }
    let origin = Origin {
        message_id: raw.message_id.0,
        session_id: raw.session_id.0.as_deref(),
        device_id: raw.device_id.as_str(),
    };
    Ok(entries.finish(&origin, payload))
}
