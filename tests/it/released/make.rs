//! Writes the fixtures of a release, with the binary of that release (`PORCHLIGHT_BIN`, or the one
//! of this build).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::time::Duration;

use porchlight_core::webhook::{AttemptResult, Cause, Change, Queued, State, Update};
use porchlight_keys::keyring::KEY_FILE;
use porchlight_ports::{
    DeliveryFilter, DeliveryStatus, Journal, MessageBody, Note, Outbox, Sessions, Store,
};
use porchlight_schema::ids::SessionId;
use porchlight_schema::message::MessageEvent;
use porchlight_schema::session::{EndReason, SessionEnd, Tenant};
use porchlight_schema::time::TimestampMs;
use porchlight_store::EmbeddedStore;
use porchlight_store::engine::KeyRange;
use porchlight_store::txn::Scan;
use porchlight_support::hex::to_hex;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;

use super::additions::{self, run};
use super::contents::contents;
use super::{cql_rows, dump_rows, expected, listed, variables};
use crate::cql_process;
use crate::opened::open_store;
use crate::phone::{Client, OpenDelivery, Sent};
use crate::receiver::{Authority, OK, Receiver, Shown, read_request};
use crate::server::{Folder, Server, block_on};

/// The numbers of deliveries in `phone::delivery`: a house, stairs, no one home, an elevator.
const DELIVERED: [u64; 1] = [0];
const REFUSED: u64 = 2;
const WAITING: u64 = 4;
const RECORDING: u64 = 1;
/// The batch that the phone of the waiting session loses.
const LOST_SEQ: u32 = 3;

/// Starts a receiver that accepts messages, or refuses them while the flag is set.
pub(super) async fn receiver(authority: &Authority) -> (Receiver, Arc<AtomicBool>) {
    let refuses = Arc::new(AtomicBool::new(false));
    let refusing = Arc::clone(&refuses);
    let behave = move |mut stream, log: Arc<Mutex<Vec<String>>>| {
        let refusing = Arc::clone(&refusing);
        async move {
            while let Some(request) = read_request(&mut stream).await {
                let answer = if refusing.load(Ordering::SeqCst) {
                    "HTTP/1.1 500 No\r\ncontent-length: 4\r\n\r\nbusy"
                } else {
                    log.lock().unwrap().push(request);
                    OK
                };
                if stream.write_all(answer.as_bytes()).await.is_err() {
                    return;
                }
            }
        }
    };
    let receiver = Receiver::start(authority, Shown::Good, behave).await;
    (receiver, refuses)
}

/// The prefixes of the keys of a fixture, before their secret parts. The parts are stored
/// separately, because this repository contains no keys.
const PREFIXES: [(&str, &str); 4] = [
    ("secret", "sk_sandbox_"),
    ("client", "pk_sandbox_"),
    ("revoked", "sk_sandbox_"),
    ("webhook", "whsec_"),
];

/// Returns the keys of a fixture, joined from their parts.
pub(super) fn keys(release: &str) -> Value {
    let parts = expected(release, "keys.json");
    let whole = PREFIXES.map(|(name, prefix)| {
        let part = parts[name].as_str().unwrap();
        (name, format!("{prefix}{part}"))
    });
    json!(BTreeMap::from(whole))
}

fn split_keys(keys: &Value) -> Value {
    let parts = PREFIXES.map(|(name, prefix)| {
        let key = keys[name].as_str().unwrap();
        (name, key.strip_prefix(prefix).unwrap())
    });
    json!(BTreeMap::from(parts))
}

