//! One second as the movement detectors see it: evidence for gait, height, speed.

use serde::{Deserialize, Serialize};

use super::height::LoneRide;

/// Evidence of one second. What was not measured is none or 0.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct Frame {
    /// When the second begins, milliseconds since the session's start.
    pub t_ms: u32,
    /// For gait where positive, for stillness where negative: log-odds, 0 where nothing was measured.
    pub gait: f32,
    /// Whether `gait` is from the body (imu, motion, steps) and not from positions.
    pub has_body: bool,
    /// Steps were seen: by cadence, or by the phone's counter.
    pub has_steps: bool,
    /// Somebody who walks away from a vehicle would be seen to: the body is measured, or the phone's own speed is good.
    pub sees_walk: bool,
    /// Height over the session's reference, metres.
    pub height_m: Option<f32>,
    /// Slope of the height around it, m/s: filled in when the second is decoded.
    pub rate_mps: f32,
    /// Its standard error, m/s.
    pub rate_error_mps: f32,
    /// Speed over ground, m/s, where fixes are good enough to tell.
    pub speed_mps: Option<f32>,
    /// Without a barometer: the ride that ended with this second.
    pub ride: Option<LoneRide>,
    /// For a vehicle where positive, beside the speed: the phone's recogniser.
    pub vehicle: f32,
}
