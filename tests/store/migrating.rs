//! Tests the migration from the embedded store to a CQL cluster, and the use of that cluster.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use porchlight_core::webhook::{AttemptDetails, AttemptResult, Change, State, Update};
use porchlight_ports::{
    Clock, Collection, DocumentKind, Documents, Insights, Journal, Keys, Note, Organization,
    Outbox, PodRow, Recorders, Sessions,
};
use porchlight_schema::ids::{EndpointId, KeyId, RecorderId, SessionId, ShardSet};
use porchlight_schema::key::{KeyKind, KeyRecord, Role as KeyRole};
use porchlight_schema::message::MessageEvent;
use porchlight_schema::review::{Review, ReviewState};
use porchlight_schema::session::{Pod, PodType, Tenant};
use porchlight_schema::time::TimestampMs;
use porchlight_store::EmbeddedStore;
use porchlight_store::cql::{CqlStore, Role};
use porchlight_store::migrate::{MigrateError, migrate};
use porchlight_world::SystemClock;
use scylla::client::session_builder::SessionBuilder;

use crate::cql::options;
use crate::cql_server::CqlServer;
use crate::fixtures::{
    Folder, T0, batch, end_at, fresh, insight, message, new_session, open, put_endpoint, start,
    tenant,
};

fn key(tenant: Tenant, revoked_at: Option<TimestampMs>) -> KeyRecord {
    KeyRecord {
        id: KeyId::new(T0, u128::from(fresh())),
        tenant,
        kind: KeyKind::Secret,
        last4: "abcd".to_owned(),
        created_at: T0,
        expires_at: None,
        revoked_at,
        name: None,
        last_used_at: None,
        role: KeyRole::Admin,
    }
}

fn review() -> Review {
    Review {
        state: ReviewState::Reviewed,
        note: Some("seen".to_owned()),
        by: None,
        reviewed_at: T0,
        key_id: KeyId::new(T0, 7),
    }
}

