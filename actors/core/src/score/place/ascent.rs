//! Finds the stays that a courier reached by stairs or an elevator.

use porchlight_schema::event::{Direction, EventType, Metadata};

use crate::score::height::rise;
use crate::score::parameters::place::ascent::{SLACK_MS, STOREY_M};
use crate::score::parameters::place::stays::BEFORE_MS;
use crate::score::parameters::place::upstairs::FLOOR_M_MIN;
use crate::score::scoring_context::{Foot, ScoringContext, end_of};

/// Returns whether a stay that begins at `from_ms` is on another floor than the start of its period on
/// foot: the climbs between them add up to at least one storey, and the levels do not contradict. A
/// street that rises is no climb, and each of several climbs lacks its first and last steps.
pub(super) fn is_on_another_floor(scene: &ScoringContext<'_>, foot: Foot, from_ms: u32) -> bool {
    let climbs = scene
        .events(EventType::Stairs)
        .chain(scene.events(EventType::Elevator))
        .filter(|event| {
            event.t_start_ms >= foot.from_ms
                && end_of(event, scene.end_ms) <= from_ms.saturating_add(SLACK_MS)
        });
    let climbed_m: f32 = climbs
        .map(|event| match event.metadata {
            Metadata::Climb {
                direction,
                height_cm,
                ..
            } => {
                // Without a barometer, an elevator shows by its acceleration.
                let metres = height_cm.map_or(STOREY_M, |height_cm| height_cm as f32 / 100.0);
                if direction == Direction::Down {
                    -metres
                } else {
                    metres
                }
            }
            _ => 0.0,
        })
        .sum();
    climbed_m.abs() >= FLOOR_M_MIN && !is_level(scene, foot, from_ms)
}

/// Returns whether the level at `from_ms` is that of the start of the period on foot.
fn is_level(scene: &ScoringContext<'_>, foot: Foot, from_ms: u32) -> bool {
    let now = scene
        .height
        .level(from_ms, from_ms.saturating_add(BEFORE_MS));
    let rise = scene
        .level_before(foot)
        .zip(now)
        .and_then(|(before, now)| rise(before, now));
    rise.is_some_and(|rise| rise.metres.abs() < FLOOR_M_MIN / 2.0)
}
