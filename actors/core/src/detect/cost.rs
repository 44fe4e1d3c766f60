//! The costs of vertical speeds and speeds over ground for the states of the movement track.

use super::frame::KeptFrame;
use super::parameters::evidence::{LEVEL_MPS, LEVEL_SPREAD_MPS, RATE_COST_MAX, STREET_GRADE_MAX};
use super::parameters::runs::{
    CLIMB_GROUND_SPEED_MPS, RATE_ERROR_SHARE, STREET_SPEED_COST, STREET_SPEED_MPS,
    WALK_SPEED_MPS_MAX,
};

/// Returns the cost of a deviation: half of its square in units of `spread`, at most
/// [`RATE_COST_MAX`], or 0 if the deviation is negative. Most deviations are negative, so `spread`
/// is computed only when needed.
pub(super) fn cost(off: f32, spread: impl Fn() -> f32) -> f32 {
    let off = off.max(0.0);
    if off <= 0.0 {
        return 0.0;
    }
    let share = off / spread();
    (0.5 * share * share).min(RATE_COST_MAX)
}

/// Returns the evidence against stairs under the sky if the speed along the path, or else the
/// phone's own speed, is that of a walk, as on a steep street.
pub(super) fn street_cost(frame: &KeptFrame, way_mps: Option<f32>) -> f32 {
    match street_mps(frame) {
        Some(speed_mps) => (STREET_SPEED_COST * (way_mps.unwrap_or(speed_mps) - STREET_SPEED_MPS))
            .clamp(0.0, RATE_COST_MAX),
        None => 0.0,
    }
}

/// Returns the vertical speed up to which a walk is on level ground, in m/s. The limit is higher on
/// a street: there the phone's own speed under the sky is higher than on any stairs, or `way_mps`
/// shows progress.
pub(super) fn level_mps(frame: &KeptFrame, way_mps: Option<f32>) -> f32 {
    let walk_mps = match (way_mps, street_mps(frame)) {
        (Some(way_mps), Some(_)) => way_mps,
        (None, Some(speed_mps)) if speed_mps > CLIMB_GROUND_SPEED_MPS => speed_mps,
        _ => return LEVEL_MPS,
    };
    LEVEL_MPS.max(STREET_GRADE_MAX * walk_mps.min(WALK_SPEED_MPS_MAX))
}

/// Returns the speed over ground if satellites show it under the sky, in m/s.
fn street_mps(frame: &KeptFrame) -> Option<f32> {
    frame
        .speed_mps()
        .filter(|_| frame.sees_sky() && !frame.is_non_satellite())
}

/// Returns [`grade_cost`] if only fixes that are not from satellites show the speed, and 0
/// otherwise. Such fixes jump, so the phone may be in a cabin.
pub(super) fn steep_cost(frame: &KeptFrame, rate: Option<(f32, f32)>, speed_mps: f32) -> f32 {
    grade_cost(rate.filter(|_| frame.is_non_satellite()), speed_mps)
}

/// Returns the evidence against a vehicle if the height changes faster than any street allows at
/// this speed.
pub(super) fn grade_cost(rate: Option<(f32, f32)>, speed_mps: f32) -> f32 {
    match rate {
        Some((rate_mps, error_mps)) => {
            let spread = || {
                let error = RATE_ERROR_SHARE * error_mps * error_mps;
                (LEVEL_SPREAD_MPS * LEVEL_SPREAD_MPS + error).sqrt()
            };
            cost(
                rate_mps.abs() - STREET_GRADE_MAX * speed_mps - LEVEL_MPS,
                spread,
            )
        }
        None => 0.0,
    }
}
