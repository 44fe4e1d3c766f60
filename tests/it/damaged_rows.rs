//! Damages one row of each kind, starts the real server, and tests that everything but that row
//! works.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use porchlight_store::EmbeddedStore;
use porchlight_store::engine::{KeyRange, Order, Space};
use porchlight_store::tables::kinds;
use porchlight_store::txn::Scan;
use serde_json::json;
use sha2::{Digest as _, Sha256};

use crate::caller::Caller;
use crate::opened::open_store;
use crate::server::{Folder, Server, block_on, porchlight, successful};

/// The variable that lets webhooks be registered for a port of this machine where nothing listens.
const VARIABLES: [(&str, &str); 1] = [("PORCHLIGHT__WEBHOOK__ALLOW_ADDRESSES", "127.0.0.0/8")];
/// The kinds that every caller of the organization needs: its key and its webhook.
const KINDS_OF_THE_CALLER: [&str; 2] = ["API key", "webhook"];

/// An organization with one live and one completed session.
struct Customer {
    key: String,
    organization_id: String,
    live: String,
    completed: String,
}

fn create_key(folder: &Path, organization: &str) -> (String, String) {
    let made = porchlight()
        .args(["keys", "create", "--init", "--json", "--org", organization])
        .args(["--env", "sandbox", "--kind", "secret"])
        .env("PORCHLIGHT__STORE__PATH", folder)
        .output()
        .unwrap();
    let made: serde_json::Value = serde_json::from_str(&successful(made)).unwrap();
    let text = |name: &str| made[name].as_str().unwrap().to_owned();
    (text("key"), text("organizationId"))
}

impl Customer {
    /// Fills the store with rows of every kind that needs no receiver of webhooks.
    async fn fill(server: &Server, key: &str, organization_id: &str) -> Self {
        let caller = Caller::with_key(server, key);
        let webhook = json!({ "url": "https://127.0.0.1:9/hook" });
        let made = caller.post("/v1/webhooks", &webhook).await;
        assert_eq!(made.status, 201, "{}", made.body);
        let completed = caller.start("completed").await;
        let live = caller.start("live").await;
        for id in [&completed, &live] {
            for seq in [0, 1, 3] {
                assert_eq!(caller.batch(id, seq).await.status, 202);
            }
        }
        // The server saves a snapshot of a session whose events were requested when it stops.
        let path = format!("/v1/sessions/{live}/insights");
        assert_eq!(caller.get(&path).await.status, 200);
        let pod = json!({ "type": "note", "url": "https://example.com/pod" });
        let path = format!("/v1/sessions/{completed}/pod");
        assert_eq!(caller.post(&path, &pod).await.status, 200);
        let stop = json!({ "sessionId": completed });
        let stopped = caller.post("/v1/sessions/stop", &stop).await;
        assert_eq!(stopped.status, 200, "{}", stopped.body);
        let address = json!({ "line1": "1", "city": "T", "country": "XX", "lat": 1.0, "lng": 2.0 });
        let recorder = json!({ "externalRiderId": "rider", "address": address });
        let made = caller.post("/v1/recorders", &recorder).await;
        assert_eq!(made.status, 201, "{}", made.body);
        let customer = Self {
            key: key.to_owned(),
            organization_id: organization_id.to_owned(),
            live,
            completed,
        };
        customer.wait_until_scored(server).await;
        let path = format!("/v1/sessions/{}/hold", customer.completed);
        let held = caller.send(reqwest::Method::PUT, &path, None).await;
        assert_eq!(held.status, 200, "{}", held.body);
        customer
    }

