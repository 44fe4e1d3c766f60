//! A tenant with its store, its clock and its running webhooks.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use std::time::Duration;

use actix_rt::Arbiter;
use porchlight::transport::guard::Resolver;
use porchlight_actors::messages::{insight_updated, session_started, session_stopped};
use porchlight_actors::webhook::{WebhookParts, Webhooks};
use porchlight_core::webhook::signature::secret_text;
use porchlight_keys::keyring::SecretKeys;
use porchlight_keys::secrets::SecretVault;
use porchlight_ports::{
    Clock, DeliveryFilter, DeliveryRow, DeliveryStatus, Endpoint, Insights, NewSession, Outbox,
    SecretSeal, Sessions, SingleNode, StoredInsight,
};
use porchlight_schema::ids::{EndpointId, OrganizationId, SessionId};
use porchlight_schema::insight::{DroppedSamples, InsightRecord};
use porchlight_schema::session::{
    Address, EndReason, Env, Point, SessionEnd, SessionStart, Tenant,
};
use porchlight_schema::time::TimestampMs;
use porchlight_store::MemoryStore;
use porchlight_world::{SystemClock, SystemEntropy};

use crate::receiver::{Authority, Script, transport_with};

pub(crate) const BAD: &str = "HTTP/1.1 500 Oops\r\ncontent-length: 0\r\n\r\n";

/// The system clock, set forward by the tests.
#[derive(Default)]
pub(crate) struct SkewedClock(AtomicI64);

impl Clock for SkewedClock {
    fn now(&self) -> TimestampMs {
        SystemClock.now().plus_ms(self.0.load(Ordering::SeqCst))
    }

    fn uptime_ms(&self) -> i64 {
        SystemClock.uptime_ms() + self.0.load(Ordering::SeqCst)
    }
}

pub(crate) struct World {
    pub(crate) store: Arc<MemoryStore>,
    pub(crate) clock: Arc<SkewedClock>,
    pub(crate) vault: Arc<SecretVault>,
    pub(crate) authority: Authority,
    pub(crate) tenant: Tenant,
    arbiter: Arbiter,
    resolver: Arc<dyn Resolver>,
    pub(crate) webhooks: Webhooks,
}

impl World {
    /// Pauses or resumes `endpoint`, and notifies the webhooks.
    pub(crate) async fn enable(&self, endpoint: &mut Endpoint, enabled: bool) {
        endpoint.enabled = enabled;
        endpoint.paused_at = (!enabled).then(|| self.clock.now());
        endpoint.version += 1;
        let changed = self.store.replace_endpoint(endpoint.clone()).await;
        assert!(changed.unwrap());
        self.webhooks.endpoint_changed(self.tenant);
    }

    pub(crate) fn new() -> Self {
        Self::with_resolver(Script::new(vec![vec!["127.0.0.1"]]))
    }

    pub(crate) fn with_resolver(resolver: Arc<dyn Resolver>) -> Self {
        let authority = Authority::new();
        let store = MemoryStore::new(Arc::new(|_, _| {})).unwrap();
        let clock = Arc::new(SkewedClock::default());
        // Each test has its own file: with a shared one, a test could read another's half-written
        // file.
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("porchlight-flow-key-{}-{number}", std::process::id());
        let key = std::env::temp_dir().join(name);
        std::fs::write(&key, "ab".repeat(32)).unwrap();
        let vault = Arc::new(SecretVault::new(
            &SecretKeys::load(std::slice::from_ref(&key)).unwrap(),
        ));
        std::fs::remove_file(key).unwrap();
        let arbiter = Arbiter::new();
        let webhooks = start(&arbiter, &authority, &resolver, &store, &clock, &vault);
        let tenant = Tenant {
            organization_id: OrganizationId::new(clock.now(), 7),
            env: Env::Sandbox,
        };
        Self {
            store,
            clock,
            vault,
            authority,
            tenant,
            arbiter,
            resolver,
            webhooks,
        }
    }

    /// Simulates a crash: all in-memory state is lost.
    pub(crate) fn restart(&mut self) {
        self.arbiter.stop();
        self.arbiter = Arbiter::new();
        self.webhooks = start(
            &self.arbiter,
            &self.authority,
            &self.resolver,
            &self.store,
            &self.clock,
            &self.vault,
        );
    }

