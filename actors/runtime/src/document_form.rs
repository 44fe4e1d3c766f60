//! The form in which values are stored as documents and rows of their own.

use porchlight_ports::{Collection, Documents, StoreError, StoreResult};
use serde::Serialize;

/// Encodes a value as JSON.
///
/// # Errors
///
/// Returns an error if the value has no JSON form.
pub(crate) fn encode(value: &impl Serialize) -> StoreResult<Vec<u8>> {
    serde_json::to_vec(value).map_err(StoreError::unavailable)
}

/// Returns a document that only the service itself reads, as empty if it is damaged. An empty
/// document is then the expected one when it is replaced.
///
/// # Errors
///
/// Returns an error if the store fails.
pub(crate) async fn document_or_empty(
    store: &(impl Documents + ?Sized),
    collection: Collection,
    key: &[u8],
) -> StoreResult<Option<Vec<u8>>> {
    match store.document(collection, key.to_vec()).await {
        Err(StoreError::Damaged(_)) => Ok(Some(Vec::new())),
        stored => stored,
    }
}
