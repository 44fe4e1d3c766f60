//! Tests the report of a session's acknowledged and dropped data.

use reqwest::Method;
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::server::{Server, Started, batch, telemetry};

async fn acknowledged(server: &Server, session: &Started, key: &str) -> Value {
    let path = format!("/v1/sessions/{}/acknowledged", session.id);
    let answer = server.get(&path, key).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json
}

async fn send(server: &Server, session: &Started, seq: u32) {
    let answer = server
        .post(&telemetry(&session.id), &session.token, &batch(seq))
        .await;
    assert_eq!(answer.status, 202, "{answer:?}");
}

#[actix::test]
async fn a_restarted_app_gets_the_list_of_batches_to_send() {
    let server = Server::start().await;
    let session = server.start_session().await;
    let expected = |status: &str, next_seq: u32, missing: Value| json!({ "sessionId": session.id, "status": status, "nextSeq": next_seq, "missing": missing });
    let recording = |next_seq, missing| expected("recording", next_seq, missing);
    let key = &session.token;
    assert_eq!(
        acknowledged(&server, &session, key).await,
        recording(0, json!([]))
    );
    send(&server, &session, 0).await;
    send(&server, &session, 1).await;
    assert_eq!(
        acknowledged(&server, &session, key).await,
        recording(2, json!([]))
    );
    // Enough data follows the gap for the session to skip it. It still reports the gap as missing.
    for seq in [4, 5, 6, 20, 21, 22, 90] {
        send(&server, &session, seq).await;
    }
    let missing = json!([
        { "first": 2, "last": 3 }, { "first": 7, "last": 19 }, { "first": 23, "last": 89 },
    ]);
    assert_eq!(
        acknowledged(&server, &session, &server.keys.secret).await,
        recording(91, missing)
    );
    send(&server, &session, 3).await;
    let missing = json!([
        { "first": 2, "last": 2 }, { "first": 7, "last": 19 }, { "first": 23, "last": 89 },
    ]);
    let stop = json!({ "sessionId": session.id });
    server.post("/v1/sessions/stop", key, &stop).await;
    assert_eq!(
        acknowledged(&server, &session, key).await,
        expected("completed", 91, missing)
    );
    let path = format!("/v1/sessions/{}/acknowledged", session.id);
    server.clock.advance_min(24 * 60 + 1);
    server
        .get(&path, key)
        .await
        .assert_problem(401, "credential_invalid");
    server.stop().await;
}

#[actix::test]
async fn dropped_samples_are_reported_with_the_evidence() {
    let server = Server::start().await;
    let session = server.start_session().await;
    let pressure = |t: f64| json!({ "kind": "pressure", "t": t, "hPa": 1_000 });
    let samples = [
        pressure(100.0),
        // Two samples that go back in time within their kind.
        pressure(99.0),
        pressure(98.0),
        // A sample of another kind that lags too far behind.
        json!({ "kind": "steps", "t": 10.0, "count": 3 }),
        json!({ "kind": "tricorder", "t": 101.0 }),
        pressure(101.0),
    ];
    let batch = json!({ "seq": 0, "samples": samples });
    let path = telemetry(&session.id);
    assert_eq!(server.post(&path, &session.token, &batch).await.status, 202);
    let stop = json!({ "sessionId": session.id });
    server
        .post("/v1/sessions/stop", &session.token, &stop)
        .await;
    server.wait_until_ready(&session.id).await;
    let path = format!("/v1/sessions/{}/evidence", session.id);
    let evidence = server.get(&path, &server.keys.secret).await;
    assert_eq!(
        evidence.json["droppedSamples"],
        json!({ "outOfOrder": 2, "tooLate": 1, "unknownKind": 1 })
    );
    server.stop().await;
}

#[actix::test]
async fn every_session_response_contains_the_start() {
    let server = Server::start().await;
    let started_at = porchlight_ports::Clock::now(&*server.clock).plus_ms(-90_000);
    let mut body = crate::server::start_body();
    body["startedAt"] = json!(started_at.to_string());
    let started = server
        .post("/v1/sessions/start", &server.keys.client, &body)
        .await;
    let id = started.json["sessionId"].as_str().unwrap();
    let secret = &server.keys.secret;
    let read = server.get(&format!("/v1/sessions/{id}"), secret).await;
    let list = server.get("/v1/sessions", secret).await;
    let stop = json!({ "sessionId": id });
    let stopped = server.post("/v1/sessions/stop", secret, &stop).await;
    for session in [
        &started.json,
        &read.json,
        &list.json["data"][0],
        &stopped.json,
    ] {
        assert_eq!(session["startedAt"], body["startedAt"], "{session}");
    }
    let missing = server.request(Method::GET, &format!("/v1/sessions/{id}/acknowledged"));
    Answer::of(missing)
        .await
        .assert_problem(401, "credential_missing");
    server.stop().await;
}
