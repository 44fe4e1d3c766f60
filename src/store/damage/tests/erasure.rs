//! Tests that damaged rows do not stop the erasures of a tenant.

use porchlight_ports::{Erasure, Idempotency, Recorders};
use porchlight_schema::ids::RecorderId;

use super::*;

#[tokio::test]
async fn a_damaged_recorder_hides_no_other() {
    for way in [Way::Payload, Way::Checksum, Way::Later] {
        let store = MemoryStore::new(Arc::new(|_, _| {})).unwrap();
        let id = |number| RecorderId::new(T0, number);
        for number in 0..5 {
            let created = store.create_recorder(id(number), vec![1], T0);
            created.await.unwrap();
        }
        let key = [b"R", id(2).to_bytes().as_slice()].concat();
        assert_eq!(damage_in(way, &store, key).await, 1);
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let (page, next) = store.recorders(after, 1).await.unwrap();
            found.extend(page.into_iter().map(|(id, _)| id));
            match next {
                Some(next) => after = Some(next),
                None => break,
            }
        }
        assert_eq!(found, [0, 1, 3, 4].map(id), "{way:?}");
        let long_after = T0.plus_ms(400 * 86_400_000);
        assert_eq!(store.sweep_recorders(long_after).await.unwrap(), 5);
    }
}

/// Starts a session under an idempotency key of the first tenant, and removes the session.
async fn start_and_erase(store: &MemoryStore, key: &str, number: u128) {
    let session_id = SessionId::new(T0, number);
    let idempotency = Idempotency {
        key: key.to_owned(),
        body_hash: [0; 32],
    };
    store
        .start(new_session(tenant(1), session_id, Some(idempotency)))
        .await
        .unwrap();
    store.erase_session(session_id).await.unwrap();
}

#[tokio::test]
async fn a_damaged_idempotency_key_keeps_no_other() {
    for way in [Way::Payload, Way::Checksum, Way::Later] {
        let store = MemoryStore::new(Arc::new(|_, _| {})).unwrap();
        for (number, key) in ["a", "b", "c"].into_iter().enumerate() {
            start_and_erase(&store, key, number as u128).await;
        }
        let rows = store.read_inline(|read| read.rows(&Scan::keys(KeyRange::prefix(*b"i"), 9)));
        let second = rows.unwrap()[1].key.clone();
        assert_eq!(damage_in(way, &store, second).await, 1);
        let (mut removed, mut after) = (0, None);
        loop {
            let step = store.erase_idempotency_keys(tenant(1), T0, after, 1);
            let step = step.await.unwrap();
            removed += step.rows;
            match step.next {
                Some(next) => after = Some(next),
                None => break,
            }
        }
        assert_eq!(removed, 2, "{way:?}");
        let long_after = T0.plus_ms(400 * 86_400_000);
        store.sweep_idempotency_keys(long_after).await.unwrap();
    }
}

#[tokio::test]
async fn damaged_rows_stop_no_sweep_of_idempotency_keys_or_outboxes() {
    let store = MemoryStore::new(Arc::new(|_, _| {})).unwrap();
    start_and_erase(&store, "a", 1).await;
    start_and_erase(&store, "b", 2).await;
    assert_eq!(break_rows(&store, vec![b'I']), 2);
    let long_after = T0.plus_ms(400 * 86_400_000);
    let swept = store.sweep_idempotency_keys(long_after).await.unwrap();
    assert_eq!(swept, 2);
    create_endpoint(&store, 1).await;
    assert!(store.delete_endpoint(tenant(1)).await.unwrap());
    assert_eq!(break_rows(&store, vec![b'x']), 1);
    assert_eq!(store.sweep_outboxes().await.unwrap(), 1);
}

#[tokio::test]
async fn rows_of_a_session_are_counted_although_they_are_damaged() {
    for way in [Way::Payload, Way::Checksum, Way::Later] {
        let store = MemoryStore::new(Arc::new(|_, _| {})).unwrap();
        let session_id = start(&store, 1).await;
        end(&store, session_id).await;
        assert!(commit(&store, session_id, failed_insight(1, 0)).await);
        assert_eq!(
            damage_in(way, &store, of_session(b'v', session_id)).await,
            1
        );
        let rows = store.session_rows(session_id).await.unwrap();
        assert_eq!(rows.insights, 1);
    }
}
