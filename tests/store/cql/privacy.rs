//! Tests that nothing brings erased or replaced data back, even if the clocks of the nodes differ,
//! and that released messages are found.

use porchlight_core::retention::TRACE_ROW;
use porchlight_ports::{Clock, Erasure, Insights, Outbox, SessionFilter, Sessions};
use porchlight_schema::ids::{KeyId, SessionId};
use porchlight_schema::message::MessageEvent;
use porchlight_schema::review::{Review, ReviewState};
use porchlight_schema::time::TimestampMs;
use porchlight_store::cql::CqlStore;
use porchlight_world::SystemClock;
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

/// Returns the time a minute from now, in microseconds, as a node with such a clock writes it.
fn ahead_us() -> i64 {
    SystemClock.now().plus_ms(60_000).0 * 1_000
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn facts_that_a_node_with_a_clock_ahead_wrote_are_removed() {
    let keyspace = CqlServer::fresh_keyspace();
    let Some(store) = node(&keyspace, 1, 0).await else {
        return;
    };
    let session = connect(&keyspace).await;
    let insert = "INSERT INTO learned (key, data) VALUES (?, ?) USING TIMESTAMP ?";
    let values = (PLACE.as_slice(), OTHERS, ahead_us());
    session.query_unpaged(insert, values).await.unwrap();
    let less = b"less".to_vec();
    let replaced = store.replace_learned(PLACE, OTHERS.to_vec(), Some(less.clone()));
    assert!(replaced.await.unwrap());
    assert_eq!(store.recall(PLACE).await.unwrap(), Some(less.clone()));
    assert!(store.replace_learned(PLACE, less, None).await.unwrap());
    assert_eq!(store.recall(PLACE).await.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_score_that_has_read_a_place_before_does_not_bring_removed_facts_back() {
    let keyspace = CqlServer::fresh_keyspace();
    let Some(store) = node(&keyspace, 1, 0).await else {
        return;
    };
    learn(&store).await;
    let less = b"less".to_vec();
    let replaced = store.replace_learned(PLACE, OTHERS.to_vec(), Some(less.clone()));
    assert!(replaced.await.unwrap());
    // The score of another session writes the row with the facts that it has read.
    learn(&store).await;
    assert_eq!(store.recall(PLACE).await.unwrap(), Some(less.clone()));
    assert!(store.replace_learned(PLACE, less, None).await.unwrap());
    learn(&store).await;
    assert_eq!(store.recall(PLACE).await.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_score_of_an_erased_session_leaves_no_trace() {
    let keyspace = CqlServer::fresh_keyspace();
    let Some(scoring) = node(&keyspace, 1, 0).await else {
        return;
    };
    let erasing = node(&keyspace, 0, 0).await.unwrap();
    let start = start(tenant(), T0);
    let id = start.session_id;
    scoring.start(new_session(&start)).await.unwrap();
    let stopped = message(MessageEvent::SessionStopped);
    scoring.end(id, end_at(T0), None, stopped).await.unwrap();
    erasing.erase_session(id).await.unwrap();
    let mut key = [5; 32];
    key[0] = TRACE_ROW;
    let trace = format!(r#"{{"session_id":"{id}","fingerprint":[]}}"#);
    let learned = vec![(key, trace.into_bytes())];
    let updated = message(MessageEvent::InsightUpdated);
    let committed = scoring.commit_insight(id, insight(0), updated, learned);
    assert!(!matches!(committed.await, Ok(true)));
    assert_eq!(scoring.recall(key).await.unwrap(), None);
    assert_eq!(
        scoring.learned_by(id).await.unwrap(),
        Vec::<[u8; 32]>::new()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_interrupted_erasure_leaves_the_session_in_its_lists() {
    let keyspace = CqlServer::fresh_keyspace();
    let Some(store) = node(&keyspace, 1, 0).await else {
        return;
    };
    let start = start(tenant(), T0);
    let id = start.session_id;
    store.start(new_session(&start)).await.unwrap();
    let is_listed = async |filter: SessionFilter| {
        let page = store.list(start.tenant, &filter, 10, None).await.unwrap();
        page.rows.iter().any(|row| row.start.session_id == id)
    };
    let filters = || {
        let rider = SessionFilter {
            external_rider_id: Some(start.external_rider_id.clone()),
            ..SessionFilter::default()
        };
        let delivery = SessionFilter {
            delivery_id: Some(start.delivery_id.clone()),
            ..SessionFilter::default()
        };
        [SessionFilter::default(), rider, delivery]
    };
    // The erasure fails at the last table before the lists.
    let session = connect(&keyspace).await;
    let drop = "DROP TABLE learned_by_session";
    session.query_unpaged(drop, ()).await.unwrap();
    assert!(store.erase_session(id).await.is_err());
    for filter in filters() {
        assert!(is_listed(filter.clone()).await, "{filter:?}");
    }
    let create =
        "CREATE TABLE learned_by_session (session blob, key blob, PRIMARY KEY (session, key))";
    session.query_unpaged(create, ()).await.unwrap();
    let store = node(&keyspace, 2, 0).await.unwrap();
    store.erase_session(id).await.unwrap();
    assert_eq!(store.find(id).await.unwrap(), None);
    for table in [
        "sessions",
        "sessions_by_organization",
        "sessions_by_delivery",
        "sessions_by_rider",
    ] {
        let select = format!("SELECT session FROM {table}");
        let answer = session.query_unpaged(select, ()).await.unwrap();
        let rows = answer.into_rows_result().unwrap();
        assert_eq!(rows.rows_num(), 0, "{table}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_later_review_replaces_one_that_a_node_with_a_clock_ahead_wrote() {
    let keyspace = CqlServer::fresh_keyspace();
    let Some(store) = node(&keyspace, 1, 0).await else {
        return;
    };
    let start = start(tenant(), T0);
    let id = start.session_id;
    store.start(new_session(&start)).await.unwrap();
    let review = |state| Review {
        state,
        note: None,
        by: None,
        reviewed_at: T0,
        key_id: KeyId::new(T0, 7),
    };
    let first = review(ReviewState::Reviewed);
    assert!(store.put_review(id, first).await.unwrap());
    let session = connect(&keyspace).await;
    let select = "SELECT data FROM reviews";
    let answer = session.query_unpaged(select, ()).await.unwrap();
    let (data,) = answer
        .into_rows_result()
        .unwrap()
        .single_row::<(Vec<u8>,)>()
        .unwrap();
    let insert = "INSERT INTO reviews (session, data) VALUES (?, ?) USING TIMESTAMP ?";
    let key = id.to_bytes();
    let values = (key.as_slice(), data, ahead_us());
    session.query_unpaged(insert, values).await.unwrap();
    let second = review(ReviewState::Overturned);
    assert!(store.put_review(id, second.clone()).await.unwrap());
    assert_eq!(store.review(id).await.unwrap(), Some(second));
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
