//! What is known of a session (contract section 5).

use serde::{Deserialize, Serialize};

use crate::event::{Event, WireEvent};
use crate::ids::{OrganizationId, SessionId};
use crate::session::{Pod, SessionStart};
use crate::time::TimestampMs;

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

/// The scores. Scores are 0 to 1, rounded to three decimals so that they are the same number everywhere.
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
    /// Start to end.
    pub total_duration_sec: f64,
    /// Visits to the door.
    pub attempt_cycles: u32,
}

/// Times at the building; none each when entrance or door was not found.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Metrics {
    /// From the entrance to the door.
    pub time_from_entrance_to_door_sec: Option<f64>,
    /// At the door.
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

/// The Insight of the contract, for JSON.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InsightView<'a> {
    session_id: SessionId,
    organization_id: OrganizationId,
    delivery_id: &'a str,
    status: InsightStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    summary: Option<&'a Summary>,
    reason_codes: &'a [ReasonCode],
    events: Vec<WireEvent<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metrics: Option<&'a Metrics>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pod: Option<&'a Pod>,
    path_image_url: Option<String>,
    error_message: Option<&'a str>,
    created_at: TimestampMs,
    updated_at: TimestampMs,
}

impl<'a> InsightView<'a> {
    /// A session that is not scored yet: the events so far.
    #[must_use]
    pub fn processing(
        start: &'a SessionStart,
        events: &'a [Event],
        pod: Option<&'a Pod>,
        updated_at: TimestampMs,
    ) -> Self {
        Self {
            session_id: start.session_id,
            organization_id: start.tenant.organization_id,
            delivery_id: &start.delivery_id,
            status: InsightStatus::Processing,
            summary: None,
            reason_codes: &[],
            events: events.iter().map(Event::wire).collect(),
            metrics: None,
            pod,
            path_image_url: None,
            error_message: None,
            created_at: start.created_at,
            updated_at,
        }
    }

    /// A session that was scored, or could not be.
    #[must_use]
    pub fn scored(
        start: &'a SessionStart,
        record: &'a InsightRecord,
        path_image_url: Option<String>,
    ) -> Self {
        let score = record.score.as_ref();
        Self {
            status: if score.is_some() {
                InsightStatus::Ready
            } else {
                InsightStatus::Failed
            },
            summary: score.map(|score| &score.summary),
            reason_codes: score.map_or(&[], |score| &score.reason_codes),
            metrics: score
                .map(|score| &score.metrics)
                .filter(|metrics| !metrics.is_empty()),
            // Without two usable fixes the link would lead to nothing (contract 9).
            path_image_url: path_image_url.filter(|_| score.is_some_and(|score| score.has_path)),
            error_message: record.error_message.as_deref(),
            ..Self::processing(
                start,
                score.map_or(&[], |score| &score.events),
                record.pod.as_ref(),
                record.updated_at,
            )
        }
    }
}

/// The `data` of `insight.updated`: the seven fields and no other (contract 6).
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InsightMessageView<'a> {
    session_id: SessionId,
    delivery_id: &'a str,
    organization_id: OrganizationId,
    status: InsightStatus,
    summary: Option<&'a Summary>,
    reason_codes: &'a [ReasonCode],
    events: Vec<WireEvent<'a>>,
}

impl<'a> InsightMessageView<'a> {
    /// Of a scored, or failed, state.
    #[must_use]
    pub fn new(start: &'a SessionStart, record: &'a InsightRecord) -> Self {
        let score = record.score.as_ref();
        Self {
            session_id: start.session_id,
            delivery_id: &start.delivery_id,
            organization_id: start.tenant.organization_id,
            status: if score.is_some() {
                InsightStatus::Ready
            } else {
                InsightStatus::Failed
            },
            summary: score.map(|score| &score.summary),
            reason_codes: score.map_or(&[], |score| &score.reason_codes),
            events: score.map_or_else(Vec::new, |score| {
                score.events.iter().map(Event::wire).collect()
            }),
        }
    }
}