/// Fills an embedded store with five sessions: two live, one ended, one scored, and one scored and
/// delivered.
async fn fill(store: &EmbeddedStore, tenant: Tenant) -> Vec<SessionId> {
    let organization = Organization {
        id: tenant.organization_id,
        name: format!("moved-{}", fresh()),
        created_at: T0,
    };
    store.organization(organization).await.unwrap();
    store.put_key([3; 32], key(tenant, None)).await.unwrap();
    store.put_key([4; 32], key(tenant, Some(T0))).await.unwrap();
    put_endpoint(store, tenant, true).await;
    let mut ids = Vec::new();
    for place in 0..5 {
        let start = start(tenant, T0.plus_ms(place));
        let id = start.session_id;
        store.start(new_session(&start)).await.unwrap();
        for seq in [0, 1, 2, 5_000] {
            store.append(id, seq, batch(seq), T0).await.unwrap();
        }
        store.note(id, Note::Quarantined { seq: 1 }).await.unwrap();
        ids.push(id);
    }
    let pod = PodRow {
        pod: Pod {
            pod_type: PodType::Photo,
            url: "https://pod.example/".to_owned(),
        },
        received_at: T0,
    };
    store.attach_pod(ids[1], pod).await.unwrap();
    for &id in &ids[2..] {
        let body = message(MessageEvent::SessionStopped);
        store.end(id, end_at(T0), None, body).await.unwrap();
    }
    for &id in &ids[3..] {
        let body = message(MessageEvent::InsightUpdated);
        let learned = vec![([7; 32], b"place".to_vec())];
        assert!(
            store
                .commit_insight(id, insight(4), body, learned)
                .await
                .unwrap()
        );
    }
    let endpoint_id = EndpointId::new(TimestampMs(1), 1);
    let lane = store.lane(tenant, endpoint_id, ids[4], None).await.unwrap();
    for before in lane.waiting {
        let mut after = before;
        after.attempts = 1;
        after.state = State::Delivered;
        let report = AttemptResult {
            at: T0,
            duration_ms: 3,
            status_code: Some(200),
            cause: None,
            response: None,
            details: AttemptDetails::default(),
        };
        let change = Change {
            updates: vec![Update {
                before,
                after,
                report: Some(report),
            }],
            manual_done: None,
        };
        store
            .commit(tenant, endpoint_id, ids[4], change)
            .await
            .unwrap();
    }
    ids
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_moves_once_and_the_sessions_continue() {
    let Some(options) = options(CqlServer::fresh_keyspace()) else {
        return;
    };
    let (folder, tenant) = (Folder::new(), tenant());
    let from = open(folder.path()).unwrap();
    let ids = fill(&from, tenant).await;
    let to = CqlStore::open(options, Role::Command, Arc::new(SystemClock))
        .await
        .unwrap();
    let now = SystemClock.now();
    let recorder = RecorderId::new(now, u128::from(fresh()));
    let created = from.create_recorder(recorder, b"first".to_vec(), T0).await;
    created.unwrap();
    let changed = from.change_recorder(recorder, 1, b"changed".to_vec(), T0);
    assert!(changed.await.unwrap());
    assert!(from.put_review(ids[3], review()).await.unwrap());
    for kind in [DocumentKind::PrivacyMark, DocumentKind::ErasureLog] {
        let (collection, data) = (Collection::of_service(kind), Some(b"document".to_vec()));
        let replaced = from.replace_document(collection, b"key".to_vec(), None, data);
        assert!(replaced.await.unwrap());
    }
    let done = migrate(&from, &to, |_| {}).await.unwrap();
    assert_eq!((done.customers, done.sessions, done.were_there), (4, 5, 0));
    assert_eq!((done.batches, done.messages), (20, 5 + 3 + 2));
    let moved = to.recorder(recorder).await.unwrap().unwrap();
    assert_eq!((moved.version, moved.data), (2, b"changed".to_vec()));
    assert_eq!(to.review(ids[3]).await.unwrap(), Some(review()));
    for kind in [DocumentKind::PrivacyMark, DocumentKind::ErasureLog] {
        let document = to.document(Collection::of_service(kind), b"key".to_vec());
        assert_eq!(document.await.unwrap(), Some(b"document".to_vec()));
    }
    let again = migrate(&from, &to, |_| {}).await.unwrap();
    assert_eq!((again.sessions, again.were_there), (0, 5));
    assert_eq!((again.batches, again.messages), (20, 10));

    assert_eq!(
        to.find_key([3; 32]).await.unwrap(),
        from.find_key([3; 32]).await.unwrap()
    );
    let revoked = to.find_key([4; 32]).await.unwrap().unwrap();
    assert_eq!(revoked.revoked_at, Some(T0));
    assert_eq!(to.recall([7; 32]).await.unwrap(), Some(b"place".to_vec()));
    let live = to.live(ShardSet::ALL, None, 10).await.unwrap();
    let live: Vec<_> = live.iter().map(|row| row.start.session_id).collect();
    assert_eq!(live, ids[..2]);
    assert_eq!(
        to.to_score(ShardSet::ALL, None, 10).await.unwrap(),
        [ids[2]]
    );
    let endpoint_id = EndpointId::new(TimestampMs(1), 1);
    let waiting = to.lane(tenant, endpoint_id, ids[4], None).await.unwrap();
    assert_eq!(waiting.waiting, []);
    let beginning = Some((TimestampMs(i64::MIN), 100));
    let listing = to
        .listing(tenant, endpoint_id, beginning, None, None, 0)
        .await
        .unwrap();
    assert_eq!(
        listing.ready.unwrap().len(),
        10 - 3,
        "pending work is found"
    );

    let body = message(MessageEvent::SessionStopped);
    to.end(ids[0], end_at(T0), None, body).await.unwrap();
    let numbers: Vec<u32> = to
        .messages(ids[0])
        .await
        .unwrap()
        .iter()
        .map(|message| message.number)
        .collect();
    assert_eq!(numbers, [0, 1]);
    // The command refuses a cluster with a session that the embedded store does not have, such as
    // one that was erased since.
    let without = Folder::new();
    let without = open(without.path()).unwrap();
    let unknown = migrate(&without, &to, |_| {}).await;
    assert!(
        matches!(unknown, Err(MigrateError::Unknown { .. })),
        "{unknown:?}"
    );
    // Data written to the cluster since then is neither overwritten nor ignored.
    let differs = migrate(&from, &to, |_| {}).await;
    assert!(
        matches!(differs, Err(MigrateError::Differs { .. })),
        "{differs:?}"
    );
}

/// Opens an empty embedded store and a cluster without tables; `None` if there is no CQL server.
async fn both(folder: &Folder) -> Option<(Arc<EmbeddedStore>, Arc<CqlStore>)> {
    let options = options(CqlServer::fresh_keyspace())?;
    let to = CqlStore::open(options, Role::Command, Arc::new(SystemClock));
    Some((open(folder.path()).unwrap(), to.await.unwrap()))
}

async fn refused(from: &Arc<EmbeddedStore>, to: &Arc<CqlStore>, expected: &str) {
    match migrate(from, to, |_| {}).await {
        Err(MigrateError::ManagementDiffers { what }) => assert_eq!(what, expected),
        other => panic!("{expected}: {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn data_that_changed_between_two_runs_is_not_silently_outdated() {
    let folder = Folder::new();
    let Some((from, to)) = both(&folder).await else {
        return;
    };
    let collection = Collection::of_service(DocumentKind::PrivacyMark);
    let replace = async |before: Option<&[u8]>, after: Option<&[u8]>| {
        let (before, after) = (before.map(<[u8]>::to_vec), after.map(<[u8]>::to_vec));
        let replaced = from.replace_document(collection, b"key".to_vec(), before, after);
        assert!(replaced.await.unwrap());
    };
    let tenant = tenant();
    put_endpoint(&*from, tenant, true).await;
    let now = SystemClock.now();
    let recorder = RecorderId::new(now, u128::from(fresh()));
    let created = from.create_recorder(recorder, b"first".to_vec(), now);
    created.await.unwrap();
    replace(None, Some(b"restricted")).await;
    migrate(&from, &to, |_| {}).await.unwrap();
    migrate(&from, &to, |_| {}).await.unwrap();

    // A server uses the embedded store again: something changes, and then it is removed. The
    // command compares in the opposite order, and reports the first difference.
    replace(Some(b"restricted"), Some(b"released")).await;
    refused(&from, &to, "management data").await;
    replace(Some(b"released"), None).await;
    refused(&from, &to, "management data").await;

    let changed = from.change_recorder(recorder, 1, b"second".to_vec(), now);
    assert!(changed.await.unwrap());
    refused(&from, &to, "a recorder").await;
    assert!(from.remove_recorder(recorder).await.unwrap());
    refused(&from, &to, "a recorder").await;

    put_endpoint(&*from, tenant, false).await;
    refused(&from, &to, "a webhook").await;
    assert!(from.delete_endpoint(tenant).await.unwrap());
    refused(&from, &to, "a webhook").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_webhook_that_changed_after_an_interrupted_run_is_migrated_in_its_new_state() {
    let folder = Folder::new();
    let Some((from, to)) = both(&folder).await else {
        return;
    };
    let tenant = tenant();
    put_endpoint(&*from, tenant, true).await;
    for place in 0..2 {
        let start = start(tenant, T0.plus_ms(place));
        from.start(new_session(&start)).await.unwrap();
    }
    // The first run is interrupted when it has imported the sessions, before it sends anything else.
    let first = migrate(&from, &to, |_| panic!("interrupted"));
    let panic = AssertUnwindSafe(first).catch_unwind().await.unwrap_err();
    assert_eq!(panic.downcast_ref(), Some(&"interrupted"));
    put_endpoint(&*from, tenant, false).await;
    let done = migrate(&from, &to, |_| {}).await.unwrap();
    assert_eq!((done.sessions, done.were_there), (0, 2));
    let moved = to.endpoint(tenant).await.unwrap();
    assert_eq!(moved, from.endpoint(tenant).await.unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_with_data_of_its_own_is_refused_before_anything_is_written() {
    let folder = Folder::new();
    let Some((from, to)) = both(&folder).await else {
        return;
    };
    let tenant = tenant();
    let id = fill(&from, tenant).await[0];
    let named = from.organizations().await.unwrap().remove(0);
    // An operator has created a key on the cluster, and with it an organization of the same name.
    let other = Organization {
        id: crate::fixtures::tenant().organization_id,
        ..named
    };
    to.organization(other).await.unwrap();
    refused(&from, &to, "an organization").await;
    assert!(!to.has_session(id).await.unwrap());

    let Some((_, to)) = both(&Folder::new()).await else {
        return;
    };
    let revoked = key(tenant, Some(T0.plus_ms(1)));
    to.put_key([3; 32], revoked).await.unwrap();
    refused(&from, &to, "an API key").await;
    assert!(!to.has_session(id).await.unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_was_revoked_after_a_run_is_revoked_by_the_next_one() {
    let folder = Folder::new();
    let Some((from, to)) = both(&folder).await else {
        return;
    };
    let record = key(tenant(), None);
    from.put_key([3; 32], record.clone()).await.unwrap();
    migrate(&from, &to, |_| {}).await.unwrap();
    from.revoke_key(record.id, T0.plus_ms(1)).await.unwrap();
    migrate(&from, &to, |_| {}).await.unwrap();
    let moved = to.find_key([3; 32]).await.unwrap();
    assert_eq!(moved.unwrap().revoked_at, Some(T0.plus_ms(1)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiting_message_whose_import_failed_is_listed_by_the_next_run() {
    let (keyspace, folder, tenant) = (CqlServer::fresh_keyspace(), Folder::new(), tenant());
    let cluster = async || {
        let to = CqlStore::open(
            options(keyspace.clone())?,
            Role::Command,
            Arc::new(SystemClock),
        );
        Some(to.await.unwrap())
    };
    let Some(to) = cluster().await else {
        return;
    };
    let from = open(folder.path()).unwrap();
    put_endpoint(&*from, tenant, true).await;
    let start = start(tenant, T0);
    from.start(new_session(&start)).await.unwrap();
    let nodes = &CqlServer::get().unwrap().nodes;
    let session = SessionBuilder::new().known_nodes(nodes).build().await;
    let session = session.unwrap();
    session.use_keyspace(&keyspace, false).await.unwrap();
    let alter_outbox = async |change: &str| {
        let alter = format!("ALTER TABLE outbox {change}");
        session.query_unpaged(alter, ()).await.unwrap();
    };
    // The first run fails when it lists the message.
    alter_outbox("DROP data").await;
    let first = migrate(&from, &to, |_| {}).await;
    assert!(matches!(first, Err(MigrateError::Store(_))), "{first:?}");
    alter_outbox("ADD data blob").await;
    let to = cluster().await.unwrap();
    let done = migrate(&from, &to, |_| {}).await.unwrap();
    assert_eq!((done.sessions, done.were_there), (1, 0));
    let endpoint_id = EndpointId::new(TimestampMs(1), 1);
    let beginning = Some((TimestampMs(i64::MIN), 100));
    let listing = to.listing(tenant, endpoint_id, beginning, None, None, 0);
    let ready = listing.await.unwrap().ready.unwrap();
    let ids: Vec<_> = ready.into_iter().map(|(_, id)| id).collect();
    assert_eq!(ids, [start.session_id]);
}