    async fn wait_until_scored(&self, server: &Server) {
        let caller = Caller::with_key(server, &self.key);
        let path = format!("/v1/sessions/{}/insights", self.completed);
        for _ in 0..1_200 {
            if caller.get(&path).await.body["status"] == "ready" {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        panic!("not scored");
    }

    /// Asserts that all operations of this customer work, except the operations that the closure
    /// excludes.
    async fn assert_works(&self, server: &Server, seq: u32, of: &str) {
        let caller = Caller::with_key(server, &self.key);
        for path in [
            format!("/v1/sessions/{}", self.completed),
            format!("/v1/sessions/{}", self.live),
            format!("/v1/sessions/{}/insights", self.completed),
            format!("/v1/sessions/{}/insights", self.live),
            "/v1/webhooks".to_owned(),
        ] {
            let answer = caller.get(&path).await;
            assert_eq!(answer.status, 200, "{of}: {path}: {}", answer.body);
        }
        let sent = caller.batch(&self.live, seq).await;
        assert_eq!(sent.status, 202, "{of}: {}", sent.body);
        self.assert_others_work(&caller, of).await;
    }

    /// Asserts the operations that still work for an organization with a damaged row of its own.
    async fn assert_others_work(&self, caller: &Caller, of: &str) {
        for path in ["/v1/sessions", "/v1/webhooks/deliveries"] {
            let answer = caller.get(path).await;
            assert_eq!(answer.status, 200, "{of}: {path}: {}", answer.body);
        }
        let started = caller.try_start("another").await;
        assert_eq!(started.status, 201, "{of}: {}", started.body);
        let id = started.body["sessionId"].as_str().unwrap();
        assert_eq!(caller.batch(id, 0).await.status, 202, "{of}");
        let stop = json!({ "sessionId": id });
        let stopped = caller.post("/v1/sessions/stop", &stop).await;
        assert_eq!(stopped.status, 200, "{of}: {}", stopped.body);
    }
}

/// Reads all deliveries of an organization, and returns the number of those without a payload.
async fn lost_payloads(caller: &Caller) -> usize {
    let list = caller.get("/v1/webhooks/deliveries").await;
    let mut lost = 0;
    for row in list.body["data"].as_array().unwrap() {
        let id = row["id"].as_str().unwrap();
        let shown = caller.get(&format!("/v1/webhooks/deliveries/{id}")).await;
        assert_eq!(shown.status, 200, "{}", shown.body);
        lost += usize::from(shown.body["payload"].is_null());
    }
    lost
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// Selects the row to damage for each kind: a row of the victim if there is one.
async fn rows(store: &EmbeddedStore, victim: &Customer) -> BTreeMap<String, (Space, Vec<u8>)> {
    let mut found = BTreeMap::new();
    for space in Space::ALL {
        let scan = Scan {
            space,
            range: KeyRange {
                from: vec![1],
                to: Vec::new(),
            },
            order: Order::Ascending,
            rows_max: usize::MAX,
            bytes_max: usize::MAX,
            keys_only: true,
        };
        for row in store.read_rows(move |read| read.rows(&scan)).await.unwrap() {
            let name = kinds::name(space, &row.key);
            let is_victims = [&victim.completed, &victim.live, &victim.organization_id]
                .iter()
                .any(|id| name.id.contains(id.as_str()))
                || row.key.ends_with(&Sha256::digest(&victim.key));
            if is_victims || !found.contains_key(name.kind) {
                found.insert(name.kind.to_owned(), (space, row.key));
            }
        }
    }
    found
}

fn check(folder: &Path, quarantine: bool) -> (Option<i32>, String) {
    let mut command = porchlight();
    command.args(["store", "check", "--data"]).arg(folder);
    if quarantine {
        command.arg("--quarantine");
    }
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    (output.status.code(), text)
}

#[test]
fn a_damaged_row_affects_only_its_owner() {
    let folder = Folder::new();
    let (victim_key, victim_id) = create_key(&folder.store(), "victim");
    let (other_key, other_id) = create_key(&folder.store(), "other");
    let server = Server::start(&folder, &VARIABLES);
    let (victim, other) = block_on(async {
        let other = Customer::fill(&server, &other_key, &other_id).await;
        let victim = Customer::fill(&server, &victim_key, &victim_id).await;
        (victim, other)
    });
    server.stop();
    let store = open_store(&folder.store()).unwrap();
    let rows = block_on(rows(&store, &victim));
    store.committer().close();
    drop(store);
    assert!(rows.len() >= 25, "{:?}", rows.keys());

    println!(
        "| damaged row | start | other organization | same organization | check | quarantine |"
    );
    for (kind, (space, key)) in rows {
        let damaged = Folder::new();
        copy(&folder.store(), &damaged.store());
        let store = open_store(&damaged.store()).unwrap();
        let name = kinds::name(space, &key);
        let write = store.committer().write(move |txn| {
            txn.put(space, key, vec![0; 8]);
            Ok(())
        });
        block_on(write).unwrap();
        store.committer().close();
        drop(store);

        let server = Server::start(&damaged, &VARIABLES);
        block_on(other.assert_works(&server, 4, &kind));
        let caller = Caller::with_key(&server, &victim.key);
        if !KINDS_OF_THE_CALLER.contains(&kind.as_str()) {
            block_on(victim.assert_others_work(&caller, &kind));
        }
        let is_message = kind == "message";
        if is_message {
            assert_eq!(block_on(lost_payloads(&caller)), 1);
        }
        create_key(&damaged.store(), "third");
        // Rows that consist of their key have no payload to damage.
        let (code, stdout) = check(&damaged.store(), false);
        let is_found = code == Some(1) && stdout.contains(&format!("damaged: {kind} "));
        assert!(is_found || code == Some(0), "{kind}: {stdout}");
        let (code, stdout) = check(&damaged.store(), true);
        assert_eq!(code, Some(0), "{kind}: {stdout}");
        let is_mark = kind == "privacy mark";
        assert_eq!(stdout.contains("place it again"), is_mark, "{stdout}");
        block_on(other.assert_works(&server, 5, &kind));
        if is_message {
            assert_eq!(block_on(lost_payloads(&caller)), 1, "after the quarantine");
        }
        server.stop();
        let server = Server::start(&damaged, &VARIABLES);
        block_on(other.assert_works(&server, 6, &kind));
        if kind != "API key" {
            block_on(victim.assert_others_work(&Caller::with_key(&server, &victim.key), &kind));
        }
        server.stop();
        let (code, stdout) = check(&damaged.store(), false);
        assert_eq!(code, Some(0), "{kind}: {stdout}");
        let found = if is_found { "found" } else { "payload unused" };
        println!(
            "| {kind} ({}) | yes | all | all but it | {found} | yes |",
            name.id
        );
    }
}
