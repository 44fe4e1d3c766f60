//! Rules for erasures that every store follows.

use porchlight_core::retention::{PLACE_ROW, TRACE_ROW};
use porchlight_ports::{
    Appended, Clock, Covered, DeliveryFilter, Idempotency, Note, PodRow, SessionFilter,
    SessionRows, Snapshot, StoredInsight,
};
use porchlight_schema::ids::{RecorderId, SessionId, ShardSet};
use porchlight_schema::message::MessageEvent;
use porchlight_schema::session::{Pod, PodType, SessionStart, Tenant};
use porchlight_schema::time::TimestampMs;
use porchlight_world::SystemClock;

use super::insights::insight;
use crate::fixtures::{Subject, T0, batch, end_at, fresh, message, new_session, start, tenant};

/// Starts, feeds, ends and scores a session, so that every kind of row exists.
async fn make(subject: &dyn Subject, tenant: Tenant) -> SessionStart {
    let store = subject.store();
    let start = start(tenant, T0);
    let id = start.session_id;
    store.start(new_session(&start)).await.unwrap();
    for seq in 0..3 {
        store.append(id, seq, batch(seq), T0).await.unwrap();
    }
    store.note(id, Note::Quarantined { seq: 1 }).await.unwrap();
    let snapshot = Snapshot {
        generation: 1,
        next_seq: 3,
        state: vec![1],
    };
    store.put_snapshot(id, snapshot).await.unwrap();
    let pod = PodRow {
        pod: Pod {
            pod_type: PodType::Note,
            url: "https://pod.example/1".into(),
        },
        received_at: T0,
    };
    let ended = store
        .end(
            id,
            end_at(T0.plus_ms(1_000)),
            Some(pod),
            message(MessageEvent::SessionStopped),
        )
        .await
        .unwrap();
    assert!(ended.is_some());
    let insight = StoredInsight {
        covered: Covered {
            batches: 3,
            pod_received_at: Some(T0),
            late_stop_at: None,
        },
        ..insight(1, "failed")
    };
    let message = message(MessageEvent::InsightUpdated);
    let learned = vec![(learned_key(id), b"learned".to_vec())];
    assert!(
        store
            .commit_insight(id, insight, message, learned)
            .await
            .unwrap()
    );
    start
}

fn learned_key(id: SessionId) -> [u8; 32] {
    let mut key = [9; 32];
    key[..16].copy_from_slice(&id.to_bytes());
    key
}

/// Returns whether no port finds anything of the session any more.
async fn is_gone(subject: &dyn Subject, start: &SessionStart) -> bool {
    let (store, outbox, id) = (subject.store(), subject.outbox(), start.session_id);
    let by = |delivery_id: Option<&String>, rider: Option<&String>| SessionFilter {
        delivery_id: delivery_id.cloned(),
        external_rider_id: rider.cloned(),
        ..SessionFilter::default()
    };
    let mut listed = 0;
    for filter in [
        by(None, None),
        by(Some(&start.delivery_id), None),
        by(None, Some(&start.external_rider_id)),
    ] {
        let page = store.list(start.tenant, &filter, 100, None).await.unwrap();
        listed += page
            .rows
            .iter()
            .filter(|row| row.start.session_id == id)
            .count();
    }
    let deliveries = outbox
        .deliveries(start.tenant, &DeliveryFilter::default(), 100, None)
        .await
        .unwrap();
    let sent = deliveries
        .rows
        .iter()
        .filter(|row| row.queued.session_id == id)
        .count();
    let to_score = store.to_score(ShardSet::ALL, before(id), 1).await.unwrap();
    store.find(id).await.unwrap().is_none()
        && store.insight(id).await.unwrap().is_none()
        && store.pod(id).await.unwrap().is_none()
        && store.newest_snapshot(id).await.unwrap().is_none()
        && store.notes(id).await.unwrap().is_empty()
        && store.read(id, 0, 10).await.unwrap().is_empty()
        && store.messages(id).await.unwrap().is_empty()
        && to_score.first() != Some(&id)
        && listed + sent == 0
}

/// Returns the id directly before this one.
fn before(id: SessionId) -> Option<SessionId> {
    let number = u128::from_be_bytes(id.to_bytes()).checked_sub(1)?;
    Some(SessionId::from_bytes(number.to_be_bytes()))
}

