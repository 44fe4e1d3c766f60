//! Tests sweeps: old data is deleted with all its rows, and nothing else.

use std::sync::Arc;

use porchlight_core::privacy::Mark;
use porchlight_core::retention::TRACE_ROW;
use porchlight_ports::{
    Appended, Collection, Covered, DocumentKind, Documents, Idempotency, Insights, Journal,
    NewSession, Note, SessionFilter, Sessions, Snapshot, Snapshots, StartOutcome, StoredInsight,
};
use porchlight_schema::ids::MessageId;
use porchlight_schema::insight::{DroppedSamples, InsightRecord};
use porchlight_schema::limits::{IDEMPOTENCY_MS, SWEEP_STEP_ROWS_MAX};
use porchlight_schema::message::MessageEvent;
use porchlight_schema::privacy::Subject;
use porchlight_schema::session::{SessionStart, Tenant};
use porchlight_store::MemoryStore;
use porchlight_store::engine::{KeyRange, Space};
use porchlight_store::txn::Scan;

use crate::fixtures::{T0, batch, end_at, message, new_session, put_endpoint, start, tenant};

fn rows(store: &MemoryStore) -> Vec<Vec<u8>> {
    let all = |space| {
        store
            .read_inline(|read| {
                read.rows(&Scan {
                    space,
                    ..Scan::state(KeyRange::prefix([]).after(&[0, 0xff]), usize::MAX)
                })
            })
            .unwrap()
    };
    let mut keys = Vec::new();
    for space in Space::ALL {
        keys.extend(all(space).into_iter().map(|row| row.key));
    }
    keys
}

