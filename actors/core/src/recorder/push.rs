//! A parsed push of a recording app.

use porchlight_schema::limits::{
    MARK_NAME_CHARS_MAX, RECORDER_TREE_OBJECTS_MAX, RECORDER_TREE_VALUES_MAX,
};
use porchlight_schema::sample::packed::{BatchBuilder, PackedBatch, with_builder};
use porchlight_schema::sample::{
    Activity, ActivityType, Imu, Location, Magnetic, Mark, Pressure, Provider, Sample, Steps,
};
use sha2::{Digest, Sha256};

/// The words that end a session: a mark, a description or an event of the app.
const END_WORDS: [&str; 3] = ["delivered", "stop", "end"];

/// The reason why a payload was refused. No part of it was stored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PayloadError {
    /// The payload does not have the form that the app sends.
    #[error("the payload cannot be read: {0}")]
    Malformed(String),
    /// The payload has the right form, but lacks a required field.
    #[error("the payload has no {0}")]
    Missing(&'static str),
    /// The payload has a time that cannot be used.
    #[error("the {0} of the payload is not a time")]
    InvalidTime(&'static str),
    /// The payload has more than [`RECORDER_TREE_VALUES_MAX`] values or
    /// [`RECORDER_TREE_OBJECTS_MAX`] objects.
    #[error("the payload has too many values")]
    TooManyValues,
}

impl PayloadError {
    /// Returns the error of a payload without a usable time in `field`.
    pub(super) fn no_time(field: &'static str, is_present: bool) -> Self {
        match is_present {
            true => Self::InvalidTime(field),
            false => Self::Missing(field),
        }
    }

    /// Checks that a JSON payload has few enough values to be read into memory as a tree. A tree
    /// takes up to 90 times as much memory as its text.
    ///
    /// # Errors
    ///
    /// Returns [`PayloadError::TooManyValues`] if it has too many values or objects.
    pub(super) fn check_values(payload: &[u8]) -> Result<(), Self> {
        let (mut objects, mut values, mut in_string, mut is_escaped) = (0, 0, false, false);
        for byte in payload {
            match byte {
                _ if is_escaped => is_escaped = false,
                b'\\' => is_escaped = in_string,
                b'"' => in_string = !in_string,
                _ if in_string => {}
                b'{' => objects += 1,
                b',' => values += 1,
                _ => {}
            }
        }
        if objects > RECORDER_TREE_OBJECTS_MAX || values >= RECORDER_TREE_VALUES_MAX {
            return Err(Self::TooManyValues);
        }
        Ok(())
    }
}

/// Raw acceleration (gravity included) and turn rate, as in an `imu` sample.
#[derive(Debug, Clone, PartialEq)]
pub struct ImuArrays {
    /// The number of elements per second.
    pub hz: f32,
    /// The x, y and z components, m/s², of equal lengths.
    pub accel: [Vec<f32>; 3],
    /// The x, y and z components, rad/s, of the same lengths.
    pub gyro: Option<[Vec<f32>; 3]>,
}

/// A measurement of a phone, in the units of the contract.
#[derive(Debug, Clone, PartialEq)]
pub enum Measurement {
    /// A position fix; its `t_ms` is set when the session is known.
    Location(Location),
    /// Air pressure, hPa.
    Pressure(f32),
    /// The phone's running count of steps.
    Steps(u32),
    /// Raw motion samples.
    Imu(Box<ImuArrays>),
    /// Magnetic field, µT.
    Magnetic([f32; 3]),
    /// The phone's own activity recogniser, with a confidence of 0 to 1.
    Activity(ActivityType, f32),
    /// An action of the courier.
    Mark(String),
}

/// One measurement of a phone, with its time.
#[derive(Debug, Clone, PartialEq)]
pub struct Reading {
    /// The time by the phone's wall clock, milliseconds since 1970.
    pub at_ms: i64,
    /// The measurement itself.
    pub measurement: Measurement,
}

/// The number of a push within one recording of the app.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PushNumber {
    /// Identifies the recording.
    pub recording: u64,
    /// The push's position in the recording, from 0.
    pub number: u32,
}

/// A parsed push.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Push {
    /// The readings, sorted by time.
    pub readings: Vec<Reading>,
    /// The times at which the courier ended a session, by the phone's wall clock, in order.
    pub ends_at_ms: Vec<i64>,
    /// The app's own number. `None` if the app does not number its pushes.
    pub number: Option<PushNumber>,
    /// Identifies the payload's bytes, to recognise a push that arrives again.
    pub digest: u64,
    /// The number of readings that were left out: of an unused kind, or with an impossible value.
    pub skipped: u32,
}

/// Returns the first eight bytes of the SHA-256.
pub(super) fn digest_of(bytes: &[u8]) -> u64 {
    let hash = Sha256::digest(bytes);
    let first = hash.first_chunk::<8>().copied().unwrap_or_default();
    u64::from_be_bytes(first)
}

/// Returns whether a text of the app ends the session.
pub(super) fn is_end_word(text: &str) -> bool {
    let text = text.trim();
    END_WORDS.iter().any(|word| text.eq_ignore_ascii_case(word))
}

