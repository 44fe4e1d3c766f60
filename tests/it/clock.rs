//! Tests a machine whose clock is wrong, or is set while the service runs: nothing is deleted, no
//! session ends, and no acknowledged data is dropped. The clock is that of `libfaketime` (Debian
//! package `faketime`); the monotonic clock is real.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use crate::server::{Folder, Server, block_on, http};

/// A pause that is longer than the silence after which the service checks a session's actor.
const IDLE_CHECKED_AFTER: Duration = Duration::from_secs(18);

/// Returns the library at its installed path, or `None` if it is missing and `PORCHLIGHT_FAKETIME`
/// does not require it.
fn library() -> Option<PathBuf> {
    let folders = ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu"];
    let file = "faketime/libfaketimeMT.so.1";
    let found = folders.map(|folder| Path::new(folder).join(file));
    let found = found.into_iter().find(|path| path.exists());
    let is_required = std::env::var("PORCHLIGHT_FAKETIME").is_ok_and(|value| value == "required");
    assert!(
        found.is_some() || !is_required,
        "the package faketime is not installed"
    );
    found
}

/// Returns the variables that skew a process's clock by the contents of the file, from its next
/// read on.
fn skewed<'a>(library: &'a str, file: &'a str) -> [(&'a str, &'a str); 4] {
    [
        ("LD_PRELOAD", library),
        ("FAKETIME_TIMESTAMP_FILE", file),
        ("FAKETIME_NO_CACHE", "1"),
        ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
    ]
}

/// A caller with the secret key of a test.
struct Caller<'a> {
    server: &'a Server,
    key: &'a str,
}

impl Caller<'_> {
    async fn send(&self, method: reqwest::Method, path: &str, body: Option<Value>) -> (u16, Value) {
        let request = http().request(method, format!("{}{path}", self.server.api));
        let request = request.header("Service-Key", self.key);
        let request = match body {
            Some(body) => request
                .header("Content-Type", "application/json")
                .body(body.to_string()),
            None => request,
        };
        let answer = request.send().await.unwrap();
        let status = answer.status().as_u16();
        let text = answer.text().await.unwrap();
        (status, serde_json::from_str(&text).unwrap())
    }

    async fn post(&self, path: &str, body: Value) -> (u16, Value) {
        self.send(reqwest::Method::POST, path, Some(body)).await
    }

    async fn get(&self, path: &str) -> Value {
        let (status, body) = self.send(reqwest::Method::GET, path, None).await;
        assert_eq!(status, 200, "{path}: {body}");
        body
    }

    async fn start(&self) -> String {
        let (status, session) = self
            .post(
                "/v1/sessions/start",
                json!({
                    "deliveryId": "d", "externalRiderId": "r",
                    "address": { "line1": "1 Main St", "city": "Town", "country": "XX", "lat": 1.0, "lng": 2.0 },
                }),
            )
            .await;
        assert_eq!(status, 201, "{session}");
        session["sessionId"].as_str().unwrap().to_owned()
    }

    async fn batch(&self, id: &str, seq: u32) {
        let sample = json!({ "t": seq, "kind": "pressure", "hPa": 1_000 });
        let body = json!({ "seq": seq, "samples": [sample] });
        let (status, answer) = self
            .post(&format!("/v1/sessions/{id}/telemetry"), body)
            .await;
        assert_eq!(status, 202, "{answer}");
    }

    async fn pod(&self, id: &str, name: &str) {
        let pod = json!({ "type": "note", "url": format!("https://example.com/{name}") });
        let path = format!("/v1/sessions/{id}/pod");
        assert_eq!(self.post(&path, pod.clone()).await, (200, pod.clone()));
        let insight = self.get(&format!("/v1/sessions/{id}/insights")).await;
        assert!(
            insight["pod"] == pod || insight["status"] == "ready",
            "{insight}"
        );
    }

    /// Waits until the insight has this PoD.
    async fn insight_has(&self, id: &str, name: &str) {
        let url = format!("https://example.com/{name}");
        for _ in 0..1_200 {
            let insight = self.get(&format!("/v1/sessions/{id}/insights")).await;
            if insight["status"] == "ready" && insight["pod"]["url"] == url {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("the insight of {id} never had {name}");
    }

    async fn status(&self, id: &str) -> String {
        let session = self.get(&format!("/v1/sessions/{id}")).await;
        session["status"].as_str().unwrap().to_owned()
    }
}

/// Returns the state for which the metric of retention's clock is 1, and the notes of `/readyz`.
async fn retention(server: &Server) -> (String, Value) {
    let text = server.metrics().await.unwrap();
    let metric = "porchlight_store_retention_clock{state=\"";
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(metric));
    let line = lines.find(|line| line.ends_with("} 1")).unwrap();
    let state = line.split('"').next().unwrap().to_owned();
    let ready = http().get(format!("{}/readyz", server.ops)).send().await;
    let ready = ready.unwrap();
    assert_eq!(ready.status(), 200);
    let ready: Value = serde_json::from_str(&ready.text().await.unwrap()).unwrap();
    (state, ready["notes"].clone())
}

