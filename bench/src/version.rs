//! Versions of generated tables.

/// Computes the FNV-1a hash (Fowler, Noll and Vo), which is sufficient to distinguish versions.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Returns the version of a generated text: its hash, folded to 32 bits.
pub(crate) fn of(text: &str) -> u32 {
    let hash = fnv1a(text.as_bytes());
    (hash >> 32) as u32 ^ hash as u32
}
