//! Finds the beginning of a climb that was too slow to be detected.
//!
//! Whoever carries a heavy parcel up the stairs rests on each step, and the first flights look like
//! a walk. But no street rises by so much over so short a way.

use porchlight_schema::event::{Direction, Event, Metadata};

use super::leap;
use crate::score::parameters::door::lost::{
    BLOCK_MS, EDGE_MS, GRADE, METRES_LEAST, PACE_MPS, RISE_MPS, SPEEDS_LEAST,
};
use crate::score::parameters::place::scene::ANCHOR_ACCURACY_M;
use crate::score::scoring_context::{Foot, ScoringContext};

/// The part of a climb that was not detected.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Lost {
    pub(super) from_ms: u32,
    /// Its rise, negative for down.
    pub(super) metres: f32,
}

/// Returns the part of a climb that leads to the first detected one, in the same direction.
pub(super) fn before(scene: &ScoringContext<'_>, foot: Foot, first: &Event) -> Option<Lost> {
    let Metadata::Climb { direction, .. } = first.metadata else {
        return None;
    };
    let sign = if direction == Direction::Down {
        -1.0
    } else {
        1.0
    };
    let mut from_ms = first.t_start_ms;
    for part_ms in [BLOCK_MS, BLOCK_MS / 2] {
        while let Some(earlier_ms) = from_ms
            .checked_sub(part_ms)
            .filter(|&earlier_ms| earlier_ms >= foot.from_ms)
            .filter(|&earlier_ms| is_climbed(scene, (earlier_ms, from_ms), sign))
        {
            from_ms = earlier_ms;
        }
    }
    let metres = rise_m(scene, (from_ms, first.t_start_ms))?;
    (sign * metres >= METRES_LEAST).then_some(Lost { from_ms, metres })
}

/// Returns the rise between two instants.
fn rise_m(scene: &ScoringContext<'_>, (from_ms, to_ms): (u32, u32)) -> Option<f32> {
    let level = |t_ms: u32| {
        let span = (t_ms.saturating_sub(EDGE_MS), t_ms.saturating_add(EDGE_MS));
        Some(scene.height.level(span.0, span.1)?.height_m)
    };
    Some(level(to_ms)? - level(from_ms)?)
}

/// Returns whether the courier climbed in the direction of `sign`: slowly, and too steeply for a
/// street. A leap of the pressure is a door.
fn is_climbed(scene: &ScoringContext<'_>, (from_ms, to_ms): (u32, u32), sign: f32) -> bool {
    let sec = (to_ms - from_ms) as f32 / 1_000.0;
    let climbed = rise_m(scene, (from_ms, to_ms)).zip(way_m(scene, (from_ms, to_ms)));
    climbed.is_some_and(|(rise_m, way_m)| {
        way_m <= PACE_MPS * sec && sign * rise_m >= (RISE_MPS * sec).max(GRADE * way_m)
    }) && leap::inside_ms(scene, from_ms / 2 + to_ms / 2, to_ms).is_none()
}

/// Returns the length of a way in metres: the longer one of those by the receiver's speed and by the
/// steps. Returns `None` if neither was measured.
fn way_m(scene: &ScoringContext<'_>, (from_ms, to_ms): (u32, u32)) -> Option<f32> {
    let sec = (to_ms - from_ms) as f32 / 1_000.0;
    let speeds: Vec<f32> = scene
        .fixes(from_ms, to_ms)
        .iter()
        .filter(|fix| fix.accuracy_m <= ANCHOR_ACCURACY_M)
        .filter_map(|fix| fix.speed_mps)
        .collect();
    let by_speed = (speeds.len() >= SPEEDS_LEAST)
        .then(|| sec * speeds.iter().sum::<f32>() / speeds.len() as f32);
    let windows = scene.windows(from_ms, to_ms);
    let is_stepped = windows.iter().any(|window| {
        let cadence = window.motion.and_then(|motion| motion.cadence_hz);
        window.steps.is_some() || cadence.is_some()
    });
    let by_steps = is_stepped.then(|| scene.walked_m(from_ms, to_ms)).flatten();
    match (by_speed, by_steps) {
        (Some(by_speed), Some(by_steps)) => Some(by_speed.max(by_steps)),
        (by_speed, by_steps) => by_speed.or(by_steps),
    }
}
