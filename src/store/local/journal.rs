//! The port [`Journal`] over the tables of one machine.

use async_trait::async_trait;
use porchlight_ports::{Acknowledged, Appended, Journal, JournalEntry, Note, StoreResult};
use porchlight_schema::ids::SessionId;
use porchlight_schema::sample::packed::PackedBatch;
use porchlight_schema::time::TimestampMs;

use super::LocalStore;
use crate::engine::{Durability, Engine};
use crate::tables::{journal, notes};

#[async_trait]
impl<E: Engine> Journal for LocalStore<E> {
    async fn append(
        &self,
        session_id: SessionId,
        seq: u32,
        batch: PackedBatch,
        received_at: TimestampMs,
    ) -> StoreResult<Appended> {
        self.committer
            .run_for_client(batch.as_bytes().len(), Durability::Synced, move |txn| {
                journal::append(txn, session_id, seq, &batch, received_at)
            })
            .await
    }

    async fn newest(&self, session_id: SessionId) -> StoreResult<Option<(u32, TimestampMs)>> {
        self.read_rows(move |read| journal::newest(read, session_id))
            .await
    }

    async fn read(
        &self,
        session_id: SessionId,
        from_seq: u32,
        limit: usize,
    ) -> StoreResult<Vec<JournalEntry>> {
        self.read_rows(move |read| journal::read(read, session_id, from_seq, limit))
            .await
    }

    async fn acknowledged(
        &self,
        session_id: SessionId,
        ranges_max: usize,
    ) -> StoreResult<Acknowledged> {
        self.read_rows(move |read| journal::acknowledged(read, session_id, ranges_max))
            .await
    }

    async fn count(&self, session_id: SessionId) -> StoreResult<u32> {
        self.read_inline(|read| journal::count(read, session_id))
    }

    async fn note(&self, session_id: SessionId, note: Note) -> StoreResult<()> {
        self.committer
            .write(move |txn| notes::put(txn, session_id, note))
            .await
    }

    async fn notes(&self, session_id: SessionId) -> StoreResult<Vec<Note>> {
        self.read_inline(|read| notes::all(read, session_id))
    }
}
