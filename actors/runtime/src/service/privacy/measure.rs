//! Shows the privacy requests of this node in its metrics.

use std::collections::BTreeMap;

use porchlight_core::privacy::PrivacyRequest;
use porchlight_observe::privacy::{OpenRequests, PrivacyMetrics, PrivacyOutcome, PrivacyType};
use porchlight_schema::privacy::{RequestStatus, RequestType};
use porchlight_schema::time::TimestampMs;

fn label_of(request_type: RequestType) -> PrivacyType {
    match request_type {
        RequestType::Erasure => PrivacyType::Erasure,
        RequestType::Access => PrivacyType::Access,
        RequestType::Restriction => PrivacyType::Restriction,
        RequestType::Release => PrivacyType::Release,
    }
}

/// Counts a request that is over.
pub(super) fn on_ended(request: &PrivacyRequest) {
    let outcome = match request.status {
        RequestStatus::Completed => PrivacyOutcome::Completed,
        RequestStatus::Cancelled => PrivacyOutcome::Cancelled,
        RequestStatus::Failed => PrivacyOutcome::Failed,
        RequestStatus::Pending | RequestStatus::InProgress => return,
    };
    PrivacyMetrics::get().on_ended(label_of(request.request_type), outcome);
}

/// Shows the open requests of the tenants that this node acts for: their type and time of receipt.
pub(super) fn show(requests: impl Iterator<Item = (RequestType, TimestampMs)>) {
    let mut open: BTreeMap<PrivacyType, OpenRequests> = BTreeMap::new();
    for (request_type, received_at) in requests {
        let received_sec = received_at.0 as f64 / 1_000.0;
        let of_type = open.entry(label_of(request_type)).or_default();
        of_type.oldest_sec = match of_type.count {
            0 => received_sec,
            _ => of_type.oldest_sec.min(received_sec),
        };
        of_type.count = of_type.count.saturating_add(1);
    }
    for &kind in PrivacyType::ALL {
        let of_type = open.get(&kind).copied().unwrap_or_default();
        PrivacyMetrics::get().set_open(kind, of_type);
    }
}
