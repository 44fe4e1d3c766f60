//! Tests two nodes in one process, on one store: the edge, which owns no shard, receives the
//! requests, and the owner processes them. They talk over real connections.

mod revoked;
mod snapshots;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use actix_http::ws::CloseCode;
use async_trait::async_trait;
use porchlight::cluster::{OwnershipView, PeerClient, PeerSecret, PeerSecrets, PeerServer};
use porchlight_actors::service::Service;
use porchlight_actors::webhook::{WebhookParts, Webhooks};
use porchlight_core::ownership::NodeName;
use porchlight_core::shares::ShareLimits;
use porchlight_core::webhook::{AttemptDetails, Cause};
use porchlight_ports::{
    Answer as Received, Insights, Journal, MayBegin, OutboundRequest, PeerError, Peers,
    SealedSecret, SecretSeal, Sessions, SingleNode, Snapshots, Transport, UrlRefused, Wake,
};
use porchlight_schema::ids::{EndpointId, SessionId, Shard};
use porchlight_schema::limits::SHARDS;
use porchlight_schema::session::Tenant;
use porchlight_store::MemoryStore;
use porchlight_support::free_address::free_address;
use porchlight_world::SystemEntropy;
use serde_json::json;
use zeroize::Zeroizing;

use crate::events::{Client, Message, one_by_one, send, stop};
use crate::server::{
    Server, ServiceParts, Started, TestClock, config, insights, service_of, start_body, telemetry,
};
use crate::websocket::Phone;

const SECRET: &[u8] = b"a secret that both of them have been given";
/// The previous or the next secret.
const OTHER_SECRET: &[u8] = b"a secret that both of them accept besides";

fn secrets(own: &[u8]) -> PeerSecrets {
    PeerSecret::new(own).unwrap().into()
}

/// Accepts every request that may begin, and counts it.
#[derive(Default)]
struct CountingTransport(AtomicUsize);

