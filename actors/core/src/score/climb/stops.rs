//! Extracts two more facts about the building from a climb: the heights of intermediate stops, and
//! the number of turns on stairs.

use porchlight_schema::event::{Event, EventType};

use super::climbs;
use crate::score::height::{Level, Rise};
use crate::score::parameters::door::stops::{END_M, LEVEL_M, STOP_SECONDS, STOPS_MAX, TURN_SHARE};
use crate::score::place::Places;
use crate::score::scoring_context::ScoringContext;

/// Returns the heights above the entrance, in metres, at which the path was level between two
/// climbs or at which a ride stopped.
pub(super) fn heights_m(
    ctx: &ScoringContext<'_>,
    places: &Places,
    (from_ms, to_ms): (u32, u32),
    rise: Rise,
) -> Vec<f32> {
    let Some(door) = places
        .door_stay()
        .and_then(|stay| ctx.height.level(stay.from_ms, stay.to_ms))
    else {
        return Vec::new();
    };
    let ground_m = door.height_m - rise.metres;
    let climbs = climbs(ctx, from_ms, to_ms);
    let mut levels: Vec<f32> = Vec::new();
    for pair in climbs.windows(2) {
        let [one, next] = pair else { continue };
        let level = ctx.height.level(ctx.end_of(one), next.t_start_ms);
        levels.extend(level.map(|level| level.height_m));
    }
    for ride in climbs
        .iter()
        .filter(|event| event.event_type == EventType::Elevator)
    {
        levels.extend(ride_stops(
            ctx.height.levels(ride.t_start_ms, ctx.end_of(ride)),
        ));
    }
    levels
        .into_iter()
        .map(|height_m| height_m - ground_m)
        .filter(|above_m| above_m.abs() >= END_M && (above_m - rise.metres).abs() >= END_M)
        .take(STOPS_MAX)
        .collect()
}

/// Returns the levels of a ride at which it stopped on the way.
fn ride_stops(levels: &[Level]) -> Vec<f32> {
    let (Some(first), Some(last)) = (levels.first(), levels.last()) else {
        return Vec::new();
    };
    let mut halts = Vec::new();
    let mut begun = 0;
    for at in 1..=levels.len() {
        let goes_on = levels
            .get(at)
            .zip(levels.get(at - 1))
            .is_some_and(|(now, before)| (now.height_m - before.height_m).abs() < LEVEL_M);
        if goes_on {
            continue;
        }
        let still = levels.get(begun..at).unwrap_or_default();
        if still.len() >= STOP_SECONDS
            && let Some(middle) = still.get(still.len() / 2)
            && (middle.height_m - first.height_m).abs() >= END_M
            && (middle.height_m - last.height_m).abs() >= END_M
        {
            halts.push(middle.height_m);
        }
        begun = at;
    }
    halts
}

/// Returns the number of full turns on the stairs. Returns `None` if one of the climbs is a ride,
/// or the gyroscope sent too little data.
pub(super) fn turns(ctx: &ScoringContext<'_>, climbs: &[&Event]) -> Option<f32> {
    let on_stairs = climbs
        .iter()
        .all(|event| event.event_type == EventType::Stairs);
    if climbs.is_empty() || !on_stairs {
        return None;
    }
    let (mut turned_rad, mut measured, mut seconds) = (0.0_f32, 0_usize, 0_usize);
    for climb in climbs {
        let windows = ctx.windows(climb.t_start_ms, ctx.end_of(climb));
        let yaws = windows.iter().filter_map(|window| window.motion?.yaw_rad);
        let mut own_rad = 0.0_f32;
        for yaw_rad in yaws {
            own_rad += yaw_rad;
            measured += 1;
        }
        turned_rad += own_rad.abs();
        seconds += windows.len();
    }
    (measured as f32 >= TURN_SHARE * seconds as f32).then_some(turned_rad / core::f32::consts::TAU)
}
