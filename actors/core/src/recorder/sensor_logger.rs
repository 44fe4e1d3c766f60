//! Sensor Logger (iOS, Android): HTTP push, one JSON object for each batch period.
//!
//! Format: `PUSHING.md` and `UNITS.md` of `tszheichoi/awesome-sensor-logger`. Times are nanoseconds
//! since 1970; negative accuracies, speeds and bearings mean "none"; pressure is in millibars,
//! which are hectopascals.
//!
//! A push is read in one pass by the scanner that also reads native batches. A push with an escape
//! or a value of an unexpected type is read again by [`lenient`].

mod lenient;

use porchlight_schema::sample::Location;
use porchlight_schema::sample::json::{Keys, Scanner};

use super::motion::Vectors;
use super::push::{
    Measurement, PayloadError, Push, PushNumber, activity, digest_of, fix, not_negative,
};

/// The sensors of the app that are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sensor {
    /// Acceleration without gravity.
    Acceleration,
    Gravity,
    TotalAcceleration,
    Gyroscope,
    Magnetometer,
    Location,
    Barometer,
    Pedometer,
    Activity,
    /// A text that the courier typed or chose.
    Annotation,
}

/// The number of [`Sensor`]s.
const SENSORS: usize = Sensor::Annotation as usize + 1;

impl Sensor {
    /// The names that the app gives to the sensors; Android and iOS differ in case.
    const NAMES: [(&'static str, Self); SENSORS] = [
        ("accelerometer", Self::Acceleration),
        ("gravity", Self::Gravity),
        ("totalacceleration", Self::TotalAcceleration),
        ("gyroscope", Self::Gyroscope),
        ("magnetometer", Self::Magnetometer),
        ("location", Self::Location),
        ("barometer", Self::Barometer),
        ("pedometer", Self::Pedometer),
        ("activity", Self::Activity),
        ("annotation", Self::Annotation),
    ];

    fn from_name(name: &[u8]) -> Option<Self> {
        let mut names = Self::NAMES.iter();
        let found = names.find(|(known, _)| name.eq_ignore_ascii_case(known.as_bytes()));
        found.map(|&(_, sensor)| sensor)
    }
}

/// A number among a sensor's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Field {
    X,
    Y,
    Z,
    Pressure,
    Steps,
    Latitude,
    Longitude,
    Altitude,
    Speed,
    Bearing,
    HorizontalAccuracy,
}

/// The number of [`Field`]s.
const FIELDS: usize = Field::HorizontalAccuracy as usize + 1;

/// The meaning of a key of an entry.
#[derive(Debug, Clone, Copy)]
enum EntryKey {
    Name,
    Time,
    Values,
    Unused,
}

impl EntryKey {
    fn of(key: &[u8]) -> Self {
        match key {
            b"name" => Self::Name,
            b"time" => Self::Time,
            b"values" => Self::Values,
            _ => Self::Unused,
        }
    }
}

/// The meaning of a key of a sensor's values.
#[derive(Debug, Clone, Copy)]
enum ValueKey {
    Number(Field),
    Activity,
    Confidence,
    Text,
    Unused,
}

impl ValueKey {
    fn of(key: &[u8]) -> Self {
        match key {
            b"x" => Self::Number(Field::X),
            b"y" => Self::Number(Field::Y),
            b"z" => Self::Number(Field::Z),
            b"pressure" => Self::Number(Field::Pressure),
            b"steps" => Self::Number(Field::Steps),
            b"latitude" => Self::Number(Field::Latitude),
            b"longitude" => Self::Number(Field::Longitude),
            b"altitude" => Self::Number(Field::Altitude),
            b"speed" => Self::Number(Field::Speed),
            b"bearing" => Self::Number(Field::Bearing),
            b"horizontalAccuracy" => Self::Number(Field::HorizontalAccuracy),
            b"activity" => Self::Activity,
            b"confidence" => Self::Confidence,
            b"text" => Self::Text,
            _ => Self::Unused,
        }
    }
}

/// The keys of a push's entries, and of the values of each [`Sensor`].
#[derive(Debug, Default)]
struct EntryKeys<'a> {
    entry: Keys<'a, EntryKey>,
    values: [Keys<'a, ValueKey>; SENSORS],
    /// The keys of values that stand before the sensor's name, or belong to an unused sensor.
    others: Keys<'a, ValueKey>,
}

