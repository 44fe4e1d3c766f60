//! Tests that a legal hold or a restriction is acknowledged only if retention removes nothing from
//! then on, even when the process that removes is killed.

use std::cell::Cell;
use std::sync::{Arc, Mutex, OnceLock};

use porchlight_actors::service::Swept;
use porchlight_core::shares::ShareLimits;
use porchlight_ports::{Collection, DocumentKind, Documents, Ownership, Sessions, SingleNode};
use porchlight_schema::ids::{SessionId, Shard};
use porchlight_store::MemoryStore;
use porchlight_store::engine::{KeyRange, Space};
use porchlight_store::txn::{Read as _, Scan};

use super::*;
use crate::server::{ServiceParts, TestClock, service_of};

const DAY_MIN: i64 = 24 * 60;

async fn choose(server: &Server, body: Value) {
    let request = server.request(Method::PUT, "/v1/retention");
    let request = request
        .header("Service-Key", &server.keys.secret)
        .header("Content-Type", "application/json");
    assert_eq!(Answer::of(request.body(body.to_string())).await.status, 200);
}

async fn hold(server: &Server, method: Method, id: &str) -> Answer {
    let request = server.request(method, &format!("/v1/sessions/{id}/hold"));
    Answer::of(request.header("Service-Key", &server.keys.secret)).await
}

fn policies() -> Collection {
    Collection::of_service(DocumentKind::Retention)
}

/// Returns the key and the content of the only stored policy.
async fn policy(server: &Server) -> Option<(Vec<u8>, Value)> {
    let stored = server.store.documents(policies(), None, 10).await.unwrap();
    let policy = stored.into_iter().find(|row| row.key.len() > 1)?;
    Some((policy.key, serde_json::from_slice(&policy.data).unwrap()))
}

/// The step that a stored removal has reached.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    /// A hold may still drop the removal.
    Undecided,
    /// The removal will be carried out.
    Decided,
}

/// Adds a removal of a session to the policy, as the process of a sweep does.
async fn store_removal(server: &Server, id: &str, class: &str, step: Step) {
    let (key, before) = policy(server).await.unwrap();
    let mut after = before.clone();
    let decided = step == Step::Decided;
    after["removal"] = json!({ "number": 7, "class": class, "sessions": [id], "decided": decided });
    let stored = server.store.document(policies(), key.clone()).await;
    let after = Some(serde_json::to_vec(&after).unwrap());
    let replaced = server
        .store
        .replace_document(policies(), key, stored.unwrap(), after);
    assert!(replaced.await.unwrap());
}

/// Starts a server with this policy and a scored session, of which a class is being removed.
async fn server_with_removal(policy: Value, class: &str, step: Step) -> (Server, Started) {
    let server = server(0).await;
    let session = server.scored_session().await;
    choose(&server, policy).await;
    store_removal(&server, &session.id, class, step).await;
    (server, session)
}

async fn finish(server: &Server) -> Swept {
    let mut swept = Swept::default();
    server.service.finish_removals(&mut swept).await.unwrap();
    swept
}

async fn sweep(server: &Server) -> Swept {
    let mut swept = Swept::default();
    for _ in 0..25 {
        server.service.apply_retention(&mut swept).await.unwrap();
    }
    assert_eq!(swept.failures, 0);
    swept
}

#[actix::test]
async fn a_hold_of_a_session_that_is_being_removed_is_not_acknowledged() {
    let (server, session) =
        server_with_removal(json!({ "insightDays": 9 }), "insight", Step::Decided).await;
    let waiting = hold(&server, Method::PUT, &session.id).await;
    waiting.assert_problem(503, "overloaded");
    let shown = hold(&server, Method::GET, &session.id).await;
    assert_eq!(shown.json, json!({ "held": false }));
    // The mark of the hold came too late.
    assert_eq!(finish(&server).await.sessions, 1);
    assert_eq!(read(&server, &session.id).await, 404);
    let gone = hold(&server, Method::PUT, &session.id).await;
    gone.assert_problem(404, "session_not_found");
    // The mark of the hold is removed, too, because it could not be released any more.
    let marks = Collection::of_service(DocumentKind::PrivacyMark);
    let marks = server.store.documents(marks, None, 10).await.unwrap();
    // A mark's key ends with the hash of its subject.
    assert!(marks.iter().all(|mark| mark.key.len() < 32), "{marks:?}");
    server.stop().await;
}

#[actix::test]
async fn a_hold_is_acknowledged_once_a_removal_of_a_part_has_ended() {
    let (server, session) = server_with_removal(
        json!({ "telemetryDays": 1, "insightDays": 9 }),
        "telemetry",
        Step::Decided,
    )
    .await;
    let is_placed = Cell::new(false);
    let placing = async {
        let placed = hold(&server, Method::PUT, &session.id).await;
        is_placed.set(true);
        placed
    };
    let finishing = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert!(!is_placed.get(), "the removal has not ended");
        finish(&server).await
    };
    let (placed, swept) = tokio::join!(placing, finishing);
    assert_eq!((placed.status, swept.telemetry), (200, 1));
    server.clock.advance_min(30 * DAY_MIN);
    assert_eq!(sweep(&server).await, Swept::default());
    assert_eq!(read(&server, &session.id).await, 200);
    server.stop().await;
}

