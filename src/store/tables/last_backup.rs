//! The time at which the last good backup was made, in one row.

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

/// Stores when the last good backup was made.
pub(crate) fn put(txn: &mut Txn<'_>, at: TimestampMs) -> StoreResult<()> {
    txn.put_state(key(), &at)
}
