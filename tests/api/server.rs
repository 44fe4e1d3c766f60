//! A service on the memory store, listening on a free port, with an adjustable clock.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use actix_rt::Arbiter;
use actix_web::dev::ServerHandle;
use actix_web::web::{Data, ServiceConfig};
use porchlight_actors::registry::DEFER_FROM_BATCHES_PER_SEC;
use porchlight_actors::scoring::ScoringPool;
use porchlight_actors::service::{Parts, Permit, Ports, Service};
use porchlight_core::retention::RetentionBounds;
use porchlight_core::session::lifetime::Lifetime;
use porchlight_core::shares::ShareLimits;
use porchlight_http::client_address::TrustedProxies;
use porchlight_http::cors::Origins;
use porchlight_http::links::SignedLinks;
use porchlight_http::serve::listen;
use porchlight_http::{Settings, State};
use porchlight_keys::{CreateKeyRequest, KeyAdmin, Tokens};
use porchlight_ports::{Clock, Ownership, Peers, SingleNode, Store, Wake};
use porchlight_schema::ids::OrganizationId;
use porchlight_schema::limits::{SESSION_IN_FLIGHT_MAX, TENANT_IN_FLIGHT_BYTES_MAX};
use porchlight_schema::session::{Env, Tenant};
use porchlight_schema::time::TimestampMs;
use porchlight_store::MemoryStore;
use porchlight_world::{SystemClock, SystemEntropy};
use reqwest::Method;
use serde_json::{Value, json};

use crate::answer::Answer;

/// The bounds of the retention that the tests' organizations choose.
pub(crate) const BOUNDS: RetentionBounds = RetentionBounds {
    shortest_days: 1,
    longest_days: 90,
    shortest_audit_days: 180,
};

/// The machine's time, plus the offset that a test adds to it, unless the test has stopped it.
#[derive(Debug, Default)]
pub(crate) struct TestClock {
    ahead_ms: AtomicI64,
    stepped_ms: AtomicI64,
    /// The time and the uptime at which the clock was stopped.
    stopped: Mutex<Option<(TimestampMs, i64)>>,
}

impl TestClock {
    pub(crate) fn advance_min(&self, minutes: i64) {
        self.ahead_ms.fetch_add(minutes * 60_000, Ordering::Relaxed);
    }

    /// Stops the clock until [`resume`](Self::resume).
    pub(crate) fn stop(&self) {
        let at = (self.now(), self.uptime_ms());
        *self.stopped.lock().unwrap() = Some(at);
    }

    /// Continues with the time that the clock would have if it had never been stopped.
    pub(crate) fn resume(&self) {
        *self.stopped.lock().unwrap() = None;
    }

    /// Steps the wall clock, as an operator or NTP does; no time passes.
    pub(crate) fn step_min(&self, minutes: i64) {
        self.stepped_ms
            .fetch_add(minutes * 60_000, Ordering::Relaxed);
    }
}

impl Clock for TestClock {
    fn now(&self) -> TimestampMs {
        if let Some((now, _)) = *self.stopped.lock().unwrap() {
            return now;
        }
        SystemClock
            .now()
            .plus_ms(self.ahead_ms.load(Ordering::Relaxed))
            .plus_ms(self.stepped_ms.load(Ordering::Relaxed))
    }

    fn uptime_ms(&self) -> i64 {
        if let Some((_, uptime_ms)) = *self.stopped.lock().unwrap() {
            return uptime_ms;
        }
        SystemClock.uptime_ms() + self.ahead_ms.load(Ordering::Relaxed)
    }
}

/// The keys of two organizations: `acme` has one of each kind, `other` a secret one.
#[derive(Debug, Clone)]
pub(crate) struct TestKeys {
    pub(crate) secret: String,
    pub(crate) client: String,
    pub(crate) live: String,
    pub(crate) other: String,
}

/// A running server.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) service: Service,
    pub(crate) store: Arc<MemoryStore>,
    pub(crate) clock: Arc<TestClock>,
    pub(crate) keys: TestKeys,
    pub(crate) key_admin: KeyAdmin,
    http: reqwest::Client,
    handle: ServerHandle,
    arbiters: Vec<Arbiter>,
}

/// A started session.
#[derive(Debug, Clone)]
pub(crate) struct Started {
    pub(crate) id: String,
    pub(crate) token: String,
}

/// Returns the API's settings, unless a test needs others.
pub(crate) fn config() -> Settings {
    Settings {
        rate_limit_per_second: 0,
        ..Settings::default()
    }
}

/// Creates a service on its own store, and returns it with its parts.
pub(crate) fn service(
    clock: Arc<TestClock>,
    shares: ShareLimits,
) -> (Service, Arc<MemoryStore>, Vec<Arbiter>) {
    service_with_commits(clock, shares, || {})
}

