//! The store.

mod committer;
mod continuity;
pub mod embedded;
pub mod engine;
pub mod local;
pub mod memory;
mod record;
pub mod tables;
pub mod txn;

pub use committer::{Committer, HandOver, OnFatal};
pub use continuity::NotWhole;
pub use embedded::{EmbeddedStore, OpenError, OpenOptions};
pub use memory::{MemoryOpenError, MemoryStore};
