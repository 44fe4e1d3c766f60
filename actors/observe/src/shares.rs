//! Metrics of the shares of this node: usage by tenants, and refusals because a share was used up.

use std::sync::LazyLock;

use metrics::{Counter, Gauge};

use super::name;

label! {
    /// A part of the node of which each tenant has a share.
    Share {
        /// Bytes of request bodies that have arrived and are not answered.
        InFlightBytes = "in_flight_bytes",
        /// Requests in flight.
        Requests = "requests",
        /// The number of open WebSockets.
        Sockets = "sockets",
        /// Open event streams.
        EventStreams = "event_streams",
        /// Sessions in progress.
        LiveSessions = "live_sessions",
        /// Lists that are being read.
        Lists = "lists",
        /// Session starts per second.
        SessionStarts = "session_starts",
        /// Replaced PoDs of completed sessions per second.
        PodChanges = "pod_changes",
        /// Bytes of telemetry stored per second.
        StoredBytes = "stored_bytes",
    }
}

/// The handles of shares.
#[derive(Debug)]
pub struct ShareMetrics {
    refused: Vec<Counter>,
    limit: Vec<Gauge>,
    largest: Vec<Gauge>,
}

impl ShareMetrics {
    /// Returns the handles, resolved at the first call.
    #[must_use]
    pub fn get() -> &'static Self {
        static METRICS: LazyLock<ShareMetrics> = LazyLock::new(ShareMetrics::new);
        &METRICS
    }

    fn new() -> Self {
        let all = Share::ALL.iter();
        let refused =
            |share: &Share| metrics::counter!(name::SHARE_REFUSED_TOTAL, "share" => share.as_str());
        let limit = |share: &Share| metrics::gauge!(name::SHARE_LIMIT, "share" => share.as_str());
        let largest =
            |share: &Share| metrics::gauge!(name::SHARE_LARGEST_USE, "share" => share.as_str());
        Self {
            refused: all.clone().map(refused).collect(),
            limit: all.clone().map(limit).collect(),
            largest: all.map(largest).collect(),
        }
    }

    /// Counts a refusal because a tenant's share is used up.
    pub fn on_refused(&self, share: Share) {
        self.refused[share as usize].increment(1);
    }

    /// Shows the configured limit of a share; 0 means none.
    pub fn show_limit(&self, share: Share, limit: u64) {
        self.limit[share as usize].set(limit as f64);
    }

    /// Sets the largest usage of a share by any one tenant.
    pub fn show_largest(&self, share: Share, used: u64) {
        self.largest[share as usize].set(used as f64);
    }

    /// Sets every series to 0.
    pub fn reset(&self) {
        for &share in Share::ALL {
            self.show_limit(share, 0);
            self.show_largest(share, 0);
        }
    }
}
