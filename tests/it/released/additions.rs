//! Fills the store of a release with the rows that the first release could not write: of an
//! organization of their own, so that the other work of the fixture is as before.

use std::path::Path;
use std::sync::{Arc, RwLock};
use std::time::{Duration, Instant};

use porchlight_support::free_address::free_address;
use serde_json::{Value, json};

use super::{STEP_TIMEOUT, listed};
use crate::phone::Client;
use crate::server::{Folder, Server, block_on, http, porchlight, successful};

/// The numbers of deliveries in `phone::delivery`.
const LATE: u64 = 3;
const REVIEWED: u64 = 5;
const RESTRICTED: u64 = 6;
const ERASED: u64 = 7;

/// The requests of the organization.
struct Caller {
    client: Client,
    api: String,
    key: String,
}

impl Caller {
    fn new(server: &Server, key: &str) -> Self {
        let url = Arc::new(RwLock::new(server.api.clone()));
        Self {
            client: Client::new(&url, key),
            api: server.api.clone(),
            key: key.to_owned(),
        }
    }

    async fn put(&self, path: &str, body: Option<Value>) {
        let mut request = http()
            .put(format!("{}{path}", self.api))
            .header("Service-Key", &self.key);
        if let Some(body) = body {
            request = request.header("Content-Type", "application/json");
            request = request.body(body.to_string());
        }
        let answer = request.send().await.unwrap();
        let status = answer.status();
        assert!(
            status.is_success(),
            "{path}: {}",
            answer.text().await.unwrap()
        );
    }

    async fn post(&self, path: &str, body: &Value, expected: u16) -> Value {
        let (key, body) = (format!("{path}-1"), body.to_string());
        let key = (path == "/v1/webhooks").then_some(key.as_str());
        let (status, answer) = self.client.request(path, Some(&body), key).await;
        assert_eq!(status, expected, "{path}: {answer}");
        answer
    }

    /// Starts a session, and sends some of its telemetry. Returns its id.
    async fn record(&self, number: u64) -> String {
        let mut open = self.client.begin(number).await;
        self.client.send_next(&mut open, 3, Duration::ZERO).await;
        open.sent.session_id
    }

    async fn stop(&self, id: &str) {
        let stop = json!({ "sessionId": id });
        self.post("/v1/sessions/stop", &stop, 200).await;
    }