    pub(crate) async fn endpoint(&self, url: &str) -> Endpoint {
        let id = EndpointId::new(self.clock.now(), 3);
        let secret = self
            .vault
            .seal(self.tenant, id, 1, &secret_text(&[1; 32]))
            .unwrap();
        let endpoint = Endpoint {
            enabled: true,
            id,
            tenant: self.tenant,
            url: url.into(),
            created_at: self.clock.now(),
            version: 1,
            secret,
            secret_made_at: self.clock.now(),
            previous: None,
            paused_at: None,
            remembered: Vec::new(),
        };
        assert!(self.store.create_endpoint(endpoint.clone()).await.unwrap());
        endpoint
    }

    /// Returns the start of a session of this tenant.
    fn start_of(&self, session_id: SessionId) -> SessionStart {
        SessionStart {
            session_id,
            tenant: self.tenant,
            ..sample_start(self.clock.now())
        }
    }

    pub(crate) async fn start_session(&self) -> SessionId {
        use porchlight_ports::Entropy;
        let session_id = SessionId::new(self.clock.now(), SystemEntropy.random());
        let start = self.start_of(session_id);
        let message = session_started(&start);
        self.store
            .start(NewSession {
                start,
                idempotency: None,
                message,
            })
            .await
            .unwrap();
        session_id
    }

    pub(crate) async fn stop_session(&self, session_id: SessionId) {
        let now = self.clock.now();
        let end = SessionEnd {
            ended_at: now,
            completed_at: now,
            reason: EndReason::Stopped,
        };
        let message = session_stopped(&self.start_of(session_id), &end);
        let ended = self.store.end(session_id, end, None, message).await;
        ended.unwrap();
    }

    pub(crate) async fn score(&self, session_id: SessionId, revision: u32) {
        let record = InsightRecord {
            revision,
            score: None,
            error_message: None,
            pod: None,
            updated_at: self.clock.now(),
        };
        let insight = StoredInsight {
            record,
            covered: Default::default(),
            known: Vec::new(),
            dropped: DroppedSamples::default(),
        };
        let message = insight_updated(&self.start_of(session_id), &insight.record);
        assert!(
            self.store
                .commit_insight(session_id, insight, message, Vec::new())
                .await
                .unwrap()
        );
    }

    pub(crate) async fn rows(&self) -> Vec<DeliveryRow> {
        let page = self
            .store
            .deliveries(self.tenant, &DeliveryFilter::default(), 200, None)
            .await
            .unwrap();
        let mut rows = page.rows;
        // The list order of messages of one millisecond is not predictable for a test.
        rows.sort_by_key(|row| (row.queued.session_id, row.queued.number));
        rows
    }

    pub(crate) async fn statuses(&self) -> Vec<DeliveryStatus> {
        let current = self
            .store
            .endpoint(self.tenant)
            .await
            .unwrap()
            .map(|endpoint| endpoint.id);
        self.rows()
            .await
            .iter()
            .map(|row| row.status(current))
            .collect()
    }

    /// Wakes the webhooks up until the statuses are as wanted; otherwise the test's own deadline
    /// ends it.
    pub(crate) async fn until(&self, what: &str, wanted: &[DeliveryStatus]) {
        for _ in 0..2_400 {
            self.webhooks.wake(self.tenant);
            tokio::time::sleep(Duration::from_millis(25)).await;
            if self.statuses().await == wanted {
                return;
            }
        }
        panic!("{what}: {:?}", self.statuses().await);
    }

    pub(crate) fn advance_clock(&self, ms: i64) {
        self.clock.0.fetch_add(ms, Ordering::SeqCst);
    }
}

/// Returns the start of some session.
pub(crate) fn sample_start(now: TimestampMs) -> SessionStart {
    SessionStart {
        delivery_id: "d".to_owned(),
        external_rider_id: "r".to_owned(),
        ..SessionStart::delivery(
            SessionId::new(now, 0),
            Tenant {
                organization_id: OrganizationId::new(now, 0),
                env: Env::Sandbox,
            },
            Address::at(Point { lat: 0.0, lng: 0.0 }),
            now,
        )
    }
}

fn start(
    arbiter: &Arbiter,
    authority: &Authority,
    resolver: &Arc<dyn Resolver>,
    store: &Arc<MemoryStore>,
    clock: &Arc<SkewedClock>,
    vault: &Arc<SecretVault>,
) -> Webhooks {
    Webhooks::start(
        &[arbiter.handle()],
        WebhookParts {
            outbox: Arc::clone(store) as _,
            transport: Arc::new(transport_with(authority, Arc::clone(resolver))),
            seal: Arc::clone(vault) as _,
            clock: Arc::clone(clock) as _,
            entropy: Arc::new(SystemEntropy),
            ownership: Arc::new(SingleNode { generation: 1 }),
            peers: Arc::new(SingleNode { generation: 1 }),
        },
    )
}
