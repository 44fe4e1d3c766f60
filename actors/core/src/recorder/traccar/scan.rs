//! Reads JSON in one pass, as the apps write it. Every function returns `None` at an irregularity;
//! the payload is then read by [`super::read_lenient`], with the same result.

use porchlight_schema::sample::Location;
use porchlight_schema::sample::json::Scanner;

use super::{KNOT_MPS, add_event, time_of_scalar};
use crate::recorder::json::{number_of, text_of};
use crate::recorder::message::{Measured, Message, activity, fix, not_negative};

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
    /// Adds the position to a message; its speed is in units of `speed_mps` metres per second.
    fn add_to(&self, message: &mut Message, speed_mps: f32) {
        let Some(at_ms) = self.at_ms else {
            return message.skip();
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
            message.add(at_ms, Measured::Location(location));
        }
        if let Some(activity_type) = self.activity.and_then(activity) {
            let percent = self.activity_percent.unwrap_or(0.0);
            let confidence = (percent / 100.0).clamp(0.0, 1.0) as f32;
            message.add(at_ms, Measured::Activity(activity_type, confidence));
        }
        for event in [self.event, self.extra_event].into_iter().flatten() {
            add_event(message, at_ms, event);
        }
    }
}

/// Reads one position or an array of positions.
pub(super) fn scan(payload: &[u8]) -> Option<Message> {
    let mut scanner = Scanner::new(payload.trim_ascii_start());
    let mut message = Message::default();
    if scanner.is_array() {
        scanner.elements(|scanner| scan_position(scanner, &mut message))?;
    } else {
        scan_position(&mut scanner, &mut message)?;
    }
    scanner.end()?;
    Some(message.of_payload(payload).sorted())
}

fn scan_position(scanner: &mut Scanner<'_>, message: &mut Message) -> Option<()> {
    let (mut position, mut has_location) = (Position::default(), false);
    scanner.members(|scanner, key| {
        match key {
            b"timestamp" => position.at_ms = time_of_scalar(scanner.scalar()?),
            b"lat" => position.lat = number_of(scanner.scalar()?),
            b"lon" => position.lng = number_of(scanner.scalar()?),
            b"accuracy" => position.accuracy = number_of(scanner.scalar()?),
            b"altitude" => position.altitude = number_of(scanner.scalar()?),
            b"speed" => position.speed = number_of(scanner.scalar()?),
            b"bearing" => position.bearing = number_of(scanner.scalar()?),
            b"mock" => position.is_mock = scanner.truth()?,
            b"event" => position.event = text_of(scanner.scalar()?),
            // Fields beside a location do not count; a second location is left to the lenient
            // reader.
            b"location" if !has_location => {
                has_location = true;
                if scanner.is_array() {
                    scanner.elements(|scanner| scan_with_coords(scanner, message))?;
                } else {
                    scan_with_coords(scanner, message)?;
                }
            }
            b"location" => return None,
            _ => scanner.skip_value()?,
        }
        Some(())
    })?;
    if !has_location {
        position.add_to(message, KNOT_MPS as f32);
    }
    Some(())
}

fn scan_with_coords(scanner: &mut Scanner<'_>, message: &mut Message) -> Option<()> {
    let mut position = Position::default();
    // A repeated object is left to the lenient reader.
    let (mut coords, mut recognised, mut extras) = (0, 0, 0);
    scanner.members(|scanner, key| {
        match key {
            b"timestamp" => position.at_ms = time_of_scalar(scanner.scalar()?),
            b"mock" => position.is_mock = scanner.truth()?,
            b"event" => position.event = text_of(scanner.scalar()?),
            b"coords" => {
                coords += 1;
                scan_coords(scanner, &mut position)?;
            }
            b"activity" => {
                recognised += 1;
                scanner.members(|scanner, key| {
                    match key {
                        b"type" => position.activity = text_of(scanner.scalar()?),
                        b"confidence" => {
                            position.activity_percent = number_of(scanner.scalar()?);
                        }
                        _ => scanner.skip_value()?,
                    }
                    Some(())
                })?;
            }
            b"extras" if scanner.is_object() => {
                extras += 1;
                scanner.members(|scanner, key| {
                    match key {
                        b"event" => position.extra_event = text_of(scanner.scalar()?),
                        _ => scanner.skip_value()?,
                    }
                    Some(())
                })?;
            }
            b"extras" => {
                extras += 1;
                scanner.skip_value()?;
            }
            _ => scanner.skip_value()?,
        }
        Some(())
    })?;
    (coords <= 1 && recognised <= 1 && extras <= 1).then_some(())?;
    position.add_to(message, 1.0);
    Some(())
}

fn scan_coords(scanner: &mut Scanner<'_>, position: &mut Position<'_>) -> Option<()> {
    scanner.members(|scanner, key| {
        match key {
            b"latitude" => position.lat = number_of(scanner.scalar()?),
            b"longitude" => position.lng = number_of(scanner.scalar()?),
            b"accuracy" => position.accuracy = number_of(scanner.scalar()?),
            b"altitude" => position.altitude = number_of(scanner.scalar()?),
            b"speed" => position.speed = number_of(scanner.scalar()?),
            b"heading" => position.bearing = number_of(scanner.scalar()?),
            _ => scanner.skip_value()?,
        }
        Some(())
    })
}
