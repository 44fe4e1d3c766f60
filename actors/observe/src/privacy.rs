//! Metrics of privacy requests.

use std::sync::LazyLock;

use metrics::{Counter, Gauge};

use super::name;

label! {
    /// The type of a privacy request.
    PrivacyType {
        /// Removes all data about a subject.
        Erasure = "erasure",
        /// Collects all data about a subject.
        Access = "access",
        /// Freezes the sessions of a subject.
        Restriction = "restriction",
        /// Lifts restriction and suppression.
        Release = "release",
    }
}

label! {
    /// The final state of a privacy request.
    PrivacyOutcome {
        /// The node completed all work of the request.
        Completed = "completed",
        /// The customer cancelled the request while it was pending.
        Cancelled = "cancelled",
        /// The request cannot be completed.
        Failed = "failed",
    }
}

/// The open requests of one type.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct OpenRequests {
    /// The number of requests that are pending or in progress.
    pub count: u32,
    /// The time at which the oldest open request was received, in Unix seconds; 0 if there is none.
    pub oldest_sec: f64,
}

/// The metric handles of privacy requests.
#[derive(Debug)]
pub struct PrivacyMetrics {
    open: Vec<Gauge>,
    oldest: Vec<Gauge>,
    ended: Vec<Vec<Counter>>,
}

impl PrivacyMetrics {
    fn new() -> Self {
        let open = |kind: &PrivacyType| metrics::gauge!(name::PRIVACY_REQUESTS_OPEN, "type" => kind.as_str());
        let oldest = |kind: &PrivacyType| metrics::gauge!(name::PRIVACY_OLDEST_OPEN_TIMESTAMP_SECONDS, "type" => kind.as_str());
        let ended = |kind: &PrivacyType| {
            let kind = kind.as_str();
            let outcomes = PrivacyOutcome::ALL.iter();
            outcomes
                .map(|outcome| metrics::counter!(name::PRIVACY_REQUESTS_TOTAL, "type" => kind, "outcome" => outcome.as_str()))
                .collect()
        };
        Self {
            open: PrivacyType::ALL.iter().map(open).collect(),
            oldest: PrivacyType::ALL.iter().map(oldest).collect(),
            ended: PrivacyType::ALL.iter().map(ended).collect(),
        }
    }

    /// Returns the handles, created at the first call, which must follow the installation of the
    /// recorder.
    #[must_use]
    pub fn get() -> &'static Self {
        static METRICS: LazyLock<PrivacyMetrics> = LazyLock::new(PrivacyMetrics::new);
        &METRICS
    }

    /// Sets all gauges to 0.
    pub(crate) fn reset(&self) {
        for &kind in PrivacyType::ALL {
            self.set_open(kind, OpenRequests::default());
        }
    }

    /// Shows the open requests of a type whose tenants this node acts for.
    pub fn set_open(&self, kind: PrivacyType, open: OpenRequests) {
        self.open[kind as usize].set(f64::from(open.count));
        self.oldest[kind as usize].set(open.oldest_sec);
    }

    /// Counts a request that ended. A crash right after the end can count it twice.
    pub fn on_ended(&self, kind: PrivacyType, outcome: PrivacyOutcome) {
        self.ended[kind as usize][outcome as usize].increment(1);
    }
}