/// The values of all supported sensors in one entry.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Values<'a> {
    /// The numbers by [`Field`]; NaN if absent.
    numbers: [f64; FIELDS],
    activity: &'a str,
    confidence: &'a str,
    /// The text of an annotation.
    text: &'a str,
}

impl Default for Values<'_> {
    fn default() -> Self {
        Self {
            numbers: [f64::NAN; FIELDS],
            activity: "",
            confidence: "",
            text: "",
        }
    }
}

impl Values<'_> {
    fn number(&self, field: Field) -> Option<f64> {
        let number = self.numbers[field as usize];
        number.is_finite().then_some(number)
    }

    fn vector(&self) -> Option<[f32; 3]> {
        let [x, y, z] = [Field::X, Field::Y, Field::Z].map(|field| self.number(field));
        Some([x? as f32, y? as f32, z? as f32])
    }

    fn location(&self) -> Option<Location> {
        let place = fix(
            self.number(Field::Latitude)?,
            self.number(Field::Longitude)?,
        );
        Some(Location {
            accuracy_m: not_negative(self.number(Field::HorizontalAccuracy)),
            altitude_m: self.number(Field::Altitude).map(|altitude| altitude as f32),
            speed_mps: not_negative(self.number(Field::Speed)),
            bearing_deg: not_negative(self.number(Field::Bearing)),
            ..place
        })
    }

    /// Returns the confidence: the app describes it in words, which are mapped to a third, two
    /// thirds and one.
    fn confidence(&self) -> f32 {
        match self.confidence {
            "low" => 0.33,
            "medium" => 0.67,
            "high" => 1.0,
            _ => 0.0,
        }
    }
}

/// The entries of a push as they are read.
#[derive(Debug, Default)]
struct Entries {
    push: Push,
    vectors: Vectors,
}

impl Entries {
    /// Adds the values of a sensor, measured at `at_ns` since 1970. A sensor that is not used, or
    /// without a time or its values, is skipped.
    #[inline]
    fn add(&mut self, sensor: Option<Sensor>, at_ns: Option<i64>, values: &Values<'_>) {
        let at_ns = at_ns.filter(|&at_ns| at_ns > 0);
        let added = sensor
            .zip(at_ns)
            .and_then(|(sensor, at_ns)| self.add_values(sensor, at_ns, values));
        if added.is_none() {
            self.push.skip();
        }
    }

    #[inline]
    fn add_values(&mut self, sensor: Sensor, at_ns: i64, values: &Values<'_>) -> Option<()> {
        let of_vectors = match sensor {
            Sensor::Acceleration => &mut self.vectors.user,
            Sensor::Gravity => &mut self.vectors.gravity,
            Sensor::TotalAcceleration => &mut self.vectors.total,
            Sensor::Gyroscope => &mut self.vectors.turn,
            _ => return self.add_reading(sensor, at_ns / 1_000_000, values),
        };
        of_vectors.push((at_ns, values.vector()?));
        Some(())
    }

    /// Adds a measurement of any sensor whose values are not combined into arrays.
    fn add_reading(&mut self, sensor: Sensor, at_ms: i64, values: &Values<'_>) -> Option<()> {
        let measurement = match sensor {
            Sensor::Annotation => {
                self.push.add_word(at_ms, values.text);
                return Some(());
            }
            Sensor::Magnetometer => Measurement::Magnetic(values.vector()?),
            Sensor::Location => Measurement::Location(values.location()?),
            Sensor::Barometer => Measurement::Pressure(values.number(Field::Pressure)? as f32),
            Sensor::Pedometer => {
                let steps = values.number(Field::Steps).filter(|&steps| steps >= 0.0)?;
                Measurement::Steps(steps as u32)
            }
            Sensor::Activity => {
                Measurement::Activity(activity(values.activity)?, values.confidence())
            }
            _ => return None,
        };
        self.push.add(at_ms, measurement);
        Some(())
    }