/// Creates a service like [`service`]. Its store calls `before_answer` when a batch is durable,
/// before it completes the batch's commit.
pub(crate) fn service_with_commits(
    clock: Arc<TestClock>,
    shares: ShareLimits,
    before_answer: impl Fn() + Send + Sync + 'static,
) -> (Service, Arc<MemoryStore>, Vec<Arbiter>) {
    let receiver: Arc<OnceLock<Service>> = Arc::default();
    let on_durable = Arc::clone(&receiver);
    let store = MemoryStore::new(Arc::new(move |session_id, entry| {
        before_answer();
        if let Some(service) = on_durable.get() {
            service.deliver(session_id, entry);
        }
    }))
    .unwrap();
    let alone = Arc::new(SingleNode { generation: 1 });
    let parts = ServiceParts {
        store: Arc::clone(&store) as _,
        ownership: Arc::clone(&alone) as _,
        peers: alone,
        wake: Arc::new(|_, _| {}),
    };
    let (service, arbiters) = service_of(parts, clock, shares);
    assert!(receiver.set(service.clone()).is_ok());
    (service, store, arbiters)
}

/// The dependencies of a service, except its clock.
pub(crate) struct ServiceParts {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) ownership: Arc<dyn Ownership>,
    pub(crate) peers: Arc<dyn Peers>,
    pub(crate) wake: Wake,
}

/// Creates a service from its dependencies, and returns it with its arbiters.
pub(crate) fn service_of(
    parts: ServiceParts,
    clock: Arc<TestClock>,
    shares: ShareLimits,
) -> (Service, Vec<Arbiter>) {
    let ServiceParts {
        store,
        ownership,
        peers,
        wake,
    } = parts;
    let arbiters = vec![Arbiter::new(), Arbiter::new()];
    let handles: Vec<_> = arbiters.iter().map(Arbiter::handle).collect();
    let clock: Arc<dyn Clock> = clock;
    let scoring = ScoringPool::start(
        &handles[1..],
        Arc::clone(&store),
        Arc::clone(&clock),
        Arc::clone(&wake),
    );
    let service = Service::new(Parts {
        ports: Ports {
            store,
            clock,
            entropy: Arc::new(SystemEntropy),
            wake,
            lifetime: Lifetime {
                idle_ms: 30 * 60_000,
                max_ms: 12 * 3_600_000,
            },
            ownership,
            peers,
        },
        arbiters: handles[..1].to_vec(),
        scoring,
        shares,
        defer_from_per_sec: DEFER_FROM_BATCHES_PER_SEC,
    });
    (service, arbiters)
}

impl Server {
    pub(crate) async fn start() -> Self {
        Self::with(config()).await
    }

    pub(crate) async fn with(config: Settings) -> Self {
        Self::with_shares(config, ShareLimits::default()).await
    }

    /// Starts a server whose tenants have these shares.
    pub(crate) async fn with_shares(config: Settings, shares: ShareLimits) -> Self {
        let clock: Arc<TestClock> = Arc::default();
        let (service, store, arbiters) = service(Arc::clone(&clock), shares);
        Self::serve(service, store, clock, arbiters, config).await
    }

    /// Occupies all batches that a session may have in flight, until the returned permits are
    /// dropped.
    pub(crate) async fn fill_session(&self, id: &str) -> Vec<Permit> {
        let target = self.service.target(id.parse().unwrap()).await;
        let target = target.unwrap().unwrap();
        let admit = |_| self.service.admit(&target).unwrap();
        (0..SESSION_IN_FLIGHT_MAX).map(admit).collect()
    }

    /// Occupies `bytes` of the node's in-flight bytes, each part as another tenant, until the
    /// returned permits are dropped.
    pub(crate) fn fill_node(&self, bytes: usize) -> Vec<Permit> {
        let part = usize::try_from(TENANT_IN_FLIGHT_BYTES_MAX).unwrap();
        let parts = (0..bytes).step_by(part).zip(1_u8..);
        let hold = |(from, number): (usize, u8)| {
            let usage = self.service.usage(Tenant {
                organization_id: OrganizationId::from_bytes([number; 16]),
                env: Env::Sandbox,
            });
            let bytes = part.min(bytes - from);
            self.service.reserve(&usage, bytes).unwrap()
        };
        parts.map(hold).collect()
    }

    /// Starts a server whose paths for phones are open to pages of these origins.
    pub(crate) async fn with_origins(origins: Origins) -> Self {
        let clock: Arc<TestClock> = Arc::default();
        let (service, store, arbiters) = service(Arc::clone(&clock), ShareLimits::default());
        Self::serve_to(service, store, clock, arbiters, config(), origins).await
    }

    /// Serves the given service.
    pub(crate) async fn serve(
        service: Service,
        store: Arc<MemoryStore>,
        clock: Arc<TestClock>,
        arbiters: Vec<Arbiter>,
        config: Settings,
    ) -> Self {
        Self::serve_to(service, store, clock, arbiters, config, Origins::default()).await
    }