#[actix::test]
async fn a_hold_drops_a_removal_that_is_not_decided() {
    let (server, session) =
        server_with_removal(json!({ "insightDays": 9 }), "insight", Step::Undecided).await;
    assert_eq!(hold(&server, Method::PUT, &session.id).await.status, 200);
    assert_eq!(policy(&server).await.unwrap().1.get("removal"), None);
    server.clock.advance_min(30 * DAY_MIN);
    assert_eq!(sweep(&server).await, Swept::default());
    assert_eq!(read(&server, &session.id).await, 200);
    server.stop().await;
}

#[actix::test]
async fn a_restriction_is_completed_once_a_removal_has_ended() {
    let (server, _) =
        server_with_removal(json!({ "telemetryDays": 1 }), "telemetry", Step::Decided).await;
    let subject = json!({ "externalRiderId": "rider-1" });
    let submitted = submit(&server, &body("r1", "restriction", subject)).await;
    assert_eq!(submitted.status, 202);
    for _ in 0..3_000 {
        if show(&server, "r1").await.json["status"] == "in_progress" {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    let waiting = show(&server, "r1").await;
    assert_eq!(waiting.json["status"], "in_progress");
    assert_eq!(finish(&server).await.telemetry, 1);
    completed(&server, "r1").await;
    server.stop().await;
}

#[actix::test]
async fn a_change_of_the_policy_keeps_a_stored_removal() {
    let (server, session) =
        server_with_removal(json!({ "insightDays": 9 }), "insight", Step::Decided).await;
    choose(&server, json!({ "insightDays": 20 })).await;
    choose(&server, json!({})).await;
    assert_eq!(finish(&server).await.sessions, 1);
    assert_eq!(policy(&server).await, None);
    assert_eq!(read(&server, &session.id).await, 404);
    server.stop().await;
}

/// A node that owns every shard until a session is removed.
#[derive(Default)]
struct OwnsUntilGone {
    store: OnceLock<Arc<MemoryStore>>,
    session: Mutex<Option<SessionId>>,
}

impl Ownership for OwnsUntilGone {
    fn generation(&self, _shard: Shard) -> Option<u64> {
        let session = *self.session.lock().unwrap();
        let has = |id: SessionId| {
            let key = [b"s", id.to_bytes().as_slice()].concat();
            let store = self.store.get().unwrap();
            store.read_inline(|read| read.has_state(&key)).unwrap()
        };
        session.is_none_or(has).then_some(1)
    }

    fn is_shared(&self) -> bool {
        false
    }
}

/// Starts a server that loses its tenants when a session is gone.
async fn losing_server() -> (Server, Arc<OwnsUntilGone>) {
    let (clock, ownership): (Arc<TestClock>, Arc<OwnsUntilGone>) = Default::default();
    let receiver: Arc<OnceLock<porchlight_actors::service::Service>> = Arc::default();
    let on_durable = Arc::clone(&receiver);
    let store = MemoryStore::new(Arc::new(move |session_id, entry| {
        if let Some(service) = on_durable.get() {
            service.deliver(session_id, entry);
        }
    }));
    let store = store.unwrap();
    assert!(ownership.store.set(Arc::clone(&store)).is_ok());
    let parts = ServiceParts {
        store: Arc::clone(&store) as _,
        ownership: Arc::clone(&ownership) as _,
        peers: Arc::new(SingleNode { generation: 1 }),
        wake: Arc::new(|_, _| {}),
    };
    let (service, arbiters) = service_of(parts, Arc::clone(&clock), ShareLimits::default());
    assert!(receiver.set(service.clone()).is_ok());
    let server = Server::serve(service, store, clock, arbiters, config()).await;
    (server, ownership)
}

/// Removes the rows of a session from the lists, like an erasure on CQL that was killed before it
/// removed the last row.
async fn unlist(server: &Server, session_id: SessionId) {
    let write = server.store.committer().write(move |txn| {
        let rows = txn.rows(&Scan::keys(KeyRange::prefix([]), usize::MAX))?;
        for row in rows {
            let is_list = matches!(row.key.first(), Some(b't' | b'd' | b'r'));
            if is_list && row.key.ends_with(&session_id.to_bytes()) {
                txn.delete(Space::State, row.key);
            }
        }
        Ok(())
    });
    write.await.unwrap();
}

#[actix::test]
async fn a_removal_that_was_interrupted_is_finished_without_the_lists() {
    let (server, ownership) = losing_server().await;
    let (left, first) = (server.scored_session().await, server.scored_session().await);
    let left_id: SessionId = left.id.parse().unwrap();
    choose(&server, json!({ "insightDays": 9 })).await;
    server.clock.advance_min(30 * DAY_MIN);
    // The newest session comes first.
    *ownership.session.lock().unwrap() = Some(first.id.parse().unwrap());
    assert_eq!(sweep(&server).await.sessions, 1);
    assert!(server.store.find(left_id).await.unwrap().is_some());
    // The process has stored the removal, so the session can no longer be put under a hold.
    let waiting = hold(&server, Method::PUT, &left.id).await;
    waiting.assert_problem(503, "overloaded");
    unlist(&server, left_id).await;
    assert_eq!(sweep(&server).await, Swept::default());

    *ownership.session.lock().unwrap() = None;
    // The first session is removed again.
    assert_eq!(finish(&server).await.sessions, 2);
    assert_eq!(server.store.find(left_id).await.unwrap(), None);
    assert_eq!(finish(&server).await, Swept::default());
    assert_eq!(policy(&server).await.unwrap().1.get("removal"), None);
    server.stop().await;
}
