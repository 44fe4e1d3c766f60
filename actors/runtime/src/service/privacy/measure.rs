//! Shows the privacy requests of this node in its metrics.

use std::collections::BTreeMap;

use porchlight_core::privacy::PrivacyRequest;
use porchlight_observe::privacy::{OpenRequests, PrivacyMetrics, PrivacyOutcome, PrivacyType};
use porchlight_ports::StoreResult;
use porchlight_schema::privacy::{RequestStatus, RequestType};

use super::super::Service;
use super::requests::open_requests;
use crate::privacy::tenant_of;

/// The number of open requests read per query.
const OPEN_AT_ONCE: usize = 500;

fn type_of(request: &PrivacyRequest) -> PrivacyType {
    match request.request_type {
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
    PrivacyMetrics::get().on_ended(type_of(request), outcome);
}

impl Service {
    /// Counts the open requests of the tenants that this node acts for, and finds the oldest.
    pub(super) async fn measure_open_requests(&self) -> StoreResult<()> {
        let mut open: BTreeMap<PrivacyType, OpenRequests> = BTreeMap::new();
        let mut after = None;
        loop {
            let page = self.store().documents(open_requests(), after, OPEN_AT_ONCE);
            let page = page.await?;
            let is_last = page.len() < OPEN_AT_ONCE;
            after = page.last().map(|document| document.key.clone());
            for document in page {
                let Some((tenant, rest)) = tenant_of(&document.key) else {
                    continue;
                };
                let ownership = &self.registry().ports().ownership;
                let is_ours = ownership
                    .generation(tenant.organization_id.shard())
                    .is_some();
                let Some(hash) = <[u8; 32]>::try_from(rest).ok().filter(|_| is_ours) else {
                    continue;
                };
                let request = self.privacy(tenant).find_by(hash).await?;
                let Some(request) = request.filter(|request| !request.is_over()) else {
                    continue;
                };
                let received_sec = request.received_at.0 as f64 / 1_000.0;
                let of_type = open.entry(type_of(&request)).or_default();
                of_type.oldest_sec = match of_type.count {
                    0 => received_sec,
                    _ => of_type.oldest_sec.min(received_sec),
                };
                of_type.count = of_type.count.saturating_add(1);
            }
            if is_last {
                break;
            }
        }
        for &kind in PrivacyType::ALL {
            let of_type = open.get(&kind).copied().unwrap_or_default();
            PrivacyMetrics::get().set_open(kind, of_type);
        }
        Ok(())
    }
}
