//! Placeholder until scoring lands.
use porchlight_schema::event::Event;
use porchlight_schema::insight::{Metrics, ReasonCode, Score, Summary};
use porchlight_schema::sample::SystemName;
use porchlight_schema::session::PodType;
use serde::{Deserialize, Serialize};

use crate::context::SessionContext;
use crate::window::Window;

/// A mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum MarkName {
    /// Any.
    Other,
}

impl MarkName {
    /// Of a name.
    #[must_use]
    pub fn from_name(_name: &str) -> Self {
        Self::Other
    }
}

/// A PoD.
#[derive(Debug, Clone, Copy)]
pub struct PodInput {
    /// What.
    pub pod_type: PodType,
    /// When.
    pub t_ms: Option<u32>,
}

/// What was known.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Knowledge {}

/// The input.
#[derive(Debug)]
pub struct ScoreInput<'a> {
    /// The context.
    pub context: &'a SessionContext,
    /// The windows.
    pub windows: &'a [Window],
    /// The events.
    pub events: &'a [Event],
    /// The marks.
    pub marks: &'a [(u32, MarkName)],
    /// The incidents.
    pub system: &'a [(u32, SystemName)],
    /// The PoD.
    pub pod: Option<PodInput>,
    /// Start to end.
    pub duration_ms: u32,
    /// Ended by the service.
    pub timed_out: bool,
    /// Holes.
    pub missing_batches: u32,
    /// Left out.
    pub quarantined_batches: u32,
    /// Known beforehand.
    pub known: &'a Knowledge,
}

/// Scores.
#[must_use]
pub fn score(input: &ScoreInput<'_>) -> Score {
    Score {
        summary: Summary {
            right_doorstep: false,
            fraud_score: 0.0,
            suspicious_behavior: false,
            friction_score: 0.0,
            visibility_score: 0.0,
            floors_climbed: None,
            elevator_used: None,
            total_duration_sec: f64::from(input.duration_ms) / 1000.0,
            attempt_cycles: 0,
        },
        reason_codes: vec![ReasonCode::InsufficientData],
        events: input.events.to_vec(),
        metrics: Metrics::default(),
        evidence: Vec::new(),
        weights: "0".into(),
        has_path: false,
    }
}
