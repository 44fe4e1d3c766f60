//! The explanation of a decision, and its review by a person.

use reqwest::Method;
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::server::{Server, insights};

fn explanation(id: &str) -> String {
    format!("/v1/sessions/{id}/explanation")
}

async fn put(server: &Server, id: &str, key: &str, body: &Value) -> Answer {
    let request = server.request(Method::PUT, &format!("/v1/sessions/{id}/review"));
    let request = request
        .header("Service-Key", key)
        .header("Content-Type", "application/json");
    Answer::of(request.body(body.to_string())).await
}

#[actix::test]
async fn a_decision_is_explained_once_the_session_is_scored() {
    let server = Server::start().await;
    let secret = &server.keys.secret;
    let live = server.start_session().await;
    server
        .get(&explanation(&live.id), secret)
        .await
        .assert_problem(404, "not_scored");
    put(&server, &live.id, secret, &json!({ "state": "reviewed" }))
        .await
        .assert_problem(404, "not_scored");
    let session = server.scored_session().await;
    let path = explanation(&session.id);
    let answer = server.get(&path, secret).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let fields: Vec<_> = answer.json.as_object().unwrap().keys().collect();
    assert_eq!(fields, ["decision", "parameters", "review"]);
    assert!(answer.json["decision"].as_str().unwrap().ends_with('.'));
    assert!(!answer.json["parameters"].as_array().unwrap().is_empty());
    assert_eq!(answer.json["review"], Value::Null);
    for internal in ["ses_", "org_", "order-1", "rider-1", "High Street"] {
        assert!(
            !answer.text.contains(internal),
            "{internal}: {}",
            answer.text
        );
    }
    for (path, key, status, code) in [
        (path.as_str(), &session.token, 403, "secret_key_required"),
        (&path, &server.keys.client, 403, "secret_key_required"),
        (&path, &server.keys.other, 404, "session_not_found"),
        (&path, &server.keys.live, 404, "session_not_found"),
        (&format!("{path}?a=1"), secret, 422, "invalid_parameter"),
    ] {
        server.get(path, key).await.assert_problem(status, code);
    }
    server.stop().await;
}

#[actix::test]
async fn a_review_is_kept_when_the_session_is_scored_again() {
    let server = Server::start().await;
    let secret = &server.keys.secret;
    let session = server.scored_session().await;
    let before = server.get(&insights(&session.id), secret).await;
    let first = put(
        &server,
        &session.id,
        secret,
        &json!({ "state": "reviewed" }),
    )
    .await;
    assert_eq!(first.status, 200, "{first:?}");
    assert_eq!(first.json["note"], Value::Null);
    let body =
        json!({ "state": "overturned", "note": "The entrance is in the yard.", "by": "Ada" });
    let second = put(&server, &session.id, secret, &body).await;
    assert_eq!(second.json["state"], "overturned");
    assert_eq!(second.json["by"], "Ada");
    let unchanged = server.get(&insights(&session.id), secret).await;
    assert_eq!(
        unchanged.text, before.text,
        "a review is not part of the insight"
    );
    // A proof of delivery leads to another scoring.
    let pod = json!({ "type": "note", "url": "https://example.com/1" });
    let path = format!("/v1/sessions/{}/pod", session.id);
    assert_eq!(server.post(&path, secret, &pod).await.status, 200);
    let mut rescored = server.get(&insights(&session.id), secret).await;
    for _ in 0..12_000 {
        if rescored.json["updatedAt"] != before.json["updatedAt"] {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        rescored = server.get(&insights(&session.id), secret).await;
    }
    assert_ne!(rescored.json["updatedAt"], before.json["updatedAt"]);
    let explained = server.get(&explanation(&session.id), secret).await;
    assert_eq!(explained.json["review"], second.json);
    server.stop().await;
}

#[actix::test]
async fn an_invalid_review_is_refused() {
    let server = Server::start().await;
    let secret = &server.keys.secret;
    let id = server.scored_session().await.id;
    for body in [
        json!({}),
        json!({ "state": "maybe" }),
        json!({ "state": "reviewed", "verdict": 1 }),
        json!({ "state": "reviewed", "note": "" }),
        json!({ "state": "reviewed", "note": "x".repeat(2_001) }),
        json!({ "state": "reviewed", "by": 7 }),
        json!([]),
    ] {
        put(&server, &id, secret, &body)
            .await
            .assert_problem(422, "invalid_body");
    }
    let explained = server.get(&explanation(&id), secret).await;
    assert_eq!(
        explained.json["review"],
        Value::Null,
        "an invalid review is not stored"
    );
    let body = json!({ "state": "reviewed" });
    put(&server, &id, &server.keys.other, &body)
        .await
        .assert_problem(404, "session_not_found");
    server.stop().await;
}
