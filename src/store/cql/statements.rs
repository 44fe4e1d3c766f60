//! Prepares and runs the statements of an open store.
//!
//! ```text
//! prepared.rs       all statements, prepared once
//! db.rs             runs statements: a row, rows, a write, a lightweight transaction; maps errors
//! write_group.rs    small rows of several partitions, written with one request
//! counts.rs         counts of statements by kind
//! ```

pub(super) mod counts;
pub(super) mod db;
pub(super) mod prepared;
pub(super) mod write_group;
