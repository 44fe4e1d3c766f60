//! Finds an attempt at the address's door before or after a drop-off at another one.

use super::doorstep::{self, Doorstep, Horizontal, Vertical};
use super::place::Places;
use super::place::stays::Stay;
use super::scoring_context::ScoringContext;
use crate::score::parameters::door::attempts::ATTEMPT_LEAST_MS;
use crate::score::parameters::place::stays::SAME_FLOOR_M;

/// Returns the stay at the address's door if the drop-off was at another one: nobody opened, and a neighbour took the
/// parcel. Among several it is the one that looks most like a stay at a door; a pause that resembles one at a gate counts only
/// if there is no other, because a gate at the address leads to its door.
pub(crate) fn earlier_attempt<'p>(
    scene: &ScoringContext<'_>,
    places: &'p Places,
    doorstep: &Doorstep,
) -> Option<&'p Stay> {
    let door = places.door()?;
    if !matches!(doorstep.across, Horizontal::Off | Horizontal::Elsewhere) {
        return None;
    }
    let is_on_floor = |stay: &Stay| match (doorstep.up, door.height_m, stay.height_m) {
        (Vertical::Unknown, ..) => true,
        (Vertical::Right, Some(a), Some(b)) => (a - b).abs() < SAME_FLOOR_M,
        _ => false,
    };
    let is_attempt = |stay: &&Stay| {
        !stay.before_ride
            && stay.from_ms != door.from_ms
            && stay.length_ms() >= ATTEMPT_LEAST_MS
            && is_on_floor(stay)
            && stay
                .estimate
                .is_some_and(|estimate| doorstep::across(scene, estimate) == Horizontal::At)
    };
    let attempts = places.stays.iter().filter(is_attempt);
    attempts.max_by(|a, b| {
        let by_points = a.points.total_cmp(&b.points);
        b.passage.cmp(&a.passage).then(by_points)
    })
}
