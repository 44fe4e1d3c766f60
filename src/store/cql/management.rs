//! Implements the ports of keys, recorders and documents.
//!
//! ```text
//! keys.rs, key_check.rs    organizations and their keys; the check value of the secret key
//! recorders.rs             recorders
//! documents.rs             small documents
//! ```

pub(super) mod documents;
pub(super) mod key_check;
pub(super) mod keys;
pub(super) mod recorders;
