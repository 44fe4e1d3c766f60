//! The bodies of test events: shaped like real ones, about a session that does not exist.

use std::sync::Arc;

use porchlight_schema::event::{Confidence, Event, EventType, Metadata};
use porchlight_schema::ids::SessionId;
use porchlight_schema::insight::{
    InsightMessageView, InsightRecord, Metrics, ReasonCode, Score, Summary,
};
use porchlight_schema::message::{Envelope, MessageEvent};
use porchlight_schema::session::{
    Address, EndReason, Point, SessionEnd, SessionStart, SessionView, Tenant,
};
use porchlight_schema::time::TimestampMs;
use serde::Serialize;

use super::TEST_SESSION;

/// The duration of the session in test events.
const DURATION_MS: i64 = 300_000;

/// Returns the body of a test event.
pub(super) fn body(tenant: Tenant, event: MessageEvent, now: TimestampMs) -> Arc<str> {
    let start = start(tenant, now.plus_ms(-DURATION_MS));
    let end = SessionEnd {
        ended_at: now,
        completed_at: now,
        reason: EndReason::Stopped,
    };
    let text = match event {
        MessageEvent::SessionStarted => envelope(event, now, SessionView::new(&start, None)),
        MessageEvent::SessionStopped => envelope(event, now, SessionView::new(&start, Some(&end))),
        MessageEvent::InsightUpdated => {
            envelope(event, now, InsightMessageView::new(&start, &record(now)))
        }
    };
    // The views only write valid ids, and the test session's id is not one.
    let session_id = start.session_id.to_string();
    text.replace(&session_id, TEST_SESSION).into()
}

fn envelope(event: MessageEvent, timestamp: TimestampMs, data: impl Serialize) -> String {
    let envelope = Envelope {
        event,
        timestamp,
        data,
        test: true,
    };
    // Serializing plain data with text keys to JSON cannot fail.
    serde_json::to_string(&envelope).unwrap_or_default()
}

fn start(tenant: Tenant, at: TimestampMs) -> SessionStart {
    SessionStart {
        delivery_id: "test-delivery".to_owned(),
        external_rider_id: "test-rider".to_owned(),
        ..SessionStart::delivery(
            SessionId::new(at, 0),
            tenant,
            Address {
                line1: "1 Example Street".to_owned(),
                city: "Exampleton".to_owned(),
                country: "EX".to_owned(),
                ..Address::at(Point { lat: 0.0, lng: 0.0 })
            },
            at,
        )
    }
}

fn record(now: TimestampMs) -> InsightRecord {
    let event = |event_type, t_start_ms, t_end_ms| Event {
        event_type,
        t_start_ms,
        t_end_ms: Some(t_end_ms),
        confidence: Confidence::from_probability(0.9),
        metadata: Metadata::None,
    };
    let score = Score {
        summary: Summary {
            right_doorstep: true,
            fraud_score: 0.02,
            suspicious_behavior: false,
            friction_score: 0.15,
            visibility_score: 0.95,
            floors_climbed: Some(0),
            elevator_used: Some(false),
            total_duration_sec: DURATION_MS as f64 / 1000.0,
            attempt_cycles: 1,
        },
        reason_codes: vec![
            ReasonCode::FullAttempt,
            ReasonCode::DeliveredToRightDoorstep,
        ],
        events: vec![
            event(EventType::Driving, 0, 180_000),
            event(EventType::Walking, 180_000, 240_000),
            event(EventType::Stopped, 240_000, 270_000),
        ],
        metrics: Metrics::default(),
        evidence: Vec::new(),
        weights: "test".to_owned(),
        has_path: false,
    };
    InsightRecord {
        revision: 1,
        score: Some(score),
        error_message: None,
        pod: None,
        updated_at: now,
    }
}

#[cfg(test)]
mod tests {
    use porchlight_schema::ids::OrganizationId;
    use porchlight_schema::session::Env;

    use super::*;
    use serde_json::Value;

    #[test]
    fn each_sample_is_marked_as_a_test_and_names_its_session() {
        let now = TimestampMs(1_763_636_100_000);
        let tenant = Tenant {
            organization_id: OrganizationId::new(now, 1),
            env: Env::Sandbox,
        };
        for event in MessageEvent::ALL {
            let body: Value = serde_json::from_str(&body(tenant, event, now)).unwrap();
            assert_eq!(body["event"], event.as_str());
            assert_eq!(body["test"], true);
            assert_eq!(body["data"]["sessionId"], TEST_SESSION);
            let organization = tenant.organization_id.to_string();
            assert_eq!(body["data"]["organizationId"], organization);
        }
    }
}
