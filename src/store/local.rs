//! The store on one machine: the tables over an engine, with one writer. It implements the actors'
//! ports.

mod documents;
mod erasure;
mod insights;
mod journal;
mod key_check;
mod keys;
mod last_backup;
mod outbox;
mod recorders;
mod sessions;

use std::sync::Arc;

use porchlight_ports::{StoreError, StoreResult};
use porchlight_schema::limits::SWEEP_STEP_ROWS_MAX;
use porchlight_schema::time::TimestampMs;

use super::committer::Committer;
use super::engine::Engine;
use super::tables::{idempotency, retention};
use super::txn::{Read, Reader};

/// A store on one machine, on the engine `E`.
pub struct LocalStore<E: Engine> {
    pub(crate) engine: Arc<E>,
    pub(crate) committer: Committer,
    /// Dropped after the writer has ended.
    pub(crate) _syncing: Option<super::engine::fjall::acknowledged::Syncing>,
    /// The store's folder, if it is on disk.
    pub(crate) folder: Option<std::path::PathBuf>,
}

impl<E: Engine> LocalStore<E> {
    /// Returns the writer, which the operations of other tables use too.
    #[must_use]
    pub fn committer(&self) -> &Committer {
        &self.committer
    }

    /// Reads single rows on the caller's thread, usually from memory. Blocks while the disk is
    /// read.
    pub fn read_inline<T>(&self, read: impl FnOnce(&dyn Read) -> StoreResult<T>) -> StoreResult<T> {
        self.committer.check_open()?;
        read(&Reader(self.engine.as_ref()))
    }

    /// Reads many or old rows on a blocking thread.
    pub async fn read_rows<T, F>(&self, read: F) -> StoreResult<T>
    where
        T: Send + 'static,
        F: FnOnce(&dyn Read) -> StoreResult<T> + Send + 'static,
    {
        self.committer.check_open()?;
        let engine = Arc::clone(&self.engine);
        tokio::task::spawn_blocking(move || read(&Reader(engine.as_ref())))
            .await
            .map_err(StoreError::unavailable)?
    }

    /// Returns the newest stored time, or `None` if the store has no session.
    ///
    /// # Errors
    ///
    /// Returns an error if the store cannot be read.
    pub async fn newest_time(&self) -> StoreResult<Option<TimestampMs>> {
        self.read_rows(retention::newest_time).await
    }

    /// Returns the number of completed sessions, counting at most `max`.
    ///
    /// # Errors
    ///
    /// Returns an error if the store cannot be read.
    pub async fn completed_sessions(&self, max: u64) -> StoreResult<u64> {
        self.read_rows(move |read| retention::completed(read, max))
            .await
    }

    /// Removes the sessions that were completed before `before`, at most `sessions_max` of them,
    /// with all their data, in small steps between which other writes run. Returns the number of
    /// removed sessions.
    ///
    /// # Errors
    ///
    /// Returns an error if the store fails; removed sessions stay removed.
    pub async fn sweep(&self, before: TimestampMs, sessions_max: u64) -> StoreResult<u64> {
        let (mut removed, mut after) = (0, None);
        while removed < sessions_max {
            let from: Option<Vec<u8>> = after.clone();
            let step = self
                .committer
                .write(move |txn| {
                    retention::step(txn, before, from.as_deref(), SWEEP_STEP_ROWS_MAX)
                })
                .await?;
            match step {
                retention::Step::Kept(row) => after = Some(row),
                retention::Step::Done => return Ok(removed),
                retention::Step::Begun => {}
                retention::Step::Removed => removed += 1,
            }
        }
        Ok(removed)
    }

    /// Removes the idempotency keys that have expired at `now`. Returns their number.
    pub async fn sweep_idempotency_keys(&self, now: TimestampMs) -> StoreResult<u64> {
        let mut removed = 0;
        loop {
            let swept = self
                .committer
                .write(move |txn| idempotency::sweep(txn, now, SWEEP_STEP_ROWS_MAX))
                .await?;
            removed += swept as u64;
            if swept < SWEEP_STEP_ROWS_MAX {
                return Ok(removed);
            }
        }
    }

    /// Removes the recorders that can no longer receive data at `now`. Returns their number.
    pub async fn sweep_recorders(&self, now: TimestampMs) -> StoreResult<u64> {
        let mut removed = 0;
        loop {
            let swept = self
                .committer
                .write(move |txn| crate::tables::recorders::sweep(txn, now, SWEEP_STEP_ROWS_MAX))
                .await?;
            removed += swept as u64;
            if swept < SWEEP_STEP_ROWS_MAX {
                return Ok(removed);
            }
        }
    }

    /// Stops accepting operations, writes the queued ones, syncs, and ends the writer. Later calls
    /// are refused.
    pub async fn close(self: &Arc<Self>) {
        let store = Arc::clone(self);
        // The task fails only if the writer panicked, which was already reported.
        drop(tokio::task::spawn_blocking(move || store.committer.close()).await);
    }
}