#[test]
fn a_start_with_a_clock_months_off_deletes_nothing() {
    let Some(library) = library() else {
        eprintln!("left out: the package faketime is not installed");
        return;
    };
    let folder = Folder::new();
    let file = folder.path().join("clock");
    let (library, file_name) = (library.to_str().unwrap(), file.to_str().unwrap());
    let server = Server::start(&folder, &[]);
    let key = server.key("secret");
    let caller = Caller {
        server: &server,
        key: &key,
    };
    let (live, ended) = block_on(async {
        let (live, ended) = (caller.start().await, caller.start().await);
        caller.batch(&live, 0).await;
        caller.batch(&ended, 0).await;
        let stop = json!({ "sessionId": ended });
        assert_eq!(caller.post("/v1/sessions/stop", stop).await.0, 200);
        caller.pod(&ended, "before").await;
        caller.insight_has(&ended, "before").await;
        assert_eq!(retention(&server).await, ("agrees".into(), Value::Null));
        (live, ended)
    });
    server.kill();
    for (seq, (clock, state)) in (1..).zip([("+100d", "ahead"), ("-100d", "behind")]) {
        std::fs::write(&file, clock).unwrap();
        let server = Server::start(&folder, &skewed(library, file_name));
        let caller = Caller {
            server: &server,
            key: &key,
        };
        block_on(async {
            let (found, notes) = retention(&server).await;
            assert_eq!(found, state);
            assert_eq!(notes[0]["name"], "retention", "{notes}");
            assert_eq!(caller.status(&live).await, "recording");
            caller.batch(&live, seq).await;
            tokio::time::sleep(IDLE_CHECKED_AFTER).await;
            assert_eq!(caller.status(&live).await, "recording");
            assert_eq!(caller.status(&ended).await, "completed");
            let name = format!("at{clock}");
            caller.pod(&ended, &name).await;
            caller.insight_has(&ended, &name).await;
        });
        server.kill();
    }
    let server = Server::start(&folder, &[]);
    let caller = Caller {
        server: &server,
        key: &key,
    };
    block_on(async {
        assert_eq!(retention(&server).await, ("agrees".into(), Value::Null));
        let listed = caller.get("/v1/sessions").await;
        assert_eq!(listed["data"].as_array().unwrap().len(), 2);
        caller.batch(&live, 3).await;
        assert_eq!(caller.status(&live).await, "recording");
        caller.insight_has(&ended, "at-100d").await;
    });
    server.stop();
}

#[test]
fn a_clock_that_steps_by_half_an_hour_ends_no_session_and_drops_no_pod() {
    let Some(library) = library() else {
        eprintln!("left out: the package faketime is not installed");
        return;
    };
    let folder = Folder::new();
    let file = folder.path().join("clock");
    std::fs::write(&file, "+0").unwrap();
    let variables = skewed(library.to_str().unwrap(), file.to_str().unwrap());
    let server = Server::start(&folder, &variables);
    let key = server.key("secret");
    let caller = Caller {
        server: &server,
        key: &key,
    };
    block_on(async {
        let ids = [caller.start().await, caller.start().await];
        for (seq, clock) in (0..).zip(["+0", "+31m", "-31m", "+62m", "+0"]) {
            std::fs::write(&file, clock).unwrap();
            for id in &ids {
                caller.batch(id, seq).await;
            }
            caller.pod(&ids[0], &format!("pod{seq}")).await;
            tokio::time::sleep(IDLE_CHECKED_AFTER).await;
            for id in &ids {
                assert_eq!(caller.status(id).await, "recording", "{clock}");
            }
        }
        for id in &ids {
            let stop = json!({ "sessionId": id });
            assert_eq!(caller.post("/v1/sessions/stop", stop).await.0, 200);
        }
        caller.insight_has(&ids[0], "pod4").await;
    });
    server.stop();
}
