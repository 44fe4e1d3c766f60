//! Tests that an attempt that waits for a permit is not made once its node has lost the tenant.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use actix_rt::Arbiter;
use async_trait::async_trait;
use porchlight_actors::webhook::{WebhookParts, Webhooks};
use porchlight_core::webhook::{AttemptDetails, Cause};
use porchlight_ports::{
    Answer, MayBegin, OutboundRequest, Ownership, SingleNode, Transport, UrlRefused,
};
use porchlight_schema::ids::Shard;
use porchlight_schema::session::Tenant;
use porchlight_world::SystemEntropy;
use tokio::sync::Semaphore;

use crate::flow::run;
use crate::world::World;

/// A lease of all shards, which a test ends.
struct Lease(AtomicBool);

impl Ownership for Lease {
    fn generation(&self, _shard: Shard) -> Option<u64> {
        self.0.load(Ordering::SeqCst).then_some(1)
    }
}

/// A transport whose requests wait until a test adds a permit.
struct Waiting {
    is_waiting: AtomicBool,
    permits: Semaphore,
    /// Whether each request that got a permit was sent.
    sent: Mutex<Vec<bool>>,
}

#[async_trait]
impl Transport for Waiting {
    async fn send_if(&self, _request: OutboundRequest, may_begin: MayBegin) -> Answer {
        self.is_waiting.store(true, Ordering::SeqCst);
        let _permit = self.permits.acquire().await.unwrap();
        let may = may_begin();
        self.sent.lock().unwrap().push(may);
        Answer {
            waited_ms: 0,
            duration_ms: 0,
            status_code: may.then_some(200),
            cause: (!may).then_some(Cause::Internal),
            response: None,
            certificate_ends_at: None,
            details: AttemptDetails::default(),
        }
    }

    async fn probe(&self, _tenant: Tenant, _url: &str) -> Result<(), UrlRefused> {
        Ok(())
    }
}

/// Waits for a condition; otherwise the test's own deadline ends it.
async fn until(is_met: impl Fn() -> bool) {
    while !is_met() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[test]
fn an_attempt_that_waits_for_a_permit_is_not_made_after_the_lease() {
    run(async {
        let world = World::new();
        // Only the webhooks below send.
        world.webhooks.drain(Duration::from_secs(1)).await;
        world.endpoint("https://receiver.example/").await;
        world.start_session().await;
        let lease = Arc::new(Lease(AtomicBool::new(true)));
        let transport = Arc::new(Waiting {
            is_waiting: AtomicBool::new(false),
            permits: Semaphore::new(0),
            sent: Mutex::default(),
        });
        let arbiter = Arbiter::new();
        let webhooks = Webhooks::start(
            &[arbiter.handle()],
            WebhookParts {
                outbox: Arc::clone(&world.store) as _,
                transport: Arc::clone(&transport) as _,
                seal: Arc::clone(&world.vault) as _,
                clock: Arc::clone(&world.clock) as _,
                entropy: Arc::new(SystemEntropy),
                ownership: Arc::clone(&lease) as _,
                peers: Arc::new(SingleNode { generation: 1 }),
            },
        );
        webhooks.wake(world.tenant);
        until(|| transport.is_waiting.load(Ordering::SeqCst)).await;
        lease.0.store(false, Ordering::SeqCst);
        transport.permits.add_permits(1);
        until(|| !transport.sent.lock().unwrap().is_empty()).await;
        assert_eq!(*transport.sent.lock().unwrap(), [false]);
        arbiter.stop();
    });
}
