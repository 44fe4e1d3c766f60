//! Determines whether a phone shakes more while its receiver is fast than while it stands, as in a
//! vehicle. A phone on a table has the same noise at any position.

use crate::score::parameters::fraud::body::{
    GOOD_ACCURACY_M, ROAD_MPS, STANDS_MPS, VIBRATION_RATIO, VIBRATION_SEC_MIN,
};
use crate::score::scoring_context::median;
use crate::window::Window;

/// Returns whether the acceleration spreads more at the speed of a vehicle than at a standstill.
pub(super) fn follows_speed(windows: &[Window]) -> bool {
    let at = |is_it: &dyn Fn(f32) -> bool| {
        let mut spreads: Vec<f32> = windows
            .iter()
            .filter(|window| reported_mps(window).is_some_and(is_it))
            .filter_map(|window| Some(window.motion?.accel_std))
            .collect();
        let is_enough = spreads.len() >= VIBRATION_SEC_MIN;
        median(&mut spreads).filter(|_| is_enough)
    };
    match (at(&|mps| mps <= STANDS_MPS), at(&|mps| mps >= ROAD_MPS)) {
        (Some(standing), Some(driving)) => driving >= VIBRATION_RATIO * standing,
        _ => false,
    }
}

/// Returns the speed that the receiver reports in a second with good reception.
fn reported_mps(window: &Window) -> Option<f32> {
    let fix = window.fixes().last()?;
    let is_good = fix.accuracy_known && fix.accuracy_m <= GOOD_ACCURACY_M;
    fix.speed_mps.filter(|_| is_good)
}