/// Returns one sample of each kind, and one of a kind that no version knows.
pub(super) fn every_kind() -> Value {
    json!([
        {"t": 0.0, "kind": "location", "lat": 52.5, "lng": 13.4, "accuracyM": 5.0, "altitudeM": 34.5,
            "speedMps": 1.25, "bearingDeg": 90.0, "mock": false, "provider": "gnss"},
        {"t": 0.5, "kind": "pressure", "hPa": 1013.25},
        {"t": 1.0, "kind": "steps", "count": 4711},
        {"t": 1.0, "kind": "imu", "hz": 20.0, "ax": [0.0, 0.25], "ay": [0.5, -0.5], "az": [9.75, 9.875],
            "gx": [0.0, 0.125], "gy": [0.0, 0.125], "gz": [0.25, 0.0]},
        {"t": 1.5, "kind": "motion", "accelMean": 9.75, "accelStd": 0.5, "verticalMean": 9.5,
            "cadenceHz": 1.75, "yawRad": 0.25},
        {"t": 2.0, "kind": "magnetic", "x": 20.0, "y": -4.5, "z": 42.0},
        {"t": 2.5, "kind": "activity", "type": "walking", "confidence": 0.75},
        {"t": 3.0, "kind": "mark", "name": "arrived"},
        {"t": 3.5, "kind": "system", "name": "location_off"},
        {"t": 4.0, "kind": "thermometer", "celsius": 21.0},
    ])
}

/// Removes the bulk of the telemetry, so that the fixture is small.
fn reduce_telemetry(open: &mut OpenDelivery) {
    for (_, body) in &mut open.batches {
        let mut batch: Value = serde_json::from_str(body).unwrap();
        let samples = batch["samples"].as_array_mut().unwrap();
        samples.retain(|sample| {
            let kind = sample["kind"].as_str().unwrap();
            let is_whole_second = sample["t"].as_f64().unwrap().fract() < 0.2;
            ["location", "mark", "steps", "system"].contains(&kind)
                || kind == "pressure" && is_whole_second
        });
        *body = batch.to_string();
    }
}

/// Sends a whole delivery with reduced telemetry.
async fn send_reduced(client: &Client, number: u64) -> Sent {
    let mut open = client.begin(number).await;
    reduce_telemetry(&mut open);
    client
        .send_next(&mut open, usize::MAX, Duration::ZERO)
        .await;
    client.finish(open).await
}

/// The data that the generator needs about its own writes.
struct Filled {
    keys: Value,
    /// The session that waits for scoring.
    waiting: SessionId,
    recording: SessionId,
}

