//! The FNV-1a hash with 64 bits (Fowler, Noll and Vo, "The FNV Non-Cryptographic Hash Algorithm").
//!
//! It distinguishes values. An attacker who chooses the values can make their hashes equal.

/// The hash of no bytes.
pub const START: u64 = 0xcbf2_9ce4_8422_2325;

const PRIME: u64 = 0x0000_0100_0000_01b3;

/// Returns the hash of the bytes with the hash `hash`, followed by `byte`.
#[must_use]
pub const fn add(hash: u64, byte: u8) -> u64 {
    (hash ^ byte as u64).wrapping_mul(PRIME)
}

/// Returns the hash of bytes, which is the same on all computers and in all versions.
#[must_use]
pub fn hash(bytes: impl IntoIterator<Item = u8>) -> u64 {
    bytes.into_iter().fold(START, add)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The vectors are from the reference implementation of the authors (`test_fnv.c`).
    #[test]
    fn the_hashes_are_those_of_the_reference() {
        for (text, expected) in [
            ("", 0xcbf2_9ce4_8422_2325),
            ("a", 0xaf63_dc4c_8601_ec8c),
            ("foobar", 0x8594_4171_f739_67e8),
        ] {
            assert_eq!(hash(text.bytes()), expected, "{text}");
        }
    }
}
