//! Tests that a session with a damaged batch, or a damaged count of missing ones, continues.

use porchlight_ports::{Acknowledged, Appended, SeqRange};

use super::*;
use crate::engine::memory::MemoryEngine;
use crate::tables::journal;

/// The two rows of a journal that a restart reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Damaged {
    NewestBatch,
    Missing,
}

async fn append(store: &MemoryStore, session_id: SessionId, seq: u32) -> Appended {
    let batch = BatchBuilder::default().pack();
    store.append(session_id, seq, batch, T0).await.unwrap()
}

/// Returns a store with a session of which the batches 0 and 2 are acknowledged.
async fn store_with_gap() -> (Arc<MemoryStore>, SessionId) {
    let store = MemoryStore::new(Arc::new(|_, _| {})).unwrap();
    let session_id = start(&store, 1).await;
    for seq in [0, 2] {
        assert_eq!(append(&store, session_id, seq).await, Appended::New);
    }
    (store, session_id)
}

/// Opens a store again, without anything that the writer has cached.
async fn reopened(store: Arc<MemoryStore>) -> Arc<MemoryStore> {
    store.close().await;
    let engine = MemoryEngine::clone(&store.engine);
    MemoryStore::on(engine, Arc::new(|_, _| {}), Arc::new(|_| {})).unwrap()
}

/// Returns the acknowledged numbers that an app reads of a session whose batch 1 is missing.
fn without_batch_1(next_seq: u32) -> Acknowledged {
    Acknowledged {
        next_seq,
        missing: vec![SeqRange { first: 1, last: 1 }],
    }
}

#[tokio::test]
async fn a_session_receives_batches_after_damage_and_a_restart() {
    for damaged in [Damaged::NewestBatch, Damaged::Missing] {
        let (store, session_id) = store_with_gap().await;
        let (space, key) = match damaged {
            Damaged::NewestBatch => (Space::Journal, journal::key(session_id, 2)),
            Damaged::Missing => (Space::State, journal::missing_key(session_id)),
        };
        assert!(store.engine.tamper(space, &key, |value| value[0] ^= 1));
        let store = reopened(store).await;
        let read = async || store.acknowledged(session_id, 9).await.unwrap();
        assert_eq!(read().await, without_batch_1(3), "{damaged:?}");
        assert_eq!(store.count(session_id).await.unwrap(), 2, "{damaged:?}");
        assert_eq!(append(&store, session_id, 3).await, Appended::New);
        assert_eq!(read().await, without_batch_1(4), "{damaged:?}");
        assert_eq!(append(&store, session_id, 1).await, Appended::New);
        assert_eq!(store.count(session_id).await.unwrap(), 4, "{damaged:?}");
        assert_eq!(read().await.missing, [], "{damaged:?}");
    }
}

#[tokio::test]
async fn a_quarantine_of_the_count_of_missing_batches_acknowledges_none_of_them() {
    for way in [Way::Payload, Way::Checksum] {
        let (store, session_id) = store_with_gap().await;
        let key = journal::missing_key(session_id);
        assert_eq!(damage_in(way, &store, key).await, 1);
        let mut report = store.check();
        store.quarantine(&mut report).await.unwrap();
        assert_eq!(report.quarantined, 1);
        assert!(store.check().is_good());
        let store = reopened(store).await;
        let read = store.acknowledged(session_id, 9).await.unwrap();
        assert_eq!(read, without_batch_1(3), "{way:?}");
        assert_eq!(store.count(session_id).await.unwrap(), 2, "{way:?}");
    }
}