/// Fills the store of a server through the API.
async fn fill(server: &Server, receiver: &Receiver, refuses: &AtomicBool) -> Filled {
    let (secret, client_key, revoked) = (
        server.key("secret"),
        server.key("client"),
        server.key("secret"),
    );
    let url = Arc::new(RwLock::new(server.api.clone()));
    let client = Client::new(&url, &secret);
    let body = json!({ "url": receiver.local_url() }).to_string();
    let created = client.request("/v1/webhooks", Some(&body), None).await;
    assert_eq!(created.0, 201, "{}", created.1);
    for number in DELIVERED {
        let sent = send_reduced(&client, number).await;
        client.insight(&sent.session_id).await;
    }
    super::wait_for_deliveries(&client).await;
    let rotated = client
        .request("/v1/webhooks/rotate", Some("{}"), None)
        .await;
    assert_eq!(rotated.0, 200, "{}", rotated.1);
    refuses.store(true, Ordering::SeqCst);
    let sent = send_reduced(&client, REFUSED).await;
    client.insight(&sent.session_id).await;
    let pod = json!({"type": "photo", "url": "https://pod.example/1.jpg"}).to_string();
    let path = format!("/v1/sessions/{}/pod", sent.session_id);
    assert_eq!(client.request(&path, Some(&pod), None).await.0, 200);

    let mut waiting = client.begin(WAITING).await;
    reduce_telemetry(&mut waiting);
    waiting.batches.retain(|(seq, _)| *seq != LOST_SEQ);
    client.send_next(&mut waiting, 10, Duration::ZERO).await;
    let mut recording = client.begin(RECORDING).await;
    reduce_telemetry(&mut recording);
    client.send_next(&mut recording, 14, Duration::ZERO).await;
    let start = json!({"deliveryId": "every-kind", "externalRiderId": "rider", "sessionType": "return",
        "address": {"line1": "1 High Street", "city": "Leeds", "country": "GB", "lat": 53.8, "lng": -1.55,
            "unit": "4b", "floor": 2, "accuracyM": 15.0, "storeyHeightM": 3.0,
            "entrance": {"lat": 53.80005, "lng": -1.55}, "gates": [{"lat": 53.8001, "lng": -1.55}]},
        "device": {"platform": "android", "model": "X", "osVersion": "16", "sdkVersion": "1", "sensors": ["location"]}});
    let started = client
        .request("/v1/sessions/start", Some(&start.to_string()), None)
        .await
        .1;
    let path = format!(
        "/v1/sessions/{}/telemetry",
        started["sessionId"].as_str().unwrap()
    );
    let batch = json!({"seq": 0, "samples": every_kind()}).to_string();
    let answer = client.request(&path, Some(&batch), None).await;
    assert_eq!(answer.0, 202, "{}", answer.1);
    // The first message of each session was refused once; the next ones wait.
    while !retries_began(&client).await {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Filled {
        keys: json!({"secret": secret, "client": client_key, "revoked": revoked,
            "webhook": rotated.1["secret"]}),
        waiting: waiting.sent.session_id.parse().unwrap(),
        recording: recording.sent.session_id.parse().unwrap(),
    }
}

async fn retries_began(client: &Client) -> bool {
    let rows = listed(client, "/v1/webhooks/deliveries", "id").await;
    rows.values()
        .filter(|row| row["sequence"] == 0)
        .all(|row| row["attempts"] != 0)
}

/// Returns a customer's view, limited to the parts that every later version must show unchanged.
async fn seen(server: &Server, filled: &Filled) -> Value {
    let url = Arc::new(RwLock::new(server.api.clone()));
    let client = Client::new(&url, filled.keys["secret"].as_str().unwrap());
    let mut sessions = Vec::new();
    for (id, mut session) in listed(&client, "/v1/sessions", "sessionId").await {
        let path = format!("/v1/sessions/{id}/insights");
        session["insight"] = client.request(&path, None, None).await.1;
        session["insight"]["pathImageUrl"].take();
        sessions.push(session);
    }
    json!({ "sessions": sessions })
}

/// Revokes the key `revoked`, and creates the organization that later leaves.
fn change_keys(variables: &[(&str, &str)], folder: &Folder, keys: &Value) -> String {
    let key = keys["revoked"].as_str().unwrap();
    let ends = &key[key.len() - 4..];
    let rows = run(variables, folder, &["keys", "list", "--json"]);
    let rows = rows
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let mut rows = rows.filter(|row| row["last4"] == ends && row["kind"] == "secret");
    run(
        variables,
        folder,
        &[
            "keys",
            "revoke",
            rows.next().unwrap()["id"].as_str().unwrap(),
        ],
    );
    let create = [
        "keys", "create", "--init", "--org", "leaving", "--env", "sandbox", "--kind", "secret",
    ];
    run(variables, folder, &create).trim().to_owned()
}

fn now() -> TimestampMs {
    TimestampMs(jiff::Timestamp::now().as_millisecond())
}

/// Ends the waiting session before anything has scored it, and requests a retry: the state after a
/// kill of the process at that point.
async fn leave_pending_work<S: Store + Outbox>(store: &S, tenant: Tenant, waiting: SessionId) {
    let ended_at = now();
    let end = SessionEnd {
        ended_at,
        completed_at: ended_at,
        reason: EndReason::Stopped,
    };
    let message = MessageBody {
        event: MessageEvent::SessionStopped,
        created_at: ended_at,
        body: json!({"type": "session.stopped", "data": {"sessionId": waiting.to_string()}})
            .to_string()
            .into(),
    };
    assert!(
        store
            .end(waiting, end, None, message)
            .await
            .unwrap()
            .unwrap()
            .is_first
    );
    let gone = Note::Skipped {
        first: LOST_SEQ,
        last: LOST_SEQ,
    };
    store.note(waiting, gone).await.unwrap();
    let filter = DeliveryFilter {
        status: Some(DeliveryStatus::Delivered),
        ..DeliveryFilter::default()
    };
    let page = store.deliveries(tenant, &filter, 1, None).await.unwrap();
    store
        .request_retry(tenant, page.rows[0].queued.id, now())
        .await
        .unwrap();
}

/// Makes one message fail permanently, quarantines a batch, and removes the webhook of the
/// organization that leaves.
async fn leave_embedded_work(store: &EmbeddedStore, tenant: Tenant, recording: SessionId) {
    store
        .note(recording, Note::Quarantined { seq: 7 })
        .await
        .unwrap();
    let filter = DeliveryFilter {
        status: Some(DeliveryStatus::Retrying),
        ..DeliveryFilter::default()
    };
    let page = store.deliveries(tenant, &filter, 1, None).await.unwrap();
    let before = page.rows[0].queued;
    let after = Queued {
        state: State::Failed,
        attempts: 6,
        due_at: None,
        ..before
    };
    let report = AttemptResult {
        at: now(),
        duration_ms: 5_000,
        status_code: None,
        cause: Some(Cause::Timeout),
        response: None,
        details: porchlight_core::webhook::AttemptDetails::default(),
    };
    let update = Update {
        before,
        after,
        report: Some(report),
    };
    let change = Change {
        updates: vec![update],
        manual_done: None,
    };
    let endpoint = page.rows[0].endpoint_id;
    store
        .commit(tenant, endpoint, before.session_id, change)
        .await
        .unwrap();
    for endpoint in store.endpoints().await.unwrap() {
        if endpoint.tenant != tenant {
            assert!(store.delete_endpoint(endpoint.tenant).await.unwrap());
        }
    }
}

/// Returns the keys of the store's learned data.
async fn learned_keys(store: &EmbeddedStore) -> Vec<String> {
    let scan = Scan::state(KeyRange::prefix([b'w']), usize::MAX);
    let rows = store.read_rows(move |read| read.rows(&scan)).await.unwrap();
    rows.iter().map(|row| to_hex(&row.key[1..])).collect()
}

fn pack(from: &Path, archive: &Path) {
    let packed = Command::new("tar")
        .args([
            "--create",
            "--gzip",
            "--sparse",
            "--numeric-owner",
            "--owner=0",
            "--group=0",
            "--file",
        ])
        .arg(archive)
        .arg("--directory")
        .arg(from)
        .arg(".")
        .status();
    assert!(packed.unwrap().success());
}

fn write(folder: &Path, name: &str, value: &Value) {
    let text = serde_json::to_string_pretty(value).unwrap();
    std::fs::write(folder.join(name), text + "\n").unwrap();
}

/// Returns the statuses of the deliveries that a customer sees.
fn statuses(contents: &Value, tenant: Tenant) -> Value {
    let tenant = serde_json::to_value(tenant).unwrap();
    let tenants = contents["tenants"].as_array().unwrap();
    let found = tenants
        .iter()
        .find(|found| found["tenant"] == tenant)
        .unwrap();
    let rows = found["deliveries"].as_object().unwrap().iter();
    let statuses: BTreeMap<_, _> = rows
        .map(|(id, row)| (id.clone(), row["status"].clone()))
        .collect();
    json!(statuses)
}

/// Creates a webhook and a session for the organization that leaves.
async fn join_and_leave(server: &Server, key: &str, receiver: &Receiver) {
    let url = Arc::new(RwLock::new(server.api.clone()));
    let client = Client::new(&url, key);
    let body = json!({ "url": receiver.local_url() }).to_string();
    assert_eq!(
        client.request("/v1/webhooks", Some(&body), None).await.0,
        201
    );
    client.begin(RECORDING).await;
    while !retries_began(&client).await {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

fn make_embedded(into: &Path) {
    let folder = Folder::new();
    let authority = Authority::new();
    let listening = tokio::runtime::Runtime::new().unwrap();
    let (receiver, refuses) = listening.block_on(receiver(&authority));
    let variables = variables(&authority);
    let variables: Vec<_> = variables
        .iter()
        .map(|(name, value)| (*name, value.as_str()))
        .collect();
    additions::leave_late_stop(&variables, &folder);
    let server = Server::start(&folder, &variables);
    let filled = block_on(fill(&server, &receiver, &refuses));
    additions::add(&server, &variables, &folder);
    additions::back_up(&variables, &folder, &Folder::new().store());
    let leaving = change_keys(&variables, &folder, &filled.keys);
    block_on(join_and_leave(&server, &leaving, &receiver));
    let mut api = block_on(seen(&server, &filled));
    server.stop();

    let store = open_store(&folder.store()).unwrap();
    let backup = Folder::new();
    let found = block_on(async {
        let row = store.find(filled.waiting).await;
        let tenant = row.unwrap().unwrap().start.tenant;
        leave_pending_work(&*store, tenant, filled.waiting).await;
        leave_embedded_work(&store, tenant, filled.recording).await;
        store.backup(&backup.store(), &[KEY_FILE]).unwrap();
        let learned = learned_keys(&store).await;
        assert!(
            learned.iter().any(|key| key.starts_with("01")),
            "no place was learned"
        );
        let found = contents(&*store, &learned).await;
        api["deliveries"] = statuses(&found, tenant);
        std::fs::write(into.join("rows.txt"), dump_rows(&store).await).unwrap();
        store.close().await;
        found
    });
    drop(store);
    write(into, "contents.json", &found);
    write(into, "api.json", &api);
    write(into, "keys.json", &split_keys(&filled.keys));
    pack(&folder.store(), &into.join("store.tar.gz"));
    pack(&backup.store(), &into.join("backup.tar.gz"));
}

/// Creates the fixtures of a CQL keyspace, and saves its rows. Returns `false` if there is no
/// server.
fn make_cql(into: &Path) -> bool {
    let folder = Folder::new();
    let Some(mut variables) = cql_process::variables(folder.path()) else {
        return false;
    };
    let keyspace = variables[2].1.clone();
    let authority = Authority::new();
    let listening = tokio::runtime::Runtime::new().unwrap();
    let (receiver, refuses) = listening.block_on(receiver(&authority));
    // Databases refuse rows that live beyond 2038: the default retention is enough here.
    let webhook = super::variables(&authority).into_iter();
    let is_retention = |name: &str| name.ends_with("RETENTION");
    variables.extend(webhook.filter(|(name, _)| !is_retention(name)));
    let variables = cql_process::borrowed(&variables);
    additions::leave_late_stop(&variables, &folder);
    let server = Server::start(&folder, &variables);
    let filled = block_on(fill(&server, &receiver, &refuses));
    additions::add(&server, &variables, &folder);
    server.stop();
    block_on(async {
        let store = cql_rows::open(keyspace.clone()).await;
        let waiting = store.find(filled.waiting).await.unwrap().unwrap();
        leave_pending_work(&*store, waiting.start.tenant, filled.waiting).await;
        store.close().await;
        cql_rows::write(into, &keyspace).await;
    });
    true
}

#[test]
#[ignore = "writes the fixtures of a release into the folder that PORCHLIGHT_FIXTURES names"]
fn writes_the_fixtures_of_a_release() {
    let into = PathBuf::from(std::env::var_os("PORCHLIGHT_FIXTURES").unwrap());
    std::fs::create_dir_all(&into).unwrap();
    make_embedded(&into);
    assert!(make_cql(&into), "there is no CQL server");
}
