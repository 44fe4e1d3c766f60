//! Tests refusals before the body is read, and the shutdown of the service.

use std::process::Command;
use std::sync::{Arc, mpsc};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use porchlight_schema::limits::{INGEST_BATCHES_START, NODE_IN_FLIGHT_BYTES_MAX};
use porchlight_store::engine::Durability;
use serde_json::{Value, json};

use crate::answer::raw;
use crate::server::{Server, batch, start_body, telemetry};

#[actix::test]
async fn excess_bytes_in_flight_are_refused_before_the_body_is_read() {
    let server = Server::start().await;
    let (session, other) = (server.start_session().await, server.start_session().await);
    let permits = server.fill_session(&session.id).await;
    server
        .post(&telemetry(&session.id), &session.token, &batch(0))
        .await
        .assert_problem(429, "session_busy");
    assert_eq!(
        server
            .post(&telemetry(&other.id), &other.token, &batch(0))
            .await
            .status,
        202
    );
    // The client sent no byte of the body, and yet gets an answer.
    let head = format!(
        "POST {} HTTP/1.1\r\nHost: x\r\nService-Key: {}\r\nContent-Type: application/json\r\nContent-Length: 5000\r\n\r\n",
        telemetry(&session.id),
        session.token
    );
    let answer = raw(server.address, head.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 429"), "{answer}");
    drop(permits);
    assert_eq!(
        server
            .post(&telemetry(&session.id), &session.token, &batch(0))
            .await
            .status,
        202
    );

    let whole = server.fill_node(NODE_IN_FLIGHT_BYTES_MAX);
    server
        .post(&telemetry(&other.id), &other.token, &batch(1))
        .await
        .assert_problem(503, "overloaded");
    drop(whole);
    assert_eq!(
        server
            .post(&telemetry(&other.id), &other.token, &batch(1))
            .await
            .status,
        202
    );
    server.stop().await;
}

/// The number of batches sent beyond the limit of a node that has just started.
const EXCESS_BATCHES: usize = 64;

/// Raises the limit of this process's open files to the hard limit. Many machines limit them to
/// 1,024, and each connection needs one at either end.
fn raise_open_files() {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap();
    let line = limits
        .lines()
        .find(|line| line.starts_with("Max open files"));
    let hard = line.unwrap().split_whitespace().nth(4).unwrap();
    let raised = Command::new("prlimit")
        .args(["--pid", &std::process::id().to_string()])
        .arg(format!("--nofile={hard}:{hard}"))
        .status();
    assert!(raised.unwrap().success());
}

#[actix::test]
async fn excess_batches_are_refused_before_the_body_is_read() {
    raise_open_files();
    let server = Server::start().await;
    let mut sessions = Vec::new();
    for _ in 0..INGEST_BATCHES_START as usize + EXCESS_BATCHES {
        sessions.push(server.start_session().await);
    }
    // The store's writer waits for a signal.
    let (release, released) = mpsc::sync_channel::<()>(1);
    let store = Arc::clone(&server.store);
    let writing = actix_rt::spawn(async move {
        let writer = store.committer();
        writer
            .run(0, Durability::Synced, move |_| {
                let _released = released.recv();
                Ok(())
            })
            .await
    });
    let (server, first) = (&server, &batch(0));
    let mut answers: FuturesUnordered<_> = sessions
        .iter()
        .map(|session| async move {
            server
                .post(&telemetry(&session.id), &session.token, first)
                .await
        })
        .collect();
    for _ in 0..EXCESS_BATCHES / 2 {
        let refused = answers.next().await.unwrap();
        assert_eq!(refused.header("retry-after"), "1");
        refused.assert_problem(503, "overloaded");
    }
    // The client sent no byte of the body, and yet gets an answer.
    let last = sessions.last().unwrap();
    let head = format!(
        "POST {} HTTP/1.1\r\nHost: x\r\nService-Key: {}\r\nContent-Type: application/json\r\nContent-Length: 5000\r\n\r\n",
        telemetry(&last.id),
        last.token
    );
    let answer = raw(server.address, head.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
    release.send(()).unwrap();
    writing.await.unwrap().unwrap();
    let mut accepted = 0;
    while let Some(answer) = answers.next().await {
        accepted += u32::from(answer.status == 202);
    }
    assert!(accepted >= INGEST_BATCHES_START, "{accepted} were accepted");
    let again = server
        .post(&telemetry(&last.id), &last.token, &batch(1))
        .await;
    assert_eq!(again.status, 202, "the node has capacity again");
    drop(answers);
}

#[actix::test]
async fn sessions_are_refused_while_batches_are_refused() {
    let server = Server::start().await;
    let session = server.start_session().await;
    let whole = server.fill_node(NODE_IN_FLIGHT_BYTES_MAX);
    let refused = server
        .post("/v1/sessions/start", &server.keys.client, &start_body())
        .await;
    assert_eq!(refused.header("retry-after"), "1");
    refused.assert_problem(503, "overloaded");
    // A forbidden or malformed start is refused for that reason first.
    server
        .post("/v1/sessions/start", &session.token, &start_body())
        .await
        .assert_problem(403, "key_required");
    // The client sent no byte of the body, and yet gets an answer.
    let head = format!(
        "POST /v1/sessions/start HTTP/1.1\r\nHost: x\r\nService-Key: {}\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n",
        server.keys.client
    );
    let answer = raw(server.address, head.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
    drop(whole);
    server.start_session().await;
    server.stop().await;
}

#[actix::test]
async fn a_stopping_service_refuses_new_requests() {
    let server = Server::start().await;
    let session = server.start_session().await;
    server.service.drain().await;
    server
        .post("/v1/sessions/start", &server.keys.client, &start_body())
        .await
        .assert_problem(503, "draining");
    server
        .post(&telemetry(&session.id), &session.token, &batch(0))
        .await
        .assert_problem(503, "draining");
    server
        .post("/v1/sessions/start", &server.keys.client, &json!({}))
        .await
        .assert_problem(422, "invalid_body");
    let read = server
        .get(&format!("/v1/sessions/{}", session.id), &server.keys.secret)
        .await;
    assert_eq!(read.status, 200, "stored data can still be read");
    server.stop().await;
}

/// The actors have stopped, so the events are those of the snapshots that they wrote.
#[actix::test]
async fn insights_in_progress_are_answered_while_the_service_stops() {
    let server = Server::start().await;
    let session = server.start_session().await;
    let sent = server
        .post(&telemetry(&session.id), &session.token, &batch(0))
        .await;
    assert_eq!(sent.status, 202);
    let path = format!("/v1/sessions/{}/insights", session.id);
    let before = server.get(&path, &server.keys.secret).await;
    server.service.drain().await;
    let after = server.get(&path, &server.keys.secret).await;
    assert_eq!((before.status, after.status), (200, 200));
    assert_eq!(after.json["status"], "processing");
    assert_eq!(after.json["events"], before.json["events"]);
    let evidence = format!("/v1/sessions/{}/evidence", session.id);
    server
        .get(&evidence, &server.keys.secret)
        .await
        .assert_problem(404, "not_scored");
    server.stop().await;
}

#[actix::test]
async fn an_unavailable_store_is_reported() {
    let server = Server::start().await;
    let session = server.start_session().await;
    server.store.close().await;
    let stop = json!({ "sessionId": session.id });
    let pod = json!({ "type": "note", "url": "https://example.com/1" });
    let writes: [(&str, Value); 4] = [
        ("/v1/sessions/start", start_body()),
        ("/v1/sessions/stop", stop),
        (&telemetry(&session.id), batch(0)),
        (&format!("/v1/sessions/{}/pod", session.id), pod),
    ];
    for (path, body) in writes {
        let answer = server.post(path, &server.keys.secret, &body).await;
        answer.assert_problem(503, "store_unavailable");
    }
    let session = format!("/v1/sessions/{}", session.id);
    let reads = ["", "/insights", "/evidence"].map(|tail| format!("{session}{tail}"));
    for path in reads.iter().map(String::as_str).chain(["/v1/sessions"]) {
        let answer = server.get(path, &server.keys.secret).await;
        answer.assert_problem(503, "store_unavailable");
    }
    server.stop().await;
}