    async fn serve_to(
        service: Service,
        store: Arc<MemoryStore>,
        clock: Arc<TestClock>,
        arbiters: Vec<Arbiter>,
        config: Settings,
        origins: Origins,
    ) -> Self {
        let key_admin = KeyAdmin::new(Arc::clone(&store) as _);
        let keys = TestKeys {
            secret: key(&key_admin, "acme", "sandbox", "secret").await,
            client: key(&key_admin, "acme", "sandbox", "client").await,
            live: key(&key_admin, "acme", "live", "secret").await,
            other: key(&key_admin, "other", "sandbox", "secret").await,
        };
        let tokens = Tokens::new(&[7; 32], &[]);
        let links = SignedLinks::new([[9; 32]], "");
        let state = State::new(service.clone(), Arc::clone(&store) as _, tokens, config)
            .with_links(links)
            .with_cors(origins);
        let state = Data::new(state);
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let api = porchlight_api::routes(Data::default());
        // The tests call from a loopback address, as a proxy does.
        let proxies = TrustedProxies::new(|address| address.is_loopback());
        let routes = move |config: &mut ServiceConfig| {
            api(config);
            config.app_data(proxies.clone());
        };
        let served = listen(state, address, 1, routes).unwrap();
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        Self {
            address: served.address,
            service,
            store,
            clock,
            keys,
            key_admin,
            http,
            handle: served.handle,
            arbiters,
        }
    }

    pub(crate) async fn stop(self) {
        self.handle.stop(false).await;
        for arbiter in &self.arbiters {
            arbiter.stop();
        }
    }

    /// Returns a request that a test completes.
    pub(crate) fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        self.http
            .request(method, format!("http://{}{path}", self.address))
    }

    pub(crate) async fn get(&self, path: &str, key: &str) -> Answer {
        Answer::of(self.request(Method::GET, path).header("Service-Key", key)).await
    }

    pub(crate) async fn post(&self, path: &str, key: &str, body: &Value) -> Answer {
        let request = self.request(Method::POST, path).header("Service-Key", key);
        Answer::of(
            request
                .header("Content-Type", "application/json")
                .body(body.to_string()),
        )
        .await
    }

    pub(crate) async fn start_session(&self) -> Started {
        let answer = self
            .post("/v1/sessions/start", &self.keys.client, &start_body())
            .await;
        assert_eq!(answer.status, 201, "{answer:?}");
        let text = |name: &str| answer.json[name].as_str().unwrap().to_owned();
        Started {
            id: text("sessionId"),
            token: text("sessionToken"),
        }
    }

    /// Returns a session that is stopped and scored.
    pub(crate) async fn scored_session(&self) -> Started {
        let session = self.start_session().await;
        for seq in 0..3 {
            let answer = self
                .post(&telemetry(&session.id), &session.token, &batch(seq))
                .await;
            assert_eq!(answer.status, 202, "{answer:?}");
        }
        let answer = self
            .post(
                "/v1/sessions/stop",
                &session.token,
                &json!({ "sessionId": session.id }),
            )
            .await;
        assert_eq!(answer.status, 200, "{answer:?}");
        self.wait_until_ready(&session.id).await;
        session
    }

    /// Returns the insight once it is scored.
    pub(crate) async fn wait_until_ready(&self, id: &str) -> Answer {
        for _ in 0..12_000 {
            let answer = self.get(&insights(id), &self.keys.secret).await;
            if answer.json["status"] != "processing" {
                return answer;
            }
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        panic!("session {id} was not scored");
    }
}

pub(crate) async fn key(key_admin: &KeyAdmin, organization: &str, env: &str, kind: &str) -> String {
    let order = CreateKeyRequest::new(organization, env, kind);
    key_admin
        .create(&order, SystemClock.now())
        .await
        .unwrap()
        .key
}

pub(crate) fn telemetry(id: &str) -> String {
    format!("/v1/sessions/{id}/telemetry")
}

pub(crate) fn insights(id: &str) -> String {
    format!("/v1/sessions/{id}/insights")
}

/// Returns the required fields of every start, and nothing else.
pub(crate) fn start_body() -> Value {
    json!({
        "deliveryId": "order-1",
        "externalRiderId": "rider-1",
        "address": { "line1": "1 High Street", "city": "Bath", "country": "GB", "lat": 51.38, "lng": -2.36 },
    })
}

/// Returns a batch with ten seconds of a phone that lies still near the door.
pub(crate) fn batch(seq: u32) -> Value {
    let sample = |n: u32| json!({ "kind": "location", "t": seq * 10 + n, "lat": 51.38, "lng": -2.36, "accuracyM": 5, "speedMps": 0 });
    json!({ "seq": seq, "samples": (0..10).map(sample).collect::<Vec<_>>() })
}