pub async fn an_erased_session_leaves_nothing_and_others_stay(subject: &dyn Subject) {
    let (store, tenant) = (subject.store(), tenant());
    subject.put_endpoint(tenant, true).await;
    let (gone, stays) = (make(subject, tenant).await, make(subject, tenant).await);
    let live = {
        let start = start(tenant, T0);
        store.start(new_session(&start)).await.unwrap();
        store
            .append(start.session_id, 0, batch(0), T0)
            .await
            .unwrap();
        start
    };
    let kept = store.insight(stays.session_id).await.unwrap();
    let rows = SessionRows {
        batches: 3,
        insights: 1,
        messages: 3,
    };
    assert_eq!(store.session_rows(gone.session_id).await.unwrap(), rows);
    store.erase_session(gone.session_id).await.unwrap();
    let none = SessionRows::default();
    assert_eq!(store.session_rows(gone.session_id).await.unwrap(), none);
    store.erase_session(live.session_id).await.unwrap();
    assert!(is_gone(subject, &gone).await);
    assert!(is_gone(subject, &live).await);
    let listed = store
        .live(ShardSet::ALL, before(live.session_id), 1)
        .await
        .unwrap();
    assert!(
        listed
            .iter()
            .all(|row| row.start.session_id != live.session_id)
    );
    assert!(!is_gone(subject, &stays).await);
    assert_eq!(store.insight(stays.session_id).await.unwrap(), kept);
    assert_eq!(store.read(stays.session_id, 0, 10).await.unwrap().len(), 3);
}

pub async fn an_erasure_may_be_repeated(subject: &dyn Subject) {
    let (store, tenant) = (subject.store(), tenant());
    let start = make(subject, tenant).await;
    let id = start.session_id;
    let (key, data) = (learned_key(id), b"learned".to_vec());
    assert_eq!(store.learned_by(id).await.unwrap(), [key]);
    store.erase_session(id).await.unwrap();
    store.erase_session(id).await.unwrap();
    assert!(store.learned_by(id).await.unwrap().is_empty());
    assert_eq!(store.recall(key).await.unwrap(), Some(data.clone()));
    let other = store.replace_learned(key, b"other".to_vec(), None).await;
    assert!(!other.unwrap());
    assert!(store.replace_learned(key, data, None).await.unwrap());
    assert_eq!(store.recall(key).await.unwrap(), None);
}

