//! The insight of a session: its scores, reason codes, times and evidence (contract section 5).

pub mod statement;
mod view;

use serde::{Deserialize, Serialize};

use crate::event::Event;
use crate::session::Pod;
use crate::time::TimestampMs;

pub use view::{
    InsightMessageView, InsightMetricsView, InsightSummaryView, InsightView, MessageSummaryView,
};

/// Status of an insight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum InsightStatus {
    /// The session is not scored yet.
    Processing,
    /// The session is scored.
    Ready,
    /// The session could not be scored.
    Failed,
}

/// A reason code of an insight. On the wire it is the name in capitals. Codes are listed in this
/// order, the outcome first.
///
/// Stores hold the number of a code, which is also its rank in the list: append a new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ReasonCode {
    /// Outcome: the courier walked to the door and stayed there.
    FullAttempt,
    /// Outcome: the courier was on foot near the address but did not stay at the door, or did not
    /// reach its floor.
    PartialAttempt,
    /// Outcome: the data is good, and the courier never came near the address on foot.
    NoAttempt,
    /// Outcome: like `NO_ATTEMPT`, but the phone may have stayed in the vehicle, or there is little
    /// data.
    PossibleNoAttempt,
    /// In place of an outcome: there is too little data.
    InsufficientData,
    /// `rightDoorstep` is true.
    DeliveredToRightDoorstep,
    /// The drop-off was near the entrance although the door is on an upper floor.
    PossibleLobbyHandoff,
    /// The courier stayed at a door far from the address.
    PossibleWrongAddress,
    /// The service ended the session.
    SessionTimeout,
    /// No data arrived for some time.
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

    /// Returns the name on the wire.
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

/// The scores as they are computed and stored. Scores are 0 to 1, rounded to three decimals so that
/// they are the same number everywhere. [`InsightSummaryView`] is the form that answers carry.
///
/// Stored insights hold it without field names, and it is not the end of its row. No field can be
/// added here, not even with [`added_field`]: a new fact gets a row of its own.
///
/// [`added_field`]: crate::added_field
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// Whether the drop-off was at the address's door; true only on evidence.
    pub right_doorstep: bool,
    /// The likelihood that the telemetry or the claim is false.
    pub fraud_score: f64,
    /// Whether at least two independent signals suggest fraud, or a mock flag persists.
    pub suspicious_behavior: bool,
    /// The difficulty of the delivery.
    pub friction_score: f64,
    /// The completeness of the data.
    pub visibility_score: f64,
    /// Floors from the entrance up to the drop-off; `None` if they were not measured.
    pub floors_climbed: Option<i16>,
    /// Whether the courier used an elevator; `None` if unknown.
    pub elevator_used: Option<bool>,
    /// Seconds from the start to the end of the session, with milliseconds. Answers carry whole
    /// seconds.
    pub total_duration_sec: f64,
    /// Visits to the address's door.
    pub attempt_cycles: u32,
}

/// Times at the building. Each is `None` if the entrance or the door was not found.
///
/// Stored insights hold it without field names, and it is not the end of its row. No field can be
/// added here, not even with [`added_field`]: a new fact gets a row of its own.
///
/// [`added_field`]: crate::added_field
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Metrics {
    /// Seconds from the entrance to the door, with milliseconds. Answers carry whole seconds.
    pub time_from_entrance_to_door_sec: Option<f64>,
    /// Seconds at the door, with milliseconds. Answers carry whole seconds.
    pub time_at_door_sec: Option<f64>,
}

impl Metrics {
    /// Returns whether both values are `None`; the insight then omits `metrics`.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.time_from_entrance_to_door_sec.is_none() && self.time_at_door_sec.is_none()
    }
}

/// One reason for a score, a flag or a reason code (contract 2, `/evidence`).
///
/// Stored insights hold it without field names, and it is not the end of its row. No field can be
/// added here, not even with [`added_field`]: a new fact gets a row of its own.
///
/// [`added_field`]: crate::added_field
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Evidence {
    /// The field or code that it explains, as named in the insight; see [`statement`].
    pub about: String,
    /// The stable name of the signal.
    pub signal: String,
    /// Contribution of the signal; for `fraudScore` in log-odds.
    pub points: f64,
    /// Start of the observation in seconds since the session's start; `None` if it concerns the
    /// whole session.
    pub t_start: Option<f64>,
    /// End of the observation in seconds since the session's start.
    pub t_end: Option<f64>,
    /// The observation, in a sentence.
    pub text: String,
    /// A possible innocent explanation.
    pub explanation: String,
}

/// The number of a session's acknowledged samples that no detector received, by reason (contract
/// 9).
///
/// A stored insight ends with these counts, so a further count is appended with [`added_field`].
///
/// [`added_field`]: crate::added_field
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DroppedSamples {
    /// The sample was older than the previous sample of its kind, or a second fix of the same time.
    pub out_of_order: u32,
    /// The sample came after its second had been detected: it lagged the newest sample
    /// by more than kinds may lag each other, or its second was already emitted.
    pub too_late: u32,
    /// The service does not know the kind of the sample.
    pub unknown_kind: u32,
}

impl DroppedSamples {
    /// Returns the sum of all counts.
    #[must_use]
    pub fn total(&self) -> u32 {
        self.out_of_order
            .saturating_add(self.too_late)
            .saturating_add(self.unknown_kind)
    }
}

/// The result of scoring a session. It depends only on the session's start, end, batches and PoD,
/// and on the earlier knowledge of the place.
///
/// Stored insights hold it without field names, and it is not the end of its row. No field can be
/// added here, not even with [`added_field`]: a new fact gets a row of its own.
///
/// [`added_field`]: crate::added_field
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Score {
    /// The scores of the insight.
    pub summary: Summary,
    /// The reason codes, outcome first.
    pub reason_codes: Vec<ReasonCode>,
    /// The events, by start, then type.
    pub events: Vec<Event>,
    /// Times at the building.
    pub metrics: Metrics,
    /// The evidence of the insight.
    pub evidence: Vec<Evidence>,
    /// Version of the scoring parameters.
    pub weights: String,
    /// Whether there are two usable fixes, so that a path can be drawn.
    pub has_path: bool,
}

/// A stored state of a session's insight, scored or failed. Revisions count from 1.
///
/// Stored insights hold it without field names, and it is not the end of its row. No field can be
/// added here, not even with [`added_field`]: a new fact gets a row of its own.
///
/// [`added_field`]: crate::added_field
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct InsightRecord {
    /// The revision, which rises with each new `ready`.
    pub revision: u32,
    /// The result; `None` if scoring failed.
    pub score: Option<Score>,
    /// A safe sentence if scoring failed.
    pub error_message: Option<String>,
    /// The PoD known at that time.
    pub pod: Option<Pod>,
    /// The time at which the insight was committed.
    pub updated_at: TimestampMs,
}
