//! The store: adapters of the actors' ports ([`porchlight_ports::Store`]).
//!
//! ```text
//! LocalStore<E>        the ports (local/*.rs)
//!   tables/*.rs        the content of each row, and the decisions of one write: the same on every engine
//!   txn.rs             reading rows; writing them on the writer's thread, over the decisions of its group
//!   committer.rs       the one writer: groups, one sync for each, completion, failure
//!   record.rs          a row's value: payload, number of its group, checksum
//!   continuity.rs      group markers: whether any acknowledged group is missing
//!   damage.rs          rows that cannot be read: counted, logged, and left out
//!   sealed.rs          rows with personal data: sealed with keys that an erasure destroys
//!   engine.rs          an ordered key-value engine: engine/memory.rs for tests, engine/fjall.rs on disk
//! cql.rs               the ports on ScyllaDB or Cassandra (cql/*.rs), for several nodes
//! embedded.rs          opening the store on disk, with every check;  backup.rs  copying it while it runs
//! migrate.rs           from the embedded store to a CQL cluster
//! ```
//!
//! # Decisions
//!
//! **One writer.** All writes are decided on one thread, in order of arrival. "First end counts",
//! "next number", "revision after the last" are then plain reads and writes, without locks,
//! versions or retries; and a group of writes costs one sync. Reads bypass the writer. An operation
//! reads through its group's overlay, so that two operations of one group see each other, and a
//! failed operation is rolled back.
//!
//! **A timer only under load.** A group consists of the operations that arrived while the one
//! before was being synced. An idle store commits a write immediately; a busy one makes larger
//! groups. At 8,000 or more writes per second from several concurrent callers, groups begin at
//! least a millisecond apart: on two processors this reduced the total cost of a batch by 5 to 6 %,
//! and added 0.2 ms to its median latency of 1.6 ms ([`committer`]). Waiting for a minimum number
//! of writes must wake the writer for it, and gained a third of that; giving the writer's thread
//! less priority to interrupt others (`SCHED_BATCH`) gained nothing.
//!
//! **Acknowledged groups are recorded twice.** Every group leaves a marker in both key spaces, in
//! the same atomic batch as its rows, and its number in a small file, before any caller is
//! notified. A start compares: the markers must be an unbroken run up to the number in the file.
//! This detects a journal cut at its end, a hole in its middle (fjall stops at the first damaged
//! entry of a file and continues with the next), a space that lost its files, and an older copy put
//! in place. The file is written in place, in two slots with checksums, at each group and synced
//! once a second: a file that is replaced by a rename each second would be up to a second behind
//! after a mere kill of the process.
//!
//! **Markers in a ring.** They are overwritten, not deleted, so that a start reads a bounded number
//! of rows and meets no tombstones.
//!
//! **Failure is final.** After a failed write or sync the content of the disk is unknown (a second
//! `fsync` may succeed without having written anything). The store refuses everything and notifies
//! the binary, which exits and recovers.
//!
//! **If the first write hangs, a new process replaces this one.** fjall's first write after a start
//! may never end (fjall-rs/fjall#257). The hanging thread cannot be ended and holds the engine's
//! lock, so that the same process cannot open the store a second time: `serve` replaces itself with
//! a new process, under the same process id and with the same arguments, after 1, 2 and 4 s, and
//! then gives up. Commands that open the store briefly report the error instead.
//!
//! **An unreadable row is an error.** Each value's checksum covers its space and key too. A
//! mismatch is [`porchlight_ports::StoreError::Corrupt`]; an unreadable row never reads as absent.
//!
//! **The highest `seq` is cached** for recently used sessions, so that the common append reads
//! nothing. The number of batches of a session is derived from the highest `seq` and the holes
//! below it; only batches out of order write the holes.
//!
//! **Where reads run.** A recently written row is in memory, and any other row costs a few blocks
//! of the page cache: single rows are read on the caller's thread. Journals and lists are read on
//! threads that may block.
//!
//! **Rows with personal data are sealed** between the records and the engine ([`sealed`]), so that
//! the tables and the engine know nothing of keys. The checksum is over the sealed bytes: a backup and
//! a check of the checksums need no key. A row names its key, so a read needs one look-up in memory;
//! a write finds the key of its session in the row of the session's start. An alternative was an
//! engine that overwrites in place, which none of the embedded engines with cheap writes does.
//!
//! **Snapshots wait for no sync**: they may be lost at any time. They are written with the groups
//! of durable operations.

mod backup;
mod check;
mod committer;
mod continuity;
pub mod cql;
mod damage;
pub mod embedded;
pub mod engine;
mod journal_heads;
pub mod local;
pub mod memory;
pub mod migrate;
mod quarantine;
mod recent;
mod record;
mod sealed;
pub mod tables;
pub mod txn;

pub use backup::{BackupError, BackupReport};
pub use check::{CheckReport, DamagedRow, KindReport, QuarantineError, UnreadableRange};
pub use committer::{Committer, OnDurable, OnFatal};
pub use continuity::MissingGroups;
pub use embedded::{EmbeddedStore, OpenError, OpenOptions};
pub use memory::{MemoryOpenError, MemoryStore};
pub use sealed::{DataKeysError, SealedEngine, StoreSecrets};