pub async fn a_trace_is_removed_with_its_session(subject: &dyn Subject) {
    let (store, tenant) = (subject.store(), tenant());
    let (start, other) = (make(subject, tenant).await, make(subject, tenant).await);
    let id = start.session_id;
    let key = |kind: u8, number: u8| {
        let mut key = learned_key(id);
        key.copy_within(..16, 1);
        (key[0], key[31]) = (kind, number);
        key
    };
    let trace_of = |id: SessionId| format!(r#"{{"session_id":"{id}","fingerprint":[]}}"#);
    let own = trace_of(id).into_bytes();
    let learned = vec![
        (key(PLACE_ROW, 0), own.clone()),
        (key(TRACE_ROW, 1), own.clone()),
        (key(TRACE_ROW, 2), own.clone()),
    ];
    let message = message(MessageEvent::InsightUpdated);
    let next = insight(2, "failed");
    let committed = store.commit_insight(id, next, message, learned).await;
    assert!(committed.unwrap());
    // Another session has written one of the rows since.
    let others = trace_of(other.session_id).into_bytes();
    let replaced = store.replace_learned(key(TRACE_ROW, 2), own.clone(), Some(others.clone()));
    assert!(replaced.await.unwrap());

    store.erase_session(id).await.unwrap();
    assert_eq!(store.recall(key(PLACE_ROW, 0)).await.unwrap(), Some(own));
    assert_eq!(store.recall(key(TRACE_ROW, 1)).await.unwrap(), None);
    let left = store.recall(key(TRACE_ROW, 2)).await.unwrap();
    assert_eq!(left, Some(others));
}

pub async fn telemetry_and_messages_are_removed_separately(subject: &dyn Subject) {
    let (store, tenant) = (subject.store(), tenant());
    subject.put_endpoint(tenant, true).await;
    let (start, other) = (make(subject, tenant).await, make(subject, tenant).await);
    let id = start.session_id;
    let insight = store.insight(id).await.unwrap();
    store.note(id, Note::TelemetryExpired).await.unwrap();
    for _ in 0..2 {
        store.remove_telemetry(id).await.unwrap();
        let left = SessionRows {
            batches: 0,
            insights: 1,
            messages: 3,
        };
        assert_eq!(store.session_rows(id).await.unwrap(), left);
        assert_eq!(store.newest_snapshot(id).await.unwrap(), None);
    }
    store.note(id, Note::MessagesExpired).await.unwrap();
    for _ in 0..2 {
        store.remove_messages(id).await.unwrap();
        let left = SessionRows {
            batches: 0,
            insights: 1,
            messages: 0,
        };
        assert_eq!(store.session_rows(id).await.unwrap(), left);
    }
    let notes = [
        Note::Quarantined { seq: 1 },
        Note::TelemetryExpired,
        Note::MessagesExpired,
    ];
    assert_eq!(store.notes(id).await.unwrap(), notes);
    assert_eq!(store.insight(id).await.unwrap(), insight);
    assert!(store.pod(id).await.unwrap().is_some());
    let listed = store.list(tenant, &SessionFilter::default(), 9, None).await;
    assert_eq!(listed.unwrap().rows.len(), 2);
    let rows = SessionRows {
        batches: 3,
        insights: 1,
        messages: 3,
    };
    assert_eq!(store.session_rows(other.session_id).await.unwrap(), rows);
    store.erase_session(id).await.unwrap();
    assert!(is_gone(subject, &start).await);
}

pub async fn nothing_is_stored_for_an_erased_session(subject: &dyn Subject) {
    let (store, tenant) = (subject.store(), tenant());
    let start = make(subject, tenant).await;
    let id = start.session_id;
    store.erase_session(id).await.unwrap();
    let late = store.append(id, 3, batch(3), T0).await.unwrap();
    assert_eq!(late, Appended::Erased);
    assert!(store.read(id, 0, 10).await.unwrap().is_empty());
}

/// Removes the tenant's keys of removed sessions that were stored up to `until`, and returns their
/// number.
async fn erase_keys(subject: &dyn Subject, tenant: Tenant, until: TimestampMs) -> u64 {
    let store = subject.store();
    // Some stores examine the keys of all tenants.
    let (mut removed, mut after) = (0, None);
    loop {
        let step = store.erase_idempotency_keys(tenant, until, after, 2);
        let step = step.await.unwrap();
        removed += step.rows;
        match step.next {
            Some(next) => after = Some(next),
            None => return removed,
        }
    }
}

pub async fn idempotency_keys_of_erased_sessions_are_removed_or_expire(subject: &dyn Subject) {
    let (store, tenant) = (subject.store(), tenant());
    let start = start(tenant, T0);
    let idempotency = Idempotency {
        key: "once".into(),
        body_hash: [1; 32],
    };
    let mut new = new_session(&start);
    new.idempotency = Some(idempotency.clone());
    store.start(new).await.unwrap();
    store.erase_session(start.session_id).await.unwrap();
    let earlier = erase_keys(subject, tenant, T0.plus_ms(-1)).await;
    assert_eq!(earlier, 0, "the key of a start under way stays");
    assert_eq!(erase_keys(subject, tenant, T0).await, 1);
    let repeated = store
        .find_earlier_start(tenant, idempotency, T0)
        .await
        .unwrap();
    assert_eq!(repeated, None, "the key leads nowhere");
}

pub async fn recorders_are_listed(subject: &dyn Subject) {
    let store = subject.store();
    let ids: Vec<_> = (0..3)
        .map(|_| RecorderId::new(T0, u128::from(fresh())))
        .collect();
    for id in &ids {
        let expires_at = SystemClock.now().plus_ms(60_000);
        let created = store.create_recorder(*id, b"data".to_vec(), expires_at);
        created.await.unwrap();
    }
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let (page, next) = store.recorders(after, 2).await.unwrap();
        assert!(page.len() <= 2, "the store reads a page at a time");
        found.extend(page.into_iter().map(|(id, _)| id));
        match next {
            Some(next) => after = Some(next),
            None => break,
        }
    }
    for id in &ids {
        let times = found.iter().filter(|found| *found == id).count();
        assert_eq!(times, 1);
    }
}
