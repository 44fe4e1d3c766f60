//! What passes between nodes. Labels are closed enums; a node's name stands in the log.

use std::sync::LazyLock;

use metrics::{Counter, Gauge, Histogram};

use super::name;

label! {
    /// How a hand-over of a batch to the node that acts for its session went.
    HandOver {
        /// It took it.
        Taken = "taken",
        /// It does not act for the session (any more).
        Refused = "refused",
        /// There was no room in the queue, or the batch is too large for it.
        Full = "full",
        /// Nobody is known to act for the session.
        NoOwner = "no_owner",
        /// The node did not answer, or answered something else.
        Failed = "failed",
    }
}

label! {
    /// How a nudge went.
    Nudged {
        /// The node was told.
        Told = "told",
        /// Nobody is known who would have to be told, or there was no room, or the node did not answer.
        Lost = "lost",
    }
}

label! {
    /// How a question about a live session to the node that acts for it went.
    LiveOutcome {
        /// It answered.
        Answered = "answered",
        /// It does not act for the session (any more).
        NotOwner = "not_owner",
        /// It did not answer, or nobody is known to act for the session: the last snapshot had to do.
        Unreachable = "unreachable",
    }
}

label! {
    /// What one node wants of another.
    PeerRoute {
        /// To hand over batches.
        HandOver = "hand_over",
        /// To have it look at the store.
        Nudge = "nudge",
        /// To know the events of a live session.
        Live = "live",
        /// To know what has changed in a live session.
        Told = "told",
    }
}

label! {
    /// How a request of another node was answered.
    PeerAnswer {
        /// As asked.
        Ok = "ok",
        /// It does not know the secret, or speaks to another node.
        Unauthorized = "unauthorized",
        /// It is not understood, or too large.
        Invalid = "invalid",
    }
}

/// The handles.
#[derive(Debug)]
pub struct PeerMetrics {
    hand_overs: Vec<Counter>,
    nudges: Vec<Counter>,
    live: Vec<Counter>,
    requests: Vec<Histogram>,
    answers: Vec<Counter>,
    /// Batches that wait to be handed over.
    pub waiting: Gauge,
    /// Batches that were found in the journal and that nobody had handed over.
    pub repaired: Counter,
    /// Sessions that were to be looked at, for which there was no room.
    pub looks_lost: Counter,
}

impl PeerMetrics {
    fn new() -> Self {
        let hand_overs = |outcome: &HandOver| metrics::counter!(name::PEER_HAND_OVERS_TOTAL, "outcome" => outcome.as_str());
        let nudges = |outcome: &Nudged| metrics::counter!(name::PEER_NUDGES_TOTAL, "outcome" => outcome.as_str());
        let live = |outcome: &LiveOutcome| metrics::counter!(name::PEER_LIVE_READS_TOTAL, "outcome" => outcome.as_str());
        let requests = |route: &PeerRoute| metrics::histogram!(name::PEER_REQUEST_SECONDS, "route" => route.as_str());
        let answers = |answer: &PeerAnswer| metrics::counter!(name::PEER_ANSWERS_TOTAL, "answer" => answer.as_str());
        Self {
            hand_overs: HandOver::ALL.iter().map(hand_overs).collect(),
            nudges: Nudged::ALL.iter().map(nudges).collect(),
            live: LiveOutcome::ALL.iter().map(live).collect(),
            requests: PeerRoute::ALL.iter().map(requests).collect(),
            answers: PeerAnswer::ALL.iter().map(answers).collect(),
            waiting: metrics::gauge!(name::PEER_WAITING_BATCHES),
            repaired: metrics::counter!(name::PEER_HAND_OVERS_REPAIRED_TOTAL),
            looks_lost: metrics::counter!(name::PEER_LOOKS_LOST_TOTAL),
        }
    }

    /// The handles; resolved at the first call, which must come after the recorder was installed.
    #[must_use]
    pub fn get() -> &'static Self {
        static METRICS: LazyLock<PeerMetrics> = LazyLock::new(PeerMetrics::new);
        &METRICS
    }

    /// All gauges at 0.
    pub(crate) fn reset(&self) {
        self.waiting.set(0.0);
    }

    /// So many batches were, or were not, handed over.
    pub fn on_hand_over(&self, outcome: HandOver, batches: usize) {
        self.hand_overs[outcome as usize].increment(batches as u64);
    }

    /// So many nudges went, or did not go.
    pub fn on_nudge(&self, outcome: Nudged, nudges: usize) {
        self.nudges[outcome as usize].increment(nudges as u64);
    }

    /// A question about a live session.
    pub fn on_live(&self, outcome: LiveOutcome) {
        self.live[outcome as usize].increment(1);
    }

    /// A request to another node took so long, whatever came of it.
    pub fn on_request(&self, route: PeerRoute, seconds: f64) {
        self.requests[route as usize].record(seconds);
    }

    /// A request of another node was answered.
    pub fn on_answer(&self, answer: PeerAnswer) {
        self.answers[answer as usize].increment(1);
    }
}
