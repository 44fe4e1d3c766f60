//! The shares of this node that tenants use. A permit is counted when work begins and returned when
//! it ends.
//!
//! A tenant is an organization in one environment. Usage is counted on this node only. The number
//! of tenants is bounded by the organizations that operators created, because only a valid
//! credential names one.

mod large_bodies;

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use dashmap::DashMap;
use porchlight_core::shares::{ShareLimits, TokenBucket};
use porchlight_observe::shares::{Share, ShareMetrics};
use porchlight_schema::limits::RETRY_AFTER_SEC;
use porchlight_schema::session::Tenant;
use tokio::sync::Semaphore;

use large_bodies::LargeBodies;
pub use large_bodies::{LargeBodyPermit, LargeBodyRefused, large_bodies_at_once};

/// The error of a tenant that has used up one of its shares of this node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the tenant's share of {} is used up", share.as_str())]
pub struct ShareExceeded {
    /// The exceeded share.
    pub share: Share,
    /// The time after which a retry can succeed, in seconds.
    pub retry_after_sec: u64,
}

/// All tenants' use of this node.
#[derive(Debug)]
pub struct TenantShares {
    limits: ShareLimits,
    tenants: DashMap<Tenant, Arc<TenantUsage>>,
    /// The permits of this node for large bodies.
    large_bodies: Arc<Semaphore>,
}

/// The usage of this node by one tenant.
#[derive(Debug)]
pub struct TenantUsage {
    limits: ShareLimits,
    /// The usage of each [`Share`]; the usage of a rate stays 0.
    used: [AtomicU64; Share::ALL.len()],
    /// Batches between their last byte and their acknowledgement.
    batches: AtomicU32,
    session_starts: Option<Mutex<TokenBucket>>,
    pod_changes: Option<Mutex<TokenBucket>>,
    stored_bytes: Option<Mutex<TokenBucket>>,
    large_bodies: LargeBodies,
}

/// A part of a tenant's share, which is returned when the permit is dropped.
#[derive(Debug)]
pub struct SharePermit {
    usage: Arc<TenantUsage>,
    share: Share,
}

impl TenantShares {
    /// Creates the shares without any usage.
    #[must_use]
    pub fn new(limits: ShareLimits) -> Self {
        Self {
            limits,
            tenants: DashMap::new(),
            large_bodies: large_bodies::of_node(),
        }
    }

    /// Returns the usage of a tenant.
    #[must_use]
    pub fn of(&self, tenant: Tenant) -> Arc<TenantUsage> {
        if let Some(usage) = self.tenants.get(&tenant) {
            return Arc::clone(&usage);
        }
        let entry = self.tenants.entry(tenant);
        let usage = || Arc::new(TenantUsage::new(self.limits, &self.large_bodies));
        Arc::clone(&entry.or_insert_with(usage))
    }

    /// Publishes the limit of each share and its largest usage by one tenant as metrics.
    pub fn show(&self) {
        let mut largest = [0; Share::ALL.len()];
        for usage in &self.tenants {
            for (largest, used) in largest.iter_mut().zip(&usage.used) {
                *largest = used.load(Ordering::Relaxed).max(*largest);
            }
        }
        let metrics = ShareMetrics::get();
        for (&share, used) in Share::ALL.iter().zip(largest) {
            metrics.show_limit(share, limit_of(&self.limits, share));
            metrics.show_largest(share, used);
        }
    }
}

/// Returns the limit of a share; 0 means none.
fn limit_of(limits: &ShareLimits, share: Share) -> u64 {
    match share {
        Share::InFlightBytes => limits.in_flight_bytes,
        Share::Requests => limits.requests,
        Share::Sockets => limits.sockets,
        Share::EventStreams => limits.event_streams,
        Share::LiveSessions => limits.live_sessions,
        Share::Lists => limits.lists,
        Share::SessionStarts => u64::from(limits.session_starts_per_sec),
        Share::PodChanges => u64::from(limits.pod_changes_per_sec),
        Share::StoredBytes => limits.stored_bytes_per_sec,
    }
}

impl TenantUsage {
    fn new(limits: ShareLimits, large_bodies: &Arc<Semaphore>) -> Self {
        Self {
            limits,
            used: Default::default(),
            batches: AtomicU32::new(0),
            session_starts: limits.session_starts().map(Mutex::new),
            pod_changes: limits.pod_changes().map(Mutex::new),
            stored_bytes: limits.stored_bytes().map(Mutex::new),
            large_bodies: LargeBodies::new(Arc::clone(large_bodies)),
        }
    }

