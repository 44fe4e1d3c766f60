//! Metrics of long-lived connections.

use std::sync::LazyLock;

use metrics::{Counter, Gauge};

use super::name;

label! {
    /// The kind of a stream.
    StreamKind {
        /// `POST /v1/telemetry` while its lines are answered.
        Ndjson = "ndjson",
        /// The WebSocket for telemetry.
        Websocket = "websocket",
        /// `GET /v1/sessions/{id}/events`
        Events = "events",
    }
}

label! {
    /// The outcome of a message on a stream.
    MessageOutcome {
        /// A batch was accepted.
        Accepted = "accepted",
        /// A batch was refused.
        Refused = "refused",
        /// A message was sent.
        Sent = "sent",
    }
}

label! {
    /// The reason why a stream was closed or refused.
    StreamEnd {
        /// Everything was answered, or the session has ended.
        Finished = "finished",
        /// The peer disconnected.
        Gone = "gone",
        /// The peer was silent or did not read.
        Silent = "silent",
        /// The peer broke a rule, for example with a message that is too large or a revoked
        /// credential.
        Policy = "policy",
        /// The store failed, or its data is damaged.
        Failed = "failed",
        /// The node is stopping.
        Draining = "draining",
        /// Refused: the maximum number of streams is open.
        Full = "full",
    }
}

/// The metric handles of streams.
#[derive(Debug)]
pub struct StreamMetrics {
    open: Vec<Gauge>,
    messages: Vec<Vec<Counter>>,
    ended: Vec<Vec<Counter>>,
}

impl StreamMetrics {
    /// Returns the handles, created at the first call.
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

    /// Counts a message.
    pub fn on_message(&self, kind: StreamKind, outcome: MessageOutcome) {
        self.messages[kind as usize][outcome as usize].increment(1);
    }

    /// Counts a stream that ended or was refused.
    pub fn on_ended(&self, kind: StreamKind, reason: StreamEnd) {
        self.ended[kind as usize][reason as usize].increment(1);
    }

    /// Creates every series at 0.
    pub(super) fn reset(&self) {
        self.open.iter().for_each(|open| open.set(0.0));
    }
}

/// Counts a stream as open until dropped.
#[derive(Debug)]
pub struct Open(StreamKind);

impl Open {
    /// Counts an opened stream.
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
