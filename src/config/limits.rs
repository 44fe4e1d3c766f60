//! The limits of one tenant on this node: the section `[limits]`.

use porchlight_core::shares::ShareLimits;
use serde::{Deserialize, Serialize};

use super::deserialize;

/// The largest part of this node that one tenant (an organization in one environment) may use. A
/// request beyond a limit is refused with 429 and a code of the same name. 0 means "no limit".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Bytes of request bodies that have arrived and are not answered.
    #[serde(deserialize_with = "deserialize::whole_number")]
    pub tenant_in_flight_bytes: u64,
    /// Requests in flight.
    #[serde(deserialize_with = "deserialize::whole_number")]
    pub tenant_requests: u64,
    /// The number of open WebSockets.
    #[serde(deserialize_with = "deserialize::whole_number")]
    pub tenant_sockets: u64,
    /// Open event streams.
    #[serde(deserialize_with = "deserialize::whole_number")]
    pub tenant_event_streams: u64,
    /// Sessions in progress.
    #[serde(deserialize_with = "deserialize::whole_number")]
    pub tenant_live_sessions: u64,
    /// Lists that are being read.
    #[serde(deserialize_with = "deserialize::whole_number")]
    pub tenant_lists: u64,
    /// Sessions started per second; [`ShareLimits`] states the burst.
    #[serde(deserialize_with = "deserialize::whole_number")]
    pub tenant_session_starts_per_second: u32,
    /// PoDs of completed sessions replaced per second; [`ShareLimits`] states the burst.
    #[serde(deserialize_with = "deserialize::whole_number")]
    pub tenant_pod_changes_per_second: u32,
    /// Bytes of telemetry stored per second; [`ShareLimits`] states the burst.
    #[serde(deserialize_with = "deserialize::whole_number")]
    pub tenant_stored_bytes_per_second: u64,
}

impl Default for Limits {
    fn default() -> Self {
        let shares = ShareLimits::default();
        Self {
            tenant_in_flight_bytes: shares.in_flight_bytes,
            tenant_requests: shares.requests,
            tenant_sockets: shares.sockets,
            tenant_event_streams: shares.event_streams,
            tenant_live_sessions: shares.live_sessions,
            tenant_lists: shares.lists,
            tenant_session_starts_per_second: shares.session_starts_per_sec,
            tenant_pod_changes_per_second: shares.pod_changes_per_sec,
            tenant_stored_bytes_per_second: shares.stored_bytes_per_sec,
        }
    }
}

impl Limits {
    /// Returns the limits of the shares in the form that the actors use.
    #[must_use]
    pub fn shares(&self) -> ShareLimits {
        ShareLimits {
            in_flight_bytes: self.tenant_in_flight_bytes,
            requests: self.tenant_requests,
            sockets: self.tenant_sockets,
            event_streams: self.tenant_event_streams,
            live_sessions: self.tenant_live_sessions,
            lists: self.tenant_lists,
            session_starts_per_sec: self.tenant_session_starts_per_second,
            pod_changes_per_sec: self.tenant_pod_changes_per_second,
            stored_bytes_per_sec: self.tenant_stored_bytes_per_second,
        }
    }
}
