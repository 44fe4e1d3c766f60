//! Finds sessions with unfinished work, and removes the rows that lead to finished work.
//!
//! ```text
//! live_sessions.rs    sessions that an owner of shards starts: live ones, and ones to score
//! settle.rs           marks of sessions to score
//! deletes.rs          deletes of rows that lead to finished work
//! ```

pub(super) mod deletes;
pub(super) mod live_sessions;
pub(super) mod settle;
