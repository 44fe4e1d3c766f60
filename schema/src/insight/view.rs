//! The insight as answers and webhooks carry it: the JSON shapes that the contract fixes.
//!
//! Scores are stored with milliseconds; the shapes here have whole seconds. A part that is absent
//! (`summary`, `metrics`, `pod`) is left out in the same way everywhere; a field that the contract
//! calls "or null" is always present.

use serde::Serialize;

use super::{InsightRecord, InsightStatus, Metrics, ReasonCode, Score, Summary};
use crate::event::{Event, WireEvent};
use crate::ids::{OrganizationId, SessionId};
use crate::session::{Pod, SessionStart};
use crate::time::TimestampMs;

/// Seconds rounded to the nearest whole second; a half is rounded up.
fn whole_seconds(seconds: f64) -> u32 {
    // A duration is not negative; `as` turns anything else into the nearest value that fits.
    seconds.round() as u32
}

/// The `summary` of an insight: the nine fields of the contract.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InsightSummaryView {
    right_doorstep: bool,
    fraud_score: f64,
    suspicious_behavior: bool,
    friction_score: f64,
    visibility_score: f64,
    floors_climbed: Option<i16>,
    elevator_used: Option<bool>,
    total_duration_sec: u32,
    attempt_cycles: u32,
}

impl From<&Summary> for InsightSummaryView {
    fn from(summary: &Summary) -> Self {
        Self {
            right_doorstep: summary.right_doorstep,
            fraud_score: summary.fraud_score,
            suspicious_behavior: summary.suspicious_behavior,
            friction_score: summary.friction_score,
            visibility_score: summary.visibility_score,
            floors_climbed: summary.floors_climbed,
            elevator_used: summary.elevator_used,
            total_duration_sec: whole_seconds(summary.total_duration_sec),
            attempt_cycles: summary.attempt_cycles,
        }
    }
}

/// The `summary` of `insight.updated`: seven of the nine fields and no others.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MessageSummaryView {
    right_doorstep: bool,
    suspicious_behavior: bool,
    floors_climbed: Option<i16>,
    elevator_used: Option<bool>,
    friction_score: f64,
    fraud_score: f64,
    visibility_score: f64,
}

impl From<&Summary> for MessageSummaryView {
    fn from(summary: &Summary) -> Self {
        Self {
            right_doorstep: summary.right_doorstep,
            suspicious_behavior: summary.suspicious_behavior,
            floors_climbed: summary.floors_climbed,
            elevator_used: summary.elevator_used,
            friction_score: summary.friction_score,
            fraud_score: summary.fraud_score,
            visibility_score: summary.visibility_score,
        }
    }
}

/// The `metrics` of an insight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InsightMetricsView {
    time_from_entrance_to_door_sec: Option<u32>,
    time_at_door_sec: Option<u32>,
}

impl InsightMetricsView {
    /// Returns the metrics in whole seconds, or `None` if no time is known. The insight then omits
    /// `metrics`.
    #[must_use]
    pub fn of(metrics: &Metrics) -> Option<Self> {
        (!metrics.is_empty()).then(|| Self {
            time_from_entrance_to_door_sec: metrics
                .time_from_entrance_to_door_sec
                .map(whole_seconds),
            time_at_door_sec: metrics.time_at_door_sec.map(whole_seconds),
        })
    }
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
    summary: Option<InsightSummaryView>,
    reason_codes: &'a [ReasonCode],
    events: Vec<WireEvent<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metrics: Option<InsightMetricsView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pod: Option<&'a Pod>,
    path_image_url: Option<String>,
    error_message: Option<&'a str>,
    created_at: TimestampMs,
    updated_at: TimestampMs,
}

impl<'a> InsightView<'a> {
    /// Returns the insight of a session that is not scored yet: the events so far.
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