    /// Waits until an answer passes.
    async fn wait(&self, path: &str, passes: impl Fn(&Value) -> bool) {
        let began = Instant::now();
        loop {
            let (_, answer) = self.client.request(path, None, None).await;
            if passes(&answer) {
                return;
            }
            assert!(began.elapsed() < STEP_TIMEOUT, "{path}: {answer}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Waits until the messages of a session pass.
    async fn wait_for_messages(&self, id: &str, passes: impl Fn(&Value) -> bool) {
        let began = Instant::now();
        loop {
            let rows = listed(&self.client, "/v1/webhooks/deliveries", "id").await;
            let mut own = rows.values().filter(|row| row["sessionId"] == id);
            if own.any(&passes) {
                return;
            }
            assert!(began.elapsed() < STEP_TIMEOUT, "{rows:#?}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    async fn request_privacy(&self, kind: &str, subject: &Value) {
        let request = json!({ "requestId": kind, "type": kind, "subject": subject });
        let path = "/v1/privacy/requests";
        self.post(path, &request, 202).await;
        let is_done = |answer: &Value| answer["status"] == "completed";
        self.wait(&format!("{path}/{kind}"), is_done).await;
    }
}

/// Runs a command of the binary, while a server has the store or not.
pub(super) fn run(variables: &[(&str, &str)], folder: &Folder, arguments: &[&str]) -> String {
    let output = porchlight()
        .args(arguments)
        .envs(variables.iter().copied())
        .env("PORCHLIGHT__STORE__PATH", folder.store())
        .output()
        .unwrap();
    successful(output)
}

fn key(variables: &[(&str, &str)], folder: &Folder) -> String {
    let create = [
        "keys", "create", "--init", "--org", "later", "--env", "sandbox", "--kind", "secret",
        "--role", "admin", "--name", "dispatch",
    ];
    run(variables, folder, &create).trim().to_owned()
}

/// Leaves a session that the service ended, and that its phone stopped afterwards.
pub(super) fn leave_late_stop(variables: &[(&str, &str)], folder: &Folder) {
    let mut variables = variables.to_vec();
    variables.push(("PORCHLIGHT__SESSION__IDLE_TIMEOUT", "1s"));
    let server = Server::start(folder, &variables);
    let key = key(&variables, folder);
    block_on(async {
        let caller = Caller::new(&server, &key);
        let id = caller.record(LATE).await;
        let is_completed = |answer: &Value| answer["status"] == "completed";
        caller
            .wait(&format!("/v1/sessions/{id}"), is_completed)
            .await;
        caller.stop(&id).await;
        caller.client.insight(&id).await;
    });
    server.stop();
}

/// Leaves a failed attempt with details, held messages, a review, a hold, a restriction, an erasure,
/// a choice of retention, a recorder, and keys with a role and a name.
pub(super) fn add(server: &Server, variables: &[(&str, &str)], folder: &Folder) {
    let key = key(variables, folder);
    let viewer = [
        "keys", "create", "--org", "later", "--env", "sandbox", "--kind", "secret", "--role",
        "viewer",
    ];
    run(variables, folder, &viewer);
    block_on(async {
        let caller = Caller::new(server, &key);
        let url = format!("https://{}/hook", free_address());
        caller
            .post("/v1/webhooks", &json!({ "url": url }), 201)
            .await;
        let reviewed = caller.record(REVIEWED).await;
        let has_failed = |row: &Value| row["attempts"] != 0;
        caller.wait_for_messages(&reviewed, has_failed).await;
        caller
            .put("/v1/webhooks", Some(json!({ "enabled": false })))
            .await;
        let [restricted, erased] = [caller.record(RESTRICTED).await, caller.record(ERASED).await];
        let is_held = |row: &Value| !row["heldSince"].is_null();
        caller.wait_for_messages(&restricted, is_held).await;

        caller.stop(&reviewed).await;
        caller.client.insight(&reviewed).await;
        let review = json!({ "state": "overturned", "note": "It was the neighbour.", "by": "Kim" });
        caller
            .put(&format!("/v1/sessions/{reviewed}/review"), Some(review))
            .await;
        caller
            .put(&format!("/v1/sessions/{reviewed}/hold"), None)
            .await;
        caller
            .request_privacy("restriction", &json!({ "sessionId": restricted }))
            .await;
        caller
            .request_privacy("erasure", &json!({ "sessionId": erased }))
            .await;
        caller
            .put(
                "/v1/retention",
                Some(json!({ "telemetryDays": 30, "insightDays": 60 })),
            )
            .await;

        let address = json!({"line1": "12 High St", "city": "Leeds", "country": "GB", "lat": 53.8,
            "lng": -1.55});
        let order = json!({ "externalRiderId": "rider-9", "address": address });
        let recorder = caller.post("/v1/recorders", &order, 201).await;
        let push = recorder["pushUrls"]["owntracks"].as_str().unwrap();
        let fix = json!({ "_type": "location", "lat": 53.8, "lon": -1.55, "acc": 5,
            "tst": jiff::Timestamp::now().as_second() });
        let pushed = http()
            .post(push)
            .body(fix.to_string())
            .send()
            .await
            .unwrap();
        assert!(pushed.status().is_success());
    });
}

/// Makes a backup, which the store remembers.
pub(super) fn back_up(variables: &[(&str, &str)], folder: &Folder, to: &Path) {
    run(variables, folder, &["backup", to.to_str().unwrap()]);
}
