//! Whether the drop-off was at the address's door: across and up.

use super::climb::Climb;
use super::ledger::{Ledger, Span, words};
use super::place::Places;
use super::position::Estimate;
use super::scene::Scene;
use crate::storeys::Storeys;

/// Within this many combined uncertainties (68 % radius) the stay is at the address: 99 % of honest ones are.
const ACROSS_SIGMAS: f32 = 2.0;
/// A door lies this far from the middle of its roof, which is what geocoders answer.
const ACROSS_LEAST_M: f32 = 20.0;
/// A position less exact than this is no evidence for the right door.
const RIGHT_SIGMA_M: f32 = 35.0;
/// A position less exact than this is no evidence for a stay at the address at all.
const FULL_SIGMA_M: f32 = 60.0;
/// A stay this far, and farther than three uncertainties, is at another address (contract 5).
const WRONG_LEAST_M: f32 = 50.0;
const WRONG_SIGMAS: f32 = 3.0;
/// Weight from which a learned drop-off point stands beside the address: that of three fresh sessions.
const LEARNED_WEIGHT_LEAST: f32 = 2.5;
/// Storeys of buildings of which nothing is known, metres: dwellings from 2.7, offices up to 4.9 (measured).
const MODEL_STOREYS_M: (f32, f32) = (2.7, 4.9);
/// The ground storey is taller by up to this (1.5 to 3 m measured).
const GROUND_MOST_M: f32 = 2.0;
/// From this fraud score on, positions are no evidence for the right door.
const DOUBT_SCORE: f64 = 0.5;
/// Noise of a rise, and what the real temperature of the air makes of it: 7 % from 15 °C to −5 or 35 °C.
const RISE_NOISE_M: f32 = 0.6;
const RISE_PART: f32 = 0.06;

/// How a stay lies to the address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Across {
    /// At it, by a position good enough to say so.
    At,
    /// At it as far as a poor position tells.
    Perhaps,
    /// Neither at it nor surely elsewhere.
    Off,
    /// At another one.
    Elsewhere,
    /// Not known.
    Unknown,
}

/// How the drop-off's floor lies to the address's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Up {
    /// The same.
    Right,
    /// Another.
    Wrong,
    /// The address names no floor, or height was not measured.
    Unknown,
}

/// The drop-off and the address.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Doorstep {
    pub(crate) right: bool,
    pub(crate) across: Across,
    pub(crate) up: Up,
}

/// How `estimate` lies to the address, and to the drop-off point learned from earlier sessions.
pub(crate) fn across(scene: &Scene<'_>, estimate: Estimate) -> Across {
    let (distance_m, sigma_m) = scene.offset_from_address(estimate);
    let learned = scene
        .input
        .known
        .drop_off
        .filter(|learned| learned.weight >= LEARNED_WEIGHT_LEAST);
    let learned_m = learned.map(|learned| {
        let place = scene.input.context.frame.place(learned.point);
        let sigma_m =
            (estimate.sigma_m * estimate.sigma_m + learned.sigma_m * learned.sigma_m).sqrt();
        (estimate.place.distance_m(place), sigma_m)
    });
    let within = |(distance_m, sigma_m): (f32, f32)| {
        distance_m <= (ACROSS_SIGMAS * sigma_m).max(ACROSS_LEAST_M)
    };
    if within((distance_m, sigma_m)) || learned_m.is_some_and(within) {
        return match estimate.sigma_m {
            sigma_m if sigma_m <= RIGHT_SIGMA_M => Across::At,
            sigma_m if sigma_m <= FULL_SIGMA_M => Across::Perhaps,
            _ => Across::Unknown,
        };
    }
    if distance_m >= WRONG_LEAST_M && distance_m > WRONG_SIGMAS * sigma_m {
        return Across::Elsewhere;
    }
    Across::Off
}

/// How the climb lies to the address's floor. Basements and upper floors alike: 0 is the entrance's level. The
/// measured height is compared with the heights that the floor can have; where there is no height, the counts.
pub(crate) fn up(scene: &Scene<'_>, climb: &Climb) -> Up {
    let Some(wanted) = scene.input.context.floor else {
        return Up::Unknown;
    };
    let right = match (climb.rise, climb.floors) {
        (Some(rise), _) => is_height_of(scene, wanted, rise.metres),
        (None, Some(floors)) => floors == wanted,
        (None, None) => return Up::Unknown,
    };
    if right { Up::Right } else { Up::Wrong }
}

