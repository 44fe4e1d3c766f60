//! Reads a request in one pass, as the app writes it. Every function returns `None` at an
//! irregularity; the request is then read by [`super::read_lenient`], with the same result.

use porchlight_schema::sample::json::{Keys, Scalar, Scanner};

use super::{Feature, place_of_state};
use crate::recorder::json::{number_of, text_of};
use crate::recorder::push::Push;
use crate::recorder::time::time_of_scalar;

/// The meaning of a key of a feature.
#[derive(Debug, Clone, Copy)]
enum FeatureKey {
    Geometry,
    Properties,
    Unused,
}

impl FeatureKey {
    fn of(key: &[u8]) -> Self {
        match key {
            b"geometry" => Self::Geometry,
            b"properties" => Self::Properties,
            _ => Self::Unused,
        }
    }
}

/// The meaning of a key of a feature's properties.
#[derive(Debug, Clone, Copy)]
enum Property {
    Kind,
    At,
    End,
    Accuracy,
    Altitude,
    Speed,
    Course,
    Action,
    Motion,
    Unused,
}

impl Property {
    fn of(key: &[u8]) -> Self {
        match key {
            b"type" => Self::Kind,
            b"timestamp" => Self::At,
            b"end" => Self::End,
            b"horizontal_accuracy" => Self::Accuracy,
            b"altitude" => Self::Altitude,
            b"speed" => Self::Speed,
            b"course" => Self::Course,
            b"action" => Self::Action,
            b"motion" => Self::Motion,
            _ => Self::Unused,
        }
    }
}

/// The keys of a request's features.
#[derive(Debug, Default)]
struct FeatureKeys<'a> {
    feature: Keys<'a, FeatureKey>,
    /// Whether a key of a geometry is that of its coordinates.
    geometry: Keys<'a, bool>,
    properties: Keys<'a, Property>,
}

/// Reads the features of a request.
pub(super) fn scan(payload: &[u8]) -> Option<Push> {
    let mut scanner = Scanner::new(payload);
    let (mut push, mut has_locations) = (Push::default(), false);
    let mut keys = FeatureKeys::default();
    scanner.members(|scanner, key| match key {
        b"locations" if !has_locations => {
            has_locations = true;
            scanner.elements(|scanner| scan_feature(scanner, &mut keys, &mut push))
        }
        // A duplicate key is left to the lenient reader.
        b"locations" => None,
        _ => scanner.skip_value(),
    })?;
    scanner.end()?;
    has_locations.then(|| push.of_payload(payload).sorted())
}

fn scan_feature<'a>(
    scanner: &mut Scanner<'a>,
    keys: &mut FeatureKeys<'a>,
    push: &mut Push,
) -> Option<()> {
    let mut feature = Feature::default();
    let (mut geometries, mut properties) = (0, 0);
    scanner.members_like(
        &mut keys.feature,
        FeatureKey::of,
        |scanner, key| match key {
            FeatureKey::Geometry => {
                geometries += 1;
                scan_geometry(scanner, &mut keys.geometry, &mut feature.coordinates)
            }
            FeatureKey::Properties => {
                properties += 1;
                scan_properties(scanner, &mut keys.properties, &mut feature)
            }
            FeatureKey::Unused => scanner.skip_value(),
        },
    )?;
    (geometries <= 1 && properties <= 1).then_some(())?;
    feature.add_to(push);
    Some(())
}

fn scan_geometry<'a>(
    scanner: &mut Scanner<'a>,
    keys: &mut Keys<'a, bool>,
    coordinates: &mut [Option<f64>; 2],
) -> Option<()> {
    let mut lists = 0;
    let is_coordinates = |key: &[u8]| key == b"coordinates";
    scanner.members_like(keys, is_coordinates, |scanner, is_coordinates| {
        if is_coordinates {
            lists += 1;
            scan_coordinates(scanner, coordinates)
        } else {
            scanner.skip_value()
        }
    })?;
    (lists <= 1).then_some(())
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

fn scan_properties<'a>(
    scanner: &mut Scanner<'a>,
    keys: &mut Keys<'a, Property>,
    feature: &mut Feature<'a>,
) -> Option<()> {
    let mut motions = 0;
    scanner.members_like(keys, Property::of, |scanner, key| {
        match key {
            Property::Kind => feature.kind = text_of(scanner.scalar()?),
            Property::At => feature.at_ms = time_of_scalar(scanner.scalar()?),
            Property::End => feature.end_ms = time_of_scalar(scanner.scalar()?),
            Property::Accuracy => feature.accuracy = number_of(scanner.scalar()?),
            Property::Altitude => feature.altitude = number_of(scanner.scalar()?),
            Property::Speed => feature.speed = number_of(scanner.scalar()?),
            Property::Course => feature.course = number_of(scanner.scalar()?),
            Property::Action => feature.action = text_of(scanner.scalar()?),
            Property::Motion => {
                motions += 1;
                scanner.elements(|scanner| {
                    let place = text_of(scanner.scalar()?).and_then(place_of_state);
                    feature.motion = feature.motion.into_iter().chain(place).min();
                    Some(())
                })?;
            }
            Property::Unused => scanner.skip_value()?,
        }
        Some(())
    })?;
    (motions <= 1).then_some(())
}
