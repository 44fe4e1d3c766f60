//! Tests that scans continue, regardless of the outcome of a count or of an earlier scan.

use std::sync::atomic::AtomicU32;

use async_trait::async_trait;
use porchlight_core::webhook::{Change, Lane, Listing, ManualRetry, Queued};
use porchlight_ports::{
    Answer, Clock, DeliveryDetail, DeliveryFilter, DeliveryRow, Depth, Endpoint, Entropy, MayBegin,
    OutboundRequest, Outbox, Page, RetryOutcome, SealedSecret, SecretSeal, SingleNode, StoreError,
    StoreResult, Transport, UrlRefused, Work,
};
use porchlight_schema::ids::{EndpointId, MessageId, SessionId, ShardSet};
use porchlight_schema::session::Tenant;
use porchlight_schema::time::TimestampMs;
use zeroize::Zeroizing;

use super::*;
use crate::webhook::{WebhookParts, Webhooks};

/// A world whose counts never end, and in which no scan finds anything.
#[derive(Default)]
struct Slow {
    scans: AtomicU32,
    /// The number of the scan that panics.
    panics_at: Option<u32>,
}

impl Clock for Slow {
    fn now(&self) -> TimestampMs {
        TimestampMs(5)
    }

    fn uptime_ms(&self) -> i64 {
        5
    }
}

impl Entropy for Slow {
    fn random(&self) -> u128 {
        5
    }
}

impl SecretSeal for Slow {
    fn seal(&self, _: Tenant, _: EndpointId, _: u32, _: &str) -> Option<SealedSecret> {
        None
    }

    fn open(&self, _: Tenant, _: EndpointId, _: &SealedSecret) -> Option<Zeroizing<String>> {
        None
    }
}

#[async_trait]
impl Transport for Slow {
    async fn send_if(&self, _: OutboundRequest, _: MayBegin) -> Answer {
        std::future::pending().await
    }

    async fn probe(&self, _: Tenant, _: &str) -> Result<(), UrlRefused> {
        Ok(())
    }
}

type Limit = Option<(TimestampMs, usize)>;

#[async_trait]
impl Outbox for Slow {
    async fn endpoint(&self, _: Tenant) -> StoreResult<Option<Endpoint>> {
        Ok(None)
    }

    async fn create_endpoint(&self, _: Endpoint) -> StoreResult<bool> {
        Ok(false)
    }

    async fn replace_endpoint(&self, _: Endpoint) -> StoreResult<bool> {
        Ok(false)
    }

    async fn delete_endpoint(&self, _: Tenant) -> StoreResult<bool> {
        Ok(false)
    }

    async fn endpoints(&self) -> StoreResult<Vec<Endpoint>> {
        Ok(Vec::new())
    }

    async fn listing(
        &self,
        _: Tenant,
        _: EndpointId,
        _: Limit,
        _: Limit,
        _: Limit,
        _: usize,
    ) -> StoreResult<Listing> {
        Err(StoreError::Overloaded)
    }

    async fn lane(
        &self,
        _: Tenant,
        _: EndpointId,
        _: SessionId,
        _: Option<ManualRetry>,
    ) -> StoreResult<Lane> {
        Err(StoreError::Overloaded)
    }

    async fn body(&self, _: SessionId, _: u32) -> StoreResult<Option<Arc<str>>> {
        Ok(None)
    }

    async fn commit(
        &self,
        _: Tenant,
        _: EndpointId,
        _: SessionId,
        _: Change,
    ) -> StoreResult<Vec<Queued>> {
        Err(StoreError::Overloaded)
    }

    async fn deliveries(
        &self,
        _: Tenant,
        _: &DeliveryFilter,
        _: u32,
        _: Option<MessageId>,
    ) -> StoreResult<Page<DeliveryRow, MessageId>> {
        Err(StoreError::Overloaded)
    }

    async fn delivery(&self, _: Tenant, _: MessageId) -> StoreResult<Option<DeliveryDetail>> {
        Ok(None)
    }

    async fn request_retry(
        &self,
        _: Tenant,
        _: MessageId,
        _: TimestampMs,
    ) -> StoreResult<RetryOutcome> {
        Err(StoreError::Overloaded)
    }

    async fn retryable(
        &self,
        _: Tenant,
        _: &DeliveryFilter,
        _: usize,
        _: Option<MessageId>,
    ) -> StoreResult<Vec<DeliveryRow>> {
        Ok(Vec::new())
    }

    async fn request_retries(
        &self,
        _: Tenant,
        _: Vec<DeliveryRow>,
        _: TimestampMs,
    ) -> StoreResult<usize> {
        Ok(0)
    }

    async fn depth(&self, _: TimestampMs) -> StoreResult<Depth> {
        std::future::pending().await
    }

    async fn work(&self, _: ShardSet, _: TimestampMs) -> StoreResult<Vec<Work>> {
        let scan = self.scans.fetch_add(1, Ordering::Relaxed);
        assert_ne!(Some(scan), self.panics_at, "the scan panics");
        Ok(Vec::new())
    }
}

/// Returns the number of scans in two and a half intervals.
async fn scans(slow: Slow) -> u32 {
    let slow = Arc::new(slow);
    let parts = WebhookParts {
        outbox: Arc::clone(&slow) as _,
        transport: Arc::clone(&slow) as _,
        seal: Arc::clone(&slow) as _,
        clock: Arc::clone(&slow) as _,
        entropy: Arc::clone(&slow) as _,
        ownership: Arc::new(SingleNode { generation: 1 }),
        peers: Arc::new(SingleNode { generation: 1 }),
    };
    // Without an arbiter, nothing else runs.
    let webhooks = Webhooks::start(&[], parts);
    let inner = Arc::downgrade(&webhooks.inner);
    let scanning = tokio::time::timeout(SCAN_INTERVAL * 5 / 2, scan(inner));
    scanning.await.unwrap_err();
    slow.scans.load(Ordering::Relaxed)
}

#[tokio::test(start_paused = true)]
async fn a_scan_does_not_wait_for_a_count() {
    assert_eq!(scans(Slow::default()).await, 3);
}

#[tokio::test(start_paused = true)]
async fn scans_continue_after_one_that_panics() {
    let slow = Slow {
        panics_at: Some(0),
        ..Slow::default()
    };
    assert_eq!(scans(slow).await, 3);
}
