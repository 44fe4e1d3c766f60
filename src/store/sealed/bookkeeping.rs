//! The keys of the bookkeeping rows about data keys.

/// The table of the bookkeeping rows.
pub(super) const TABLE: u8 = b'X';
/// The key of the row with the number of the next unused key.
pub(super) const NEXT: &[u8] = &[TABLE, 0];
/// The beginning of the keys of rows that name a key to be destroyed.
pub(super) const TO_DESTROY: &[u8] = &[TABLE, 1];
/// The key of the row that exists while the store may have unsealed rows.
pub(super) const HAS_UNSEALED: &[u8] = &[TABLE, 2];

/// Returns the key of the row that names this data key as one to be destroyed.
pub(super) fn to_destroy_key(number: u64) -> Vec<u8> {
    [TO_DESTROY, &number.to_be_bytes()].concat()
}
