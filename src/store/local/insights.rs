//! The ports [`Snapshots`] and [`Insights`] over the tables of one machine.

use std::collections::BTreeMap;

use async_trait::async_trait;
use porchlight_ports::{Insights, MessageBody, Snapshot, Snapshots, StoreResult, StoredInsight};
use porchlight_schema::ids::SessionId;
use porchlight_schema::review::Review;

use super::LocalStore;
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
