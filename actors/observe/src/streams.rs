//! Connections that stay: what is open, and what goes over them.

use std::sync::LazyLock;

use metrics::{Counter, Gauge};

use super::name;

label! {
    /// A kind of stream.
    StreamKind {
        /// `POST /v1/telemetry`, while its lines are answered.
        Ndjson = "ndjson",
        /// The WebSocket for telemetry.
        Websocket = "websocket",
        /// `GET /v1/sessions/{id}/events`
        Events = "events",
    }
}

label! {
    /// How one of a stream's messages went.
    MessageOutcome {
        /// A batch was taken.
        Accepted = "accepted",
        /// A batch was refused.
        Refused = "refused",
        /// A message was sent.
        Sent = "sent",
    }
}

label! {
    /// Why a stream was closed or not opened.
    StreamEnd {
        /// It is over: all is answered, the session has ended.
        Finished = "finished",
        /// The other side went away.
        Gone = "gone",
        /// The other side was silent, or did not read.
        Silent = "silent",
        /// The other side broke a rule: a message too large, a credential that is revoked.
        Policy = "policy",
        /// The node stops.
        Draining = "draining",
        /// Not opened: as many are open as may be.
        Full = "full",
    }
}

/// The handles of streams.
#[derive(Debug)]
pub struct StreamMetrics {
    open: Vec<Gauge>,
    messages: Vec<Vec<Counter>>,
    ended: Vec<Vec<Counter>>,
}

impl StreamMetrics {
    /// The handles, resolved at the first call.
    #[must_use]
    pub fn get() -> &'static Self {
        static METRICS: LazyLock<StreamMetrics> = LazyLock::new(StreamMetrics::new);
        &METRICS
    }

    fn new() -> Self {
        let open =
            |kind: &StreamKind| metrics::gauge!(name::STREAMS_OPEN, "stream" => kind.as_str());
        let messages = |kind: &StreamKind| {
            let kind = kind.as_str();
            let outcomes = MessageOutcome::ALL.iter();
            outcomes
                .map(|outcome| metrics::counter!(name::STREAM_MESSAGES_TOTAL, "stream" => kind, "outcome" => outcome.as_str()))
                .collect()
        };
        let ended = |kind: &StreamKind| {
            let kind = kind.as_str();
            let reasons = StreamEnd::ALL.iter();
            reasons
                .map(|reason| metrics::counter!(name::STREAMS_ENDED_TOTAL, "stream" => kind, "reason" => reason.as_str()))
                .collect()
        };
        Self {
            open: StreamKind::ALL.iter().map(open).collect(),
            messages: StreamKind::ALL.iter().map(messages).collect(),
            ended: StreamKind::ALL.iter().map(ended).collect(),
        }
    }

    /// A message went so.
    pub fn on_message(&self, kind: StreamKind, outcome: MessageOutcome) {
        self.messages[kind as usize][outcome as usize].increment(1);
    }

    /// A stream ended, or was not opened.
    pub fn on_ended(&self, kind: StreamKind, reason: StreamEnd) {
        self.ended[kind as usize][reason as usize].increment(1);
    }

    /// Lets each series stand at 0.
    pub(super) fn reset(&self) {
        self.open.iter().for_each(|open| open.set(0.0));
    }
}

/// A stream that is open, until this is dropped.
#[derive(Debug)]
pub struct Open(StreamKind);

impl Open {
    /// Counts one more.
    #[must_use]
    pub fn begin(kind: StreamKind) -> Self {
        StreamMetrics::get().open[kind as usize].increment(1.0);
        Self(kind)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        StreamMetrics::get().open[self.0 as usize].decrement(1.0);
    }
}
