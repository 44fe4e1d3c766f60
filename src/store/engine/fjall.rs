//! The engine on disk: fjall, pinned to one version, with guards against its known faults.
//!
//! - The database has two keyspaces only. Each group of the writer goes to both (its markers, see
//!   `continuity.rs`), and there is at least one group per minute, so that no keyspace pins the
//!   journals (fjall-rs/fjall#288).
//! - No `clear()`, no FIFO compaction, no key-value separation: each has lost data or poisoned a
//!   store for others.
//! - This module flushes memtables, not fjall. fjall requests a flush with every write and fills
//!   its workers' queue with requests; once all workers wait for room in their own queue, no
//!   memtable is flushed (observed with one worker: memory grew by everything written; probably
//!   fjall-rs/fjall#257).
//! - Memory is bounded: one block cache, and small memtables, of which fjall lets four wait before
//!   it halts writes.
//! - Durable means `fdatasync` of fjall's journal, once per group.
//! - On a full disk the engine opens without workers, because a table that cannot be written stops
//!   fjall for good; [`Engine::resume`] opens it again once there is space.
//! - A file next to the engine records the last acknowledged group ([`acknowledged`]);
//!   [`super::super::continuity`] compares.

pub(crate) mod acknowledged;
mod pace;
mod purge;

use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError, RwLock};

use fjall::{Database, Keyspace, KeyspaceCreateOptions, LsmError, PersistMode, Readable};

use super::{Durability, Engine, EngineError, KeyRange, Order, Space, Visit, Write};
use acknowledged::Acknowledged;

/// The size of the block cache in bytes.
const CACHE_BYTES: u64 = 32 * 1024 * 1024;
/// Bytes in the journal space's memtable that trigger a flush.
const JOURNAL_MEMTABLE_BYTES: u64 = 16 * 1024 * 1024;
/// Bytes in the state space's memtable that trigger a flush.
const STATE_MEMTABLE_BYTES: u64 = 8 * 1024 * 1024;
/// Approximate overhead of a row in a memtable, in bytes.
const ROW_BYTES: u64 = 64;
/// The size at which fjall itself would flush a memtable, which is never reached.
const FJALL_MEMTABLE_BYTES: u64 = 1024 * 1024 * 1024 * 1024;
/// The maximum size of the engine's journals in bytes, which bounds the duration of a start. It is
/// the minimum that fjall accepts. To delete a sealed journal, fjall flushes the memtables that pin
/// it.
const JOURNALS_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// The number of fjall's workers. With several, the first one spins while another merges tables
/// (measured: a sixth of the processor time).
const WORKER_THREADS: usize = 1;
/// The maximum number of open table files.
const FILES_MAX: usize = 256;

impl From<fjall::Error> for EngineError {
    fn from(error: fjall::Error) -> Self {
        match error {
            fjall::Error::Storage(
                LsmError::ChecksumMismatch { .. }
                | LsmError::InvalidHeader(_)
                | LsmError::InvalidTag(_)
                | LsmError::InvalidTrailer
                | LsmError::InvalidVersion(_)
                | LsmError::Unrecoverable
                | LsmError::Utf8(_)
                | LsmError::Decompress(_),
            )
            | fjall::Error::JournalRecovery(_)
            | fjall::Error::InvalidTag(_)
            | fjall::Error::InvalidTrailer
            | fjall::Error::Decompress(_) => Self::Damaged(error.to_string()),
            fjall::Error::Storage(LsmError::Io(ref io)) | fjall::Error::Io(ref io)
                if is_damage(io) =>
            {
                Self::Damaged(error.to_string())
            }
            error => Self::Failed(Box::new(error)),
        }
    }
}

/// Returns whether a file was read but has other content than was written.
fn is_damage(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{InvalidData, UnexpectedEof};
    matches!(error.kind(), InvalidData | UnexpectedEof)
}

/// Runs a read of fjall, which panics over some damaged blocks instead of returning an error.
fn read<T>(read: impl FnOnce() -> fjall::Result<T>) -> Result<T, EngineError> {
    match catch_unwind(AssertUnwindSafe(read)) {
        Ok(read) => Ok(read?),
        Err(_) => Err(EngineError::Damaged("fjall panicked on a block".into())),
    }
}

/// A keyspace with the approximate size of its memtable.
struct TrackedKeyspace {
    keyspace: Keyspace,
    memtable_bytes: AtomicU64,
    memtable_bytes_max: u64,
}

impl TrackedKeyspace {
    fn open(database: &Database, space: Space, memtable_bytes_max: u64) -> fjall::Result<Self> {
        let options = || KeyspaceCreateOptions::default().max_memtable_size(FJALL_MEMTABLE_BYTES);
        Ok(Self {
            keyspace: database.keyspace(space.as_str(), options)?,
            // Assumes that everything read back from the journals belongs to this keyspace.
            memtable_bytes: AtomicU64::new(database.write_buffer_size()),
            memtable_bytes_max,
        })
    }

