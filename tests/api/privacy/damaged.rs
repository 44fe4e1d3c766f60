//! Tests that an erasure does not complete without the sessions whose rows are damaged.

use porchlight_schema::ids::SessionId;
use porchlight_sim::Kind;
use porchlight_store::engine::{KeyRange, Space};
use porchlight_store::txn::Scan;

use super::*;
use crate::recorders::native::{delivery, sent_natively};

/// Overwrites the row of a session in this table with bytes that no release writes.
async fn damage(server: &Server, table: u8, id: &str) {
    let id: SessionId = id.parse().unwrap();
    let key = [&[table], id.to_bytes().as_slice()].concat();
    let write = server.store.committer().write(move |txn| {
        txn.put(Space::State, key, vec![0; 8]);
        Ok(())
    });
    write.await.unwrap();
}

/// Returns the number of rows whose key names a session.
fn rows_of(server: &Server, id: &str) -> usize {
    let id = id.parse::<SessionId>().unwrap().to_bytes();
    let count = |space| {
        let all = Scan {
            space,
            ..Scan::keys(KeyRange::prefix([]), usize::MAX)
        };
        let rows = server.store.read_inline(|read| read.rows(&all)).unwrap();
        let keys = rows.iter().map(|row| &row.key);
        keys.filter(|key| key.windows(16).any(|part| part == id))
            .count()
    };
    Space::ALL.into_iter().map(count).sum()
}

fn subjects(id: &str) -> [Value; 3] {
    [
        json!({ "externalRiderId": "rider-1" }),
        json!({ "deliveryId": "order-1" }),
        json!({ "sessionId": id }),
    ]
}

#[actix::test]
async fn an_erasure_removes_a_session_whose_start_is_damaged() {
    for subject in 0..3 {
        for is_quarantined in [false, true] {
            let server = server(0).await;
            let other = start_as(&server, "rider-2", "order-2").await;
            let other = other.json["sessionId"].as_str().unwrap().to_owned();
            let session = server.scored_session().await;
            damage(&server, b's', &session.id).await;
            if is_quarantined {
                let mut report = server.store.check();
                server.store.quarantine(&mut report).await.unwrap();
                assert_eq!(report.quarantined, 1);
            }
            assert!(rows_of(&server, &session.id) >= 6);
            let subject = subjects(&session.id)[subject].clone();
            let done = perform(&server, &body("e1", "erasure", subject.clone())).await;
            assert_eq!(done["counts"]["sessions"], 1, "{subject}");
            assert_eq!(done["counts"]["telemetry"], 3, "{subject}");
            assert_eq!(rows_of(&server, &session.id), 0, "{subject}");
            assert_eq!(read(&server, &other).await, 200);
            server.stop().await;
        }
    }
}

#[actix::test]
async fn an_erasure_removes_a_session_whose_end_is_damaged() {
    let server = server(0).await;
    let insight = sent_natively(&server, &delivery(Kind::House)).await;
    let id = insight["sessionId"].as_str().unwrap();
    damage(&server, b'e', id).await;
    let learned = || {
        let rows = Scan::keys(KeyRange::prefix([b'w']), usize::MAX);
        let rows = server.store.read_inline(|read| read.rows(&rows)).unwrap();
        rows.into_iter().map(|row| row.key).collect::<Vec<_>>()
    };
    let of_session = learned().len();
    assert!(of_session > 0, "the session has a trace");
    let erasure = body(
        "e1",
        "erasure",
        json!({ "externalRiderId": "rider-native" }),
    );
    let counts = perform(&server, &erasure).await["counts"].clone();
    assert_eq!(counts["sessions"], 1);
    assert_eq!(counts["places"], of_session);
    assert_eq!(learned(), Vec::<Vec<u8>>::new());
    // Retention removes the row that lists the session as completed.
    assert!(rows_of(&server, id) <= 1);
    server.stop().await;
}

#[actix::test]
async fn a_request_about_a_session_whose_end_is_damaged_covers_it() {
    for kind in ["restriction", "erasure"] {
        let server = server(0).await;
        let session = server.scored_session().await;
        damage(&server, b'e', &session.id).await;
        let subject = json!({ "sessionId": session.id });
        let done = perform(&server, &body("r1", kind, subject)).await;
        assert_eq!(done["counts"]["sessions"], 1, "{kind}");
        server.stop().await;
    }
}

#[actix::test]
async fn a_damaged_session_that_is_held_cannot_be_erased() {
    let server = server(0).await;
    let session = server.scored_session().await;
    let path = format!("/v1/sessions/{}/hold", session.id);
    let placed = server.request(Method::PUT, &path);
    let placed = Answer::of(placed.header("Service-Key", &server.keys.secret)).await;
    assert_eq!(placed.status, 200);
    damage(&server, b's', &session.id).await;
    for subject in subjects(&session.id) {
        let refused = submit(&server, &body("e1", "erasure", subject)).await;
        refused.assert_problem(409, "legal_hold");
    }
    server.stop().await;
}
