//! The engine on disk: fjall, pinned to one version, with guards around its open faults.
//!
//! - Two keyspaces only. Each group of the writer goes to both (its markers, see `continuity.rs`), and there is one
//!   each minute at least, so that none pins the journals (fjall-rs/fjall#288).
//! - No `clear()`, no FIFO compaction, no key-value separation: each has lost data or poisoned a store for others.
//! - Memory is bounded: one block cache, small memtables, few worker threads.
//! - Durable means `fdatasync` of fjall's journal, once for each group.
//! - What it acknowledged is noted in a file beside it ([`acknowledged`]); [`super::super::continuity`] compares.

pub(crate) mod acknowledged;

use std::ops::{Bound, ControlFlow};
use std::path::Path;
use std::sync::Arc;

use fjall::{Database, Keyspace, KeyspaceCreateOptions, LsmError, PersistMode, Readable};

use super::{Durability, Engine, EngineError, KeyRange, Order, Space, Visit, Write};
use acknowledged::Acknowledged;

/// Blocks kept in memory.
const CACHE_BYTES: u64 = 32 * 1024 * 1024;
/// A memtable is moved out to a table at this size; up to four of each space wait before writes halt.
const MEMTABLE_BYTES: u64 = 16 * 1024 * 1024;
/// What of the journal is not in tables yet is read at start-up: this bounds its time.
const JOURNALS_BYTES_MAX: u64 = 128 * 1024 * 1024;
/// Two, so that a memtable is moved out while tables are merged.
const WORKER_THREADS: usize = 2;
/// Open files of tables.
const FILES_MAX: usize = 256;

impl From<fjall::Error> for EngineError {
    fn from(error: fjall::Error) -> Self {
        match error {
            fjall::Error::Storage(
                LsmError::ChecksumMismatch { .. }
                | LsmError::InvalidHeader(_)
                | LsmError::InvalidTag(_)
                | LsmError::InvalidTrailer
                | LsmError::Decompress(_),
            )
            | fjall::Error::JournalRecovery(_)
            | fjall::Error::InvalidTag(_)
            | fjall::Error::InvalidTrailer
            | fjall::Error::Decompress(_) => Self::Corrupt(error.to_string()),
            error => Self::Failed(Box::new(error)),
        }
    }
}

/// fjall, on a folder.
pub struct FjallEngine {
    database: Database,
    journal: Keyspace,
    state: Keyspace,
    acknowledged: Arc<Acknowledged>,
}

fn options() -> KeyspaceCreateOptions {
    KeyspaceCreateOptions::default().max_memtable_size(MEMTABLE_BYTES)
}

impl FjallEngine {
    /// Opens the engine in `folder`, made when there is none.
    pub(crate) fn open(
        folder: &Path,
        acknowledged: Arc<Acknowledged>,
    ) -> Result<Self, fjall::Error> {
        let database = Database::builder(folder)
            .cache_size(CACHE_BYTES)
            .max_journaling_size(JOURNALS_BYTES_MAX)
            .worker_threads(WORKER_THREADS)
            .max_cached_files(Some(FILES_MAX))
            .manual_journal_persist(true)
            .open()?;
        Ok(Self {
            journal: database.keyspace(Space::Journal.as_str(), options)?,
            state: database.keyspace(Space::State.as_str(), options)?,
            database,
            acknowledged,
        })
    }

    fn keyspace(&self, space: Space) -> &Keyspace {
        match space {
            Space::Journal => &self.journal,
            Space::State => &self.state,
        }
    }

    /// Moves what is in memory out to tables and waits for it.
    pub(crate) fn flush(&self) -> Result<(), EngineError> {
        for keyspace in [&self.journal, &self.state] {
            keyspace.rotate_memtable_and_wait()?;
        }
        Ok(())
    }

    /// Visits all rows of both spaces as they stand at one moment, while the engine goes on. Blocks.
    pub(crate) fn visit_all<E: From<EngineError>>(
        &self,
        mut visit: impl FnMut(Space, &[u8], &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let snapshot = self.database.snapshot();
        for space in Space::ALL {
            for row in snapshot.iter(self.keyspace(space)) {
                let (key, value) = row.into_inner().map_err(EngineError::from)?;
                visit(space, &key, &value)?;
            }
        }
        Ok(())
    }
}

impl Engine for FjallEngine {
    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Vec<u8>>, EngineError> {
        Ok(self.keyspace(space).get(key)?.map(|value| value.to_vec()))
    }

    fn scan(
        &self,
        space: Space,
        range: &KeyRange,
        order: Order,
        visit: &mut Visit<'_>,
    ) -> Result<(), EngineError> {
        if range.is_empty() {
            return Ok(());
        }
        let upper = if range.to.is_empty() {
            Bound::Unbounded
        } else {
            Bound::Excluded(range.to.as_slice())
        };
        let mut rows = self
            .keyspace(space)
            .range::<&[u8], _>((Bound::Included(range.from.as_slice()), upper));
        while let Some(row) = match order {
            Order::Ascending => rows.next(),
            Order::Descending => rows.next_back(),
        } {
            let (key, value) = row.into_inner()?;
            if let ControlFlow::Break(()) = visit(&key, &value) {
                break;
            }
        }
        Ok(())
    }

    fn apply(&self, writes: Vec<Write>, durability: Durability) -> Result<(), EngineError> {
        let mode = match durability {
            Durability::Buffered => PersistMode::Buffer,
            Durability::Synced => PersistMode::SyncData,
        };
        let mut batch = self.database.batch().durability(Some(mode));
        for write in writes {
            let keyspace = self.keyspace(write.space);
            match write.value {
                Some(value) => batch.insert(keyspace, write.key, value),
                None => batch.remove(keyspace, write.key),
            }
        }
        Ok(batch.commit()?)
    }

    fn acknowledge(&self, log: u64) -> Result<(), EngineError> {
        self.acknowledged
            .note(log)
            .map_err(|error| EngineError::Failed(Box::new(error)))
    }

    fn rotate(&self) -> Result<(), EngineError> {
        for keyspace in [&self.journal, &self.state] {
            keyspace.rotate_memtable()?;
        }
        Ok(())
    }

    fn close(&self) -> Result<(), EngineError> {
        self.database.persist(PersistMode::SyncAll)?;
        self.acknowledged
            .sync()
            .map_err(|error| EngineError::Failed(Box::new(error)))
    }
}
