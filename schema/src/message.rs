//! Webhook messages (contract section 6).

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::ids::{MessageId, SessionId};
use crate::session::Tenant;
use crate::time::TimestampMs;

/// The event that a message announces.
///
/// Stores hold the number of a variant: append a new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum MessageEvent {
    /// A session started.
    #[serde(rename = "session.started")]
    SessionStarted,
    /// A session was stopped or timed out.
    #[serde(rename = "session.stopped")]
    SessionStopped,
    /// An insight was created or updated.
    #[serde(rename = "insight.updated")]
    InsightUpdated,
}

impl MessageEvent {
    /// All message events.
    pub const ALL: [Self; 3] = [
        Self::SessionStarted,
        Self::SessionStopped,
        Self::InsightUpdated,
    ];

    /// Returns the name on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::SessionStarted => "session.started",
            Self::SessionStopped => "session.stopped",
            Self::InsightUpdated => "insight.updated",
        }
    }
}

/// A webhook message. It is immutable: its body has the same bytes on every attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// The id, derived from session and number.
    pub id: MessageId,
    /// The tenant whose endpoint receives it.
    pub tenant: Tenant,
    /// The session; together with the endpoint it names the lane.
    pub session_id: SessionId,
    /// The number of the message within the session, from 0.
    pub number: u32,
    /// The event of the message.
    pub event: MessageEvent,
    /// The time of the message: of the session's start or end, or of the insight's update.
    pub created_at: TimestampMs,
    /// The exact body.
    pub body: Arc<str>,
}

/// The envelope `{event, timestamp, data}`; a test event also has `"test": true`.
#[derive(Debug, Serialize)]
pub struct Envelope<D> {
    /// The event of the message.
    pub event: MessageEvent,
    /// The time of the event.
    pub timestamp: TimestampMs,
    /// The session, or the insight's fields.
    pub data: D,
    /// Whether this is a test event; left out otherwise.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub test: bool,
}
