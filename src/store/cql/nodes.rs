//! Determines which processes serve from the keyspace, and which node owns a shard.
//!
//! ```text
//! serving.rs      a single process, or several nodes
//! ownership.rs    members and owners of shards
//! ```

pub(super) mod ownership;
pub(super) mod serving;