    /// Returns the insight of a session that was scored, or whose scoring failed.
    #[must_use]
    pub fn scored(
        start: &'a SessionStart,
        record: &'a InsightRecord,
        path_image_url: Option<String>,
    ) -> Self {
        let score = record.score.as_ref();
        Self {
            status: status(score),
            summary: score.map(|score| InsightSummaryView::from(&score.summary)),
            reason_codes: score.map_or(&[], |score| &score.reason_codes),
            metrics: score.and_then(|score| InsightMetricsView::of(&score.metrics)),
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

/// Returns the status of an insight that was committed: ready with a score, failed without one.
fn status(score: Option<&Score>) -> InsightStatus {
    match score {
        Some(_) => InsightStatus::Ready,
        None => InsightStatus::Failed,
    }
}

/// The `data` of `insight.updated` (contract 6).
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InsightMessageView<'a> {
    session_id: SessionId,
    delivery_id: &'a str,
    organization_id: OrganizationId,
    status: InsightStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    summary: Option<MessageSummaryView>,
    reason_codes: &'a [ReasonCode],
    events: Vec<WireEvent<'a>>,
}

impl<'a> InsightMessageView<'a> {
    /// Creates the message of a session that was scored, or whose scoring failed.
    #[must_use]
    pub fn new(start: &'a SessionStart, record: &'a InsightRecord) -> Self {
        let score = record.score.as_ref();
        Self {
            session_id: start.session_id,
            delivery_id: &start.delivery_id,
            organization_id: start.tenant.organization_id,
            status: status(score),
            summary: score.map(|score| MessageSummaryView::from(&score.summary)),
            reason_codes: score.map_or(&[], |score| &score.reason_codes),
            events: score.map_or_else(Vec::new, |score| {
                score.events.iter().map(Event::wire).collect()
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(total_duration_sec: f64) -> Summary {
        Summary {
            right_doorstep: true,
            fraud_score: 0.01,
            suspicious_behavior: false,
            friction_score: 0.0,
            visibility_score: 0.616,
            floors_climbed: None,
            elevator_used: None,
            total_duration_sec,
            attempt_cycles: 1,
        }
    }

    fn json(value: &impl Serialize) -> String {
        serde_json::to_string(value).unwrap()
    }

    #[test]
    fn durations_are_written_as_the_nearest_whole_second() {
        for (stored, written) in [
            (0.0, 0),
            (0.056, 0),
            (0.499, 0),
            (0.5, 1),
            (300.0, 300),
            (3_600.651, 3_601),
            (43_200.0, 43_200),
        ] {
            let text = json(&InsightSummaryView::from(&summary(stored)));
            let expected = format!("\"totalDurationSec\":{written},");
            assert!(text.contains(&expected), "{stored}: {text}");
        }
        let metrics = Metrics {
            time_from_entrance_to_door_sec: Some(57.5),
            time_at_door_sec: Some(161.41),
        };
        assert_eq!(
            json(&InsightMetricsView::of(&metrics)),
            r#"{"timeFromEntranceToDoorSec":58,"timeAtDoorSec":161}"#
        );
    }

    #[test]
    fn an_unknown_time_is_null_and_two_omit_the_metrics() {
        let mut metrics = Metrics {
            time_from_entrance_to_door_sec: None,
            time_at_door_sec: Some(55.0),
        };
        assert_eq!(
            json(&InsightMetricsView::of(&metrics)),
            r#"{"timeFromEntranceToDoorSec":null,"timeAtDoorSec":55}"#
        );
        metrics.time_at_door_sec = None;
        assert_eq!(InsightMetricsView::of(&metrics), None);
    }

    #[test]
    fn the_summary_of_a_message_has_seven_fields() {
        assert_eq!(
            json(&MessageSummaryView::from(&summary(300.0))),
            r#"{"rightDoorstep":true,"suspiciousBehavior":false,"floorsClimbed":null,"elevatorUsed":null,"frictionScore":0.0,"fraudScore":0.01,"visibilityScore":0.616}"#
        );
    }
}
