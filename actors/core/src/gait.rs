//! A learned gait model: the probability that the courier walks, from three seconds of
//! acceleration.
//!
//! A logistic model of a few physical features replaces thresholds on the spread of acceleration. A
//! phone on which a standing courier types or scans moves as much as a carried phone, but in a
//! different way. The weights are fitted on labelled recordings by the training program of
//! `porchlight-bench` and stored in [`weights`]; this module computes the features and applies the
//! weights, for raw `imu` and for the reduced `motion` alike. The training program takes the
//! features of `imu` from these functions; it computes those of `motion` from its stored rows, and
//! a test compares them with the ones of this module.

mod choice;
mod features;
mod model;
// Generated, and formatted by the generator.
#[rustfmt::skip]
#[allow(
    clippy::approx_constant,
    reason = "a fitted weight may lie close to a known constant"
)]
mod weights;

pub use choice::Models;
pub use features::{
    IMU_FEATURES, ImuSignal, MOTION_FEATURES, MotionHistory, SecondBrief, imu_features,
};
pub use model::{Evidence, GaitModels, Logistic};
pub use weights::VERSION;

/// One second of raw acceleration, as the input of the models.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GaitSecond {
    /// The start of the second, milliseconds since the session's start.
    pub t_ms: u32,
    /// The features of the second and its neighbours.
    pub features: [f32; IMU_FEATURES],
    /// The mean of the norm, m/s².
    pub accel_mean: f32,
    /// The standard deviation of the norm, m/s².
    pub accel_std: f32,
    /// The steps per second according to the autocorrelation; 0 if there is no gait.
    pub cadence_hz: f32,
}