    fn rotate(&self) -> fjall::Result<()> {
        self.memtable_bytes.store(0, Relaxed);
        self.keyspace.rotate_memtable().map(drop)
    }
}

/// The background mode of the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Background {
    /// Tables are written and merged.
    Working,
    /// Nothing is written: the disk is full, and a failed write would stop the engine permanently.
    Dormant,
}

/// An open database.
struct Opened {
    database: Database,
    journal: TrackedKeyspace,
    state: TrackedKeyspace,
    background: Background,
}

impl Opened {
    fn open(folder: &Path, background: Background) -> fjall::Result<Self> {
        let workers = match background {
            Background::Working => WORKER_THREADS,
            Background::Dormant => 0,
        };
        let database = Database::builder(folder)
            .cache_size(CACHE_BYTES)
            .max_journaling_size(JOURNALS_BYTES_MAX)
            .worker_threads_unchecked(workers)
            .max_cached_files(Some(FILES_MAX))
            .manual_journal_persist(true)
            .with_compaction_filter_factories(Arc::new(|_| Some(Arc::new(pace::Pacing))))
            .open()?;
        Ok(Self {
            journal: TrackedKeyspace::open(&database, Space::Journal, JOURNAL_MEMTABLE_BYTES)?,
            state: TrackedKeyspace::open(&database, Space::State, STATE_MEMTABLE_BYTES)?,
            database,
            background,
        })
    }

    fn tracked(&self, space: Space) -> &TrackedKeyspace {
        match space {
            Space::Journal => &self.journal,
            Space::State => &self.state,
        }
    }

    fn keyspace(&self, space: Space) -> &Keyspace {
        &self.tracked(space).keyspace
    }
}

/// The error of an engine that could not be opened again.
#[derive(Debug, thiserror::Error)]
#[error("the storage engine is closed")]
struct EngineClosed;

/// A fjall database in a folder.
pub struct FjallEngine {
    folder: PathBuf,
    /// The open database. It is `None` only while [`Engine::resume`] opens the database again, or
    /// after that failed.
    opened: RwLock<Option<Opened>>,
    acknowledged: Arc<Acknowledged>,
}

impl FjallEngine {
    /// Opens or creates the engine in `folder`.
    pub(crate) fn open(
        folder: &Path,
        acknowledged: Arc<Acknowledged>,
        background: Background,
    ) -> Result<Self, fjall::Error> {
        Ok(Self {
            folder: folder.to_path_buf(),
            opened: RwLock::new(Some(Opened::open(folder, background)?)),
            acknowledged,
        })
    }

    /// Uses the open database.
    fn with<T, E: From<EngineError>>(
        &self,
        work: impl FnOnce(&Opened) -> Result<T, E>,
    ) -> Result<T, E> {
        // The database is consistent between any two statements that hold the lock.
        let opened = self.opened.read().unwrap_or_else(PoisonError::into_inner);
        match opened.as_ref() {
            Some(opened) => work(opened),
            None => Err(EngineError::Failed(Box::new(EngineClosed)).into()),
        }
    }

    /// Returns the file next to the engine.
    pub(crate) fn acknowledged(&self) -> &Acknowledged {
        &self.acknowledged
    }

    /// Returns the bytes in memtables, including waiting ones.
    pub(crate) fn memtables_bytes(&self) -> u64 {
        let bytes = self.with(|opened| Ok::<_, EngineError>(opened.database.write_buffer_size()));
        bytes.unwrap_or(0)
    }

    /// Flushes the memtables to tables and waits for it.
    pub(crate) fn flush(&self) -> Result<(), EngineError> {
        self.with(|opened| {
            for space in Space::ALL {
                opened.keyspace(space).rotate_memtable_and_wait()?;
            }
            Ok(())
        })
    }

    /// Visits all rows of both spaces at one point in time, while the engine continues. Blocks.
    pub(crate) fn visit_all<E: From<EngineError>>(
        &self,
        at_snapshot: impl FnOnce(),
        mut visit: impl FnMut(Space, &[u8], &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        self.with(|opened| {
            let snapshot = opened.database.snapshot();
            at_snapshot();
            for space in Space::ALL {
                let mut rows = snapshot.iter(opened.keyspace(space));
                while let Some((key, value)) =
                    read(|| rows.next().map(|row| row.into_inner()).transpose())?
                {
                    visit(space, &key, &value)?;
                }
            }
            Ok(())
        })
    }
}

impl Engine for FjallEngine {
    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Vec<u8>>, EngineError> {
        self.with(|opened| {
            let value = read(|| opened.keyspace(space).get(key))?;
            Ok(value.map(|value| value.to_vec()))
        })
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
        self.with(|opened| {
            let mut rows = opened.keyspace(space).range::<&[u8], _>(range.bounds());
            while let Some((key, value)) = read(|| {
                let row = match order {
                    Order::Ascending => rows.next(),
                    Order::Descending => rows.next_back(),
                };
                row.map(|row| row.into_inner()).transpose()
            })? {
                if let ControlFlow::Break(()) = visit(&key, &value) {
                    break;
                }
            }
            Ok(())
        })
    }

