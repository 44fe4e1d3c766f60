//! Measures the rise from the entrance to the drop-off: finds the level of the ground.

use porchlight_schema::event::Event;

use super::{climbs, leap, signed_height_m};
use crate::score::height::{Level, Rise, rise};
use crate::score::parameters::door::climb::{
    AGREE_M, DOOR_MS, FOOT_MS, GROUND_MS, HALL_MS, INSTANT_MS, STEEP_M, STEEP_MS, UNEXPLAINED_M,
};
use crate::score::place::Places;
use crate::score::scoring_context::{Foot, ScoringContext, end_of, overlap_ms};

/// Measures the rise by pressure. With an entrance it is the difference of the two levels, as long
/// as the climbs between them agree. Otherwise only the climbs count, because a street may rise
/// too.
pub(super) fn measured(
    scene: &ScoringContext<'_>,
    places: &Places,
    (from_ms, to_ms): (u32, u32),
    foot: Foot,
) -> Option<Rise> {
    let door = places.door().map_or(
        (
            to_ms.saturating_sub(INSTANT_MS),
            to_ms.saturating_add(INSTANT_MS),
        ),
        |stay| (stay.from_ms, stay.to_ms),
    );
    let door_level = scene.height.level(door.0, door.1)?;
    let climbs = climbs(scene, from_ms, to_ms);
    let first_climb_ms = climbs.first().map_or(to_ms, |event| event.t_start_ms);
    let ground = ground(scene, places, (from_ms, first_climb_ms), foot, &climbs);
    let by_levels = ground.and_then(|ground| rise(ground, door_level));
    let by_climbs = climbs
        .iter()
        .try_fold(0.0, |sum, event| Some(sum + signed_height_m(event)?));
    let is_timed = places.entrance.is_some_and(|entrance| entrance.is_timed());
    match (by_levels, by_climbs) {
        // No climb was detected: the shares of climb and street in the difference are unknown.
        (Some(levels), Some(climbed))
            if places.entrance.is_none()
                && (levels.metres - climbed).abs() > UNEXPLAINED_M
                && is_steep(scene, (from_ms, to_ms)) =>
        {
            None
        }
        (Some(levels), Some(climbed)) if places.entrance.is_none() => Some(Rise {
            metres: climbed,
            sigma_m: levels.sigma_m,
        }),
        (Some(levels), Some(climbed)) if (levels.metres - climbed).abs() <= AGREE_M => Some(levels),
        // They disagree: if the entrance is known by more than the climb itself, the levels are
        // more reliable.
        (Some(levels), Some(climbed)) => Some(if is_timed {
            levels
        } else {
            Rise {
                metres: climbed,
                ..levels
            }
        }),
        (levels, None) => levels,
        (None, Some(_)) => None,
    }
}

/// Returns the level of the ground, where the climb begins at `begun_ms`.
fn ground(
    scene: &ScoringContext<'_>,
    places: &Places,
    (from_ms, begun_ms): (u32, u32),
    foot: Foot,
    climbs: &[&Event],
) -> Option<Level> {
    let entrance = places.entrance.filter(|entrance| entrance.is_timed());
    // Indoor air pressure differs from that of the street: after some seconds in the hall, the
    // hall's level counts.
    let hall = || {
        let entrance = entrance.filter(|_| !climbs.is_empty())?;
        let from_ms = entrance.at_ms.saturating_add(DOOR_MS);
        scene
            .height
            .level(from_ms, begun_ms.saturating_sub(FOOT_MS))
    };
    // Without a climb nothing separates the hall from a floor that was reached unnoticed, except
    // that the pressure leaps at a door.
    let behind_door = || {
        let inside_ms = leap::inside_ms(scene, entrance?.at_ms, begun_ms)?;
        let to_ms = inside_ms.saturating_add(HALL_MS);
        scene.height.level(inside_ms, to_ms)
    };
    let street = || {
        let from_ground_ms = from_ms
            .saturating_sub(GROUND_MS)
            .max(foot.from_ms.saturating_sub(GROUND_MS));
        let to_ms = from_ms
            .saturating_add(HALL_MS)
            .min(begun_ms.max(from_ms.saturating_add(1_000)));
        scene.height.level(from_ground_ms, to_ms)
    };
    hall().or_else(behind_door).or_else(street)
}

/// Returns whether the level changes faster than on a street, outside of any detected climb.
fn is_steep(scene: &ScoringContext<'_>, (from_ms, to_ms): (u32, u32)) -> bool {
    let seen = climbs(scene, from_ms, to_ms);
    let mut at_ms = from_ms;
    while at_ms < to_ms {
        let span = (at_ms, at_ms.saturating_add(STEEP_MS).min(to_ms));
        let is_seen = seen
            .iter()
            .any(|event| overlap_ms((event.t_start_ms, end_of(event, scene.end_ms)), span) > 0);
        let levels = scene.height.levels(span.0, span.1);
        if let (Some(first), Some(last)) = (levels.first(), levels.last())
            && !is_seen
            && (last.height_m - first.height_m).abs() > STEEP_M
        {
            return true;
        }
        at_ms = at_ms.saturating_add(STEEP_MS / 2);
    }
    false
}
