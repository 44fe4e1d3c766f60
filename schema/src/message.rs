//! A message: one webhook event to be delivered (contract section 6).

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::ids::{MessageId, SessionId};
use crate::session::Tenant;
use crate::time::TimestampMs;

/// What a message tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum MessageEvent {
    /// A session began.
    #[serde(rename = "session.started")]
    SessionStarted,
    /// A session was stopped, or timed out.
    #[serde(rename = "session.stopped")]
    SessionStopped,
    /// An insight was scored, or scored anew.
    #[serde(rename = "insight.updated")]
    InsightUpdated,
}

impl MessageEvent {
    /// All of them.
    pub const ALL: [Self; 3] = [
        Self::SessionStarted,
        Self::SessionStopped,
        Self::InsightUpdated,
    ];

    /// The name on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::SessionStarted => "session.started",
            Self::SessionStopped => "session.stopped",
            Self::InsightUpdated => "insight.updated",
        }
    }
}

/// One webhook event to be delivered. Immutable: its body's bytes are the same on every attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Derived from session and number.
    pub id: MessageId,
    /// Whose endpoint it goes to.
    pub tenant: Tenant,
    /// Of which session; with the endpoint it names the lane.
    pub session_id: SessionId,
    /// 0, 1, 2 … within the session.
    pub number: u32,
    /// What it tells.
    pub event: MessageEvent,
    /// When it was committed.
    pub created_at: TimestampMs,
    /// The exact body.
    pub body: Arc<str>,
}

/// The envelope: `{event, timestamp, data}` and, on a test event, `"test": true`.
#[derive(Debug, Serialize)]
pub struct Envelope<D> {
    /// What it tells.
    pub event: MessageEvent,
    /// When it happened.
    pub timestamp: TimestampMs,
    /// The Session, or the insight's seven fields.
    pub data: D,
    /// Only on a test event.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub test: bool,
}