    /// Returns the push with the arrays of all vectors.
    fn finish(mut self, origin: &Origin<'_>, payload: &[u8]) -> Push {
        self.push.number = origin.number();
        self.push.digest = match self.push.number {
            // The number identifies the push; hashing the payload would take a large part of the
            // time.
            Some(PushNumber { recording, number }) => {
                digest_of(&[recording.to_be_bytes(), u64::from(number).to_be_bytes()].concat())
            }
            None => digest_of(payload),
        };
        self.vectors.into_arrays(&mut self.push);
        self.push.sorted()
    }
}

/// The fields that identify a push.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Origin<'a> {
    message_id: Option<i64>,
    session_id: Option<&'a str>,
    device_id: &'a str,
}

impl Origin<'_> {
    fn number(&self) -> Option<PushNumber> {
        let session_id = self.session_id?;
        let number = u32::try_from(self.message_id?).ok()?;
        let recording = digest_of(format!("{session_id} {}", self.device_id).as_bytes());
        Some(PushNumber { recording, number })
    }
}

/// Reads a push.
///
/// # Errors
///
/// Returns an error if the payload is not JSON, or has no `payload`.
pub fn read(payload: &[u8]) -> Result<Push, PayloadError> {
    match scan(payload) {
        Some(push) => Ok(push),
        None => lenient::read(payload),
    }
}

/// Reads a push in one pass. Returns `None` at the first irregularity.
fn scan(payload: &[u8]) -> Option<Push> {
    let mut scanner = Scanner::new(payload);
    let mut origin = Origin::default();
    let mut entries = None;
    scanner.members(|scanner, key| match key {
        b"messageId" => {
            origin.message_id = Some(i64::try_from(scanner.whole_number()?).ok()?);
            Some(())
        }
        b"sessionId" => {
            origin.session_id = Some(scanner.text()?);
            Some(())
        }
        b"deviceId" => {
            origin.device_id = scanner.text()?;
            Some(())
        }
        // A duplicate key is left to the lenient reader.
        b"payload" if entries.is_none() => {
            let (mut read, mut keys) = (Entries::default(), EntryKeys::default());
            scanner.elements(|scanner| scan_entry(scanner, &mut keys, &mut read))?;
            entries = Some(read);
            Some(())
        }
        b"payload" => None,
        _ => scanner.skip_scalar(),
    })?;
    scanner.end()?;
    Some(entries?.finish(&origin, payload))
}

#[inline]
fn scan_entry<'a>(
    scanner: &mut Scanner<'a>,
    keys: &mut EntryKeys<'a>,
    entries: &mut Entries,
) -> Option<()> {
    let (mut sensor, mut at_ns) = (None, None);
    let mut values = Values::default();
    scanner.members_like(&mut keys.entry, EntryKey::of, |scanner, key| {
        match key {
            EntryKey::Name => {
                let name = scanner.string()?;
                sensor = Sensor::from_name(name);
                // The names of the used sensors need no check.
                if sensor.is_none() {
                    std::str::from_utf8(name).ok()?;
                }
            }
            EntryKey::Time => at_ns = Some(i64::try_from(scanner.whole_number()?).ok()?),
            EntryKey::Values => {
                let of_sensor = sensor.and_then(|sensor| keys.values.get_mut(sensor as usize));
                let keys = of_sensor.unwrap_or(&mut keys.others);
                scan_values(scanner, keys, &mut values)?;
            }
            EntryKey::Unused => scanner.skip_scalar()?,
        }
        Some(())
    })?;
    entries.add(sensor, at_ns, &values);
    Some(())
}

#[inline]
fn scan_values<'a>(
    scanner: &mut Scanner<'a>,
    keys: &mut Keys<'a, ValueKey>,
    values: &mut Values<'a>,
) -> Option<()> {
    scanner.members_like(keys, ValueKey::of, |scanner, key| {
        match key {
            ValueKey::Number(field) => values.numbers[field as usize] = scanner.number()?,
            ValueKey::Activity => values.activity = scanner.text()?,
            ValueKey::Confidence => values.confidence = scanner.text()?,
            ValueKey::Text => values.text = scanner.text()?,
            ValueKey::Unused => scanner.skip_scalar()?,
        }
        Some(())
    })
}