impl Push {
    /// Returns an empty push with the digest of `payload`.
    pub(super) fn of(payload: &[u8]) -> Self {
        Self {
            digest: digest_of(payload),
            ..Self::default()
        }
    }

    /// Sets the digest to that of `payload`.
    pub(super) fn of_payload(self, payload: &[u8]) -> Self {
        Self {
            digest: digest_of(payload),
            ..self
        }
    }

    pub(super) fn add(&mut self, at_ms: i64, measurement: Measurement) {
        self.readings.push(Reading { at_ms, measurement });
    }

    pub(super) fn skip(&mut self) {
        self.skipped = self.skipped.saturating_add(1);
    }

    /// Adds the courier's text: always as a mark, and as the end of the session if it is one of the
    /// end words.
    pub(super) fn add_word(&mut self, at_ms: i64, text: &str) {
        let name: String = text.trim().chars().take(MARK_NAME_CHARS_MAX).collect();
        if name.is_empty() {
            return;
        }
        self.add(at_ms, Measurement::Mark(name));
        if is_end_word(text) {
            self.ends_at_ms.push(at_ms);
        }
    }

    /// Sorts the readings by time; equal times keep their order.
    pub(super) fn sorted(mut self) -> Self {
        self.readings.sort_by_key(|reading| reading.at_ms);
        self.ends_at_ms.sort_unstable();
        self.ends_at_ms.dedup();
        self
    }
}

/// Returns a position fix whose time is set later.
pub(super) fn fix(lat: f64, lng: f64) -> Location {
    Location {
        t_ms: 0,
        lat,
        lng,
        accuracy_m: None,
        altitude_m: None,
        speed_mps: None,
        bearing_deg: None,
        mock: false,
        provider: None,
    }
}

/// Returns the value, or `None` if it is absent or negative. Apps send a negative value for an
/// unknown one.
pub(super) fn not_negative(value: Option<f64>) -> Option<f32> {
    value
        .filter(|&value| value >= 0.0)
        .map(|value| value as f32)
}

/// Returns the provider by its Android name; Android's network provider may be either of two.
pub(super) fn provider(name: &str) -> Option<Provider> {
    match name {
        "gps" => Some(Provider::Gnss),
        "fused" => Some(Provider::Fused),
        _ => None,
    }
}

/// Returns the activity by the name that a platform's recogniser gives it, or `None` for an
/// activity that does not describe motion.
pub(super) fn activity(name: &str) -> Option<ActivityType> {
    Some(match name {
        "stationary" | "still" => ActivityType::Still,
        "walking" | "on_foot" => ActivityType::Walking,
        "running" => ActivityType::Running,
        "cycling" | "on_bicycle" => ActivityType::Cycling,
        "automotive" | "driving" | "in_vehicle" => ActivityType::Driving,
        "unknown" => ActivityType::Unknown,
        _ => return None,
    })
}

impl Reading {
    /// Adds the reading to a batch of a session that started at `started_at_ms`. Returns `false`
    /// and leaves the batch unchanged if the reading lies before the start or a value is out of
    /// range.
    pub(super) fn pack(&self, started_at_ms: i64, batch: &mut BatchBuilder) -> bool {
        let Ok(t_ms) = u32::try_from(self.at_ms.saturating_sub(started_at_ms)) else {
            return false;
        };
        let sample = match &self.measurement {
            Measurement::Location(location) => Sample::Location(Location { t_ms, ..*location }),
            &Measurement::Pressure(hpa) => Sample::Pressure(Pressure { t_ms, hpa }),
            &Measurement::Steps(count) => Sample::Steps(Steps { t_ms, count }),
            Measurement::Imu(imu) => Sample::Imu(Imu {
                t_ms,
                hz: imu.hz,
                accel: [&imu.accel[0], &imu.accel[1], &imu.accel[2]],
                gyro: imu.gyro.as_ref().map(|[x, y, z]| [&x[..], &y[..], &z[..]]),
            }),
            &Measurement::Magnetic(field_ut) => Sample::Magnetic(Magnetic { t_ms, field_ut }),
            &Measurement::Activity(activity_type, confidence) => Sample::Activity(Activity {
                t_ms,
                activity_type,
                confidence,
            }),
            Measurement::Mark(name) => Sample::Mark(Mark { t_ms, name }),
        };
        batch.push(&sample).is_ok()
    }
}

/// Packs the readings of a session that started at `started_at_ms`; invalid readings are counted.
pub(super) fn pack(readings: &[Reading], started_at_ms: i64, skipped: u32) -> PackedBatch {
    with_builder(bytes_of(readings), |batch| {
        batch.skip(skipped);
        for reading in readings {
            if !reading.pack(started_at_ms, batch) {
                batch.skip(1);
            }
        }
        batch.pack()
    })
}

/// Returns the size of readings in memory.
fn bytes_of(readings: &[Reading]) -> usize {
    let arrays = readings
        .iter()
        .filter_map(|reading| match &reading.measurement {
            Measurement::Imu(imu) => Some(imu.accel.iter().chain(imu.gyro.iter().flatten())),
            _ => None,
        });
    let values: usize = arrays.flatten().map(Vec::len).sum();
    size_of_val(readings) + values * size_of::<f32>()
}
