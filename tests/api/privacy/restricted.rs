//! Tests the place of a restriction among the checks of a change.

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
            let request = server.ask(method.clone(), &path);
            let request = request
                .header("Service-Key", &server.keys.secret)
                .header("Content-Type", media);
            Answer::of(request.body(body.to_owned())).await
        };
        ask("text/plain", "{}")
            .await
            .is_problem(415, "unsupported_media_type");
        let json = "application/json";
        let large = " ".repeat(1024 * 1024 + 1);
        ask(json, &large).await.is_problem(413, "body_too_large");
        ask(json, "{").await.is_problem(400, "malformed_json");
        ask(json, invalid).await.is_problem(422, "invalid_body");
    }
    let review = json!({ "state": "reviewed" }).to_string();
    for (path, body, status, code) in [
        ("hold?a=1", String::new(), 422, "invalid_parameter"),
        ("hold", String::new(), 409, "restricted"),
        ("review", review, 409, "restricted"),
    ] {
        let request = server.ask(put.clone(), &format!("/v1/sessions/{id}/{path}"));
        let request = request
            .header("Service-Key", &server.keys.secret)
            .header("Content-Type", "application/json");
        let answer = Answer::of(request.body(body)).await;
        answer.is_problem(status, code);
    }
    server.stop().await;
}
