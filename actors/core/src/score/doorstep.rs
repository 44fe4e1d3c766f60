//! Decides whether the drop-off was at the address's door, by its horizontal position and by its
//! floor.

use porchlight_schema::insight::statement;

use super::climb::Climb;
use super::evidence_log::{EvidenceLog, EvidenceText, Span};
use super::place::Places;
use super::position::Estimate;
use super::scoring_context::ScoringContext;
use crate::floors::{Estimate as FloorEstimate, FloorMatch};
use crate::score::parameters::door::doorstep::{
    ACROSS_M_MIN, ACROSS_SIGMAS, DOUBT_SCORE, FULL_SIGMA_M, LEARNED_WEIGHT_MIN, RIGHT_SIGMA_M,
    WRONG_M_MIN, WRONG_SIGMAS,
};
use crate::score::parameters::weights::doorstep as weights;

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

/// The floor of the drop-off relative to the floor of the address.
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

/// The position of the drop-off relative to the address, and the verdict on the door.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Doorstep {
    /// Whether the drop-off was at the address's door.
    pub(crate) is_right: bool,
    pub(crate) horizontal: Horizontal,
    pub(crate) vertical: Vertical,
}

/// Compares `estimate` with the address, and with the drop-off point learned from earlier sessions.
pub(crate) fn compare_horizontally(ctx: &ScoringContext<'_>, estimate: Estimate) -> Horizontal {
    let (distance_m, sigma_m) = ctx.offset_from_address(estimate);
    let learned = ctx
        .input
        .known
        .drop_off
        .filter(|learned| learned.weight >= LEARNED_WEIGHT_MIN);
    let learned_m = learned.map(|learned| {
        let place = ctx.input.context.frame.place(learned.point);
        let sigma_m =
            (estimate.sigma_m * estimate.sigma_m + learned.sigma_m * learned.sigma_m).sqrt();
        (estimate.place.distance_m(place), sigma_m)
    });
    let within = |(distance_m, sigma_m): (f32, f32)| {
        distance_m <= (ACROSS_SIGMAS * sigma_m).max(ACROSS_M_MIN)
    };
    if within((distance_m, sigma_m)) || learned_m.is_some_and(within) {
        return match estimate.sigma_m {
            sigma_m if sigma_m <= RIGHT_SIGMA_M => Horizontal::At,
            sigma_m if sigma_m <= FULL_SIGMA_M => Horizontal::Perhaps,
            _ => Horizontal::Unknown,
        };
    }
    if distance_m >= WRONG_M_MIN && distance_m > WRONG_SIGMAS * sigma_m {
        return Horizontal::Elsewhere;
    }
    Horizontal::Off
}

/// Compares the climb with the address's floor, and returns the probability of that floor, 0 to 1.
/// Floor 0 is the level of the entrance. The address's own claim of a floor is not evidence for
/// that floor.
fn compare_vertically(ctx: &ScoringContext<'_>, climb: &Climb) -> (Vertical, f64) {
    let Some(address_floor) = ctx.input.context.floor else {
        return (Vertical::Unknown, 0.0);
    };
    let verdict = climb
        .estimate
        .as_ref()
        .map(|one| compare_floor(one, address_floor));
    let street = climb.from_street.as_ref();
    match (
        verdict,
        street.map(|street| compare_floor(&street.estimate, address_floor)),
    ) {
        // The floor is counted from the street, or in some buildings from the garage below it.
        (_, Some(street)) if street.0 == Vertical::Right => street,
        (Some((Vertical::Wrong, _)), Some(street)) => street,
        (Some((_, probability)), Some(_)) => (Vertical::Unclear, probability),
        (Some((Vertical::Wrong, probability)), None)
            if climb.is_doubted || is_doubtful(climb, address_floor) =>
        {
            (Vertical::Unclear, probability)
        }
        (Some(verdict), None) => verdict,
        // The measured height does not occur in any building.
        (None, _) if climb.rise.is_some() => (Vertical::Unclear, 0.0),
        (None, _) => (Vertical::Unknown, 0.0),
    }
}

/// Returns whether the part of the climb that was not detected may have led to this floor.
fn is_doubtful(climb: &Climb, address_floor: i16) -> bool {
    let doubtful = climb.doubtful.as_ref();
    doubtful.is_some_and(|floors| floors.contains(&address_floor))
}

/// Compares an estimated floor with the address's floor, and returns its probability.
fn compare_floor(estimate: &FloorEstimate, address_floor: i16) -> (Vertical, f64) {
    let (verdict, probability) = estimate.compare(address_floor);
    let vertical = match verdict {
        FloorMatch::Right => Vertical::Right,
        FloorMatch::Wrong => Vertical::Wrong,
        FloorMatch::Unclear => Vertical::Unclear,
    };
    (vertical, probability)
}