    fn used(&self, share: Share) -> &AtomicU64 {
        &self.used[share as usize]
    }

    /// Counts one more use of a share until the permit is dropped.
    ///
    /// # Errors
    ///
    /// Returns an error if the share is used up.
    pub fn hold(self: &Arc<Self>, share: Share) -> Result<SharePermit, ShareExceeded> {
        let (permit, before) = self.acquire(share);
        let limit = limit_of(&self.limits, share);
        if limit > 0 && before >= limit {
            return Err(exceeded(share, RETRY_AFTER_SEC));
        }
        Ok(permit)
    }

    /// Counts one more use of a share regardless of its limit, for an object that exists already.
    #[must_use]
    pub fn acquire_over_limit(self: &Arc<Self>, share: Share) -> SharePermit {
        self.acquire(share).0
    }

    /// Counts one more use of a share, and returns its permit and the number of uses before.
    fn acquire(self: &Arc<Self>, share: Share) -> (SharePermit, u64) {
        let before = self.used(share).fetch_add(1, Ordering::Relaxed);
        let usage = Arc::clone(self);
        (SharePermit { usage, share }, before)
    }

    /// Counts additional in-flight bytes regardless of the limit. Returns an error if they exceed
    /// the share; they are counted nevertheless.
    pub(crate) fn add_bytes(&self, bytes: usize) -> Result<(), ShareExceeded> {
        let (share, bytes) = (Share::InFlightBytes, bytes as u64);
        let before = self.used(share).fetch_add(bytes, Ordering::Relaxed);
        let limit = self.limits.in_flight_bytes;
        if limit > 0 && before + bytes > limit {
            return Err(exceeded(share, RETRY_AFTER_SEC));
        }
        Ok(())
    }

    /// Returns an error if one more in-flight byte would exceed the share.
    pub(crate) fn check_bytes(&self) -> Result<(), ShareExceeded> {
        let limit = self.limits.in_flight_bytes;
        if limit > 0 && self.used(Share::InFlightBytes).load(Ordering::Relaxed) >= limit {
            return Err(exceeded(Share::InFlightBytes, RETRY_AFTER_SEC));
        }
        Ok(())
    }

    pub(crate) fn remove_bytes(&self, bytes: usize) {
        self.used(Share::InFlightBytes)
            .fetch_sub(bytes as u64, Ordering::Relaxed);
    }

    /// Waits for a permit to work on a large body.
    ///
    /// # Errors
    ///
    /// Returns an error if no permit was free in time; see [`LargeBodyRefused`].
    pub async fn acquire_large_body(&self) -> Result<LargeBodyPermit, LargeBodyRefused> {
        self.large_bodies.acquire().await
    }

    /// Batches between their last byte and their acknowledgement.
    pub(crate) fn batches(&self) -> &AtomicU32 {
        &self.batches
    }

    /// Counts the start of a session at `uptime_ms`.
    ///
    /// # Errors
    ///
    /// Returns an error if the tenant starts more sessions in a second than it may.
    pub(crate) fn start_session(&self, uptime_ms: i64) -> Result<(), ShareExceeded> {
        let bucket = self.session_starts.as_ref();
        use_bucket(bucket, Share::SessionStarts, uptime_ms, TokenBucket::take)
    }

    /// Counts that the PoD of a completed session is replaced at `uptime_ms`.
    ///
    /// # Errors
    ///
    /// Returns an error if the tenant replaces more of them in a second than it may.
    pub(crate) fn change_pod(&self, uptime_ms: i64) -> Result<(), ShareExceeded> {
        let bucket = self.pod_changes.as_ref();
        use_bucket(bucket, Share::PodChanges, uptime_ms, TokenBucket::take)
    }

    /// Checks at `uptime_ms` that the tenant may store more telemetry.
    ///
    /// # Errors
    ///
    /// Returns an error if the tenant stored more bytes than it may by now.
    pub(crate) fn check_stored_bytes(&self, uptime_ms: i64) -> Result<(), ShareExceeded> {
        let bucket = self.stored_bytes.as_ref();
        use_bucket(bucket, Share::StoredBytes, uptime_ms, TokenBucket::check)
    }

    /// Counts bytes of telemetry that were stored at `uptime_ms`.
    pub(crate) fn add_stored_bytes(&self, uptime_ms: i64, bytes: usize) {
        if let Some(bucket) = &self.stored_bytes {
            let mut bucket = bucket.lock().unwrap_or_else(PoisonError::into_inner);
            bucket.spend(uptime_ms.max(0).unsigned_abs(), bytes as u64);
        }
    }
}

