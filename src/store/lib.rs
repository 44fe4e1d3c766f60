#![doc = include_str!("README.md")]

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
