//! The store: adapters of the actors' ports ([`porchlight_ports::Store`]).
//!
//! ```text
//! LocalStore<E>        the ports (local/*.rs)
//!   tables/*.rs        what each row is, and what one write decides: the same on every engine
//!   txn.rs             reading rows; writing them on the writer's thread, over what its group has decided
//!   committer.rs       the one writer: groups, one sync for each, hand-over, failure
//!   record.rs          a row's value: payload, number of its group, checksum
//!   continuity.rs      group markers: whether anything that was acknowledged is missing
//!   damage.rs          rows that cannot be read: counted, logged, and left out
//!   engine.rs          an ordered key-value engine: engine/memory.rs for tests, engine/fjall.rs on disk
//! cql.rs               the ports on ScyllaDB or Cassandra (cql/*.rs), for several nodes
//! embedded.rs          opening the store on disk, with every check;  backup.rs  copying it while it runs
//! migrate.rs           from the embedded store to a CQL cluster
//! ```
//!
//! # Decisions
//!
//! **One writer.** All writes are decided on one thread, in the order in which they came. "First end counts", "next
//! number", "revision after the last" are then plain reads and writes, without locks, versions or retries; and a group
//! of writes costs one sync. Reads go past it. An operation reads through its group's overlay, so that two operations
//! of one group see each other, and one that fails is taken back.
//!
//! **A timer only under load.** A group is what came while the one before was being synced. An idle store commits a write
//! at once; a busy one makes larger groups. Where they come to 8,000 writes a second from several at once, groups begin a
//! millisecond apart at least: on two processors this took 5 to 6 % off what a batch costs in all, and 0.2 ms were added to
//! its median way of 1.6 ms ([`committer`]). To wait until a number of writes is there has to wake the writer for
//! it, and gained a third of that; to give the writer's thread less of a right to interrupt others (`SCHED_BATCH`), nothing.
//!
//! **What is acknowledged is noted twice.** Every group leaves a marker in both key spaces, in the same atomic batch as
//! its rows, and its number in a small file, before anybody is told. A start compares: the markers must be an unbroken
//! run up to the number in the file. This finds a journal cut at its end, a hole in its middle (fjall stops at the
//! first damaged entry of a file and goes on with the next), a space that lost its files, and an older copy put in
//! place. The file is written in place, in two slots with checksums, at each group and synced once a second: a file
//! that is replaced by a rename each second would be up to a second behind after a mere kill of the process.
//!
//! **Markers in a ring.** They are overwritten, not deleted, so that a start reads a bounded number of rows and meets
//! no tombstones.
//!
//! **Failure is final.** After a failed write or sync nobody knows what the disk holds (a second `fsync` may succeed
//! without having written anything). The store refuses everything and tells the binary, which exits and recovers.
//!
//! **A first write that hangs is met with a new process.** fjall's first write after a start may never end
//! (fjall-rs/fjall#257). The thread that hangs can't be ended and holds the engine's lock, so that the store can't be opened
//! a second time by the same process: `serve` puts a new process in its own place, under the same number and with the same
//! arguments, after 1, 2 and 4 s, and then gives up. Commands that open the store for a moment say what is wrong instead.
//!
//! **An unreadable row is an error.** Each value's checksum covers its space and key too. What does not match is
//! [`porchlight_ports::StoreError::Corrupt`]; nothing reads as absent because it can't be read.
//!
//! **The highest `seq` is remembered**, for the sessions met last, so that the common append reads nothing. How many
//! batches a session has is the highest `seq` less the holes below it; only batches out of order write the holes down.
//!
//! **Where reads run.** A row that was written lately lies in memory, and one that was not costs a few blocks of the
//! page cache: single rows are read where they are asked for. Journals and lists are read on threads that may block.
//!
//! **Snapshots wait for no sync**: they may be lost at any time. They ride in the groups of what can't.

mod backup;
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
mod record;
pub mod tables;
pub mod txn;

pub use backup::{BackupError, BackupReport};
pub use committer::{Committer, OnDurable, OnFatal};
pub use continuity::MissingGroups;
pub use embedded::{EmbeddedStore, OpenError, OpenOptions};
pub use memory::{MemoryOpenError, MemoryStore};