/// Whether `metres` above the entrance can be the height of floor `wanted`.
pub(super) fn is_height_of(scene: &Scene<'_>, wanted: i16, metres: f32) -> bool {
    let storeys = super::climb::storeys(scene);
    let count = f32::from(wanted).abs();
    if wanted == 0 {
        return storeys.floors(metres) == Some(0);
    }
    let height_m = if wanted < 0 { -metres } else { metres };
    let noise_m = RISE_NOISE_M + RISE_PART * height_m.abs();
    match storeys {
        Storeys::Model => {
            let (low_m, high_m) = MODEL_STOREYS_M;
            let ground_m = if wanted > 0 { GROUND_MOST_M } else { 0.0 };
            (count * low_m - noise_m..=count * high_m + ground_m + noise_m).contains(&height_m)
        }
        // By count, or so near to the border between two floors that the air's temperature decides.
        Storeys::Given(storey_m) => {
            storeys.floors(metres) == Some(wanted)
                || (count * storey_m - height_m).abs()
                    <= storey_m / 2.0 + RISE_PART * height_m.abs()
        }
        Storeys::Learned { storey_m, .. } => {
            storeys.floors(metres - noise_m.min(storey_m / 4.0)) == Some(wanted)
                || storeys.floors(metres + noise_m.min(storey_m / 4.0)) == Some(wanted)
        }
    }
}

pub(crate) fn judge(
    scene: &Scene<'_>,
    places: &Places,
    climb: &Climb,
    ledger: &mut Ledger,
) -> Doorstep {
    let drop_off = places.drop_off.filter(|drop_off| drop_off.on_foot);
    let estimate = drop_off.and_then(|drop_off| drop_off.estimate);
    let across = estimate.map_or(Across::Unknown, |estimate| across(scene, estimate));
    let up = if drop_off.is_some() {
        up(scene, climb)
    } else {
        Up::Unknown
    };
    let right = across == Across::At && up != Up::Wrong;
    let span = drop_off.map(|drop_off| (drop_off.at_ms, drop_off.at_ms));
    explain_across(scene, across, estimate, span, ledger);
    explain_up(scene, up, climb, span, ledger);
    Doorstep { right, across, up }
}

fn explain_across(
    scene: &Scene<'_>,
    across: Across,
    estimate: Option<Estimate>,
    span: Span,
    ledger: &mut Ledger,
) {
    let distances = estimate.map(|estimate| scene.offset_from_address(estimate));
    let far = distances.map_or(String::new(), |(distance_m, sigma_m)| {
        format!(" ({distance_m:.0} m from it, with an uncertainty of {sigma_m:.0} m)")
    });
    let (signal, points, text) = match across {
        Across::At => (
            "at_address",
            1.0,
            format!("The drop-off was at the address{far}."),
        ),
        Across::Perhaps => (
            "near_address",
            0.3,
            format!("The drop-off may have been at the address, but the position was poor{far}."),
        ),
        Across::Off => (
            "beside_address",
            -0.5,
            format!("The drop-off was beside the address{far}."),
        ),
        Across::Elsewhere => (
            "elsewhere",
            -1.0,
            format!("The drop-off was at another place than the address{far}."),
        ),
        Across::Unknown => (
            "place_unknown",
            0.0,
            "No drop-off on foot was found whose place is known well enough.".to_owned(),
        ),
    };
    ledger.add(
        "rightDoorstep",
        signal,
        points,
        span,
        words(text, "The address's own position may be off."),
    );
}

fn explain_up(scene: &Scene<'_>, up: Up, climb: &Climb, span: Span, ledger: &mut Ledger) {
    let wanted = scene.input.context.floor.unwrap_or(0);
    let floors = climb.floors.unwrap_or(0);
    let (signal, points, text) = match up {
        Up::Right => (
            "right_floor",
            0.5,
            format!(
                "The drop-off was {floors} floors from the entrance; the address is on floor {wanted}."
            ),
        ),
        Up::Wrong => (
            "wrong_floor",
            -1.0,
            format!(
                "The drop-off was {floors} floors from the entrance, but the address is on floor {wanted}."
            ),
        ),
        Up::Unknown => return,
    };
    ledger.add(
        "rightDoorstep",
        signal,
        points,
        span,
        words(
            text,
            "Buildings count their floors differently, and storeys differ in height.",
        ),
    );
}

/// Whether the door may be told of: positions that are more likely untrue than true are no evidence for it.
pub(crate) fn is_believed(right: bool, fraud_score: f64, ledger: &mut Ledger) -> bool {
    let believed = fraud_score < DOUBT_SCORE;
    if right && !believed {
        let text = "The positions show the right door, but they are in doubt themselves.";
        let explanation =
            "The entries on the fraud score say why, each with its honest explanation.";
        ledger.add(
            "rightDoorstep",
            "positions_in_doubt",
            -2.0,
            None,
            words(text, explanation),
        );
    }
    believed
}
