//! Reads a request in one pass, as the app writes it. Every function returns `None` at an
//! irregularity; the request is then read by [`super::read_lenient`], with the same result.

use porchlight_schema::sample::json::{Scalar, Scanner};

use super::{Feature, place_of_state};
use crate::recorder::json::{number_of, text_of};
use crate::recorder::message::Message;
use crate::recorder::traccar::time_of_scalar;

/// Reads the features of a request.
pub(super) fn scan(payload: &[u8]) -> Option<Message> {
    let mut scanner = Scanner::new(payload);
    let (mut message, mut has_locations) = (Message::default(), false);
    scanner.members(|scanner, key| match key {
        b"locations" if !has_locations => {
            has_locations = true;
            scanner.elements(|scanner| scan_feature(scanner, &mut message))
        }
        // A duplicate key is left to the lenient reader.
        b"locations" => None,
        _ => scanner.skip_value(),
    })?;
    scanner.end()?;
    has_locations.then(|| message.of_payload(payload).sorted())
}

fn scan_feature(scanner: &mut Scanner<'_>, message: &mut Message) -> Option<()> {
    let mut feature = Feature::default();
    let (mut geometries, mut properties) = (0, 0);
    scanner.members(|scanner, key| match key {
        b"geometry" => {
            geometries += 1;
            let mut lists = 0;
            scanner.members(|scanner, key| match key {
                b"coordinates" => {
                    lists += 1;
                    scan_coordinates(scanner, &mut feature.coordinates)
                }
                _ => scanner.skip_value(),
            })?;
            (lists <= 1).then_some(())
        }
        b"properties" => {
            properties += 1;
            scan_properties(scanner, &mut feature)
        }
        _ => scanner.skip_value(),
    })?;
    (geometries <= 1 && properties <= 1).then_some(())?;
    feature.add_to(message);
    Some(())
}

fn scan_coordinates(scanner: &mut Scanner<'_>, coordinates: &mut [Option<f64>; 2]) -> Option<()> {
    let mut place = 0;
    scanner.elements(|scanner| {
        let value = scanner.scalar()?;
        if let Some(coordinate) = coordinates.get_mut(place) {
            *coordinate = match value {
                Scalar::Number(number) => Some(number),
                _ => None,
            };
        }
        place += 1;
        Some(())
    })
}

fn scan_properties<'a>(scanner: &mut Scanner<'a>, feature: &mut Feature<'a>) -> Option<()> {
    let mut motions = 0;
    scanner.members(|scanner, key| {
        match key {
            b"type" => feature.kind = text_of(scanner.scalar()?),
            b"timestamp" => feature.at_ms = time_of_scalar(scanner.scalar()?),
            b"end" => feature.end_ms = time_of_scalar(scanner.scalar()?),
            b"horizontal_accuracy" => feature.accuracy = number_of(scanner.scalar()?),
            b"altitude" => feature.altitude = number_of(scanner.scalar()?),
            b"speed" => feature.speed = number_of(scanner.scalar()?),
            b"course" => feature.course = number_of(scanner.scalar()?),
            b"action" => feature.action = text_of(scanner.scalar()?),
            b"motion" => {
                motions += 1;
                scanner.elements(|scanner| {
                    let place = text_of(scanner.scalar()?).and_then(place_of_state);
                    feature.motion = feature.motion.into_iter().chain(place).min();
                    Some(())
                })?;
            }
            _ => scanner.skip_value()?,
        }
        Some(())
    })?;
    (motions <= 1).then_some(())
}
