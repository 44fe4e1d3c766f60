//! Reasons for closing a WebSocket, and their close codes.

use actix_http::ws::{CloseCode, CloseReason, ProtocolError};
use porchlight_observe::streams::StreamEnd;

/// The reason why a WebSocket is closed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Closing {
    /// The session has ended.
    Ended,
    /// The node is stopping.
    Draining,
    /// The input is not a WebSocket message.
    Broken,
    /// The credential was revoked.
    Revoked,
    /// The client sent nothing for too long.
    Silent,
    /// A message is too large.
    TooLarge,
    /// The node has no capacity for a long message.
    NoCapacity,
    /// The peer closes the connection.
    ByPeer(Option<CloseReason>),
    /// The peer has disconnected or does not read.
    Gone,
}

impl Closing {
    /// Returns the reason after a protocol error.
    pub(super) fn of(error: &ProtocolError) -> Self {
        match error {
            ProtocolError::Overflow => Self::TooLarge,
            _ => Self::Broken,
        }
    }

    /// Returns whether the peer still has to answer.
    pub(super) fn needs_answer(&self) -> bool {
        !matches!(self, Self::ByPeer(_) | Self::Gone)
    }

    /// Returns the close frame to send, or `None` if the peer would not receive it.
    pub(super) fn reason(&self) -> Option<CloseReason> {
        let (code, text) = match self {
            Self::Ended => (CloseCode::Normal, "the session has ended"),
            Self::Draining => (CloseCode::Away, "the service is stopping"),
            Self::Broken => (CloseCode::Protocol, "not a WebSocket message"),
            Self::Revoked => (CloseCode::Policy, "the credential is no longer valid"),
            Self::Silent => (CloseCode::Policy, "no data was received for too long"),
            Self::TooLarge => (CloseCode::Size, "the message is too large"),
            Self::NoCapacity => (
                CloseCode::Again,
                "too many batches are in flight; retry later",
            ),
            // The answer has the peer's code (RFC 6455, section 5.5.1), or 1000 if the peer sent
            // none.
            Self::ByPeer(reason) => (
                reason
                    .as_ref()
                    .map_or(CloseCode::Normal, |reason| reason.code),
                "",
            ),
            Self::Gone => return None,
        };
        Some(CloseReason {
            code,
            description: (!text.is_empty()).then(|| text.to_owned()),
        })
    }

    /// Returns the label for metrics.
    pub(super) fn end(&self) -> StreamEnd {
        match self {
            Self::Ended | Self::ByPeer(_) => StreamEnd::Finished,
            Self::Draining => StreamEnd::Draining,
            Self::Silent => StreamEnd::Silent,
            Self::Gone => StreamEnd::Gone,
            Self::NoCapacity => StreamEnd::Full,
            Self::Broken | Self::Revoked | Self::TooLarge => StreamEnd::Policy,
        }
    }
}
