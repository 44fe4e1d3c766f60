//! Organizations with keys and sessions to view, and the pages that each of them has.

use reqwest::Method;
use serde_json::{Value, json};

use super::visitor::{Seen, http};
use crate::server::{Folder, Server, porchlight, successful};

/// The pages without an id in their path, which every organization has.
pub(crate) const PAGES: [&str; 14] = [
    "/console",
    "/console/sessions",
    "/console/sessions?status=recording&reason=FULL_ATTEMPT",
    "/console/deliveries",
    "/console/deliveries?status=failed",
    "/console/deliveries/retry?status=failed",
    "/console/deliveries/retry/progress?status=failed&count=0",
    "/console/webhook",
    "/console/keys",
    "/console/recorders",
    "/console/audit",
    "/console/privacy",
    "/console/privacy?status=pending",
    "/console/board",
];

/// Returns a secret key of this role, in the sandbox.
pub(crate) fn role_key(folder: &Folder, organization: &str, role: &str) -> String {
    create_key(folder, organization, "sandbox", "secret", &["--role", role])
}

pub(crate) fn key(folder: &Folder, organization: &str, env: &str, kind: &str) -> String {
    create_key(folder, organization, env, kind, &[])
}

fn create_key(folder: &Folder, organization: &str, env: &str, kind: &str, more: &[&str]) -> String {
    let arguments = [
        "keys",
        "create",
        "--init",
        "--org",
        organization,
        "--env",
        env,
        "--kind",
        kind,
    ];
    let made = porchlight()
        .args(arguments)
        .args(more)
        .env("PORCHLIGHT__STORE__PATH", folder.store())
        .output();
    successful(made.unwrap()).trim().to_owned()
}

pub(crate) async fn api(
    server: &Server,
    method: Method,
    path: &str,
    key: &str,
    body: Option<&Value>,
) -> Value {
    let request = http()
        .request(method, format!("{}{path}", server.api))
        .header("Service-Key", key);
    let request = match body {
        Some(body) => request
            .header("Content-Type", "application/json")
            .body(body.to_string()),
        None => request,
    };
    let seen = Seen::of(request).await;
    assert!(seen.status < 300, "{path}: {seen:?}");
    serde_json::from_str(&seen.text).unwrap_or_default()
}

/// Returns an ended and scored session of which nearly all is `text`.
pub(crate) async fn session(server: &Server, key: &str, text: &str) -> String {
    let start = json!({
        "deliveryId": text, "externalRiderId": text,
        "address": { "line1": text, "city": text, "country": text, "unit": text, "lat": 51.38, "lng": -2.36 },
        "device": { "platform": text, "model": text, "osVersion": text, "sdkVersion": text },
    });
    let started = api(
        server,
        Method::POST,
        "/v1/sessions/start",
        key,
        Some(&start),
    )
    .await;
    let id = started["sessionId"].as_str().unwrap().to_owned();
    let fix = |t: u32| json!({ "kind": "location", "t": t, "lat": 51.38 + f64::from(t) * 1e-6, "lng": -2.36, "accuracyM": 5 });
    let mut samples: Vec<Value> = (0..60).map(fix).collect();
    let mark: String = text.chars().take(64).collect();
    samples.push(json!({ "kind": "mark", "t": 30, "name": mark }));
    let batch = json!({ "seq": 0, "samples": samples });
    api(
        server,
        Method::POST,
        &format!("/v1/sessions/{id}/telemetry"),
        key,
        Some(&batch),
    )
    .await;
    let stop = json!({ "sessionId": id, "pod": { "type": "photo", "url": "https://pod.example/\"><script>alert(1)</script>" } });
    let stop = if text.contains('<') {
        stop
    } else {
        json!({ "sessionId": id })
    };
    api(server, Method::POST, "/v1/sessions/stop", key, Some(&stop)).await;
    for _ in 0..1_200 {
        let insight = api(
            server,
            Method::GET,
            &format!("/v1/sessions/{id}/insights"),
            key,
            None,
        )
        .await;
        if insight["status"] != "processing" {
            return id;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    panic!("session {id} was not scored");
}
