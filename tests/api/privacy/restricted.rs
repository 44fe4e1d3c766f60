//! Tests restrictions: their place among the checks of a change, and recorders that hide their
//! sessions.

use super::*;

/// A restriction is a state (contract 9): media type, syntax and content of the request come first.
#[actix::test]
async fn a_fault_is_reported_before_the_restriction() {
    let server = server(0).await;
    let id = server.scored_session().await.id;
    let restriction = body("r1", "restriction", json!({ "sessionId": id }));
    perform(&server, &restriction).await;
    let (post, put) = (Method::POST, Method::PUT);
    let stop = json!({ "sessionId": id, "endedAt": "never" }).to_string();
    for (method, path, invalid) in [
        (&post, format!("/v1/sessions/{id}/pod"), "{}"),
        (&post, "/v1/sessions/stop".to_owned(), stop.as_str()),
        (&put, format!("/v1/sessions/{id}/review"), "{}"),
    ] {
        let ask = async |media: &str, body: &str| {
            let request = server.request(method.clone(), &path);
            let request = request
                .header("Service-Key", &server.keys.secret)
                .header("Content-Type", media);
            Answer::of(request.body(body.to_owned())).await
        };
        ask("text/plain", "{}")
            .await
            .assert_problem(415, "unsupported_media_type");
        let json = "application/json";
        let large = " ".repeat(1024 * 1024 + 1);
        ask(json, &large)
            .await
            .assert_problem(413, "body_too_large");
        ask(json, "{").await.assert_problem(400, "malformed_json");
        ask(json, invalid).await.assert_problem(422, "invalid_body");
    }
    let review = json!({ "state": "reviewed" }).to_string();
    for (path, body, status, code) in [
        ("hold?a=1", String::new(), 422, "invalid_parameter"),
        ("hold", String::new(), 409, "restricted"),
        ("review", review, 409, "restricted"),
    ] {
        let request = server.request(put.clone(), &format!("/v1/sessions/{id}/{path}"));
        let request = request
            .header("Service-Key", &server.keys.secret)
            .header("Content-Type", "application/json");
        let answer = Answer::of(request.body(body)).await;
        answer.assert_problem(status, code);
    }
    server.stop().await;
}

/// A restriction also hides that a session has no scores (contract 11).
#[actix::test]
async fn a_review_of_a_restricted_session_without_scores_is_refused_as_restricted() {
    let server = server(0).await;
    let id = server.start_session().await.id;
    let restriction = body("r1", "restriction", json!({ "sessionId": id }));
    perform(&server, &restriction).await;
    let review = json!({ "state": "reviewed" }).to_string();
    for (body, status, code) in [
        ("{", 400, "malformed_json"),
        ("{}", 422, "invalid_body"),
        (&review, 409, "restricted"),
    ] {
        let request = server.request(Method::PUT, &format!("/v1/sessions/{id}/review"));
        let request = request
            .header("Service-Key", &server.keys.secret)
            .header("Content-Type", "application/json");
        let answer = Answer::of(request.body(body.to_owned())).await;
        answer.assert_problem(status, code);
    }
    server.stop().await;
}

/// Starts a session of the courier `rider-1` under an idempotency key.
async fn start(server: &Server, idempotency_key: &str) -> Answer {
    let request = server.request(Method::POST, "/v1/sessions/start");
    let request = request
        .header("Service-Key", &server.keys.client)
        .header("Content-Type", "application/json")
        .header("Idempotency-Key", idempotency_key);
    Answer::of(request.body(start_body().to_string())).await
}

#[actix::test]
async fn an_erasure_covers_a_session_of_a_clock_that_was_ahead() {
    let server = server(0).await;
    server.clock.step_min(10);
    let first = start(&server, "once").await;
    assert_eq!(first.status, 201);
    server.clock.step_min(-10);
    let mut erasure = body("e1", "erasure", json!({ "externalRiderId": "rider-1" }));
    erasure["suppress"] = true.into();
    perform(&server, &erasure).await;
    let id = first.json["sessionId"].as_str().unwrap();
    let path = format!("/v1/sessions/{id}");
    let gone = server.get(&path, &server.keys.secret).await;
    gone.assert_problem(404, "session_not_found");
    // Neither a new start nor the repetition of an erased one begins a session.
    for key in ["twice", "once"] {
        let refused = start(&server, key).await;
        refused.assert_problem(403, "suppressed");
    }
    server.stop().await;
}

#[actix::test]
async fn a_repeated_start_of_a_restricted_and_suppressed_courier_is_refused() {
    let server = server(0).await;
    assert_eq!(start(&server, "once").await.status, 201);
    let mut restriction = body("r1", "restriction", json!({ "externalRiderId": "rider-1" }));
    restriction["suppress"] = true.into();
    perform(&server, &restriction).await;
    let repeated = start(&server, "once").await;
    repeated.assert_problem(403, "suppressed");
    server.stop().await;
}

#[actix::test]
async fn a_recorder_does_not_show_a_restricted_session() {
    let server = server(0).await;
    let (recorder_id, link) = recorder(&server).await;
    assert_eq!(push(&server, &link).await.status, 200);
    let path = format!("/v1/recorders/{recorder_id}");
    let shown = async || server.get(&path, &server.keys.secret).await.json;
    let before = shown().await;
    assert!(before["sessionId"].is_string(), "{before}");
    let subject = json!({ "externalRiderId": "rider-1" });
    perform(&server, &body("r1", "restriction", subject.clone())).await;
    let frozen = shown().await;
    assert_eq!(frozen["recorderId"], before["recorderId"]);
    for field in ["sessionId", "lastHeardAt"] {
        assert_eq!(frozen[field], Value::Null, "{frozen}");
    }
    assert_eq!(frozen["receiving"], json!({}));
    let status = format!("{link}/status");
    let status = Answer::of(server.request(Method::GET, &status)).await.json;
    assert_eq!(
        status,
        json!({ "activity": "waiting", "text": "Nothing received yet.", "lastHeardAt": null, "receiving": {},
            "sessionId": null, "insight": null })
    );
    perform(&server, &body("r2", "release", subject)).await;
    assert_eq!(shown().await["sessionId"], before["sessionId"]);
    server.stop().await;
}
