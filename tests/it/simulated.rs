//! Simulated sessions through the real service: each webhook body and each answer has exactly the
//! shape that the contract fixes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::{Value, json};

use crate::fixed::{assert_answer, assert_webhook_request};
use crate::receiver::{Authority, OK, Receiver};
use crate::server::{Folder, Server, block_on, http, porchlight, successful};

/// The timeout for the messages of all sessions.
const STEP_TIMEOUT: Duration = Duration::from_secs(240);

/// Sends a request with a secret key, checks the answer's shape, and prints the answer.
async fn ask(
    server: &Server,
    key: &str,
    method: Method,
    path: &str,
    body: Option<Value>,
) -> String {
    let mut request = http()
        .request(method.clone(), format!("{}{path}", server.api))
        .header("Service-Key", key);
    if let Some(body) = body {
        let typed = request.header("Content-Type", "application/json");
        request = typed.body(body.to_string());
    }
    let answer = request.send().await.unwrap();
    let (status, text) = (answer.status(), answer.text().await.unwrap());
    assert!(status.is_success(), "{method} {path}: {status} {text}");
    assert_answer(method.as_str(), path, status.as_u16(), &text);
    println!("{method} {path}\n{text}");
    text
}

/// Returns the field of a webhook request's body.
fn field(request: &str, pointer: &str) -> String {
    let body = request.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    let body: Value = serde_json::from_str(body).unwrap();
    let text = body.pointer(pointer).and_then(Value::as_str);
    text.unwrap_or_default().to_owned()
}

/// Sends the test event, and reads everything that the customer can read about the sessions of
/// these `insight.updated` requests.
async fn read_everything(server: &Server, key: &str, insights: &[String]) {
    let ask = async |method, path: &str, body| ask(server, key, method, path, body).await;
    let test = ask(Method::POST, "/v1/webhooks/test", None).await;
    assert!(test.contains("\"statusCode\":200"), "{test}");
    for request in insights {
        let session = format!("/v1/sessions/{}", field(request, "/data/sessionId"));
        ask(Method::GET, &session, None).await;
        for part in ["insights", "evidence", "acknowledged"] {
            ask(Method::GET, &format!("{session}/{part}"), None).await;
        }
    }
    for path in ["/v1/sessions?limit=200", "/v1/webhooks"] {
        ask(Method::GET, path, None).await;
    }
    let list = ask(Method::GET, "/v1/webhooks/deliveries?limit=200", None).await;
    let list: Value = serde_json::from_str(&list).unwrap();
    for row in list["data"].as_array().unwrap() {
        let id = row["id"].as_str().unwrap();
        ask(Method::GET, &format!("/v1/webhooks/deliveries/{id}"), None).await;
    }
}

/// Simulates this number of deliveries, and checks the messages and answers that the customer gets.
/// One request of each event, the test event, and one answer of each path are printed as they are.
fn check(deliveries: usize) {
    let (folder, authority) = (Folder::new(), Authority::new());
    let server = Server::start(
        &folder,
        &[
            ("PORCHLIGHT__WEBHOOK__ALLOW_ADDRESSES", "127.0.0.0/8"),
            (
                "PORCHLIGHT__WEBHOOK__EXTRA_CA_FILE",
                authority.file.to_str().unwrap(),
            ),
        ],
    );
    let listening = tokio::runtime::Runtime::new().unwrap();
    let answering = Receiver::answering(&authority, vec![OK.to_owned()]);
    let receiver = listening.block_on(answering);
    let key = server.key("secret");
    let hook = json!({ "url": receiver.local_url() });
    block_on(ask(&server, &key, Method::POST, "/v1/webhooks", Some(hook)));
    let simulated = porchlight()
        .args(["simulate", "--seed", "11", "--url", &server.api])
        .args(["--deliveries", &deliveries.to_string()])
        .env("PORCHLIGHT_KEY", &key)
        .output();
    successful(simulated.unwrap());
    // Some simulated phones never stop their session, whose insight would come after half an hour.
    let list = "/v1/sessions?status=completed&limit=200";
    let list = block_on(ask(&server, &key, Method::GET, list, None));
    let list: Value = serde_json::from_str(&list).unwrap();
    let completed = list["data"].as_array().unwrap().len();
    assert!(completed * 10 > deliveries * 8, "{completed} completed");
    let requests = Arc::clone(&receiver.requests);
    let received = || requests.lock().unwrap().clone();
    let began = Instant::now();
    while received().len() < deliveries + 2 * completed {
        assert!(
            began.elapsed() < STEP_TIMEOUT,
            "{} received",
            received().len()
        );
        std::thread::park_timeout(Duration::from_millis(50));
    }
    let mut received = received();
    received
        .iter()
        .for_each(|request| assert_webhook_request(request));
    for (event, sessions) in [
        ("session.started", deliveries),
        ("session.stopped", completed),
        ("insight.updated", completed),
    ] {
        let mut of: Vec<_> = received
            .iter()
            .filter(|r| field(r, "/event") == event)
            .collect();
        println!("{event}\n{}", of[0]);
        let session_id = |request: &&String| field(request, "/data/sessionId");
        of.sort_by_key(session_id);
        of.dedup_by_key(|request| session_id(request));
        assert_eq!(of.len(), sessions, "{event}");
    }
    received.retain(|request| field(request, "/event") == "insight.updated");
    block_on(read_everything(&server, &key, &received));
    let requests = requests.lock().unwrap();
    let test = requests
        .iter()
        .find(|r| r.contains("\"test\":true"))
        .unwrap();
    assert_webhook_request(test);
    println!("the test event\n{test}");
    server.stop();
}

#[test]
fn simulated_sessions_have_the_fixed_shapes() {
    check(8);
}

/// `cargo test --test it -- --ignored --nocapture hundred_simulated` prints the checked texts.
#[test]
#[ignore = "takes longer; another test checks fewer sessions"]
fn a_hundred_simulated_sessions_have_the_fixed_shapes() {
    check(100);
}
