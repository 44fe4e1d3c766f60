//! Finds the part of a climb that was too slow to be detected.
//!
//! A courier who carries a heavy parcel up the stairs rests on each step, so the first flights look
//! like a walk. But no street rises that much over such a short distance.

use porchlight_schema::event::{Direction, Event, Metadata};

use super::leap;
use crate::score::parameters::door::lost::{
    BLOCK_MS, EDGE_MS, GRADE, LOST_M_MIN, PACE_MPS, RISE_MPS, SPEEDS_MIN,
};
use crate::score::parameters::place::scene::ANCHOR_ACCURACY_M;
use crate::score::scoring_context::{FootPeriod, ScoringContext};

/// The part of a climb before the first detected event.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct UndetectedClimb {
    pub(super) from_ms: u32,
    /// The rise of the part, negative for down.
    pub(super) metres: f32,
}

/// Returns the undetected part of a climb before its first detected event, in the same direction.
pub(super) fn undetected_before(
    ctx: &ScoringContext<'_>,
    foot: FootPeriod,
    first: &Event,
) -> Option<UndetectedClimb> {
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
            .filter(|&earlier_ms| is_climbed(ctx, (earlier_ms, from_ms), sign))
        {
            from_ms = earlier_ms;
        }
    }
    let metres = rise_m(ctx, (from_ms, first.t_start_ms))?;
    (sign * metres >= LOST_M_MIN).then_some(UndetectedClimb { from_ms, metres })
}

/// Returns the rise between two instants.
fn rise_m(ctx: &ScoringContext<'_>, (from_ms, to_ms): (u32, u32)) -> Option<f32> {
    let level = |t_ms: u32| {
        let span = (t_ms.saturating_sub(EDGE_MS), t_ms.saturating_add(EDGE_MS));
        Some(ctx.height.level(span.0, span.1)?.height_m)
    };
    Some(level(to_ms)? - level(from_ms)?)
}

/// Returns whether the courier climbed in the direction of `sign`: slowly, and too steeply for a
/// street. A leap of the pressure is a door.
fn is_climbed(ctx: &ScoringContext<'_>, (from_ms, to_ms): (u32, u32), sign: f32) -> bool {
    let span = (from_ms, to_ms);
    let sec = (to_ms - from_ms) as f32 / 1_000.0;
    let (by_speed, by_steps) = (by_speed_m(ctx, span), by_steps_m(ctx, span));
    let is_measured = by_speed.is_some() || by_steps.is_some();
    let is_slow = |way_m: f32| way_m <= PACE_MPS * sec;
    // On stairs a step leads less far than on the level, so only the speed shows how steep it is.
    let least_m = (RISE_MPS * sec).max(GRADE * by_speed.unwrap_or(0.0));
    is_measured
        && by_speed.is_none_or(is_slow)
        && by_steps.is_none_or(is_slow)
        && rise_m(ctx, span).is_some_and(|rise_m| sign * rise_m >= least_m)
        && leap::inside_door_ms(ctx, from_ms / 2 + to_ms / 2, to_ms).is_none()
}

/// Returns the length of the path by the receiver's speed, metres.
fn by_speed_m(ctx: &ScoringContext<'_>, (from_ms, to_ms): (u32, u32)) -> Option<f32> {
    let speeds: Vec<f32> = ctx
        .fixes(from_ms, to_ms)
        .iter()
        .filter(|fix| fix.accuracy_m <= ANCHOR_ACCURACY_M)
        .filter_map(|fix| fix.speed_mps)
        .collect();
    let mean_mps = speeds.iter().sum::<f32>() / speeds.len() as f32;
    let sec = (to_ms - from_ms) as f32 / 1_000.0;
    (speeds.len() >= SPEEDS_MIN).then_some(sec * mean_mps)
}

/// Returns the length of the path by the steps, metres, as if each was on level ground.
fn by_steps_m(ctx: &ScoringContext<'_>, (from_ms, to_ms): (u32, u32)) -> Option<f32> {
    let mut windows = ctx.windows(from_ms, to_ms).iter();
    let is_measured = windows.any(|window| {
        let cadence = window.motion.and_then(|motion| motion.cadence_hz);
        window.steps.is_some() || cadence.is_some()
    });
    is_measured.then(|| ctx.walked_m(from_ms, to_ms)).flatten()
}
