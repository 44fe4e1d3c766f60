//! Counts and times the batches of this node between their last byte and their acknowledgement, and
//! limits them to the number that the node is measured to handle ([`AdmissionLimit`]).
//!
//! The queue delay of a batch before its worker is part of its delay: an overloaded node is late
//! with reading long before its store is late with writing, and admitting less shortens both.
//!
//! A body that is still arriving is not counted here: a phone on a bad network takes seconds, and
//! costs only its bytes, which have a budget of their own.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use std::sync::{Mutex, MutexGuard, TryLockError};
use std::time::Duration;

use porchlight_core::admission::{AdmissionLimit, Interval, has_batch_room, is_light};
use porchlight_observe::Metrics;
use tokio::time::Instant;

use crate::shares::TenantUsage;

/// The interval at which the limit adapts: it spans several group commits and is short enough for a
/// load that rises within a second.
const INTERVAL: Duration = Duration::from_millis(100);

/// The limiter of admission, as described in the module documentation.
#[derive(Debug)]
pub(super) struct IngestLimiter {
    limit: AtomicU32,
    under_way: AtomicU32,
    // The next three fields are measurements of the current interval.
    acknowledged: AtomicU32,
    delay_sum_us: AtomicU64,
    was_full: AtomicBool,
    learning: Mutex<Learning>,
}

#[derive(Debug)]
struct Learning {
    limit: AdmissionLimit,
    since: Instant,
}

/// A batch in flight, until this guard is dropped.
#[derive(Debug)]
pub(crate) struct InFlightBatch<'l> {
    limiter: &'l IngestLimiter,
    usage: &'l TenantUsage,
    since: Instant,
}

impl Default for IngestLimiter {
    fn default() -> Self {
        let limit = AdmissionLimit::default();
        Self {
            limit: AtomicU32::new(limit.limit()),
            under_way: AtomicU32::new(0),
            acknowledged: AtomicU32::new(0),
            delay_sum_us: AtomicU64::new(0),
            was_full: AtomicBool::new(false),
            learning: Mutex::new(Learning {
                limit,
                since: Instant::now(),
            }),
        }
    }
}

impl IngestLimiter {
    /// Returns whether there is room for another batch of this tenant (see [`has_batch_room`]).
    pub(super) fn has_room(&self, usage: &TenantUsage) -> bool {
        let limit = self.limit.load(Relaxed);
        let under_way = self.under_way.load(Relaxed);
        if under_way >= limit {
            self.was_full.store(true, Relaxed);
        }
        has_batch_room(under_way, limit, self.is_light(usage))
    }

    /// Returns whether a tenant is light (see [`is_light`]).
    pub(super) fn is_light(&self, usage: &TenantUsage) -> bool {
        is_light(usage.batches().load(Relaxed), self.limit.load(Relaxed))
    }

    /// Counts a batch whose last byte has arrived and whose queue delay was `waited`.
    pub(super) fn begin<'l>(
        &'l self,
        usage: &'l TenantUsage,
        waited: Duration,
    ) -> InFlightBatch<'l> {
        self.under_way.fetch_add(1, Relaxed);
        usage.batches().fetch_add(1, Relaxed);
        let now = Instant::now();
        InFlightBatch {
            limiter: self,
            usage,
            since: now.checked_sub(waited).unwrap_or(now),
        }
    }

    fn acknowledge(&self, since: Instant) {
        let now = Instant::now();
        let delay = now.duration_since(since);
        Metrics::get().ingest_ack.record(delay.as_secs_f64());
        let delay_us = u64::try_from(delay.as_micros()).unwrap_or(u64::MAX);
        self.delay_sum_us.fetch_add(delay_us, Relaxed);
        // The caller that meets the end of the interval adapts the limit; all others continue.
        if self.acknowledged.fetch_add(1, Relaxed) % 8 == 7
            && let Some(learning) = self.try_learning()
        {
            self.learn(learning, now);
        }
    }

    fn try_learning(&self) -> Option<MutexGuard<'_, Learning>> {
        match self.learning.try_lock() {
            Ok(learning) => Some(learning),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    fn learn(&self, mut learning: MutexGuard<'_, Learning>, now: Instant) {
        let length = now.saturating_duration_since(learning.since);
        if length < INTERVAL {
            return;
        }
        learning.since = now;
        let interval = Interval {
            length_us: u32::try_from(length.as_micros()).unwrap_or(u32::MAX),
            acknowledged: self.acknowledged.swap(0, Relaxed),
            delay_sum_us: self.delay_sum_us.swap(0, Relaxed),
            was_full: self.was_full.swap(false, Relaxed),
        };
        learning.limit.observe(&interval);
        let limit = learning.limit.limit();
        self.limit.store(limit, Relaxed);
        Metrics::get().ingest_limit.set(f64::from(limit));
    }
}

impl InFlightBatch<'_> {
    /// Acknowledges a batch that is durable, newly or already.
    pub(crate) fn acknowledge(self) {
        self.limiter.acknowledge(self.since);
    }
}

impl Drop for InFlightBatch<'_> {
    fn drop(&mut self) {
        self.limiter.under_way.fetch_sub(1, Relaxed);
        self.usage.batches().fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use porchlight_core::shares::ShareLimits;
    use porchlight_schema::ids::OrganizationId;
    use porchlight_schema::limits::INGEST_BATCHES_MIN;
    use porchlight_schema::session::{Env, Tenant};

    use super::*;
    use crate::shares::TenantShares;

    #[test]
    fn a_light_tenant_may_send_a_burst_while_another_tenant_fills_a_slow_node() {
        let limiter = IngestLimiter::default();
        limiter.limit.store(INGEST_BATCHES_MIN, Relaxed);
        let shares = TenantShares::new(ShareLimits::default());
        let [heavy, light, other] = [1, 2, 3].map(|number| {
            shares.of(Tenant {
                organization_id: OrganizationId::from_bytes([number; 16]),
                env: Env::Sandbox,
            })
        });
        let begin_all = |usage| {
            let mut begun = Vec::new();
            while limiter.has_room(usage) {
                begun.push(limiter.begin(usage, Duration::ZERO));
            }
            begun
        };
        let flood = begin_all(&heavy);
        assert_eq!(flood.len(), 64);
        let burst = begin_all(&light);
        assert_eq!(burst.len(), 16, "a light tenant's part of the limit");
        let second = begin_all(&other);
        assert_eq!(second.len(), 16, "another light tenant's part");
        assert!(!limiter.has_room(&heavy));
    }
}
