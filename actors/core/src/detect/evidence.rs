//! Computes the evidence of one second for each state of the movement track.

use super::cost::{cost, grade_cost, level_mps, steep_cost, street_cost};
use super::decode::Evidence;
use super::frame::KeptFrame;
use super::parameters::evidence::{
    CARRIED_SPEED_COST, CLIMB_FAST_MPS, CLIMB_SLOW_MPS, CLIMB_SPREAD_MPS, DRIVE_LOG_ODDS_MAX,
    DRIVE_SLOPE, DRIVE_SPEED_MPS, LEVEL_MPS, LEVEL_SPREAD_MPS, RATE_COST_MAX, RIDE_MPS,
    RIDE_SLOW_COST, RIDE_USUAL_MPS, UNMEASURED_RIDE_COST, WALK_LEVEL_SPREAD_MPS,
};
use super::parameters::gait::REST_LOG_ODDS;
use super::parameters::runs::{
    CLIMB_GROUND_SPEED_COST, CLIMB_GROUND_SPEED_MPS, DRIVE_UNSEEN_LOG_ODDS, RATE_ERROR_SHARE,
    WALK_SPEED_MPS_MAX,
};

/// The speeds over ground before a second that still count for it.
pub(super) struct PreviousSpeed {
    /// The newest speed by satellites, which counts against climbing, in m/s; 0 if it is too old.
    pub recent_mps: f32,
    /// The speed along the path of the last half minute, in m/s, on a phone that reports no speed
    /// of its own.
    pub way_mps: Option<f32>,
    /// The newest speed, at which a vehicle may still be moving, in m/s; infinite before the first
    /// speed.
    pub possible_vehicle_mps: f32,
    /// Whether a vehicle may be moving unseen.
    pub may_drive: bool,
}

/// Returns the evidence of one second for each state.
pub(super) fn evidence_of(
    frame: &KeptFrame,
    rate: Option<(f32, f32)>,
    before: &PreviousSpeed,
) -> Evidence {
    let (gait, vehicle, speed_mps) = (frame.gait(), frame.vehicle(), frame.speed_mps());
    // Fixes that are not from satellites jump. If the body shows a gait, they are not evidence for
    // a vehicle.
    let walks = frame.has_body() && gait >= REST_LOG_ODDS;
    // The fixes of a phone without a speed of its own wander behind walls as fast as a walk. If the
    // body shows a gait, only the path over a longer time shows whether the walk leads along a
    // street.
    let way_mps = before.way_mps.filter(|_| walks);
    let drive = match speed_mps {
        Some(_) if frame.is_non_satellite() && walks => 0.0,
        Some(speed_mps) => (DRIVE_SLOPE * (speed_mps - DRIVE_SPEED_MPS))
            .clamp(-DRIVE_LOG_ODDS_MAX, DRIVE_LOG_ODDS_MAX),
        None => 0.0,
    };
    // The cost of the height change for each state: for staying and walking on level ground, for
    // climbing and for riding.
    let ((level_stay, level_walk), climb, ride) = match rate {
        Some((rate_mps, error_mps)) => {
            // In wind or in a pocket the height is noisy, so its slope is weak evidence.
            let rough =
                |spread: f32| (spread * spread + RATE_ERROR_SHARE * error_mps * error_mps).sqrt();
            let level = || rough(LEVEL_SPREAD_MPS);
            let climb = || rough(CLIMB_SPREAD_MPS);
            let walk = || rough(WALK_LEVEL_SPREAD_MPS);
            let rate_mps = rate_mps.abs();
            (
                (
                    cost(rate_mps - LEVEL_MPS, level),
                    cost(rate_mps - level_mps(frame, way_mps), walk),
                ),
                cost(CLIMB_SLOW_MPS - rate_mps, climb) + cost(rate_mps - CLIMB_FAST_MPS, climb),
                cost(RIDE_MPS - rate_mps, climb)
                    + if !frame.has_body() && rate_mps < RIDE_USUAL_MPS {
                        RIDE_SLOW_COST
                    } else {
                        0.0
                    },
            )
        }
        None => match frame.climb() {
            Some(climb) if climb > 0.0 => ((climb, climb), 0.0, UNMEASURED_RIDE_COST),
            _ => ((0.0, 0.0), UNMEASURED_RIDE_COST, UNMEASURED_RIDE_COST),
        },
    };
    let on_foot = -drive.max(0.0);
    // A passenger's body is at rest like that of a person who stays, but only the passenger moves
    // over ground.
    let carried = match speed_mps {
        Some(speed_mps) if frame.is_carried() => {
            (CARRIED_SPEED_COST * (speed_mps - WALK_SPEED_MPS_MAX)).clamp(0.0, RATE_COST_MAX)
        }
        _ => 0.0,
    };
    // On stairs the position hardly changes, as in a cabin. If no body is measured, a constant
    // position is evidence for both.
    let climb_gait = if frame.has_body() { gait } else { -gait };
    let ground_mps = way_mps.unwrap_or(before.recent_mps);
    let over_ground =
        (CLIMB_GROUND_SPEED_COST * (ground_mps - CLIMB_GROUND_SPEED_MPS)).clamp(0.0, RATE_COST_MAX);
    // A vehicle may be on a slope. Without a speed, three observations are evidence against it: a
    // gait, a height that changes faster than on any street at the newest speed, and, without a
    // height, a stride on stairs. Such a stride is as much evidence against a stay.
    let stride = if rate.is_none() { level_stay } else { 0.0 };
    let unseen =
        || DRIVE_UNSEEN_LOG_ODDS + vehicle - grade_cost(rate, before.possible_vehicle_mps) - stride;
    let driving = match speed_mps {
        // If no body is measured, `gait` comes from positions, and positions that change are as
        // much evidence for a vehicle as for a walk.
        Some(speed_mps) if !frame.has_body() => {
            drive + gait.max(0.0) + vehicle - steep_cost(frame, rate, speed_mps)
        }
        Some(speed_mps) => drive + vehicle - steep_cost(frame, rate, speed_mps),
        None if before.may_drive => unseen() - gait,
        None => unseen() - gait.max(0.0),
    };
    [
        -gait - level_stay + on_foot - carried,
        gait - level_walk + on_foot,
        climb_gait - climb + on_foot - over_ground.max(street_cost(frame, way_mps)),
        -gait - ride + on_foot - over_ground.max(carried),
        driving,
    ]
}
