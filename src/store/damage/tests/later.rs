//! Tests that a row of a later release is neither replaced nor removed: that release can read it.

use super::*;

/// Writes batch 0 of a session as a later release packs it: the format of the batch, which is the
/// first byte after the head of the row, is unknown.
async fn write_later_batch(store: &MemoryStore, session_id: SessionId) -> Vec<u8> {
    let key = crate::tables::journal::key(session_id, 0);
    let before = store.read_inline(|read| read.get(Space::Journal, &key));
    let before = before.unwrap().unwrap();
    let mut later = before.clone();
    later[9] = 9;
    put_batch(store, session_id, later).await;
    before
}

async fn put_batch(store: &MemoryStore, session_id: SessionId, payload: Vec<u8>) {
    let key = crate::tables::journal::key(session_id, 0);
    let written = store.committer().write(|txn| {
        txn.put(Space::Journal, key, payload);
        Ok(())
    });
    written.await.unwrap();
}

#[tokio::test]
async fn a_batch_of_a_later_release_stays_until_it_can_be_read() {
    let store = MemoryStore::new(Arc::new(|_, _| {})).unwrap();
    let session_id = start(&store, 1).await;
    let batch = BatchBuilder::default().pack();
    store.append(session_id, 0, batch, T0).await.unwrap();
    end(&store, session_id).await;
    let before = write_later_batch(&store, session_id).await;
    let read = async || store.read(session_id, 0, 9).await;
    assert!(matches!(read().await, Err(StoreError::Newer(_))));
    let mut report = store.check();
    let batches = &report.kinds["batch"];
    assert_eq!((batches.rows, batches.damaged, batches.newer), (1, 0, 1));
    assert!(report.is_good() && report.damaged.is_empty());
    store.quarantine(&mut report).await.unwrap();
    assert_eq!(report.quarantined, 0);
    assert!(matches!(read().await, Err(StoreError::Newer(_))));
    let marked = store.to_score(ShardSet::ALL, None, 9).await.unwrap();
    assert_eq!(marked, [session_id], "a later start scores the session");
    put_batch(&store, session_id, before).await;
    assert_eq!(read().await.unwrap().len(), 1);
}

#[tokio::test]
async fn an_insight_of_a_later_release_is_not_replaced() {
    let store = MemoryStore::new(Arc::new(|_, _| {})).unwrap();
    let session_id = start(&store, 1).await;
    end(&store, session_id).await;
    assert!(commit(&store, session_id, failed_insight(1, 0)).await);
    let key = of_session(b'v', session_id);
    assert_eq!(write_later(&store, key).await, 1);
    for revision in [1, 2] {
        let message = message(MessageEvent::InsightUpdated);
        let insight = failed_insight(revision, 0);
        let committed = store.commit_insight(session_id, insight, message, Vec::new());
        assert!(matches!(committed.await, Err(StoreError::Newer(_))));
    }
    let read = store.insight(session_id).await;
    assert!(matches!(read, Err(StoreError::Newer(_))), "{read:?}");
}

#[tokio::test]
async fn a_session_of_a_later_release_is_not_missing_in_lists() {
    let store = MemoryStore::new(Arc::new(|_, _| {})).unwrap();
    let session_id = start(&store, 1).await;
    assert_eq!(write_later(&store, of_session(b's', session_id)).await, 1);
    let filter = SessionFilter::default();
    let listed = store.list(tenant(1), &filter, 9, None).await;
    assert!(matches!(listed, Err(StoreError::Newer(_))));
    assert!(matches!(
        store.find(session_id).await,
        Err(StoreError::Newer(_))
    ));
    assert!(
        store.live(ShardSet::ALL, None, 9).await.unwrap().is_empty(),
        "other sessions continue"
    );
}
