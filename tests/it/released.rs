//! Tests that stores and backups of released versions still open, read the same, and finish their
//! pending work.
//!
//! `tests/fixtures/v1` describes the contents. A fixture is never changed; a release adds its own
//! folder:
//!
//! ```sh
//! PORCHLIGHT_FIXTURES=$PWD/tests/fixtures/v2 cargo test --test it released::make -- --ignored
//! ```

mod additions;
mod contents;
pub(crate) mod cql_rows;
mod make;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, RwLock};
use std::time::{Duration, Instant};

use porchlight_core::webhook::signature::service_signature;
use porchlight_store::engine::{KeyRange, Space};
use porchlight_store::tables::kinds::TABLES;
use porchlight_store::txn::Scan;
use porchlight_store::{EmbeddedStore, MemoryStore};
use porchlight_support::hex::{from_hex, to_hex};
use reqwest::StatusCode;
use serde_json::{Value, json};

use self::contents::{contents, difference, learned_keys};
use crate::fixed::assert_webhook_request;
use crate::opened::open_store;
use crate::phone::Client;
use crate::receiver::{Authority, Receiver};
use crate::server::{Folder, Server, block_on, http};

/// The folders of fixtures, one for each released version.
const RELEASES: [&str; 1] = ["v1"];
/// The timeout of each step.
const STEP_TIMEOUT: Duration = Duration::from_secs(240);

fn fixture(release: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures")
        .join(release)
}

