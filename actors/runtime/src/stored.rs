//! The form in which values are stored as documents and rows of their own.

use porchlight_ports::{StoreError, StoreResult};
use serde::Serialize;

/// Encodes a value as JSON.
///
/// # Errors
///
/// Returns an error if the value has no JSON form.
pub(crate) fn encode(value: &impl Serialize) -> StoreResult<Vec<u8>> {
    serde_json::to_vec(value).map_err(StoreError::unavailable)
}
