//! Decides whether the drop-off was at the address's door, horizontally and vertically.

use super::climb::Climb;
use super::evidence_log::{EvidenceLog, Span, words};
use super::place::Places;
use super::position::Estimate;
use super::scoring_context::ScoringContext;
use crate::floors::{Estimate as FloorEstimate, FloorMatch};
use crate::score::parameters::door::doorstep::{
    ACROSS_LEAST_M, ACROSS_SIGMAS, DOUBT_SCORE, FULL_SIGMA_M, LEARNED_WEIGHT_LEAST, RIGHT_SIGMA_M,
    WRONG_LEAST_M, WRONG_SIGMAS,
};

/// The horizontal position of a stay relative to the address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Horizontal {
    /// The stay is at the address, by a sufficiently accurate position.
    At,
    /// The stay may be at the address, but the position is poor.
    Perhaps,
    /// The stay is neither at the address nor certainly elsewhere.
    Off,
    /// The stay is at another address.
    Elsewhere,
    /// The position is unknown.
    Unknown,
}

/// The drop-off's floor relative to the address's floor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Vertical {
    /// The drop-off was on the address's floor.
    Right,
    /// The floors differ.
    Wrong,
    /// The floor may be the same or an adjacent one.
    Unclear,
    /// The address has no floor, or height was not measured.
    Unknown,
}

/// The drop-off relative to the address.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Doorstep {
    pub(crate) right: bool,
    pub(crate) across: Horizontal,
    pub(crate) up: Vertical,
}

/// Compares `estimate` with the address, and with the drop-off point learned from earlier sessions.
pub(crate) fn across(scene: &ScoringContext<'_>, estimate: Estimate) -> Horizontal {
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
            sigma_m if sigma_m <= RIGHT_SIGMA_M => Horizontal::At,
            sigma_m if sigma_m <= FULL_SIGMA_M => Horizontal::Perhaps,
            _ => Horizontal::Unknown,
        };
    }
    if distance_m >= WRONG_LEAST_M && distance_m > WRONG_SIGMAS * sigma_m {
        return Horizontal::Elsewhere;
    }
    Horizontal::Off
}

/// Compares the climb with the address's floor, and returns the probability of that floor against
/// all others. Basements and upper floors are treated alike: 0 is the entrance's level. The address
/// naming a floor is not evidence for it.
fn up(scene: &ScoringContext<'_>, climb: &Climb) -> (Vertical, f64) {
    let Some(told) = scene.input.context.floor else {
        return (Vertical::Unknown, 0.0);
    };
    let verdict = climb.estimate.as_ref().map(|one| compared(one, told));
    let street = climb.from_street.as_ref();
    match (
        verdict,
        street.map(|street| compared(&street.estimate, told)),
    ) {
        // From a garage, the floor is that above the street. Some buildings count from the garage.
        (_, Some(street)) if street.0 == Vertical::Right => street,
        (Some((Vertical::Wrong, _)), Some(street)) => street,
        (Some((_, probability)), Some(_)) => (Vertical::Unclear, probability),
        (Some((Vertical::Wrong, probability)), None) if is_doubtful(climb, told) => {
            (Vertical::Unclear, probability)
        }
        (Some(verdict), None) => verdict,
        // The measured height does not occur in any building.
        (None, _) if climb.rise.is_some() => (Vertical::Unclear, 0.0),
        (None, _) => (Vertical::Unknown, 0.0),
    }
}

/// Returns whether a part of the climb was lost that may have led to this floor.
fn is_doubtful(climb: &Climb, told: i16) -> bool {
    let doubtful = climb.doubtful.as_ref();
    doubtful.is_some_and(|floors| floors.contains(&told))
}

fn compared(estimate: &FloorEstimate, told: i16) -> (Vertical, f64) {
    let (verdict, probability) = estimate.compare(told);
    let up = match verdict {
        FloorMatch::Right => Vertical::Right,
        FloorMatch::Wrong => Vertical::Wrong,
        FloorMatch::Unclear => Vertical::Unclear,
    };
    (up, probability)
}

