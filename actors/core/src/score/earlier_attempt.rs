//! Finds an attempt at the address's door before or after a drop-off at another door.

use super::doorstep::{self, Doorstep, Horizontal, Vertical};
use super::place::Places;
use super::place::stays::Stay;
use super::scoring_context::ScoringContext;
use crate::score::parameters::door::attempts::ATTEMPT_MS_MIN;
use crate::score::parameters::place::stays::SAME_FLOOR_M;

/// Returns the stay at the address's door if the drop-off was at another door, because nobody
/// opened and a neighbour took the parcel. Among several stays it is the one with the most points.
/// A pause that looks like one at a gate is taken only if there is no other stay.
pub(crate) fn earlier_attempt<'p>(
    ctx: &ScoringContext<'_>,
    places: &'p Places,
    doorstep: &Doorstep,
) -> Option<&'p Stay> {
    let door = places.door_stay()?;
    if !matches!(doorstep.horizontal, Horizontal::Off | Horizontal::Elsewhere) {
        return None;
    }
    let is_on_floor = |stay: &Stay| match (doorstep.vertical, door.height_m, stay.height_m) {
        (Vertical::Unknown, ..) => true,
        (Vertical::Right, Some(a), Some(b)) => (a - b).abs() < SAME_FLOOR_M,
        _ => false,
    };
    let is_attempt = |stay: &&Stay| {
        !stay.is_before_ride
            && stay.from_ms != door.from_ms
            && stay.length_ms() >= ATTEMPT_MS_MIN
            && is_on_floor(stay)
            && stay.estimate.is_some_and(|estimate| {
                doorstep::compare_horizontally(ctx, estimate) == Horizontal::At
            })
    };
    let attempts = places.stays.iter().filter(is_attempt);
    attempts.max_by(|a, b| {
        let by_points = a.points.total_cmp(&b.points);
        b.is_passage.cmp(&a.is_passage).then(by_points)
    })
}