/// Checks or takes a token of a bucket, if there is a limit.
fn use_bucket(
    bucket: Option<&Mutex<TokenBucket>>,
    share: Share,
    uptime_ms: i64,
    operation: impl FnOnce(&mut TokenBucket, u64) -> Result<(), u64>,
) -> Result<(), ShareExceeded> {
    let Some(bucket) = bucket else {
        return Ok(());
    };
    let mut bucket = bucket.lock().unwrap_or_else(PoisonError::into_inner);
    let done = operation(&mut bucket, uptime_ms.max(0).unsigned_abs());
    done.map_err(|wait_ms| exceeded(share, wait_ms.div_ceil(1_000)))
}

fn exceeded(share: Share, retry_after_sec: u64) -> ShareExceeded {
    ShareMetrics::get().on_refused(share);
    ShareExceeded {
        share,
        retry_after_sec,
    }
}

impl Drop for SharePermit {
    fn drop(&mut self) {
        self.usage.used(self.share).fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use porchlight_schema::ids::OrganizationId;
    use porchlight_schema::session::Env;

    use super::*;

    fn tenant(number: u8) -> Tenant {
        Tenant {
            organization_id: OrganizationId::from_bytes([number; 16]),
            env: Env::Sandbox,
        }
    }

    fn shares(limits: ShareLimits) -> TenantShares {
        TenantShares::new(limits)
    }

    #[test]
    fn an_exhausted_share_is_refused_only_to_its_tenant() {
        let shares = shares(ShareLimits {
            sockets: 2,
            ..ShareLimits::default()
        });
        let one = shares.of(tenant(1));
        let first = one.hold(Share::Sockets).unwrap();
        let second = one.hold(Share::Sockets).unwrap();
        let refused = one.hold(Share::Sockets).unwrap_err();
        assert_eq!(refused.share, Share::Sockets);
        assert!(shares.of(tenant(2)).hold(Share::Sockets).is_ok());
        drop(first);
        assert!(one.hold(Share::Sockets).is_ok(), "a refusal holds nothing");
        drop(second);
        assert_eq!(one.used(Share::Sockets).load(Ordering::Relaxed), 0);
    }

    #[test]
    fn existing_holders_are_counted_beyond_the_limit() {
        let limits = ShareLimits {
            live_sessions: 1,
            ..ShareLimits::default()
        };
        let usage = shares(limits).of(tenant(1));
        let found = [(); 3].map(|()| usage.acquire_over_limit(Share::LiveSessions));
        assert!(usage.hold(Share::LiveSessions).is_err());
        drop(found);
        assert!(usage.hold(Share::LiveSessions).is_ok());
    }

    #[test]
    fn a_limit_of_0_means_no_limit() {
        let limits = ShareLimits {
            in_flight_bytes: 0,
            requests: 0,
            session_starts_per_sec: 0,
            ..ShareLimits::default()
        };
        let usage = shares(limits).of(tenant(1));
        let permits: Vec<_> = (0..10_000).map(|_| usage.hold(Share::Requests)).collect();
        assert!(permits.iter().all(Result::is_ok));
        assert!(usage.add_bytes(usize::MAX / 2).is_ok());
        assert!((0..10_000).all(|_| usage.start_session(0).is_ok()));
    }

    #[test]
    fn a_tenant_stores_no_more_until_its_rate_allows_it() {
        let limits = ShareLimits {
            stored_bytes_per_sec: 100,
            ..ShareLimits::default()
        };
        let shares = shares(limits);
        let usage = shares.of(tenant(1));
        assert!(usage.check_stored_bytes(0).is_ok());
        usage.add_stored_bytes(0, 3_250);
        let refused = usage.check_stored_bytes(0).unwrap_err();
        assert_eq!(
            (refused.share, refused.retry_after_sec),
            (Share::StoredBytes, 3)
        );
        assert!(shares.of(tenant(2)).check_stored_bytes(0).is_ok());
        assert!(usage.check_stored_bytes(3_000).is_ok());
    }

    #[test]
    fn starts_are_refused_with_the_time_until_the_next_one() {
        let limits = ShareLimits {
            session_starts_per_sec: 1,
            ..ShareLimits::default()
        };
        let usage = shares(limits).of(tenant(1));
        assert!(usage.start_session(0).is_ok());
        assert!(usage.start_session(0).is_ok());
        let refused = usage.start_session(0).unwrap_err();
        assert_eq!(
            (refused.share, refused.retry_after_sec),
            (Share::SessionStarts, 1)
        );
        assert!(usage.start_session(1_000).is_ok());
    }
}