#[async_trait]
impl Transport for CountingTransport {
    async fn send_if(&self, _request: OutboundRequest, may_begin: MayBegin) -> Received {
        let may = may_begin();
        self.0.fetch_add(usize::from(may), Ordering::SeqCst);
        Received {
            waited_ms: 0,
            duration_ms: 1,
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

/// A seal that leaves secrets as they are.
struct PlainSeal;

impl SecretSeal for PlainSeal {
    fn seal(&self, _: Tenant, _: EndpointId, number: u32, secret: &str) -> Option<SealedSecret> {
        let sealed = secret.as_bytes().to_vec();
        Some(SealedSecret { number, sealed })
    }

    fn open(&self, _: Tenant, _: EndpointId, sealed: &SealedSecret) -> Option<Zeroizing<String>> {
        String::from_utf8(sealed.sealed.clone())
            .ok()
            .map(Zeroizing::new)
    }
}

/// A node of the pair.
struct Node {
    server: Server,
    client: Arc<PeerClient>,
    peers: PeerServer,
    webhooks: Webhooks,
    sent: Arc<CountingTransport>,
}

/// The two nodes of a test.
struct Nodes {
    edge: Node,
    owner: Node,
    store: Arc<MemoryStore>,
    /// The service that is notified of durable batches.
    writer: Arc<Mutex<Option<Service>>>,
}

fn free_name() -> NodeName {
    NodeName(free_address().to_string())
}

/// Creates a view of a cluster in which `owner` owns every shard.
fn view(me: &NodeName, owner: &NodeName) -> Arc<OwnershipView> {
    let view = Arc::new(OwnershipView::new(me.clone()));
    if me == owner {
        (0..=u8::MAX).for_each(|shard| view.set_generation(Shard(shard), Some(5)));
        view.set_lease_end(view.now().plus_ms(3_600_000));
    }
    view.set_owners(
        vec![Some(owner.clone()); SHARDS],
        vec![me.clone(), owner.clone()],
    );
    view
}

async fn node(
    store: &Arc<MemoryStore>,
    clock: &Arc<TestClock>,
    me: &NodeName,
    owner: &NodeName,
) -> Node {
    let view = view(me, owner);
    let secrets = secrets(SECRET).accepting(PeerSecret::new(OTHER_SECRET).unwrap());
    let client = PeerClient::start(Arc::clone(&view), secrets).unwrap();
    let sent = Arc::new(CountingTransport::default());
    let sending = actix_rt::Arbiter::new();
    let webhooks = Webhooks::start(
        &[sending.handle()],
        WebhookParts {
            outbox: Arc::clone(store) as _,
            transport: Arc::clone(&sent) as _,
            seal: Arc::new(PlainSeal),
            clock: Arc::clone(clock) as _,
            entropy: Arc::new(SystemEntropy),
            ownership: Arc::clone(&view) as _,
            peers: Arc::clone(&client) as _,
        },
    );
    let woken = webhooks.clone();
    let wake: Wake = Arc::new(move |tenant, session_id| woken.wake_lane(tenant, session_id));
    let parts = ServiceParts {
        store: Arc::clone(store) as _,
        ownership: view,
        peers: Arc::clone(&client) as _,
        wake,
    };
    let (service, mut arbiters) = service_of(parts, Arc::clone(clock), ShareLimits::default());
    arbiters.push(sending);
    let peers = PeerServer::start(
        &me.0,
        Arc::clone(&client),
        service.clone(),
        webhooks.clone(),
    )
    .await
    .unwrap();
    let server = Server::serve(
        service,
        Arc::clone(store),
        Arc::clone(clock),
        arbiters,
        config(),
    )
    .await;
    Node {
        server,
        client,
        peers,
        webhooks,
        sent,
    }
}

impl Nodes {
    async fn start() -> Self {
        let writer: Arc<Mutex<Option<Service>>> = Arc::default();
        let changes = Arc::clone(&writer);
        let store = MemoryStore::new(Arc::new(move |session_id, entry| {
            if let Some(service) = &*changes.lock().unwrap() {
                service.deliver(session_id, entry);
            }
        }))
        .unwrap();
        let clock: Arc<TestClock> = Arc::default();
        let (edge, owner) = (free_name(), free_name());
        let edge = node(&store, &clock, &edge, &owner).await;
        let owner = node(&store, &clock, &NodeName(owner.0.clone()), &owner).await;
        Self {
            edge,
            owner,
            store,
            writer,
        }
    }

    /// Makes batches arrive at the edge from now on, which forwards them.
    fn forward(&self) {
        *self.writer.lock().unwrap() = Some(self.edge.server.service.clone());
    }

    async fn end(self) {
        *self.writer.lock().unwrap() = None;
        for node in [self.edge, self.owner] {
            node.peers.stop();
            node.server.stop().await;
        }
    }

    /// Waits until the insight of a session covers this number of batches.
    async fn wait_until_covered(&self, id: SessionId, batches: u32) {
        wait_until(async || {
            let insight = self.store.insight(id).await.unwrap();
            insight.is_some_and(|insight| insight.covered.batches == batches)
        })
        .await;
    }
}

/// Waits until the condition holds.
async fn wait_until(condition: impl AsyncFn() -> bool) {
    for _ in 0..6_000 {
        if condition().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the condition did not hold in time");
}

fn id_of(session: &Started) -> SessionId {
    session.id.parse().unwrap()
}

#[actix::test]
async fn a_session_received_by_another_node_is_run_by_its_owner() {
    let nodes = Nodes::start().await;
    nodes.forward();
    let (edge, owner) = (&nodes.edge.server, &nodes.owner.server);
    let session = edge.start_session().await;
    let id = id_of(&session);
    wait_until(async || owner.service.registry().handle(id).is_some()).await;
    let watching = Client::connect(edge, &session.id, None).await;
    let sending = async {
        send(edge, &session, 0..24).await;
        wait_until(async || {
            let changes = owner.service.changes(id, 0, 1_000).await.unwrap();
            let live = owner.service.live(id).await.unwrap();
            changes.len() > 8 && !live.events.is_empty()
        })
        .await;
        // The last batches may be on their way.
        wait_until(async || {
            let path = insights(&session.id);
            let at_edge = edge.get(&path, &edge.keys.secret).await;
            let at_owner = owner.get(&path, &owner.keys.secret).await;
            assert_eq!((at_edge.status, at_edge.header("age")), (200, ""));
            assert_eq!(at_edge.json["status"], "processing");
            at_edge.json["events"] == at_owner.json["events"]
        })
        .await;
        let pod = json!({ "type": "photo", "url": "https://pods.example/1" });
        let path = format!("/v1/sessions/{}/pod", session.id);
        let attached = edge.post(&path, &session.token, &pod).await;
        assert_eq!(attached.status, 200, "{attached:?}");
        stop(edge, &session).await;
        watching.rest().await
    };
    let seen = sending.await;
    assert_eq!(edge.service.registry().live(), 0, "the edge runs nothing");
    nodes.wait_until_covered(id, 24).await;
    let insight = edge.wait_until_ready(&session.id).await;
    assert_eq!(insight.json["pod"]["url"], "https://pods.example/1");
    assert_eq!(owner.service.registry().live(), 0);
    // Numbers and contents are the same on every node, during the session and afterwards.
    let changes = |messages: &[Message]| -> Vec<Message> {
        let changes = messages.iter().filter(|message| message.event == "event");
        changes.cloned().collect()
    };
    assert_eq!(seen, one_by_one(edge, &session.id).await);
    let at_owner = one_by_one(owner, &session.id).await;
    assert_eq!(
        (seen.len(), changes(&seen)),
        (at_owner.len(), changes(&at_owner))
    );
    nodes.end().await;
}

#[actix::test]
async fn every_batch_counts_even_if_all_forwards_are_lost() {
    let nodes = Nodes::start().await;
    let (edge, owner) = (&nodes.edge.server, &nodes.owner.server);
    let session = edge.start_session().await;
    let id = id_of(&session);
    wait_until(async || owner.service.registry().handle(id).is_some()).await;
    send(edge, &session, 0..24).await;
    let read = edge.get(&insights(&session.id), &edge.keys.secret).await;
    let events = read.json["events"].as_array().unwrap();
    assert!(!events.is_empty(), "read from the journal by the owner");
    stop(edge, &session).await;
    nodes.wait_until_covered(id, 24).await;
    // A nudge notifies the owner of a late batch.
    send(edge, &session, [25]).await;
    nodes.wait_until_covered(id, 25).await;
    // The batch is sent again as if the first answer were lost: nothing changes.
    let before = edge.wait_until_ready(&session.id).await;
    send(edge, &session, [25, 3]).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    let after = edge.wait_until_ready(&session.id).await;
    assert_eq!(before.text, after.text);
    nodes.end().await;
}

#[actix::test]
async fn a_forwarded_batch_activates_a_session_unknown_to_its_owner() {
    let nodes = Nodes::start().await;
    nodes.forward();
    let (edge, owner) = (&nodes.edge.server, &nodes.owner.server);
    // This node owns no shard, and notifies no other.
    let parts = ServiceParts {
        store: Arc::clone(&nodes.store) as _,
        ownership: Arc::new(OwnershipView::new(free_name())),
        peers: Arc::new(SingleNode { generation: 1 }),
        wake: Arc::new(|_, _| {}),
    };
    let (silent, arbiters) = service_of(parts, Arc::clone(&edge.clock), ShareLimits::default());
    let (store, clock) = (Arc::clone(&nodes.store), Arc::clone(&edge.clock));
    let silent = Server::serve(silent, store, clock, arbiters, config()).await;
    let session = silent.start_session().await;
    silent.stop().await;
    assert!(owner.service.registry().handle(id_of(&session)).is_none());
    let id = id_of(&session);
    send(edge, &session, 0..3).await;
    wait_until(async || owner.service.registry().handle(id).is_some()).await;
    nodes.end().await;
}

#[actix::test]
async fn a_session_without_its_owner_continues_with_stale_reads() {
    let nodes = Nodes::start().await;
    nodes.forward();
    let (edge, owner) = (&nodes.edge.server, &nodes.owner.server);
    let session = edge.start_session().await;
    let id = id_of(&session);
    wait_until(async || owner.service.registry().handle(id).is_some()).await;
    send(edge, &session, 0..30).await;
    wait_until(async || {
        let snapshot = nodes.store.newest_snapshot(id).await.unwrap();
        snapshot.is_some_and(|snapshot| snapshot.next_seq >= 12)
    })
    .await;
    nodes.owner.peers.stop();
    wait_until(async || {
        let response = nodes.edge.client.live(id).await;
        matches!(response, Err(PeerError::Unreachable))
    })
    .await;
    let read = edge.get(&insights(&session.id), &edge.keys.secret).await;
    assert_eq!(read.status, 200, "{read:?}");
    assert!(read.header("age").parse::<u32>().is_ok(), "{read:?}");
    assert_eq!(read.json["status"], "processing");
    assert!(!read.json["events"].as_array().unwrap().is_empty());
    send(edge, &session, 30..32).await;
    stop(edge, &session).await;
    let body = json!({ "sessionId": session.id });
    let again = edge.post("/v1/sessions/stop", &session.token, &body).await;
    assert_eq!(again.status, 200, "{again:?}");
    let started = edge
        .post("/v1/sessions/start", &edge.keys.client, &start_body())
        .await;
    assert_eq!(started.status, 201, "{started:?}");
    assert_eq!(nodes.store.count(id).await.unwrap(), 32);
    let row = nodes.store.find(id).await.unwrap().unwrap();
    assert!(row.end.is_some());
    nodes.end().await;
}

#[actix::test]
async fn webhooks_are_sent_by_the_owner_node_of_their_customer() {
    let nodes = Nodes::start().await;
    let tenant = {
        let session = nodes.edge.server.start_session().await;
        let row = nodes.store.find(id_of(&session)).await.unwrap();
        row.unwrap().start.tenant
    };
    let url = "https://receiver.example/";
    nodes
        .edge
        .webhooks
        .register(tenant, url, None)
        .await
        .unwrap();
    nodes.edge.server.start_session().await;
    wait_until(async || nodes.owner.sent.0.load(Ordering::SeqCst) == 1).await;
    // The sender knows a change before the next attempt.
    let edge = &nodes.edge.webhooks;
    edge.change(tenant, None, Some(false)).await.unwrap();
    edge.change(tenant, None, Some(true)).await.unwrap();
    nodes.edge.server.start_session().await;
    wait_until(async || nodes.owner.sent.0.load(Ordering::SeqCst) == 2).await;
    assert_eq!(nodes.edge.sent.0.load(Ordering::SeqCst), 0);
    nodes.end().await;
}

#[actix::test]
async fn peers_with_a_wrong_secret_or_name_get_no_response() {
    let nodes = Nodes::start().await;
    let session = nodes.edge.server.start_session().await;
    let id = id_of(&session);
    let name = NodeName(nodes.owner.peers.address.to_string());
    let other_name = NodeName(format!("localhost:{}", nodes.owner.peers.address.port()));
    let unknown_secret = b"a secret that neither of them has been given".as_slice();
    for (secret, owner, is_answered) in [
        (SECRET, &name, true),
        (OTHER_SECRET, &name, true),
        (unknown_secret, &name, false),
        (SECRET, &other_name, false),
    ] {
        let view = view(&free_name(), owner);
        let client = PeerClient::start(view, secrets(secret)).unwrap();
        let response = client.live(id).await;
        assert_eq!(response.is_ok(), is_answered, "{response:?}");
    }
    let http = reqwest::Client::builder()
        .no_proxy()
        .http2_prior_knowledge()
        .build()
        .unwrap();
    for path in ["/peer/v1/live", "/peer/v1/nothing", "/"] {
        let request = http.post(format!("http://{}{path}", name.0));
        assert_eq!(request.send().await.unwrap().status(), 401, "{path}");
    }
    nodes.end().await;
}

#[actix::test]
async fn the_end_of_a_session_on_another_node_is_known_within_moments() {
    let nodes = Nodes::start().await;
    nodes.forward();
    let (edge, owner) = (&nodes.edge.server, &nodes.owner.server);
    let session = edge.start_session().await;
    send(edge, &session, 0..3).await;
    stop(owner, &session).await;
    nodes.wait_until_covered(id_of(&session), 3).await;
    // The edge still caches the session as in progress: the batch is accepted and counted
    // nevertheless.
    send(edge, &session, [3]).await;
    nodes.wait_until_covered(id_of(&session), 4).await;
    edge.clock.advance_min(11);
    wait_until(async || {
        let path = telemetry(&session.id);
        let batch = crate::server::batch(9);
        let answer = edge.post(&path, &session.token, &batch).await;
        answer.status == 409
    })
    .await;
    nodes.end().await;
}

#[actix::test]
async fn a_socket_at_another_node_closes_with_its_session_and_its_batches_count() {
    let nodes = Nodes::start().await;
    nodes.forward();
    let edge = &nodes.edge.server;
    let session = edge.start_session().await;
    let mut phone = Phone::connect(edge, &session, &session.token).await;
    for seq in 0..3 {
        phone.text(&crate::server::batch(seq)).await;
        assert_eq!(phone.answer().await, json!({ "ackSeq": seq }));
    }
    let in_flight = edge.fill_session(&session.id).await;
    phone.text(&crate::server::batch(3)).await;
    assert_eq!(phone.answer().await["code"], "session_busy");
    drop(in_flight);
    phone.text(&crate::server::batch(3)).await;
    assert_eq!(phone.answer().await, json!({ "ackSeq": 3 }));
    stop(edge, &session).await;
    assert_eq!(phone.closed().await, CloseCode::Normal);
    nodes.wait_until_covered(id_of(&session), 4).await;
    nodes.end().await;
}
