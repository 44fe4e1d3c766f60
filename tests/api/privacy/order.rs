//! Tests the order in which privacy requests are performed: a request that waits holds up no other,
//! and the last request about a subject counts.

use porchlight_ports::{Collection, DocumentKind, Documents};

use super::*;

/// Submits a request of an organization, and waits until it is completed.
async fn perform_as(server: &Server, key: &str, body: &Value) {
    let answer = server.post(REQUESTS, key, body).await;
    assert_eq!(answer.status, 202, "{answer:?}");
    let path = format!("{REQUESTS}/{}", body["requestId"].as_str().unwrap());
    for _ in 0..6_000 {
        let shown = server.get(&path, key).await;
        if shown.json["status"] == "completed" {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{body} is not completed");
}

/// Returns the number of entries of open requests in the store.
async fn open_entries(server: &Server) -> usize {
    let open = Collection::of_service(DocumentKind::OpenPrivacyRequest);
    let entries = server.store.documents(open, None, 1_000);
    entries.await.unwrap().len()
}

#[actix::test]
async fn pending_erasures_hold_up_no_other_request() {
    let server = server(3_600_000).await;
    let session = server.start_session().await;
    for number in 0..12 {
        let subject = json!({ "externalRiderId": format!("rider-{number}") });
        let erasure = body(&format!("e{number}"), "erasure", subject);
        assert_eq!(submit(&server, &erasure).await.status, 202);
    }
    // Requests of this organization, of another one, and of one in which a restriction was lifted.
    let subject = json!({ "sessionId": session.id });
    perform(&server, &body("r1", "restriction", subject.clone())).await;
    assert_eq!(read(&server, &session.id).await, 404);
    let of_other = body("r1", "restriction", json!({ "externalRiderId": "rider-1" }));
    perform_as(&server, &server.keys.other, &of_other).await;
    perform(&server, &body("r2", "release", subject)).await;
    assert_eq!(read(&server, &session.id).await, 200);
    assert_eq!(show(&server, "e0").await.json["status"], "pending");
    server.stop().await;
}

#[actix::test]
async fn a_cancelled_request_is_no_longer_open() {
    let server = server(3_600_000).await;
    let erasure = body("e1", "erasure", json!({ "externalRiderId": "rider-1" }));
    assert_eq!(submit(&server, &erasure).await.status, 202);
    assert_eq!(open_entries(&server).await, 1);
    assert_eq!(delete(&server, "e1").await.status, 204);
    assert_eq!(open_entries(&server).await, 0);
    assert_eq!(show(&server, "e1").await.json["status"], "cancelled");
    server.stop().await;
}

#[actix::test]
async fn the_last_of_several_requests_about_a_subject_counts() {
    let server = server(0).await;
    let session = server.start_session().await;
    let subject = json!({ "externalRiderId": "rider-1" });
    for round in 0..6 {
        let mut kinds = ["restriction", "release"];
        if round % 2 == 1 {
            kinds.reverse();
        }
        for kind in kinds {
            let request = body(&format!("{kind}-{round}"), kind, subject.clone());
            assert_eq!(submit(&server, &request).await.status, 202);
            // The service orders requests by milliseconds.
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        for kind in kinds {
            completed(&server, &format!("{kind}-{round}")).await;
        }
        let expected = if kinds[1] == "release" { 200 } else { 404 };
        assert_eq!(read(&server, &session.id).await, expected, "round {round}");
    }
    // An entry is removed after its request is completed and in the audit log.
    for _ in 0..6_000 {
        if open_entries(&server).await == 0 {
            return server.stop().await;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{} requests stay open", open_entries(&server).await);
}
