//! The store.

mod backup;
mod committer;
mod continuity;
pub mod embedded;
pub mod engine;
pub mod local;
pub mod memory;
mod record;
pub mod secrets;
pub mod tables;
pub mod txn;

pub use backup::{BackupError, BackupReport};
pub use committer::{Committer, HandOver, OnFatal};
pub use continuity::NotWhole;
pub use embedded::{EmbeddedStore, OpenError, OpenOptions};
pub use memory::{MemoryOpenError, MemoryStore};
