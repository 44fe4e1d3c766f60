//! Tests that log lines name the request that caused them.

use serde_json::{Value, json};

use crate::phone::delivery;
use crate::server::{Folder, Server, block_on, http};

/// Posts a request, with this id if one is given. Returns the answer and the id that it carries.
fn posted(
    server: &Server,
    path: &str,
    key: &str,
    id: Option<&str>,
    body: &Value,
) -> (Value, String) {
    block_on(async {
        let mut request = http()
            .post(format!("{}{path}", server.api))
            .header("Service-Key", key)
            .header("Content-Type", "application/json")
            .body(body.to_string());
        if let Some(id) = id {
            request = request.header("X-Request-Id", id);
        }
        let answer = request.send().await.unwrap();
        assert!(answer.status().is_success(), "{path}: {}", answer.status());
        let carried = answer.headers()["X-Request-Id"]
            .to_str()
            .unwrap()
            .to_owned();
        let answer = serde_json::from_slice(&answer.bytes().await.unwrap()).unwrap();
        (answer, carried)
    })
}

#[test]
fn the_effects_of_a_request_are_logged_with_its_id() {
    let folder = Folder::new();
    let server = Server::start(&folder, &[]);
    let key = server.key("secret");
    let (session, own) = posted(
        &server,
        "/v1/sessions/start",
        &key,
        None,
        &delivery(0).start,
    );
    let session_id = session["sessionId"].as_str().unwrap();
    let started = server.logged("session started", session_id);
    assert_eq!(started["request_id"], own.as_str(), "{started}");
    let stop = json!({ "sessionId": session_id });
    let (_, given) = posted(
        &server,
        "/v1/sessions/stop",
        &key,
        Some("from-the-phone.7"),
        &stop,
    );
    assert_eq!(given, "from-the-phone.7");
    let ended = server.logged("session ended", session_id);
    assert_eq!(ended["request_id"], given.as_str(), "{ended}");
    // Background work belongs to no request.
    let committed = server.logged("insight committed", session_id);
    assert_eq!(committed.get("request_id"), None, "{committed}");
    server.stop();
}