pub(crate) fn judge(
    scene: &ScoringContext<'_>,
    places: &Places,
    climb: &Climb,
    ledger: &mut EvidenceLog,
) -> Doorstep {
    let drop_off = places.drop_off.filter(|drop_off| drop_off.on_foot);
    let estimate = drop_off.and_then(|drop_off| drop_off.estimate);
    let across = estimate.map_or(Horizontal::Unknown, |estimate| across(scene, estimate));
    let (up, probability) = match drop_off {
        Some(_) => up(scene, climb),
        None => (Vertical::Unknown, 0.0),
    };
    let right = across == Horizontal::At && matches!(up, Vertical::Right | Vertical::Unknown);
    let span = drop_off.map(|drop_off| (drop_off.at_ms, drop_off.at_ms));
    explain_across(scene, across, estimate, span, ledger);
    explain_up(scene, (up, probability), climb, span, ledger);
    Doorstep { right, across, up }
}

fn explain_across(
    scene: &ScoringContext<'_>,
    across: Horizontal,
    estimate: Option<Estimate>,
    span: Span,
    ledger: &mut EvidenceLog,
) {
    let distances = estimate.map(|estimate| scene.offset_from_address(estimate));
    let far = distances.map_or(String::new(), |(distance_m, sigma_m)| {
        format!(" ({distance_m:.0} m from it, with an uncertainty of {sigma_m:.0} m)")
    });
    let (signal, points, text) = match across {
        Horizontal::At => (
            "at_address",
            1.0,
            format!("The drop-off was at the address{far}."),
        ),
        Horizontal::Perhaps => (
            "near_address",
            0.3,
            format!("The drop-off may have been at the address, but the position was poor{far}."),
        ),
        Horizontal::Off => (
            "beside_address",
            -0.5,
            format!("The drop-off was near the address, but not at the address{far}."),
        ),
        Horizontal::Elsewhere => (
            "elsewhere",
            -1.0,
            format!("The drop-off was not at the address{far}."),
        ),
        Horizontal::Unknown => (
            "place_unknown",
            0.0,
            "No drop-off on foot with a sufficiently accurate position was found.".to_owned(),
        ),
    };
    ledger.add(
        "rightDoorstep",
        signal,
        points,
        span,
        words(text, "The position of the address may be off."),
    );
}

fn explain_up(
    scene: &ScoringContext<'_>,
    (up, probability): (Vertical, f64),
    climb: &Climb,
    span: Span,
    ledger: &mut EvidenceLog,
) {
    let Some(told) = scene.input.context.floor else {
        return;
    };
    let street = climb.from_street.as_ref();
    let found = street.map(|street| street.estimate.best()).or(climb.floors);
    let found = found.unwrap_or(0);
    let percent = (probability * 100.0).round();
    let (signal, points, text) = match up {
        Vertical::Right => (
            "right_floor",
            0.5,
            format!(
                "The address is on floor {told}, and the measured height fits that floor clearly better than any other ({percent:.0} %)."
            ),
        ),
        Vertical::Wrong => (
            "wrong_floor",
            -1.0,
            format!(
                "The address is on floor {told}, but the measured height is that of floor {found} ({percent:.0} % for floor {told})."
            ),
        ),
        Vertical::Unclear => (
            "floor_unclear",
            -0.5,
            format!(
                "The address is on floor {told}, but the measured height may as well be that of another floor ({percent:.0} % for floor {told})."
            ),
        ),
        Vertical::Unknown => return,
    };
    let explanation = "Buildings number their floors differently, and storeys differ in height.";
    ledger.add(
        "rightDoorstep",
        signal,
        points,
        span,
        words(text + &note(climb), explanation),
    );
}

/// Returns a sentence that explains the difference between the floor and the floors climbed, if
/// there is one.
fn note(climb: &Climb) -> String {
    match (&climb.from_street, climb.rise) {
        (Some(street), Some(rise)) => format!(
            " The vehicle was parked {:.1} m below the street, from which the floors are counted.",
            rise.metres - street.rise.metres
        ),
        _ if climb.doubtful.is_some() => {
            " A part of the climb was too slow to be detected as stairs.".to_owned()
        }
        _ => String::new(),
    }
}

/// Returns whether the door may be reported: positions that are more likely false than true are no
/// evidence for it.
pub(crate) fn is_believed(right: bool, fraud_score: f64, ledger: &mut EvidenceLog) -> bool {
    let believed = fraud_score < DOUBT_SCORE;
    if right && !believed {
        let text = "The positions show the right door, but the positions themselves are in doubt.";
        let explanation =
            "The evidence of the fraud score says why, with the innocent explanations.";
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
