//! A learned gait: how likely it is that somebody walks, from three seconds of acceleration.
//!
//! A logistic model of a few physical features replaces thresholds on the spread of acceleration: a phone that a
//! standing courier types on or scans with moves as much as one that is carried, but not like one. The weights are
//! fitted on labelled recordings by the training program of `porchlight-bench` and stand in [`weights`]; this module
//! computes the features and applies the weights, for raw `imu` and for the reduced `motion` alike. The training
//! program computes its features with the same functions.

mod features;
mod model;
// Generated: formatted by the program that writes it.
#[rustfmt::skip]
mod weights;

pub use features::{
    IMU_FEATURES, IMU_NAMES, ImuSignal, MOTION_FEATURES, MOTION_NAMES, MotionHistory, SecondBrief,
    imu_features,
};
pub use model::{Evidence, GaitModels, Logistic, Models};
pub use weights::VERSION;

/// One second of raw acceleration as the models see it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GaitSecond {
    /// When it begins, milliseconds since the session's start.
    pub t_ms: u32,
    /// Features of it and its neighbours.
    pub features: [f32; IMU_FEATURES],
    /// Mean of the norm, m/s².
    pub accel_mean: f32,
    /// Standard deviation of the norm, m/s².
    pub accel_std: f32,
    /// Steps a second by the autocorrelation; 0 where there is no gait.
    pub cadence_hz: f32,
}
