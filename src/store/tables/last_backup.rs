//! The time of the last successful backup, in one row.

use porchlight_ports::StoreResult;
use porchlight_schema::time::TimestampMs;

use super::Key;
use crate::txn::{Read, Txn};

/// The table's letter.
const TABLE: u8 = b'B';

fn key() -> Vec<u8> {
    Key::of(TABLE).build()
}

/// Returns the time of the last successful backup.
pub(crate) fn find(read: &dyn Read) -> StoreResult<Option<TimestampMs>> {
    read.state(&key())
}

/// Stores the time of the last successful backup.
pub(crate) fn put(txn: &mut Txn<'_>, at: TimestampMs) -> StoreResult<()> {
    txn.put_state(key(), &at)
}
