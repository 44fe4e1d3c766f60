//! The journal: the acknowledged batches of each session, a set that only grows.

use async_trait::async_trait;
use porchlight_schema::ids::SessionId;
use porchlight_schema::sample::packed::PackedBatch;
use porchlight_schema::time::TimestampMs;
use serde::{Deserialize, Serialize};

use super::StoreResult;

/// How an append went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Appended {
    /// It is new, and durable.
    New,
    /// The same body was there already; nothing changed.
    Repeated,
    /// Another body is there under this `seq`; it stays.
    Conflict,
}

/// One batch of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalEntry {
    /// Its number within the session.
    pub seq: u32,
    /// When the service took it: by it an idle session's end is told.
    pub received_at: TimestampMs,
    /// The batch.
    pub batch: PackedBatch,
}

/// What was decided about a session's batches while it lived; written before it is acted on, so that a replay
/// decides the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Note {
    /// The hole from `first` to `last` was given up: what comes for it later is late.
    Skipped {
        /// The first `seq` that was missing.
        first: u32,
        /// The last one.
        last: u32,
    },
    /// The batch made a detector panic: it is left out, for good.
    Quarantined {
        /// The batch.
        seq: u32,
    },
}

/// The journal.
#[async_trait]
pub trait Journal: Send + Sync {
    /// Adds a batch. When it answers [`Appended::New`] the batch is durable. `received_at` is no part of what makes a
    /// batch the same.
    async fn append(
        &self,
        session_id: SessionId,
        seq: u32,
        batch: PackedBatch,
        received_at: TimestampMs,
    ) -> StoreResult<Appended>;

    /// The highest `seq` of a session and when that batch was taken; none while it has no batch.
    async fn newest(&self, session_id: SessionId) -> StoreResult<Option<(u32, TimestampMs)>>;

    /// Reads batches in order of `seq`, from `from_seq` on, at most `limit` of them and about 1 MiB; fewer only at the
    /// end or at the size limit (then at least one).
    async fn read(
        &self,
        session_id: SessionId,
        from_seq: u32,
        limit: usize,
    ) -> StoreResult<Vec<JournalEntry>>;

    /// How many batches a session has.
    async fn count(&self, session_id: SessionId) -> StoreResult<u32>;

    /// Adds a note; the same note again changes nothing.
    async fn note(&self, session_id: SessionId, note: Note) -> StoreResult<()>;

    /// A session's notes, in their order.
    async fn notes(&self, session_id: SessionId) -> StoreResult<Vec<Note>>;
}
