//! Rewrites the engine's files so that they no longer contain removed rows.
//!
//! A removed row stays in three places: in the memtable, in tables below its tombstone, and in
//! fjall's journals. Flushing and a major compaction clear the first two, if no snapshot is older
//! than the removal. fjall seals the active journal only when it has grown to a fixed size, so this
//! module fills it with padding; sealed journals are deleted once both keyspaces are flushed. fjall
//! keeps the tables from before a compaction until a later flush, so this module flushes again
//! until none of the files from before exists.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fjall::{Database, Keyspace};
use porchlight_world::fill_random;

use super::pace;

/// The size at which fjall seals the active journal, in bytes.
const JOURNAL_BYTES: usize = 64_000_000;
/// Bytes of padding in one write. It is random, because fjall compresses large values.
const PADDING_BYTES: usize = 64 * 1024;
/// The pause after each write of padding. The next group of the writer also syncs the padding since
/// the last one.
const PAUSE: Duration = Duration::from_millis(4);
/// The key of the padding, which no table uses.
const PADDING_KEY: &[u8] = &[0xff, b'p', b'a', b'd'];

/// The pause between two checks for snapshots or files from before the purge.
const HELD_PAUSE: Duration = Duration::from_secs(1);
/// The maximum number of checks for snapshots or files from before the purge: a backup or a long
/// list holds a snapshot.
const CHECKS_MAX: u32 = 30;

/// Rewrites all files of the database in `folder`. Blocks.
///
/// # Errors
///
/// Returns an error if the disk fails, or if a snapshot from before stays open for 30 seconds.
pub(super) fn purge(
    database: &Database,
    folder: &Path,
    keyspaces: [&Keyspace; 2],
) -> fjall::Result<()> {
    // The sequence numbers of the removals before this call are lower.
    let removed_until = database.visible_seqno();
    let mut old = files(folder, "jnl")?;
    pad_journal(keyspaces)?;
    // The first flush seals the journal. Both keyspaces must be flushed after that before it is
    // deleted.
    flush(keyspaces)?;
    flush(keyspaces)?;
    retry_until(|| {
        let oldest_snapshot = database.supervisor.snapshot_tracker.get_seqno_safe_to_gc();
        let is_free = oldest_snapshot >= removed_until;
        if !is_free {
            flush(keyspaces)?;
        }
        Ok(is_free)
    })?;
    for keyspace in keyspaces {
        old.extend(files(&keyspace.path().join("tables"), "")?);
    }
    for keyspace in keyspaces {
        pace::paced(keyspaces, || keyspace.major_compact())?;
    }
    retry_until(|| {
        flush(keyspaces)?;
        Ok(!old.iter().any(|file| file.exists()))
    })?;
    database.persist(fjall::PersistMode::SyncAll)
}

/// Fills the active journal to the size at which fjall seals it.
fn pad_journal([padded, _]: [&Keyspace; 2]) -> fjall::Result<()> {
    let mut padding = vec![0_u8; PADDING_BYTES];
    for _ in 0..=JOURNAL_BYTES / PADDING_BYTES {
        fill_random(&mut padding);
        padded.insert(PADDING_KEY, padding.as_slice())?;
        std::thread::park_timeout(PAUSE);
    }
    padded.remove(PADDING_KEY)
}

/// Flushes both keyspaces, also if their memtables are empty. fjall then deletes the journals and
/// tables that it no longer needs.
fn flush(keyspaces: [&Keyspace; 2]) -> fjall::Result<()> {
    for keyspace in keyspaces {
        keyspace.remove(PADDING_KEY)?;
        keyspace.rotate_memtable_and_wait()?;
    }
    Ok(())
}

/// Repeats `attempt` with pauses until it returns `true`.
fn retry_until(mut attempt: impl FnMut() -> fjall::Result<bool>) -> fjall::Result<()> {
    for _ in 0..CHECKS_MAX {
        if attempt()? {
            return Ok(());
        }
        std::thread::park_timeout(HELD_PAUSE);
    }
    let held = "a snapshot holds rows or files that were removed";
    Err(io::Error::new(io::ErrorKind::ResourceBusy, held).into())
}

/// Returns the files in a folder whose names end in this extension.
fn files(folder: &Path, extension: &str) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().unwrap_or_default() == extension {
            files.push(path);
        }
    }
    Ok(files)
}
