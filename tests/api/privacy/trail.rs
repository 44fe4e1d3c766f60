//! Tests the traces of a privacy request: lines of the audit log, and no name of an erased subject;
//! and that open streams of hidden sessions end.

use super::*;

/// Returns the actions of the audit log about an object, oldest first.
async fn actions_about(server: &Server, object: &str) -> Vec<String> {
    server.service.audit().unwrap().flush().await;
    let page = server.get("/v1/audit?limit=200", &server.keys.secret).await;
    let lines = page.json["data"].as_array().unwrap().iter().rev();
    let about = lines.filter(|line| line["object"] == object);
    let names = about.map(|line| format!("{} {}", line["actor"]["kind"], line["action"]));
    names.map(|name| name.replace('"', "")).collect()
}

#[actix::test]
async fn the_service_records_the_effects_of_each_request() {
    let server = server(0).await;
    server.scored_session().await;
    let subject = json!({ "externalRiderId": "rider-1" });
    for (id, request_type, action) in [
        ("a1", "access", "subject.export"),
        ("r1", "restriction", "subject.restrict"),
        ("r2", "release", "subject.release"),
        ("e1", "erasure", "subject.erase"),
    ] {
        perform(&server, &body(id, request_type, subject.clone())).await;
        let done = format!("service {action}");
        let mut lines = actions_about(&server, id).await;
        for _ in 0..6_000 {
            if lines.contains(&done) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
            lines = actions_about(&server, id).await;
        }
        assert_eq!(lines.first().unwrap(), "key privacy.create", "{id}");
        assert_eq!(lines.iter().filter(|line| **line == done).count(), 1);
        let path = format!("/v1/audit?action={action}");
        let listed = server.get(&path, &server.keys.secret).await;
        let line = &listed.json["data"][0];
        assert_eq!((&line["object"], &line["from"]), (&json!(id), &Value::Null));
        assert!(!line.to_string().contains("rider-1"), "{line}");
    }
    server.stop().await;
}

#[actix::test]
async fn a_cancelled_request_is_recorded_as_cancelled_only() {
    let server = server(3_600_000).await;
    let erasure = body("e1", "erasure", json!({ "externalRiderId": "rider-1" }));
    submit(&server, &erasure).await;
    assert_eq!(delete(&server, "e1").await.status, 204);
    let lines = actions_about(&server, "e1").await;
    assert_eq!(lines, ["key privacy.create", "key privacy.cancel"]);
    server.stop().await;
}

#[actix::test]
async fn earlier_requests_hash_an_erased_subject() {
    let server = server(0).await;
    let session = server.scored_session().await;
    let rider = json!({ "externalRiderId": "rider-1" });
    let others = json!({ "externalRiderId": "rider-2" });
    for (id, request_type, subject) in [
        ("a1", "access", &rider),
        ("a2", "access", &json!({ "sessionId": session.id })),
        ("a3", "access", &json!({ "deliveryId": "order-1" })),
        ("a4", "access", &others),
    ] {
        perform(&server, &body(id, request_type, subject.clone())).await;
    }
    perform(&server, &body("e1", "erasure", rider)).await;
    for id in ["a1", "a2", "a3"] {
        let shown = show(&server, id).await.json;
        let hash = shown["subject"]["hash"].as_str().unwrap();
        assert!(hash.starts_with("sha256:"), "{shown}");
        assert_eq!(shown["status"], "completed");
        assert_eq!(shown["downloadUrl"], Value::Null);
    }
    assert_eq!(show(&server, "a4").await.json["subject"], others);
    let list = server.get(REQUESTS, &server.keys.secret).await.text;
    assert!(!list.contains("rider-1") && !list.contains(&session.id));
    assert!(!list.contains("order-1"));
    server.stop().await;
}

#[actix::test]
async fn an_open_stream_ends_when_its_session_is_hidden() {
    let server = server(0).await;
    for (id, request_type) in [("r1", "restriction"), ("e1", "erasure")] {
        let session = server.start_session().await;
        let path = format!("/v1/sessions/{}/events", session.id);
        let stream = server.request(Method::GET, &path);
        let stream = stream.header("Service-Key", &server.keys.secret).send();
        let stream = stream.await.unwrap();
        assert_eq!(stream.status(), 200);
        let subject = json!({ "sessionId": session.id });
        perform(&server, &body(id, request_type, subject)).await;
        // The body ends by itself; without that the test would wait for its time limit.
        let text = stream.text().await.unwrap();
        assert!(!text.contains("insight"), "{text}");
    }
    server.stop().await;
}
