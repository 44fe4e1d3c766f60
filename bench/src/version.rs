//! Versions of generated tables.

use porchlight_schema::fnv;

/// Returns the version of a generated text: its hash, folded to 32 bits.
pub(crate) fn of(text: &str) -> u32 {
    let hash = fnv::hash(text.bytes());
    (hash >> 32) as u32 ^ hash as u32
}