async fn whole_session(store: &MemoryStore, tenant: Tenant, batches: u32, at: i64) -> SessionStart {
    let start = start(tenant, T0.plus_ms(at));
    let id = start.session_id;
    store.start(new_session(&start)).await.unwrap();
    for seq in (0..batches).rev() {
        store.append(id, seq, batch(seq), T0).await.unwrap();
    }
    store.note(id, Note::Quarantined { seq: 1 }).await.unwrap();
    let snapshot = Snapshot {
        generation: 1,
        next_seq: 1,
        state: vec![1],
    };
    store.put_snapshot(id, snapshot).await.unwrap();
    let stopped = message(MessageEvent::SessionStopped);
    store
        .end(id, end_at(T0.plus_ms(at)), None, stopped)
        .await
        .unwrap();
    let insight = StoredInsight {
        record: InsightRecord {
            revision: 1,
            score: None,
            error_message: None,
            pod: None,
            updated_at: T0,
        },
        covered: Covered::default(),
        known: Vec::new(),
        dropped: DroppedSamples::default(),
    };
    let updated = message(MessageEvent::InsightUpdated);
    let mut trace = [0; 32];
    trace[0] = TRACE_ROW;
    trace[1..17].copy_from_slice(&id.to_bytes());
    let data = format!(r#"{{"session_id":"{id}","fingerprint":[]}}"#);
    let learned = vec![(trace, data.into_bytes())];
    assert!(
        store
            .commit_insight(id, insight, updated, learned)
            .await
            .unwrap()
    );
    start
}

#[tokio::test]
async fn a_sweep_removes_old_sessions_completely_and_nothing_else() {
    let store = MemoryStore::new(Arc::new(|_, _| {})).unwrap();
    let tenant = tenant();
    put_endpoint(&*store, tenant, true).await;
    let young = whole_session(&store, tenant, 3, 2_000).await;
    let live = start(tenant, T0);
    store.start(new_session(&live)).await.unwrap();
    let before = rows(&store);
    let long = SWEEP_STEP_ROWS_MAX as u32 * 2 + 7;
    let old = whole_session(&store, tenant, long, 1_000).await;
    let older = whole_session(&store, tenant, 2, 500).await;
    assert!(rows(&store).len() > before.len() + long as usize);

    assert_eq!(
        store.sweep(T0.plus_ms(500), 9).await.unwrap(),
        0,
        "before, not at"
    );
    assert_eq!(store.completed_sessions(9).await.unwrap(), 3);
    assert_eq!(store.completed_sessions(2).await.unwrap(), 2);
    let newest = [T0.plus_ms(2_000), young.session_id.made_at()];
    assert_eq!(store.newest_time().await.unwrap(), newest.into_iter().max());
    assert_eq!(store.sweep(T0.plus_ms(2_000), 1).await.unwrap(), 1);
    assert_eq!(store.find(older.session_id).await.unwrap(), None);
    assert!(store.find(old.session_id).await.unwrap().is_some());
    assert_eq!(store.sweep(T0.plus_ms(2_000), 9).await.unwrap(), 1);
    assert_eq!(rows(&store), before);
    for id in [old.session_id, older.session_id] {
        assert_eq!(store.find(id).await.unwrap(), None);
        assert_eq!(
            store.message(MessageId::derived(T0, id, 0)).await.unwrap(),
            None
        );
        assert_eq!(
            store.append(id, 0, batch(9), T0).await.unwrap(),
            Appended::New
        );
    }
    let page = store
        .list(tenant, &SessionFilter::default(), 9, Some(old.session_id))
        .await
        .unwrap();
    let ids: Vec<_> = page.rows.iter().map(|row| row.start.session_id).collect();
    assert_eq!(ids, [live.session_id], "a cursor outlives its session");
    assert_eq!(store.count(young.session_id).await.unwrap(), 3);
    assert_eq!(store.messages(young.session_id).await.unwrap().len(), 3);
}

#[tokio::test]
async fn expired_idempotency_keys_are_removed() {
    let store = MemoryStore::new(Arc::new(|_, _| {})).unwrap();
    let tenant = tenant();
    let keyed = |key: &str, at: i64| NewSession {
        idempotency: Some(Idempotency {
            key: key.to_owned(),
            body_hash: [1; 32],
        }),
        ..new_session(&start(tenant, T0.plus_ms(at)))
    };
    for (key, at) in [
        ("a", 0),
        ("b", 10),
        ("a", IDEMPOTENCY_MS),
        ("c", IDEMPOTENCY_MS),
    ] {
        assert_eq!(
            store.start(keyed(key, at)).await.unwrap(),
            StartOutcome::Created
        );
    }
    let sweep = |at: i64| store.sweep_idempotency_keys(T0.plus_ms(at));
    assert_eq!(sweep(IDEMPOTENCY_MS - 1).await.unwrap(), 0);
    assert_eq!(
        sweep(IDEMPOTENCY_MS).await.unwrap(),
        1,
        "the first use of a"
    );
    let again = store.start(keyed("a", IDEMPOTENCY_MS + 5)).await.unwrap();
    assert!(matches!(again, StartOutcome::Repeated(_)), "{again:?}");
    assert_eq!(sweep(IDEMPOTENCY_MS + 10).await.unwrap(), 1);
    assert_eq!(sweep(2 * IDEMPOTENCY_MS).await.unwrap(), 2);
    assert!(
        !rows(&store)
            .iter()
            .any(|key| key[0] == b'i' || key[0] == b'I')
    );
}

/// Checks that a sweep keeps a session while the subject has this mark.
async fn stays_while_marked(subject_of: impl Fn(&SessionStart) -> Subject, mark: Mark) {
    let store = MemoryStore::new(Arc::new(|_, _| {})).unwrap();
    let tenant = tenant();
    let frozen = whole_session(&store, tenant, 3, 0).await;
    let old = whole_session(&store, tenant, 3, 1).await;
    let mut key = vec![1];
    key.extend(tenant.organization_id.to_bytes());
    // The fixtures' tenants are in production.
    key.push(1);
    key.extend(subject_of(&frozen).key());
    let marks = Collection::of_service(DocumentKind::PrivacyMark);
    let mark = Some(serde_json::to_vec(&mark).unwrap());
    let change = |from: Option<Vec<u8>>, to: Option<Vec<u8>>| {
        store.replace_document(marks, key.clone(), from, to)
    };
    assert!(change(None, mark.clone()).await.unwrap());
    let before = T0.plus_ms(1_000_000);
    assert_eq!(store.sweep(before, 10).await.unwrap(), 1);
    assert!(store.find(frozen.session_id).await.unwrap().is_some());
    assert!(store.find(old.session_id).await.unwrap().is_none());
    assert!(change(mark, None).await.unwrap());
    assert_eq!(store.sweep(before, 10).await.unwrap(), 1);
    assert!(store.find(frozen.session_id).await.unwrap().is_none());
}

#[tokio::test]
async fn a_restricted_session_stays_until_it_is_released() {
    let mark = Mark {
        restricted: true,
        ..Mark::default()
    };
    let delivery = |start: &SessionStart| Subject::DeliveryId(start.delivery_id.clone());
    stays_while_marked(delivery, mark).await;
}

#[tokio::test]
async fn a_held_session_stays_until_the_hold_is_released() {
    let mark = Mark {
        held: true,
        ..Mark::default()
    };
    stays_while_marked(|start| Subject::SessionId(start.session_id), mark).await;
}
