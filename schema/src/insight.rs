//! The insight of a session: its scores, reason codes, times and evidence (contract section 5).

mod view;

use serde::{Deserialize, Serialize};

use crate::event::Event;
use crate::session::Pod;
use crate::time::TimestampMs;

pub use view::{
    InsightMessageView, InsightMetricsView, InsightSummaryView, InsightView, MessageSummaryView,
};

/// Where an insight stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum InsightStatus {
    /// The session is not scored yet.
    Processing,
    /// Scored.
    Ready,
    /// Could not be scored.
    Failed,
}

/// Why an insight says what it says. On the wire the name in capitals; listed in this order: the outcome first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ReasonCode {
    /// Outcome: went on foot to the door and stayed there.
    FullAttempt,
    /// Outcome: on foot inside the address's surroundings, but no stay at the door or not up to the floor.
    PartialAttempt,
    /// Outcome: good data, never came on foot near the address.
    NoAttempt,
    /// Outcome: the same, but the phone may have stayed in the vehicle or the data is thin.
    PossibleNoAttempt,
    /// In an outcome's place: too little was seen.
    InsufficientData,
    /// `rightDoorstep` is true.
    DeliveredToRightDoorstep,
    /// Drop-off near the entrance though the door is on an upper floor.
    PossibleLobbyHandoff,
    /// A stay at a door far from the address.
    PossibleWrongAddress,
    /// The service ended the session.
    SessionTimeout,
    /// Nothing at all was heard for a while.
    TelemetryStreamInterrupted,
}

impl ReasonCode {
    /// All codes, in order.
    pub const ALL: [Self; 10] = [
        Self::FullAttempt,
        Self::PartialAttempt,
        Self::NoAttempt,
        Self::PossibleNoAttempt,
        Self::InsufficientData,
        Self::DeliveredToRightDoorstep,
        Self::PossibleLobbyHandoff,
        Self::PossibleWrongAddress,
        Self::SessionTimeout,
        Self::TelemetryStreamInterrupted,
    ];

    /// The name on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::FullAttempt => "FULL_ATTEMPT",
            Self::PartialAttempt => "PARTIAL_ATTEMPT",
            Self::NoAttempt => "NO_ATTEMPT",
            Self::PossibleNoAttempt => "POSSIBLE_NO_ATTEMPT",
            Self::InsufficientData => "INSUFFICIENT_DATA",
            Self::DeliveredToRightDoorstep => "DELIVERED_TO_RIGHT_DOORSTEP",
            Self::PossibleLobbyHandoff => "POSSIBLE_LOBBY_HANDOFF",
            Self::PossibleWrongAddress => "POSSIBLE_WRONG_ADDRESS",
            Self::SessionTimeout => "SESSION_TIMEOUT",
            Self::TelemetryStreamInterrupted => "TELEMETRY_STREAM_INTERRUPTED",
        }
    }
}

/// The scores as they are computed and stored. Scores are 0 to 1, rounded to three decimals so that they are the same
/// number everywhere. [`InsightSummaryView`] is the form that answers carry.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// The drop-off was at the address's door; true only on evidence.
    pub right_doorstep: bool,
    /// How likely the telemetry or the claim is untrue.
    pub fraud_score: f64,
    /// Fraud on at least two independent grounds, or a mock flag that persists.
    pub suspicious_behavior: bool,
    /// How hard the delivery was.
    pub friction_score: f64,
    /// How complete the data was.
    pub visibility_score: f64,
    /// Floors up from the entrance to the drop-off; none when it can't be measured.
    pub floors_climbed: Option<i16>,
    /// None when it can't be told.
    pub elevator_used: Option<bool>,
    /// Seconds from the start to the end of the session, with milliseconds. Answers carry whole seconds.
    pub total_duration_sec: f64,
    /// Visits to the door.
    pub attempt_cycles: u32,
}

/// Times at the building; each is none when the entrance or the door was not found.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Metrics {
    /// Seconds from the entrance to the door, with milliseconds. Answers carry whole seconds.
    pub time_from_entrance_to_door_sec: Option<f64>,
    /// Seconds at the door, with milliseconds. Answers carry whole seconds.
    pub time_at_door_sec: Option<f64>,
}

impl Metrics {
    /// Whether there is nothing to say; then the insight leaves `metrics` out.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.time_from_entrance_to_door_sec.is_none() && self.time_at_door_sec.is_none()
    }
}

/// One reason behind a score, a flag or a reason code (contract 2, `/evidence`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Evidence {
    /// The field or code that it speaks of, as named in the insight.
    pub about: String,
    /// The signal, a stable name.
    pub signal: String,
    /// What it adds; for `fraudScore` in log-odds.
    pub points: f64,
    /// From when, seconds since the start; none when it is of the whole session.
    pub t_start: Option<f64>,
    /// Until when.
    pub t_end: Option<f64>,
    /// What was seen, in a sentence.
    pub text: String,
    /// The honest explanation that there may be.
    pub explanation: String,
}

/// How many of a session's acknowledged samples no detector saw, by the reason (contract 9).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DroppedSamples {
    /// Older than the sample before of the same kind, or a second fix of the same time.
    pub out_of_order: u32,
    /// More than 12 s behind the newest sample.
    pub too_late: u32,
    /// Of a kind that the service does not know.
    pub unknown_kind: u32,
}

impl DroppedSamples {
    /// All of them.
    #[must_use]
    pub fn total(&self) -> u32 {
        self.out_of_order
            .saturating_add(self.too_late)
            .saturating_add(self.unknown_kind)
    }
}

/// The result of scoring a session: a function of its start, its end, its batches, its PoD and what was known of
/// the place beforehand.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Score {
    /// The scores.
    pub summary: Summary,
    /// Outcome first.
    pub reason_codes: Vec<ReasonCode>,
    /// By start, then type.
    pub events: Vec<Event>,
    /// Times at the building.
    pub metrics: Metrics,
    /// Why.
    pub evidence: Vec<Evidence>,
    /// Version of the weights.
    pub weights: String,
    /// Whether there are two usable fixes, so that a path can be drawn.
    pub has_path: bool,
}

/// A scored (or failed) state of a session's insight, as it is stored. Revisions count from 1.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct InsightRecord {
    /// Which one: rises with each new `ready`.
    pub revision: u32,
    /// The scores; none when scoring failed.
    pub score: Option<Score>,
    /// A safe sentence, when scoring failed.
    pub error_message: Option<String>,
    /// The PoD that was known.
    pub pod: Option<Pod>,
    /// When it was committed.
    pub updated_at: TimestampMs,
}
