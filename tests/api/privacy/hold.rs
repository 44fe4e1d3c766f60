//! Tests legal holds: a held session cannot be erased, whether the hold comes before the request or
//! while it is pending.

use porchlight_ports::{Collection, DocumentKind, Documents};
use porchlight_schema::ids::SessionId;
use porchlight_schema::limits::PRIVACY_MARKS_MAX;
use porchlight_schema::privacy::Subject;
use porchlight_schema::time::TimestampMs;

use super::*;

async fn hold(server: &Server, method: Method, id: &str) -> Answer {
    let request = server.request(method, &format!("/v1/sessions/{id}/hold"));
    Answer::of(request.header("Service-Key", &server.keys.secret)).await
}

async fn status_after_ending(server: &Server, id: &str) -> String {
    for _ in 0..6_000 {
        let status = show(server, id).await.json["status"].clone();
        if status != "pending" && status != "in_progress" {
            return status.as_str().unwrap().to_owned();
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{:?}", show(server, id).await);
}

#[actix::test]
async fn a_held_session_cannot_be_erased_until_the_hold_is_released() {
    let server = server(0).await;
    let held = server.scored_session().await;
    let other = start_as(&server, "rider-2", "order-2").await;
    let other = other.json["sessionId"].as_str().unwrap().to_owned();
    let empty = json!({ "held": false });
    assert_eq!(hold(&server, Method::GET, &held.id).await.json, empty);
    for _ in 0..2 {
        let placed = hold(&server, Method::PUT, &held.id).await;
        assert_eq!(
            (placed.status, &placed.json),
            (200, &json!({ "held": true }))
        );
    }
    let shown = hold(&server, Method::GET, &held.id).await;
    assert_eq!(shown.json, json!({ "held": true }));

    for (id, subject) in [
        ("e1", json!({ "sessionId": held.id })),
        ("e2", json!({ "externalRiderId": "rider-1" })),
        ("e3", json!({ "deliveryId": "order-1" })),
    ] {
        let refused = submit(&server, &body(id, "erasure", subject)).await;
        refused.assert_problem(409, "legal_hold");
        show(&server, id)
            .await
            .assert_problem(404, "privacy_request_not_found");
    }
    let others = body("e4", "erasure", json!({ "externalRiderId": "rider-2" }));
    perform(&server, &others).await;
    assert_eq!(read(&server, &other).await, 404);
    assert_eq!(reads(&server, &held.id).await, [200; 5]);

    let mark = server.keys.client.clone();
    let path = format!("/v1/sessions/{}/hold", held.id);
    server
        .get(&path, &mark)
        .await
        .assert_problem(403, "secret_key_required");
    hold(&server, Method::PUT, "ses_none")
        .await
        .assert_problem(404, "session_not_found");
    let released = hold(&server, Method::DELETE, &held.id).await;
    assert_eq!((released.status, &released.json), (200, &empty));
    let erasure = body("e2", "erasure", json!({ "externalRiderId": "rider-1" }));
    perform(&server, &erasure).await;
    assert_eq!(read(&server, &held.id).await, 404);
    hold(&server, Method::PUT, &held.id)
        .await
        .assert_problem(404, "session_not_found");
    server.stop().await;
}

#[actix::test]
async fn a_hold_stops_an_erasure_that_is_pending() {
    let server = server(3_600_000).await;
    let session = server.scored_session().await;
    let erasure = body("e1", "erasure", json!({ "externalRiderId": "rider-1" }));
    assert_eq!(submit(&server, &erasure).await.status, 202);
    assert_eq!(hold(&server, Method::PUT, &session.id).await.status, 200);
    server.clock.advance_min(61);
    // A new request wakes the service, which finds that the erasure is due.
    let other = body("r1", "release", json!({ "externalRiderId": "rider-2" }));
    assert_eq!(submit(&server, &other).await.status, 202);
    assert_eq!(status_after_ending(&server, "e1").await, "failed");
    let failed = show(&server, "e1").await.json;
    assert_eq!(failed["counts"]["sessions"], 0, "{failed}");
    assert_eq!(failed["completedAt"], Value::Null);
    assert_eq!(failed["receipt"], Value::Null);
    // A restored backup must keep the session as well.
    let logged = logged_erasures(server.store.as_ref()).await.unwrap();
    assert!(logged.is_empty(), "{logged:?}");
    assert_eq!(reads(&server, &session.id).await, [200; 5]);
    let started = start_as(&server, "rider-1", "order-9").await;
    assert_eq!(started.status, 201);
    server.stop().await;
}

#[actix::test]
async fn holds_are_in_the_audit_log() {
    let server = server(0).await;
    let session = server.start_session().await;
    hold(&server, Method::PUT, &session.id).await;
    hold(&server, Method::DELETE, &session.id).await;
    server.service.audit().unwrap().flush().await;
    for action in ["hold.place", "hold.release"] {
        let path = format!("/v1/audit?action={action}");
        let page = server.get(&path, &server.keys.secret).await;
        let lines = page.json["data"].as_array().unwrap();
        assert_eq!(lines.len(), 1, "{page:?}");
        assert_eq!(lines[0]["object"], json!(session.id));
    }
    server.stop().await;
}

/// Waits until an erasure has written its mark, which hides the session.
async fn wait_until_hidden(server: &Server, id: &str) {
    for _ in 0..12_000 {
        if read(server, id).await == 404 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("{id} is not hidden");
}

#[actix::test]
async fn the_end_of_an_erasure_does_not_lift_the_mark_of_a_later_one() {
    let server = server(0).await;
    let early = server.start_session().await;
    let subject = json!({ "externalRiderId": "rider-1" });
    submit(&server, &body("e1", "erasure", subject.clone())).await;
    wait_until_hidden(&server, &early.id).await;
    // Both erasures now wait until all nodes know their marks, the second one longer.
    tokio::time::sleep(Duration::from_millis(200)).await;
    let late = server.start_session().await;
    assert_eq!(read(&server, &late.id).await, 200);
    submit(&server, &body("e2", "erasure", subject)).await;
    wait_until_hidden(&server, &late.id).await;

    completed(&server, "e1").await;
    assert_eq!(read(&server, &late.id).await, 404);
    hold(&server, Method::PUT, &late.id)
        .await
        .assert_problem(404, "session_not_found");
    completed(&server, "e2").await;
    assert_eq!(listed(&server).await, 0);
    let again = start_as(&server, "rider-1", "order-9").await;
    let again = again.json["sessionId"].as_str().unwrap();
    assert_eq!(read(&server, again).await, 200, "no mark is left");
    server.stop().await;
}

/// Writes the hold of a session to the store.
async fn write_hold(server: &Server, tenant: Tenant, session_id: SessionId) {
    let mut place = vec![1];
    place.extend(tenant.organization_id.to_bytes());
    // The environment is the sandbox.
    place.push(0);
    place.extend(Subject::SessionId(session_id).key());
    let marks = Collection::of_service(DocumentKind::PrivacyMark);
    let held = Some(br#"{"held":true}"#.to_vec());
    let written = server.store.replace_document(marks, place, None, held);
    assert!(written.await.unwrap());
}

/// Writes a hold like a process that does not see the mark of a running erasure.
pub(super) async fn hold_unseen(server: &Server, session_id: &str) {
    write_hold(server, tenant(server).await, session_id.parse().unwrap()).await;
    invalidate_known_marks(server).await;
}

/// Changes the count of mark changes, so that each process reads all marks again.
async fn invalidate_known_marks(server: &Server) {
    let marks = Collection::of_service(DocumentKind::PrivacyMark);
    // Another write may change the count at the same time.
    for _ in 0..1_000 {
        let counted = server.store.document(marks, vec![0]).await.unwrap();
        let more = Some(u64::MAX.to_be_bytes().to_vec());
        let written = server.store.replace_document(marks, vec![0], counted, more);
        if written.await.unwrap() {
            return;
        }
    }
    panic!("the hold is not counted");
}

/// Waits until an erasure has looked for holds and has logged its beginning.
async fn wait_until_begun(server: &Server) {
    for _ in 0..12_000 {
        let logged = logged_erasures(server.store.as_ref()).await.unwrap();
        if !logged.is_empty() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("no erasure has begun");
}

#[actix::test]
async fn a_running_erasure_leaves_out_a_held_session_and_fails() {
    let server = server(0).await;
    let (held, gone) = (server.start_session().await, server.start_session().await);
    let erasure = body("e1", "erasure", json!({ "externalRiderId": "rider-1" }));
    // The erasure waits for a while after it has begun. The hold comes meanwhile, however slow the
    // machine is.
    server.clock.stop();
    submit(&server, &erasure).await;
    wait_until_begun(&server).await;
    hold_unseen(&server, &held.id).await;
    server.clock.resume();
    assert_eq!(status_after_ending(&server, "e1").await, "failed");
    let failed = show(&server, "e1").await.json;
    assert_eq!(failed["counts"]["sessions"], 1, "{failed}");
    assert_eq!(failed["receipt"], Value::Null);
    assert_eq!(read(&server, &held.id).await, 200, "no mark is left");
    assert_eq!(read(&server, &gone.id).await, 404);
    // A restored backup must keep the held session as well.
    let logged = logged_erasures(server.store.as_ref()).await.unwrap();
    assert!(logged.is_empty(), "{logged:?}");
    server.stop().await;
}

#[actix::test]
async fn an_organization_has_a_bounded_number_of_marks() {
    let server = server(0).await;
    let (free, held) = (server.start_session().await, server.start_session().await);
    assert_eq!(hold(&server, Method::PUT, &held.id).await.status, 200);
    let tenant = tenant(&server).await;
    for number in 1..PRIVACY_MARKS_MAX as u128 {
        write_hold(&server, tenant, SessionId::new(TimestampMs(1), number)).await;
    }
    invalidate_known_marks(&server).await;
    let marks = async || server.service.restrictions().marks.count(tenant);
    while marks().await < PRIVACY_MARKS_MAX {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let refused = hold(&server, Method::PUT, &free.id).await;
    refused.assert_problem(409, "privacy_limit");
    assert_eq!(hold(&server, Method::PUT, &held.id).await.status, 200);
    let subject = json!({ "sessionId": free.id });
    let restriction = body("r1", "restriction", subject.clone());
    submit(&server, &restriction)
        .await
        .assert_problem(409, "privacy_limit");
    perform(&server, &body("r2", "release", subject.clone())).await;
    perform(&server, &body("e1", "erasure", subject)).await;

    assert_eq!(hold(&server, Method::DELETE, &held.id).await.status, 200);
    perform(&server, &restriction).await;
    server.stop().await;
}
