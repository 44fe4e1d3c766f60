//! Logistic models of gait, and the weight of their results as evidence.

use super::features::{IMU_FEATURES, MOTION_FEATURES};

/// A logistic model of `N` features.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Logistic<const N: usize> {
    /// The log-odds if every feature is 0.
    pub bias: f32,
    /// The log-odds for each unit of each feature.
    pub weights: [f32; N],
    /// The range of each feature in training: a value outside counts as the nearer end of the
    /// range, so that a phone unlike all recorded ones is judged by its other features.
    pub ranges: [(f32, f32); N],
}

impl<const N: usize> Logistic<N> {
    /// Returns the log-odds of a gait.
    #[must_use]
    pub fn log_odds(&self, features: &[f32; N]) -> f32 {
        let terms = features.iter().zip(&self.weights).zip(&self.ranges);
        terms.fold(self.bias, |sum, ((feature, weight), (low, high))| {
            sum + weight * feature.max(*low).min(*high)
        })
    }
}

/// The conversion from the log-odds of a second to its evidence in the decoder. Neighbouring
/// seconds share two thirds of their samples, so each carries less information than its log-odds,
/// and no second decides alone.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Evidence {
    /// The factor on the model's log-odds.
    pub scale: f32,
    /// The limit of the evidence of one second for rest, as a negative number.
    pub rest: f32,
    /// The limit of the evidence of one second for a gait.
    pub gait: f32,
    /// The constant added to the log-odds.
    pub shift: f32,
}

impl Evidence {
    /// Returns the evidence of a second with these log-odds, to which `further` evidence is added
    /// before it is limited. Further evidence therefore counts where the acceleration is unclear,
    /// and changes nothing where it is clear.
    #[must_use]
    pub fn of(&self, log_odds: f32, further: f32) -> f32 {
        (self.scale * (log_odds + self.shift) + further)
            .max(self.rest)
            .min(self.gait)
    }
}

/// A set of models fitted on the same sources.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GaitModels {
    /// The model of raw `imu`.
    pub imu: Logistic<IMU_FEATURES>,
    /// The model of `motion` for phones that have sent a cadence.
    pub with_cadence: Logistic<MOTION_FEATURES>,
    /// The model of `motion` for phones that have never sent a cadence.
    pub without_cadence: Logistic<MOTION_FEATURES>,
    /// The influence of `imu` on the decoder.
    pub imu_evidence: Evidence,
    /// The influence of `motion` on the decoder.
    pub motion_evidence: Evidence,
}
