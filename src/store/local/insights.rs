//! The ports [`Snapshots`] and [`Insights`] over the tables of one machine.

use std::collections::BTreeMap;

use async_trait::async_trait;
use porchlight_ports::{
    Insights, MessageBody, SessionOutcome, Snapshot, Snapshots, StoreResult, StoredInsight,
};
use porchlight_schema::ids::SessionId;
use porchlight_schema::review::Review;

use super::LocalStore;
use crate::damage::{INSIGHT, readable};
use crate::engine::{Durability, Engine};
use crate::tables::{insights, reviews, snapshots};

/// Approximate size of an insight in a group, in bytes.
const INSIGHT_BYTES: usize = 16 * 1024;

#[async_trait]
impl<E: Engine> Snapshots for LocalStore<E> {
    async fn put_snapshot(&self, session_id: SessionId, snapshot: Snapshot) -> StoreResult<()> {
        self.committer
            .run(snapshot.state.len(), Durability::Buffered, move |txn| {
                snapshots::put(txn, session_id, &snapshot)
            })
            .await
    }

    async fn newest_snapshot(&self, session_id: SessionId) -> StoreResult<Option<Snapshot>> {
        self.read_inline(|read| snapshots::newest(read, session_id))
    }
}

#[async_trait]
impl<E: Engine> Insights for LocalStore<E> {
    async fn commit_insight(
        &self,
        session_id: SessionId,
        insight: StoredInsight,
        message: MessageBody,
        learned: Vec<([u8; 32], Vec<u8>)>,
    ) -> StoreResult<bool> {
        self.committer
            .run(INSIGHT_BYTES, Durability::Synced, move |txn| {
                insights::commit(txn, session_id, &insight, message, learned)
            })
            .await
    }

    async fn insight(&self, session_id: SessionId) -> StoreResult<Option<StoredInsight>> {
        self.read_inline(|read| insights::newest(read, session_id))
    }

    async fn outcomes(
        &self,
        session_ids: Vec<SessionId>,
    ) -> StoreResult<Vec<Option<SessionOutcome>>> {
        self.read_rows(move |read| {
            let outcome = |session_id| {
                let stored = insights::newest(read, session_id);
                let stored = readable(stored, session_id, INSIGHT)?;
                Ok(stored.map(SessionOutcome::from))
            };
            session_ids.into_iter().map(outcome).collect()
        })
        .await
    }

    async fn put_review(&self, session_id: SessionId, review: Review) -> StoreResult<bool> {
        self.committer
            .write_for_client(move |txn| reviews::put(txn, session_id, &review))
            .await
    }

    async fn review(&self, session_id: SessionId) -> StoreResult<Option<Review>> {
        self.read_inline(|read| reviews::of_session(read, session_id))
    }

    async fn recall(&self, key: [u8; 32]) -> StoreResult<Option<Vec<u8>>> {
        self.read_inline(|read| insights::recall(read, &key))
    }

    async fn recall_all(&self, keys: Vec<[u8; 32]>) -> StoreResult<BTreeMap<[u8; 32], Vec<u8>>> {
        self.read_inline(|read| {
            let mut rows = BTreeMap::new();
            for key in keys {
                if let Some(row) = insights::recall(read, &key)? {
                    rows.insert(key, row);
                }
            }
            Ok(rows)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, mpsc};
    use std::time::Duration;

    use porchlight_schema::time::TimestampMs;

    use super::*;
    use crate::MemoryStore;

    #[test]
    fn the_insights_of_many_sessions_are_decoded_on_a_blocking_thread() {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().max_blocking_threads(1).build();
        runtime.unwrap().block_on(async {
            let store = MemoryStore::new(Arc::new(|_, _| {})).unwrap();
            // The only blocking thread is occupied, so the read must wait for it.
            let (release, held) = mpsc::sync_channel::<()>(1);
            let occupied = tokio::task::spawn_blocking(move || held.recv().is_err());
            let mut read = store.outcomes(vec![SessionId::new(TimestampMs(1), 1)]);
            let early = tokio::time::timeout(Duration::from_millis(20), &mut read).await;
            assert!(early.is_err(), "{early:?}");
            drop(release);
            assert!(occupied.await.unwrap());
            assert_eq!(read.await.unwrap(), [None]);
        });
    }
}
