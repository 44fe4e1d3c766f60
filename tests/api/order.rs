//! Tests the order of checks (contract 9): of several faults, the first is reported.

use reqwest::Method;
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::server::{Server, batch, telemetry};

/// A request to a session's telemetry has every fault; each step fixes one.
#[actix::test]
async fn the_first_of_many_faults_is_reported() {
    let server = Server::start().await;
    let session = server.scored_session().await;
    let other = server.start_session().await;
    let mut foreign = telemetry(&session.id);
    server.clock.advance_min(11);

    let mut conflicting = batch(0);
    conflicting["samples"] = json!([]);
    let mut invalid = conflicting.clone();
    invalid["samples"] = json!([{ "kind": "location" }]);

    let mut method = Method::PUT;
    let mut path = "/v1/sessions/x/nothing".to_owned();
    let mut headers: Vec<(&str, String)> = vec![
        ("Accept", "text/html".into()),
        ("Content-Type", "text/plain".into()),
    ];
    let mut body = vec![b'!'; 1024 * 1024 + 1];
    let set = |headers: &mut Vec<(&str, String)>, name: &'static str, value: &str| {
        headers.retain(|(known, _)| *known != name);
        headers.push((name, value.to_owned()));
    };
    let ask = async |method: &Method, path: &str, headers: &[(&str, String)], body: &[u8]| {
        let request = headers.iter().fold(
            server.request(method.clone(), path),
            |request, (name, value)| request.header(*name, value),
        );
        Answer::of(request.body(body.to_vec())).await
    };
    ask(&method, &path, &headers, &body)
        .await
        .assert_problem(404, "not_found");
    path = telemetry("ses_none");
    ask(&method, &path, &headers, &body)
        .await
        .assert_problem(405, "method_not_allowed");
    method = Method::POST;
    ask(&method, &path, &headers, &body)
        .await
        .assert_problem(401, "credential_missing");
    set(&mut headers, "Service-Key", &other.token);
    ask(&method, &path, &headers, &body)
        .await
        .assert_problem(403, "other_session");
    set(&mut headers, "Service-Key", &server.keys.other);
    std::mem::swap(&mut path, &mut foreign);
    ask(&method, &path, &headers, &body)
        .await
        .assert_problem(404, "session_not_found");
    set(&mut headers, "Service-Key", &server.keys.secret);
    ask(&method, &path, &headers, &body)
        .await
        .assert_problem(406, "not_acceptable");
    set(&mut headers, "Accept", "application/json");
    ask(&method, &path, &headers, &body)
        .await
        .assert_problem(415, "unsupported_media_type");
    set(&mut headers, "Content-Type", "application/json");
    ask(&method, &path, &headers, &body)
        .await
        .assert_problem(413, "body_too_large");
    body = b"{".to_vec();
    ask(&method, &path, &headers, &body)
        .await
        .assert_problem(400, "malformed_json");
    body = invalid.to_string().into_bytes();
    ask(&method, &path, &headers, &body)
        .await
        .assert_problem(422, "invalid_body");
    body = conflicting.to_string().into_bytes();
    ask(&method, &path, &headers, &body)
        .await
        .assert_problem(409, "session_completed");
    server.stop().await;
}

#[actix::test]
async fn a_stop_validates_the_session_before_the_rest_of_its_body() {
    let server = Server::start().await;
    let (session, other) = (server.start_session().await, server.start_session().await);
    let stop = |id: &str| -> Value { json!({ "sessionId": id, "endedAt": "never" }) };
    server
        .post("/v1/sessions/stop", &other.token, &stop(&session.id))
        .await
        .assert_problem(403, "other_session");
    server
        .post("/v1/sessions/stop", &other.token, &stop("x"))
        .await
        .assert_problem(403, "other_session");
    server
        .post("/v1/sessions/stop", &server.keys.other, &stop(&session.id))
        .await
        .assert_problem(404, "session_not_found");
    server
        .post("/v1/sessions/stop", &server.keys.secret, &stop(&session.id))
        .await
        .assert_problem(422, "invalid_body");
    // A client key may not stop a session, for any id and any form of request.
    for id in [session.id.as_str(), other.id.as_str(), "x"] {
        server
            .post("/v1/sessions/stop", &server.keys.client, &stop(id))
            .await
            .assert_problem(403, "secret_key_required");
    }
    for path in [
        "/v1/sessions/stop",
        "/v1/sessions/x/pod",
        "/v1/sessions/x/telemetry",
    ] {
        let request = server
            .request(Method::POST, path)
            .header("Service-Key", &server.keys.client)
            .header("Content-Type", "text/plain")
            .header("Accept", "text/html")
            .body("{");
        Answer::of(request)
            .await
            .assert_problem(403, "secret_key_required");
    }
    server.stop().await;
}
