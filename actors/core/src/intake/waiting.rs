//! The parts of the intake that wait for later samples.

use porchlight_schema::sample::ActivityType;
use serde::{Deserialize, Serialize};

/// An activity that waits for its effect.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct WaitingActivity {
    pub(super) t_ms: u32,
    pub(super) activity_type: ActivityType,
    pub(super) confidence: f32,
}

/// A mark that waits for its effect.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct WaitingMark {
    pub(super) t_ms: u32,
    /// Whether the mark is a drop-off of the parcel, otherwise an arrival.
    pub(super) is_drop_off: bool,
}

/// The times of a window that was emitted.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct Emitted {
    pub(super) end_ms: u32,
    pub(super) last_sample_ms: u32,
}
