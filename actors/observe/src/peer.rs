//! Metrics of traffic between nodes. Labels are closed enums; the names of nodes are in the log.

use std::sync::LazyLock;

use metrics::{Counter, Gauge, Histogram};

use super::name;

label! {
    /// The outcome of forwarding a batch to its session's owner.
    Forwarded {
        /// The owner accepted the batch.
        Taken = "taken",
        /// The node does not own the session.
        Refused = "refused",
        /// The queue was full, or the batch is too large for it.
        Full = "full",
        /// The owner is unknown.
        NoOwner = "no_owner",
        /// The node did not answer, or answered with an error.
        Failed = "failed",
    }
}

label! {
    /// The outcome of a nudge.
    Nudged {
        /// The node received the nudge.
        Sent = "sent",
        /// The owner is unknown, the queue was full, or the node did not answer.
        Lost = "lost",
    }
}

label! {
    /// The outcome of a question about a live session.
    LiveOutcome {
        /// The peer answered.
        Answered = "answered",
        /// The asked node does not act for the session.
        NotOwner = "not_owner",
        /// The owner is unknown or did not answer; the last snapshot was used.
        Unreachable = "unreachable",
    }
}

label! {
    /// The purpose of a request between nodes.
    PeerRoute {
        /// The forwarding of batches.
        Forwarded = "forward",
        /// Asking for a reconciliation.
        Nudge = "nudge",
        /// Reporting new messages.
        Messages = "messages",
        /// Asking for the events of a live session.
        Live = "live",
        /// Asking for the changes of a live session.
        Changes = "changes",
    }
}

label! {
    /// The answer to another node's request.
    PeerAnswer {
        /// The request was answered.
        Ok = "ok",
        /// The sender does not know the secret, or addressed another node.
        Unauthorized = "unauthorized",
        /// The request is malformed or too large.
        Invalid = "invalid",
    }
}

/// The metric handles.
#[derive(Debug)]
pub struct PeerMetrics {
    forwarded: Vec<Counter>,
    nudges: Vec<Counter>,
    live: Vec<Counter>,
    requests: Vec<Histogram>,
    answers: Vec<Counter>,
    /// Batches waiting to be forwarded.
    pub waiting: Gauge,
    /// Batches that the owner found in the journal instead of receiving them.
    pub repaired: Counter,
    /// Sessions that could not be queued for reconciliation.
    pub reconciles_dropped: Counter,
}

impl PeerMetrics {
    fn new() -> Self {
        let forwarded = |outcome: &Forwarded| metrics::counter!(name::PEER_FORWARDED_BATCHES_TOTAL, "outcome" => outcome.as_str());
        let nudges = |outcome: &Nudged| metrics::counter!(name::PEER_NUDGES_TOTAL, "outcome" => outcome.as_str());
        let live = |outcome: &LiveOutcome| metrics::counter!(name::PEER_LIVE_READS_TOTAL, "outcome" => outcome.as_str());
        let requests = |route: &PeerRoute| metrics::histogram!(name::PEER_REQUEST_SECONDS, "route" => route.as_str());
        let answers = |answer: &PeerAnswer| metrics::counter!(name::PEER_ANSWERS_TOTAL, "answer" => answer.as_str());
        Self {
            forwarded: Forwarded::ALL.iter().map(forwarded).collect(),
            nudges: Nudged::ALL.iter().map(nudges).collect(),
            live: LiveOutcome::ALL.iter().map(live).collect(),
            requests: PeerRoute::ALL.iter().map(requests).collect(),
            answers: PeerAnswer::ALL.iter().map(answers).collect(),
            waiting: metrics::gauge!(name::PEER_WAITING_BATCHES),
            repaired: metrics::counter!(name::PEER_FORWARDED_BATCHES_REPAIRED_TOTAL),
            reconciles_dropped: metrics::counter!(name::PEER_LOOKS_LOST_TOTAL),
        }
    }

    /// Returns the handles, created at the first call, which must follow the installation of the
    /// recorder.
    #[must_use]
    pub fn get() -> &'static Self {
        static METRICS: LazyLock<PeerMetrics> = LazyLock::new(PeerMetrics::new);
        &METRICS
    }

    /// Sets all gauges to 0.
    pub(crate) fn reset(&self) {
        self.waiting.set(0.0);
    }

    /// Counts forwarded batches.
    pub fn on_forward(&self, outcome: Forwarded, batches: usize) {
        self.forwarded[outcome as usize].increment(batches as u64);
    }

    /// Counts nudges by outcome.
    pub fn on_nudge(&self, outcome: Nudged, nudges: usize) {
        self.nudges[outcome as usize].increment(nudges as u64);
    }

    /// Counts a question about a live session.
    pub fn on_live(&self, outcome: LiveOutcome) {
        self.live[outcome as usize].increment(1);
    }

    /// Records the duration of a request to another node.
    pub fn on_request(&self, route: PeerRoute, seconds: f64) {
        self.requests[route as usize].record(seconds);
    }

    /// Counts an answer to another node's request.
    pub fn on_answer(&self, answer: PeerAnswer) {
        self.answers[answer as usize].increment(1);
    }
}