    fn apply(&self, writes: Vec<Write>, durability: Durability) -> Result<(), EngineError> {
        let mode = match durability {
            Durability::Buffered => PersistMode::Buffer,
            Durability::Synced => PersistMode::SyncData,
        };
        self.with(|opened| {
            let mut batch = opened.database.batch().durability(Some(mode));
            for write in writes {
                let tracked = opened.tracked(write.space);
                let value_bytes = write.value.as_ref().map_or(0, Vec::len);
                let bytes = (write.key.len() + value_bytes) as u64 + ROW_BYTES;
                tracked.memtable_bytes.fetch_add(bytes, Relaxed);
                match write.value {
                    Some(value) => batch.insert(&tracked.keyspace, write.key, value),
                    None => batch.remove(&tracked.keyspace, write.key),
                }
            }
            batch.commit()?;
            for space in Space::ALL {
                let tracked = opened.tracked(space);
                if tracked.memtable_bytes.load(Relaxed) >= tracked.memtable_bytes_max {
                    tracked.rotate()?;
                }
            }
            Ok(())
        })
    }

    fn acknowledge(&self, group_number: u64) -> Result<(), EngineError> {
        self.acknowledged
            .write(group_number)
            .map_err(|error| EngineError::Failed(Box::new(error)))
    }

    fn rotate(&self) -> Result<(), EngineError> {
        self.with(|opened| {
            for space in Space::ALL {
                opened.tracked(space).rotate()?;
            }
            Ok(())
        })
    }

    fn unflushed_bytes(&self) -> u64 {
        self.memtables_bytes()
    }

    fn resume(&self) -> Result<(), EngineError> {
        let is_dormant = |opened: &Opened| opened.background == Background::Dormant;
        // A waiting write lock keeps all reads waiting, and a backup holds a read lock for minutes.
        if !self.with(|opened| Ok::<_, EngineError>(is_dormant(opened)))? {
            return Ok(());
        }
        let mut opened = self.opened.write().unwrap_or_else(PoisonError::into_inner);
        if opened.as_ref().is_some_and(is_dormant) {
            // The first database holds the lock of the folder until it is dropped.
            *opened = None;
            *opened = Some(Opened::open(&self.folder, Background::Working)?);
        }
        Ok(())
    }

    fn purge(&self) -> Result<(), EngineError> {
        self.with(|opened| {
            let keyspaces = Space::ALL.map(|space| opened.keyspace(space));
            purge::purge(&opened.database, &self.folder, keyspaces)?;
            Ok(())
        })
    }

    fn close(&self) -> Result<(), EngineError> {
        self.with(|opened| Ok::<_, EngineError>(opened.database.persist(PersistMode::SyncAll)?))?;
        self.acknowledged
            .sync()
            .map_err(|error| EngineError::Failed(Box::new(error)))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::acknowledged::StoreFormat;
    use super::*;

    #[test]
    fn a_working_engine_resumes_while_its_rows_are_visited() {
        let name = format!("porchlight-fjall-visited-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        let acknowledged = Arc::new(Acknowledged::create(&folder, 0, StoreFormat::NEWEST).unwrap());
        let path = folder.join("engine");
        let engine = FjallEngine::open(&path, acknowledged, Background::Working).unwrap();
        let row = Write {
            space: Space::State,
            key: vec![1],
            value: Some(vec![2]),
        };
        engine.apply(vec![row], Durability::Synced).unwrap();
        let mut visited = 0;
        std::thread::scope(|threads| {
            let (ended, end) = mpsc::sync_channel(2);
            let visit = engine.visit_all(
                || (),
                |_, key, _| {
                    let (engine, key, ended) = (&engine, key.to_vec(), ended.clone());
                    threads.spawn(move || {
                        engine.resume().unwrap();
                        let value = engine.get(Space::State, &key).unwrap();
                        ended.send(value).unwrap();
                    });
                    let value = end.recv_timeout(Duration::from_secs(20));
                    assert_eq!(value.unwrap(), Some(vec![2]), "the visit delays the engine");
                    visited += 1;
                    Ok::<_, EngineError>(())
                },
            );
            visit.unwrap();
        });
        assert_eq!(visited, 1);
        drop(engine);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
