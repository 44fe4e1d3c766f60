//! Server-sent events of the pages that follow live sessions: the limits on open streams, the
//! response and the check of the key.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use actix_web::HttpResponse;
use actix_web::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use actix_web::web::Bytes;
use futures_util::Stream;
use porchlight_actors::service::{SharePermit, TenantUsage};
use porchlight_http::State;
use porchlight_http::problem::{Code, Problem, share_exceeded};
use porchlight_observe::shares::{Share, ShareMetrics};
use porchlight_schema::limits::{
    NODE_CONSOLE_STREAMS_MAX, RETRY_AFTER_SEC, TENANT_CONSOLE_STREAMS_MAX,
};
use porchlight_schema::session::Tenant;

/// The number of open streams of each tenant; tenants without a stream are missing.
#[derive(Debug, Clone, Default)]
pub(crate) struct Streams(Arc<Mutex<HashMap<Tenant, usize>>>);

/// The permit of one open stream, which counts until it is dropped.
pub(crate) struct StreamPermit {
    streams: Streams,
    tenant: Tenant,
    /// Counts the stream among the tenant's event streams.
    _share: SharePermit,
}

impl Streams {
    /// Returns a permit for one more stream of a tenant, whose use of the node is `usage`.
    ///
    /// # Errors
    ///
    /// Returns 429 while the tenant has its maximum number of streams; `overloaded` while the node
    /// has.
    pub(crate) fn open(
        &self,
        tenant: Tenant,
        usage: &Arc<TenantUsage>,
    ) -> Result<StreamPermit, Problem> {
        let share = usage.hold(Share::EventStreams).map_err(share_exceeded)?;
        let mut open = self.lock();
        let of_tenant = open.get(&tenant).copied().unwrap_or_default();
        if of_tenant >= TENANT_CONSOLE_STREAMS_MAX {
            ShareMetrics::get().on_refused(Share::EventStreams);
            let detail = "Your organization has too many open live pages. Close some, and reload.";
            let problem = Problem::new(Code::TenantEventStreams, detail);
            return Err(problem.retry_after_sec(RETRY_AFTER_SEC));
        }
        if open.values().sum::<usize>() >= NODE_CONSOLE_STREAMS_MAX {
            let detail = "Too many live pages are open. Close some, and reload.";
            return Err(Problem::new(Code::Overloaded, detail));
        }
        open.insert(tenant, of_tenant + 1);
        Ok(StreamPermit {
            streams: self.clone(),
            tenant,
            _share: share,
        })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Tenant, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for StreamPermit {
    fn drop(&mut self) {
        let mut open = self.streams.lock();
        match open.get_mut(&self.tenant) {
            Some(of_tenant) if *of_tenant > 1 => *of_tenant -= 1,
            _ => drop(open.remove(&self.tenant)),
        }
    }
}

/// Returns the response that sends `messages` as server-sent events.
pub(crate) fn event_stream(
    messages: impl Stream<Item = Result<Bytes, Problem>> + 'static,
) -> HttpResponse {
    HttpResponse::Ok()
        .insert_header((CONTENT_TYPE, "text/event-stream"))
        .insert_header((CACHE_CONTROL, "no-store"))
        .insert_header(("x-accel-buffering", "no"))
        .streaming(messages)
}

/// Returns whether the key that opened a stream is still valid. A failed lookup counts as valid, so
/// that an outage of the store does not close the streams. The check counts against no rate.
pub(crate) async fn is_key_valid(state: &State, key_hash: [u8; 32]) -> bool {
    let now = state.service.now();
    !state.auth.is_key_revoked(key_hash, now).await
}

#[cfg(test)]
mod tests {
    use porchlight_actors::shares::TenantShares;
    use porchlight_core::shares::ShareLimits;
    use porchlight_schema::ids::OrganizationId;
    use porchlight_schema::session::Env;

    use super::*;

    fn open(streams: &Streams, number: usize) -> Result<StreamPermit, Code> {
        let tenant = Tenant {
            organization_id: OrganizationId::from_bytes([number as u8; 16]),
            env: Env::Sandbox,
        };
        let usage = TenantShares::new(ShareLimits::default()).of(tenant);
        let permit = streams.open(tenant, &usage);
        permit.map_err(|problem| problem.code())
    }

    #[test]
    fn a_tenant_uses_a_part_of_the_streams_of_a_node() {
        let streams = Streams::default();
        let of_tenant = |_| open(&streams, 0).unwrap();
        let mut held: Vec<_> = (0..TENANT_CONSOLE_STREAMS_MAX).map(of_tenant).collect();
        assert_eq!(open(&streams, 0).err(), Some(Code::TenantEventStreams));
        assert!(open(&streams, 1).is_ok());
        held.pop();
        assert!(open(&streams, 0).is_ok());
        drop(held);
        assert!(streams.lock().is_empty());
    }

    #[test]
    fn the_streams_of_a_node_are_bounded() {
        let streams = Streams::default();
        let of_some = |number| open(&streams, number / TENANT_CONSOLE_STREAMS_MAX).unwrap();
        let held: Vec<_> = (0..NODE_CONSOLE_STREAMS_MAX).map(of_some).collect();
        assert_eq!(open(&streams, 255).err(), Some(Code::Overloaded));
        drop(held);
        assert!(open(&streams, 255).is_ok());
    }
}
