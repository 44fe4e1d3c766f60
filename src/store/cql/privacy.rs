//! Erases the rows of a session, and renews those of a restricted or held session.
//!
//! ```text
//! erasure.rs    the port of erasures
//! renewal.rs    giving the rows of one session their full time to live again
//! ```

pub(super) mod erasure;
pub(super) mod renewal;
