//! Tests that nothing brings erased data back, and that released messages are found.

use porchlight_ports::{Erasure, Insights, Outbox, Sessions};
use porchlight_schema::ids::SessionId;
use porchlight_schema::message::MessageEvent;
use porchlight_schema::time::TimestampMs;
use porchlight_store::cql::CqlStore;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;

use super::costs::node;
use super::open;
use crate::cql_server::CqlServer;
use crate::fixtures::{T0, end_at, insight, message, new_session, put_endpoint, start, tenant};

const PLACE: [u8; 32] = [9; 32];
const OTHERS: &[u8] = b"an entrance that another courier used";

pub async fn connect(keyspace: &str) -> Session {
    let node = &CqlServer::get().unwrap().nodes[0];
    let session = SessionBuilder::new()
        .known_node(node)
        .use_keyspace(keyspace, false);
    session.build().await.unwrap()
}

/// Ends and scores a new session, which learns a row about its place.
async fn learn(store: &CqlStore) -> SessionId {
    let start = start(tenant(), T0);
    let id = start.session_id;
    store.start(new_session(&start)).await.unwrap();
    let stopped = message(MessageEvent::SessionStopped);
    store.end(id, end_at(T0), None, stopped).await.unwrap();
    let updated = message(MessageEvent::InsightUpdated);
    let learned = vec![(PLACE, OTHERS.to_vec())];
    let committing = store.commit_insight(id, insight(0), updated, learned);
    assert!(committing.await.unwrap());
    id
}

/// Returns the stored state of the only session.
async fn state(session: &Session) -> Vec<u8> {
    let select = "SELECT data FROM session_state";
    let answer = session.query_unpaged(select, ()).await.unwrap();
    let rows = answer.into_rows_result().unwrap();
    let (data,) = rows.single_row::<(Vec<u8>,)>().unwrap();
    data
}

fn contains(data: &[u8], part: &[u8]) -> bool {
    data.windows(part.len()).any(|window| window == part)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_settled_session_keeps_no_facts_of_others_and_never_writes_them_again() {
    let keyspace = CqlServer::fresh_keyspace();
    let Some(store) = node(&keyspace, 1, 0).await else {
        return;
    };
    let id = learn(&store).await;
    assert_eq!(store.recall(PLACE).await.unwrap().as_deref(), Some(OTHERS));
    let session = connect(&keyspace).await;
    assert!(contains(&state(&session).await, OTHERS));
    // The other courier is erased. Then the process is killed before it settles the session.
    let less = b"less".to_vec();
    let forgotten = store.replace_learned(PLACE, OTHERS.to_vec(), Some(less.clone()));
    assert!(forgotten.await.unwrap());
    let next = node(&keyspace, 2, 0).await.unwrap();
    assert!(next.settle(id).await.unwrap());
    assert_eq!(next.recall(PLACE).await.unwrap(), Some(less));
    let settled = state(&session).await;
    assert!(!contains(&settled, OTHERS), "{settled:?}");
    let insight = next.insight(id).await.unwrap().unwrap();
    assert_eq!(insight.record.revision, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_removed_message_is_never_written_again() {
    let keyspace = CqlServer::fresh_keyspace();
    let Some(store) = node(&keyspace, 1, 0).await else {
        return;
    };
    let tenant = tenant();
    put_endpoint(&*store, tenant, true).await;
    let start = start(tenant, T0);
    let id = start.session_id;
    store.start(new_session(&start)).await.unwrap();
    let stopped = message(MessageEvent::SessionStopped);
    store.end(id, end_at(T0), None, stopped).await.unwrap();
    let mut updated = message(MessageEvent::InsightUpdated);
    updated.body = "the score of a courier".into();
    let committing = store.commit_insight(id, insight(0), updated, Vec::new());
    assert!(committing.await.unwrap());
    let session = connect(&keyspace).await;
    let has_body = async || contains(&state(&session).await, b"the score of a courier");
    assert!(has_body().await);
    store.remove_messages(id).await.unwrap();
    assert!(!has_body().await);
    assert_eq!(store.messages(id).await.unwrap(), []);
    // A process that finds a leftover mark settles the session.
    let next = node(&keyspace, 2, 0).await.unwrap();
    assert!(next.settle(id).await.unwrap());
    assert_eq!(next.messages(id).await.unwrap(), []);
    let row = next.find(id).await.unwrap().unwrap();
    assert_eq!(row.end, Some(end_at(T0)));
    store.remove_messages(id).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_whose_entries_have_expired_are_queued_again_by_a_release() {
    let keyspace = CqlServer::fresh_keyspace();
    let Some(store) = open(keyspace.clone()).await else {
        return;
    };
    let (store, tenant) = (store.unwrap(), tenant());
    put_endpoint(&*store, tenant, true).await;
    let endpoint_id = store.endpoint(tenant).await.unwrap().unwrap().id;
    let start = start(tenant, T0);
    store.start(new_session(&start)).await.unwrap();
    let ready = async || {
        let everything = Some((TimestampMs(i64::MIN), 10));
        let listing = store.listing(tenant, endpoint_id, everything, None, None, 0);
        listing.await.unwrap().ready.unwrap().len()
    };
    assert_eq!(ready().await, 1);
    // Its entry expires while a restriction hides the session.
    let session = connect(&keyspace).await;
    session.query_unpaged("TRUNCATE outbox", ()).await.unwrap();
    assert_eq!(ready().await, 0);
    store.requeue(start.session_id).await.unwrap();
    assert_eq!(ready().await, 1);
    store.requeue(start.session_id).await.unwrap();
    assert_eq!(ready().await, 1);
}
