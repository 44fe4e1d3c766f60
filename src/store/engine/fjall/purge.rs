//! Rewriting the engine's files so that they no longer hold removed rows.
//!
//! A removed row stays in three places: in the memtable, in tables below its tombstone, and in fjall's journals. Flushing
//! and a major compaction clear the first two. fjall seals the active journal only when it has grown to a fixed size, so
//! this module fills it with padding; sealed journals are deleted once both keyspaces are flushed.

use std::time::Duration;

use fjall::{Database, Keyspace};
use porchlight_world::fill;

/// The size at which fjall seals the active journal, in bytes.
const JOURNAL_BYTES: usize = 64_000_000;
/// Bytes of padding in one write. It is random, because fjall compresses large values.
const PADDING_BYTES: usize = 256 * 1024;
/// The pause after each write of padding, so that other writers are not held up.
const PAUSE: Duration = Duration::from_millis(2);
/// The key of the padding, which no table uses.
const PADDING_KEY: &[u8] = &[0xff, b'p', b'a', b'd'];

/// Rewrites all files. Blocks.
pub(super) fn purge(database: &Database, keyspaces: [&Keyspace; 2]) -> fjall::Result<()> {
    let [padded, _] = keyspaces;
    let mut padding = vec![0_u8; PADDING_BYTES];
    for _ in 0..=JOURNAL_BYTES / PADDING_BYTES {
        fill(&mut padding);
        padded.insert(PADDING_KEY, padding.as_slice())?;
        std::thread::park_timeout(PAUSE);
    }
    padded.remove(PADDING_KEY)?;
    // The first flush seals the journal. Both keyspaces must be flushed after that before it is deleted.
    for _ in 0..2 {
        for keyspace in keyspaces {
            keyspace.remove(PADDING_KEY)?;
            keyspace.rotate_memtable_and_wait()?;
        }
    }
    for keyspace in keyspaces {
        keyspace.major_compact()?;
    }
    database.persist(fjall::PersistMode::SyncAll)
}
