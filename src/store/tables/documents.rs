//! Small documents of management data, grouped in collections.

use porchlight_ports::{Collection, Document, StoreError, StoreResult};

use super::Key;
use crate::damage::recovered_rows;
use crate::engine::{KeyRange, Space};
use crate::txn::{Read, Scan, Txn};

/// The table's letter.
pub(super) const TABLE: u8 = b'#';

fn prefix(collection: Collection) -> Vec<u8> {
    Key::of(TABLE).bytes(&collection.key()).build()
}

fn full_key(collection: Collection, key: &[u8]) -> Vec<u8> {
    let mut full = prefix(collection);
    full.extend_from_slice(key);
    full
}

/// Returns the document under `key`.
pub(crate) fn get(
    read: &dyn Read,
    collection: Collection,
    key: &[u8],
) -> StoreResult<Option<Vec<u8>>> {
    read.get(Space::State, &full_key(collection, key))
}

/// Replaces a document if its content is `expected`; returns whether it was. A damaged document
/// counts as empty, as in [`list`], so that it can be replaced or removed.
pub(crate) fn replace(
    txn: &mut Txn<'_>,
    collection: Collection,
    key: &[u8],
    expected: Option<&[u8]>,
    data: Option<Vec<u8>>,
) -> StoreResult<bool> {
    let is_expected = match get(txn.as_read(), collection, key) {
        Err(StoreError::Damaged(_)) if expected == Some(&[]) => true,
        stored => stored?.as_deref() == expected,
    };
    if !is_expected {
        return Ok(false);
    }
    let key = full_key(collection, key);
    match data {
        Some(data) => txn.put(Space::State, key, data),
        None => txn.delete(Space::State, key),
    }
    Ok(true)
}

/// Returns up to `limit` documents in order of their keys, after the key `after`. A damaged
/// document is empty, so that it does not hide the others.
pub(crate) fn list(
    read: &dyn Read,
    collection: Collection,
    after: Option<&[u8]>,
    limit: usize,
) -> StoreResult<Vec<Document>> {
    let prefix = prefix(collection);
    let mut range = KeyRange::prefix(prefix.clone());
    if let Some(after) = after {
        range = range.after(&full_key(collection, after));
    }
    let scan = Scan::state(range, limit);
    let rows = recovered_rows(read, &scan, "a document", |_key| Ok(Some(Vec::new())))?;
    Ok(rows
        .into_iter()
        .map(|row| Document {
            key: row.key.get(prefix.len()..).unwrap_or_default().to_vec(),
            data: row.payload,
        })
        .collect())
}