/// Reads a JSON file of a fixture.
fn expected(release: &str, name: &str) -> Value {
    let text = std::fs::read_to_string(fixture(release).join(name)).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// Unpacks an archive of a fixture as the store of `folder`.
fn unpack(release: &str, archive: &str, folder: &Folder) {
    std::fs::create_dir_all(folder.store()).unwrap();
    let unpacked = Command::new("tar")
        .args(["--extract", "--gzip", "--file"])
        .arg(fixture(release).join(archive))
        .arg("--directory")
        .arg(folder.store())
        .status();
    assert!(unpacked.unwrap().success());
}

/// Expects no events of a snapshot whose format the service no longer reads: it builds the session
/// from the journal instead.
fn without_old_snapshots(found: &Value, mut expected: Value) -> Value {
    let sessions = expected.get_mut("sessions").and_then(Value::as_object_mut);
    for (id, session) in sessions.into_iter().flatten() {
        let snapshot = &found["sessions"][id]["snapshot"];
        if snapshot.is_object() && snapshot["events"].is_null() {
            session["snapshot"]["events"] = Value::Null;
        }
    }
    expected
}

/// Asserts that a store contains the data that its own release read from it.
fn assert_same(release: &str, what: &str, found: &Value, expected: &Value) {
    let expected = without_old_snapshots(found, expected.clone());
    if let Some(difference) = difference(&expected, found) {
        panic!("{release}, {what}: {difference}");
    }
}

#[test]
fn stores_and_backups_of_every_release_read_the_same() {
    for release in RELEASES {
        let expected = expected(release, "contents.json");
        for archive in ["store.tar.gz", "backup.tar.gz"] {
            let folder = Folder::new();
            unpack(release, archive, &folder);
            let store = open_store(&folder.store()).unwrap();
            let found = block_on(contents(&*store, &learned_keys(&expected)));
            assert_same(release, archive, &found, &expected);
            block_on(store.close());
        }
    }
}

/// Parses the rows of a store, one per line: the space, the key and the payload, both in
/// hexadecimal digits.
fn rows_of(text: &str) -> Vec<(Space, Vec<u8>, Vec<u8>)> {
    let rows = text.lines().map(|line| {
        let mut fields = line.split(' ');
        let name = fields.next().unwrap();
        let space = Space::ALL.into_iter().find(|space| space.as_str() == name);
        let mut bytes = || from_hex(fields.next().unwrap());
        (space.unwrap(), bytes(), bytes())
    });
    rows.collect()
}

/// Returns the tables that a release could write. The first release had no others.
fn written_tables(release: &str) -> Vec<u8> {
    match release {
        "v1" => b"JnseplcytdrIiavwmMhoqubDFAxgkK".to_vec(),
        _ => TABLES.iter().map(|&(table, _)| table).collect(),
    }
}

#[test]
fn the_rows_of_every_release_decode_to_the_written_values() {
    for release in RELEASES {
        let text = std::fs::read_to_string(fixture(release).join("rows.txt")).unwrap();
        let rows = rows_of(&text);
        let tables: std::collections::BTreeSet<u8> = rows
            .iter()
            .filter(|(space, ..)| *space == Space::State)
            .map(|(_, key, _)| key[0])
            .collect();
        for table in written_tables(release) {
            let name = char::from(table);
            assert!(tables.contains(&table), "{release}: no row of {name}");
        }
        let expected = expected(release, "contents.json");
        let found = block_on(async {
            let store = MemoryStore::new(Arc::new(|_, _| {})).unwrap();
            let written = store.committer().write(move |txn| {
                for (space, key, payload) in rows {
                    txn.put(space, key, payload);
                }
                Ok(())
            });
            written.await.unwrap();
            let found = contents(&*store, &learned_keys(&expected)).await;
            store.close().await;
            found
        });
        assert_same(release, "rows.txt", &found, &expected);
    }
}

/// Returns all rows of a store, in the format of `rows.txt`, without the group markers, which do
/// not belong to a table.
async fn dump_rows(store: &EmbeddedStore) -> String {
    let mut text = String::new();
    for space in Space::ALL {
        let scan = Scan {
            space,
            ..Scan::state(KeyRange::prefix(Vec::new()), usize::MAX)
        };
        let rows = store.read_rows(move |read| read.rows(&scan)).await.unwrap();
        for row in rows.iter().filter(|row| row.key.first() != Some(&0)) {
            let (key, payload) = (to_hex(&row.key), to_hex(&row.payload));
            text.push_str(&format!("{} {key} {payload}\n", space.as_str()));
        }
    }
    text
}

/// Returns the configuration of a server that sends webhooks to this machine and keeps old data.
fn variables(authority: &Authority) -> Vec<(&'static str, String)> {
    let file = authority.file.to_str().unwrap().to_owned();
    vec![
        (
            "PORCHLIGHT__WEBHOOK__ALLOW_ADDRESSES",
            "127.0.0.0/8,::1/128".to_owned(),
        ),
        ("PORCHLIGHT__WEBHOOK__EXTRA_CA_FILE", file),
        ("PORCHLIGHT__SERVER__RATE_LIMIT_PER_SECOND", "0".to_owned()),
        ("PORCHLIGHT__PRIVACY__DELAY", "0s".to_owned()),
        ("PORCHLIGHT__STORE__RETENTION", "18250d".to_owned()),
    ]
}

/// Returns all rows of a list.
async fn listed(client: &Client, path: &str, id: &str) -> BTreeMap<String, Value> {
    let (status, page) = client
        .request(&format!("{path}?limit=200"), None, None)
        .await;
    assert_eq!(status, 200, "{page}");
    assert_eq!(page["nextCursor"], Value::Null, "the fixture fits one page");
    let rows = page["data"].as_array().unwrap().iter();
    rows.map(|row| (row[id].as_str().unwrap().to_owned(), row.clone()))
        .collect()
}

async fn wait_for_deliveries(client: &Client) -> BTreeMap<String, Value> {
    let began = Instant::now();
    loop {
        let rows = listed(client, "/v1/webhooks/deliveries", "id").await;
        let waits = |row: &&Value| row["status"] == "pending" || row["status"] == "retrying";
        if !rows.values().any(|row| waits(&row)) {
            return rows;
        }
        assert!(began.elapsed() < STEP_TIMEOUT, "{rows:#?}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// Sends a batch again that the old release has acknowledged, as a phone does that did not receive
/// the answer. The batch has a sample of an unknown kind, which the first release did not count.
async fn repeat_batch(client: &Client, sessions: &BTreeMap<String, Value>) {
    let is_sent = |session: &&Value| session["deliveryId"] == "every-kind";
    let session = sessions.values().find(is_sent).unwrap();
    let path = format!(
        "/v1/sessions/{}/telemetry",
        session["sessionId"].as_str().unwrap()
    );
    let batch = |samples: Value| json!({"seq": 0, "samples": samples}).to_string();
    let mut samples = make::every_kind();
    let repeated = batch(samples.clone());
    let (status, answer) = client.request(&path, Some(&repeated), None).await;
    assert_eq!(status, 202, "{answer}");
    samples[1]["hPa"] = json!(1013.5);
    let (status, answer) = client.request(&path, Some(&batch(samples)), None).await;
    assert_eq!(
        (status.as_u16(), &answer["code"]),
        (409, &json!("seq_conflict"))
    );
}

/// Lets a server finish the work of an old store: it scores, delivers and accepts telemetry.
async fn finish(
    (client, api): (&Client, &str),
    keys: &Value,
    expected: &Value,
    receiver: &Receiver,
) {
    let url = json!({ "url": receiver.local_url() }).to_string();
    let place = format!("{api}/v1/webhooks");
    let key = keys["secret"].as_str().unwrap();
    let request = http().put(place).header("Service-Key", key).body(url);
    let changed = request
        .header("Content-Type", "application/json")
        .send()
        .await
        .unwrap();
    assert_eq!(changed.status(), StatusCode::OK);

    let sessions = listed(client, "/v1/sessions", "sessionId").await;
    assert_eq!(
        sessions.len(),
        expected["sessions"].as_array().unwrap().len()
    );
    repeat_batch(client, &sessions).await;
    for (id, _) in sessions
        .iter()
        .filter(|(_, session)| session["status"] == "recording")
    {
        let stop = json!({ "sessionId": id }).to_string();
        let stopped = client.request("/v1/sessions/stop", Some(&stop), None).await;
        assert_eq!(stopped.0, 200, "{}", stopped.1);
    }
    for session in expected["sessions"].as_array().unwrap() {
        let id = session["sessionId"].as_str().unwrap();
        let found = client.insight(id).await;
        assert_eq!(found["status"], "ready", "{id}");
        if session["insight"]["status"] == "ready" {
            for field in ["reasonCodes", "pod"] {
                assert_eq!(found[field], session["insight"][field], "{id}");
            }
        }
    }
    let retry = json!({ "status": "retrying" }).to_string();
    let path = "/v1/webhooks/deliveries/retry";
    assert_eq!(client.request(path, Some(&retry), None).await.0, 202);
    let deliveries = wait_for_deliveries(client).await;
    for (id, before) in expected["deliveries"].as_object().unwrap() {
        let now = &deliveries[id]["status"];
        match before.as_str().unwrap() {
            "pending" | "retrying" => {
                assert!(now == "delivered" || now == "superseded", "{id}: {now}")
            }
            before => assert_eq!(now, before, "{id}"),
        }
    }
    let mut requests = receiver.requests.lock().unwrap();
    check_signatures(&requests, keys);
    // An insight that the old release stored is sent in the shape of today. One body of the fixture
    // is abbreviated.
    let is_old = |request: &String| {
        let mut ids = expected["deliveries"].as_object().unwrap().keys();
        ids.any(|id| request.contains(&format!("x-service-delivery-id: {id}")))
    };
    let is_insight = |request: &String| request.contains("x-service-event: insight.updated");
    let old = requests.iter().filter(|request| is_old(request));
    let old: Vec<_> = old.filter(|request| is_insight(request)).cloned().collect();
    assert!(!old.is_empty(), "an insight of the old release waited");
    for request in &old {
        assert_webhook_request(request);
    }
    requests.retain(|request| !is_old(request));
    assert!(
        !requests.is_empty(),
        "sessions that were scored now send messages"
    );
}

/// Asserts that every message is signed with the secret that the old version had sealed.
fn check_signatures(requests: &[String], keys: &Value) {
    assert!(!requests.is_empty());
    let secret = keys["webhook"].as_str().unwrap();
    for request in requests {
        let (_, body) = request.split_once("\r\n\r\n").unwrap();
        let signature = service_signature(secret, body.as_bytes());
        let header = format!("x-service-signature: {signature}");
        assert!(request.lines().any(|line| line == header), "{request}");
    }
}

#[test]
fn a_server_finishes_pending_work_of_every_release() {
    for release in RELEASES {
        let (keys, expected) = (make::keys(release), expected(release, "api.json"));
        for archive in ["store.tar.gz", "backup.tar.gz"] {
            let folder = Folder::new();
            unpack(release, archive, &folder);
            let authority = Authority::new();
            let listening = tokio::runtime::Runtime::new().unwrap();
            let (receiver, _) = listening.block_on(make::receiver(&authority));
            let variables = variables(&authority);
            let variables: Vec<_> = variables
                .iter()
                .map(|(name, value)| (*name, value.as_str()))
                .collect();
            let server = Server::start(&folder, &variables);
            let place = Arc::new(RwLock::new(server.api.clone()));
            let client = Client::new(&place, keys["secret"].as_str().unwrap());
            block_on(async {
                let status = async |kind: &str| {
                    let client = Client::new(&place, keys[kind].as_str().unwrap());
                    client.request("/v1/sessions", None, None).await.0
                };
                assert_eq!(status("client").await, StatusCode::FORBIDDEN);
                assert_eq!(status("revoked").await, StatusCode::UNAUTHORIZED);
                finish((&client, &server.api), &keys, &expected, &receiver).await;
                // A snapshot of another format is neither used nor damaged.
                let discarded = server.metric("porchlight_session_snapshots_discarded_total");
                assert!(discarded.await.unwrap() > 0.0, "{release}");
                let damaged = server.metric("porchlight_store_unreadable_rows_total");
                assert_eq!(damaged.await, Some(0.0), "{release}");
            });
            server.stop();
            let format = std::fs::read(folder.store().join("acknowledged")).unwrap();
            assert!(format.starts_with(b"PLA2"), "the first release refuses it");
        }
    }
}