/// Judges whether the drop-off was at the address's door, and adds the evidence.
pub(crate) fn judge(
    ctx: &ScoringContext<'_>,
    places: &Places,
    climb: &Climb,
    evidence: &mut EvidenceLog,
) -> Doorstep {
    let drop_off = places.drop_off.filter(|drop_off| drop_off.is_on_foot);
    let estimate = drop_off.and_then(|drop_off| drop_off.estimate);
    let horizontal = estimate.map_or(Horizontal::Unknown, |estimate| {
        compare_horizontally(ctx, estimate)
    });
    let (vertical, probability) = match drop_off {
        Some(_) => compare_vertically(ctx, climb),
        None => (Vertical::Unknown, 0.0),
    };
    let is_right =
        horizontal == Horizontal::At && matches!(vertical, Vertical::Right | Vertical::Unknown);
    let span = drop_off.map(|drop_off| (drop_off.at_ms, drop_off.at_ms));
    explain_horizontal(ctx, horizontal, estimate, span, evidence);
    explain_vertical(ctx, (vertical, probability), climb, span, evidence);
    Doorstep {
        is_right,
        horizontal,
        vertical,
    }
}

fn explain_horizontal(
    ctx: &ScoringContext<'_>,
    horizontal: Horizontal,
    estimate: Option<Estimate>,
    span: Span,
    evidence: &mut EvidenceLog,
) {
    let distances = estimate.map(|estimate| ctx.offset_from_address(estimate));
    let far = distances.map_or(String::new(), |(distance_m, sigma_m)| {
        format!(" ({distance_m:.0} m from it, with an uncertainty of {sigma_m:.0} m)")
    });
    let (signal, points, text) = match horizontal {
        Horizontal::At => (
            statement::AT_ADDRESS,
            weights::AT,
            format!("The drop-off was at the address{far}."),
        ),
        Horizontal::Perhaps => (
            statement::NEAR_ADDRESS,
            weights::PERHAPS,
            format!("The drop-off may have been at the address, but the position was poor{far}."),
        ),
        Horizontal::Off => (
            statement::BESIDE_ADDRESS,
            weights::BESIDE,
            format!("The drop-off was near the address, but not at the address{far}."),
        ),
        Horizontal::Elsewhere => (
            statement::ELSEWHERE,
            weights::ELSEWHERE,
            format!("The drop-off was not at the address{far}."),
        ),
        Horizontal::Unknown => (
            statement::PLACE_UNKNOWN,
            weights::UNKNOWN,
            "No drop-off on foot with a sufficiently accurate position was found.".to_owned(),
        ),
    };
    evidence.add(
        statement::RIGHT_DOORSTEP,
        signal,
        points,
        span,
        EvidenceText::new(text, "The position of the address may be off."),
    );
}

fn explain_vertical(
    ctx: &ScoringContext<'_>,
    (vertical, probability): (Vertical, f64),
    climb: &Climb,
    span: Span,
    evidence: &mut EvidenceLog,
) {
    let Some(address_floor) = ctx.input.context.floor else {
        return;
    };
    let street = climb.from_street.as_ref();
    let found = street.map(|street| street.estimate.best()).or(climb.floors);
    let found = found.unwrap_or(0);
    let percent = (probability * 100.0).round();
    let (signal, points, text) = match vertical {
        Vertical::Right => (
            "right_floor",
            weights::RIGHT_FLOOR,
            format!(
                "The address is on floor {address_floor}, and the measured height fits that floor clearly better than any other ({percent:.0} %)."
            ),
        ),
        Vertical::Wrong => (
            "wrong_floor",
            weights::WRONG_FLOOR,
            format!(
                "The address is on floor {address_floor}, but the measured height is that of floor {found} ({percent:.0} % for floor {address_floor})."
            ),
        ),
        Vertical::Unclear => (
            "floor_unclear",
            weights::UNCLEAR_FLOOR,
            format!(
                "The address is on floor {address_floor}, but the measured height may as well be that of another floor ({percent:.0} % for floor {address_floor})."
            ),
        ),
        Vertical::Unknown => return,
    };
    let explanation = "Buildings number their floors differently, and storeys differ in height.";
    evidence.add(
        statement::RIGHT_DOORSTEP,
        signal,
        points,
        span,
        EvidenceText::new(text + &floor_difference(climb), explanation),
    );
}

/// Returns a sentence that explains why the floor differs from the floors climbed, or an empty
/// text.
fn floor_difference(climb: &Climb) -> String {
    match (&climb.from_street, climb.rise) {
        (Some(street), Some(rise)) => format!(
            " The vehicle was parked {:.1} m below the street, from which the floors are counted.",
            rise.metres - street.rise.metres
        ),
        _ if climb.doubtful.is_some() => {
            " A part of the climb was too slow to be detected as stairs.".to_owned()
        }
        _ if climb.is_doubted => " The rest of the way on foot contradicts that height.".to_owned(),
        _ => String::new(),
    }
}

impl Doorstep {
    /// Withdraws the right door, with evidence, if the fraud score puts the positions in doubt.
    pub(crate) fn withdraw_if_in_doubt(&mut self, fraud_score: f64, evidence: &mut EvidenceLog) {
        if !self.is_right || fraud_score < DOUBT_SCORE {
            return;
        }
        self.is_right = false;
        let text = "The positions show the right door, but the positions themselves are in doubt.";
        let explanation =
            "The evidence of the fraud score says why, with the innocent explanations.";
        evidence.add(
            statement::RIGHT_DOORSTEP,
            "positions_in_doubt",
            weights::POSITIONS_IN_DOUBT,
            None,
            EvidenceText::new(text, explanation),
        );
    }
}
