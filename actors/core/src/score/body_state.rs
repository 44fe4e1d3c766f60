//! Determines from the data of one second whether the body walks.

use crate::score::parameters::place::scene::{GAIT_HZ, STILL_ACCEL_STD};
use crate::window::{BodyMotion, Window};

/// The activity of the body in one second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodyState {
    /// The body walks.
    Moving,
    /// The body does not walk.
    Still,
    /// The phone sent too little to distinguish the two.
    Unknown,
}

/// Returns the body's activity in `window`, as far as the phone shows it.
pub(crate) fn body_state(window: &Window) -> BodyState {
    let by_acceleration = window.motion.as_ref().map(state_by_acceleration);
    match (by_acceleration, window.steps) {
        // A counter is late, so a clear acceleration wins over it.
        (Some(BodyState::Still), _) => BodyState::Still,
        (Some(BodyState::Moving), _) | (_, Some(1..)) => BodyState::Moving,
        (None, Some(0)) => BodyState::Still,
        (Some(BodyState::Unknown) | None, _) => BodyState::Unknown,
    }
}

/// Returns the body's activity as far as acceleration alone shows it.
pub(crate) fn state_by_acceleration(motion: &BodyMotion) -> BodyState {
    if motion
        .cadence_hz
        .is_some_and(|cadence_hz| cadence_hz >= GAIT_HZ)
    {
        BodyState::Moving
    } else if motion.accel_std < STILL_ACCEL_STD {
        BodyState::Still
    } else {
        BodyState::Unknown
    }
}
