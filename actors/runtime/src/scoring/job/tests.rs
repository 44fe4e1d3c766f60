//! Tests of the scoring of one session.

use std::sync::Arc;

use porchlight_ports::{Erasure, Insights, Journal, Sessions};
use porchlight_schema::ids::ShardSet;
use porchlight_schema::sample::packed::BatchBuilder;
use porchlight_store::MemoryStore;

use super::*;
use crate::scoring::tests::{FixedClock, T0, end, start, started};

#[tokio::test]
async fn a_session_that_is_being_erased_is_scored_only_after_its_erasure_was_abandoned() {
    let store = MemoryStore::new(Arc::new(|_, _| {})).unwrap();
    let id = started(&store).await;
    end(&store, id).await;
    let row_locks = RowLocks::default();
    let scored = async |is_erased: &IsErased| {
        let surroundings = Surroundings {
            store: &*store,
            clock: &FixedClock,
            row_locks: &row_locks,
            read_live: None,
            is_erased: Some(is_erased),
        };
        score(surroundings, id).await
    };
    let result = scored(&|_| true).await;
    assert!(matches!(result, Err(ScoreError::Erased)), "{result:?}");
    assert_eq!(store.insight(id).await.unwrap(), None);
    assert!(store.learned_by(id).await.unwrap().is_empty());
    assert_eq!(scored(&|_| false).await.unwrap(), Some(start().tenant));
    assert!(store.insight(id).await.unwrap().is_some());
}

#[tokio::test]
async fn a_session_whose_insight_failed_is_scored_again_only_after_new_telemetry() {
    let store = MemoryStore::new(Arc::new(|_, _| {})).unwrap();
    let id = started(&store).await;
    let append = async |seq| {
        let batch = BatchBuilder::default().pack();
        store.append(id, seq, batch, T0).await.unwrap();
    };
    append(0).await;
    end(&store, id).await;
    let marked = async || store.to_score(ShardSet::ALL, None, 9).await.unwrap();
    assert_eq!(marked().await, [id]);
    let failed = async || commit_failed(&*store, &FixedClock, id).await.unwrap();
    assert!(failed().await.is_some());
    assert!(marked().await.is_empty(), "no scan finds the session again");
    assert!(failed().await.is_none(), "the session has no new data");
    append(1).await;
    assert_eq!(marked().await, [id]);
    assert!(failed().await.is_some());
    assert!(marked().await.is_empty());
    let stored = store.insight(id).await.unwrap().unwrap();
    assert_eq!((stored.record.revision, stored.covered.batches), (2, 2));
    // The clock has not advanced, like a clock that was set back.
    assert_eq!(stored.record.updated_at, T0.plus_ms(1));
}

#[test]
fn a_score_waits_for_a_release_that_can_read_the_session() {
    let failure = |error: StoreError| ScoreError::from(error).failure();
    assert_eq!(
        failure(StoreError::Newer("a batch".to_owned())),
        Failure::Passing
    );
    assert_eq!(
        failure(StoreError::Damaged("a batch".to_owned())),
        Failure::Damage
    );
}
