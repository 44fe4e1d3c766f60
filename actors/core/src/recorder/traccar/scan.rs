//! Reads JSON in one pass, as the apps write it. Every function returns `None` at an irregularity;
//! the payload is then read by [`super::read_lenient`], with the same result.

use porchlight_schema::sample::json::{Keys, Scanner};

use super::{KNOT_MPS, Position};
use crate::recorder::json::{number_of, text_of};
use crate::recorder::push::Push;
use crate::recorder::time::time_of_scalar;

/// The meaning of a key of a position in the SDK's form.
#[derive(Debug, Clone, Copy)]
enum PositionKey {
    At,
    Lat,
    Lng,
    Accuracy,
    Altitude,
    Speed,
    Bearing,
    Mock,
    Event,
    Location,
    Unused,
}

impl PositionKey {
    fn of(key: &[u8]) -> Self {
        match key {
            b"timestamp" => Self::At,
            b"lat" => Self::Lat,
            b"lon" => Self::Lng,
            b"accuracy" => Self::Accuracy,
            b"altitude" => Self::Altitude,
            b"speed" => Self::Speed,
            b"bearing" => Self::Bearing,
            b"mock" => Self::Mock,
            b"event" => Self::Event,
            b"location" => Self::Location,
            _ => Self::Unused,
        }
    }
}

/// Reads one position or an array of positions.
pub(super) fn scan(payload: &[u8]) -> Option<Push> {
    let mut scanner = Scanner::new(payload.trim_ascii_start());
    let (mut push, mut keys) = (Push::default(), Keys::default());
    if scanner.is_array() {
        scanner.elements(|scanner| scan_position(scanner, &mut keys, &mut push))?;
    } else {
        scan_position(&mut scanner, &mut keys, &mut push)?;
    }
    scanner.end()?;
    Some(push.of_payload(payload).sorted())
}

fn scan_position<'a>(
    scanner: &mut Scanner<'a>,
    keys: &mut Keys<'a, PositionKey>,
    push: &mut Push,
) -> Option<()> {
    let (mut position, mut has_location) = (Position::default(), false);
    scanner.members_like(keys, PositionKey::of, |scanner, key| {
        match key {
            PositionKey::At => position.at_ms = time_of_scalar(scanner.scalar()?),
            PositionKey::Lat => position.lat = number_of(scanner.scalar()?),
            PositionKey::Lng => position.lng = number_of(scanner.scalar()?),
            PositionKey::Accuracy => position.accuracy = number_of(scanner.scalar()?),
            PositionKey::Altitude => position.altitude = number_of(scanner.scalar()?),
            PositionKey::Speed => position.speed = number_of(scanner.scalar()?),
            PositionKey::Bearing => position.bearing = number_of(scanner.scalar()?),
            PositionKey::Mock => position.is_mock = scanner.truth()?,
            PositionKey::Event => position.event = text_of(scanner.scalar()?),
            // Fields next to a location do not count; a second location is left to the lenient
            // reader.
            PositionKey::Location if !has_location => {
                has_location = true;
                if scanner.is_array() {
                    scanner.elements(|scanner| scan_with_coords(scanner, push))?;
                } else {
                    scan_with_coords(scanner, push)?;
                }
            }
            PositionKey::Location => return None,
            PositionKey::Unused => scanner.skip_value()?,
        }
        Some(())
    })?;
    if !has_location {
        position.add_to(push, KNOT_MPS as f32);
    }
    Some(())
}

fn scan_with_coords(scanner: &mut Scanner<'_>, push: &mut Push) -> Option<()> {
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
    position.add_to(push, 1.0);
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
