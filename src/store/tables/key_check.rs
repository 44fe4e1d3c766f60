//! The check value of the secret key that the store depends on, in one row.

use porchlight_ports::{KeyCheckValue, StoreError, StoreResult};

use super::Key;
use crate::damage::report;
use crate::engine::KeyRange;
use crate::txn::{Read, Scan, Txn};

/// The table's letter.
const TABLE: u8 = b'Z';
/// Tables with rows that the secret key protects or from which it derives tokens: sessions,
/// endpoints, recorders.
const DEPENDENTS: [u8; 3] = *b"shR";

fn key() -> Vec<u8> {
    Key::of(TABLE).build()
}

/// Returns the stored check value. A damaged one counts as absent: the next start verifies the key
/// with a stored secret, as for a store of the first release, and writes a new value.
pub(crate) fn find(read: &dyn Read) -> StoreResult<Option<KeyCheckValue>> {
    let found = match read.state(&key()) {
        Err(StoreError::Damaged(row)) => {
            report("the check value of the secret key", &row);
            None
        }
        found => found?,
    };
    Ok(found.map(KeyCheckValue))
}

/// Replaces the check value if it is still `expected`.
pub(crate) fn replace(
    txn: &mut Txn<'_>,
    expected: Option<KeyCheckValue>,
    next: KeyCheckValue,
) -> StoreResult<bool> {
    let is_expected = find(txn.as_read())? == expected;
    if is_expected {
        txn.put_state(key(), &next.0)?;
    }
    Ok(is_expected)
}

/// Returns whether the store has rows that are useless without the secret key. Damaged rows count.
pub(crate) fn has_dependents(read: &dyn Read) -> StoreResult<bool> {
    for table in DEPENDENTS {
        if !read
            .rows(&Scan::keys(KeyRange::prefix([table]), 1))?
            .is_empty()
        {
            return Ok(true);
        }
    }
    Ok(false)
}
