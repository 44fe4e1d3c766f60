//! Decides in which partition a row is, and for how long it lives.
//!
//! ```text
//! slots.rs       the slices of time in which a table has rows
//! bounded.rs     the nodes' agreement to use partitions of bounded size
//! row_ttls.rs    times to live of rows
//! ```

pub(super) mod bounded;
pub(super) mod row_ttls;
pub(super) mod slots;
