//! The bodies of webhook messages. Each body is created once, stored in the commit of its cause,
//! and sent unchanged (contract section 6).

use porchlight_schema::insight::{InsightMessageView, InsightRecord};
use porchlight_schema::message::{Envelope, MessageEvent};
use porchlight_schema::session::{SessionEnd, SessionStart, SessionView};
use porchlight_schema::time::TimestampMs;
use serde::Serialize;

use porchlight_ports::MessageBody;

fn body(event: MessageEvent, timestamp: TimestampMs, data: impl Serialize) -> MessageBody {
    let envelope = Envelope {
        event,
        timestamp,
        data,
        test: false,
    };
    // Encoding plain data with text keys as JSON cannot fail.
    let body = serde_json::to_string(&envelope).unwrap_or_default();
    MessageBody {
        event,
        created_at: timestamp,
        body: body.into(),
    }
}

/// Returns the body of `session.started`.
#[must_use]
pub fn session_started(start: &SessionStart) -> MessageBody {
    body(
        MessageEvent::SessionStarted,
        start.created_at,
        SessionView::new(start, None),
    )
}

/// Returns the body of `session.stopped`.
#[must_use]
pub fn session_stopped(start: &SessionStart, end: &SessionEnd) -> MessageBody {
    body(
        MessageEvent::SessionStopped,
        end.completed_at,
        SessionView::new(start, Some(end)),
    )
}

/// Returns the body of `insight.updated`.
#[must_use]
pub fn insight_updated(start: &SessionStart, record: &InsightRecord) -> MessageBody {
    body(
        MessageEvent::InsightUpdated,
        record.updated_at,
        InsightMessageView::new(start, record),
    )
}
