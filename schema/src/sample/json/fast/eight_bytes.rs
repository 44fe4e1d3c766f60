//! Finds the end of a string in groups of eight bytes, by arithmetic on one register.

/// The lowest bit of each byte.
pub(super) const EACH: u64 = 0x0101_0101_0101_0101;

/// Returns whether a byte ends a plain string: the closing quote, an escape, a control character.
fn is_end(byte: u8) -> bool {
    matches!(byte, b'"' | b'\\' | 0..b' ')
}

/// Returns the number of bytes before the first one that ends a plain string, or the number of all
/// bytes.
#[inline]
pub(super) fn plain_length(bytes: &[u8]) -> usize {
    let mut length = 0;
    let (eights, rest) = bytes.as_chunks::<8>();
    for &eight in eights {
        let ends = ends_of_string(eight);
        if ends != 0 {
            return length + (ends.trailing_zeros() / 8) as usize;
        }
        length += 8;
    }
    let last = rest.iter().take_while(|&&byte| !is_end(byte));
    length + last.count()
}

/// Returns a word whose lowest bit lies in the first byte that ends a plain string; 0 if none does.
/// Bits of later bytes are meaningless.
#[inline(always)]
fn ends_of_string(bytes: [u8; 8]) -> u64 {
    let word = u64::from_le_bytes(bytes);
    // The highest bit of the difference is 1 for a byte below the limit. Such a byte also borrows
    // from the next one, but the first of them is found exactly.
    let below = |word: u64, limit: u8| word.wrapping_sub(EACH * u64::from(limit)) & !word;
    let quotes = below(word ^ (EACH * u64::from(b'"')), 1);
    let escapes = below(word ^ (EACH * u64::from(b'\\')), 1);
    (quotes | escapes | below(word, b' ')) & (EACH * 0x80)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Searching by words finds the same end as searching byte by byte.
        #[test]
        fn the_end_of_a_string_is_found_exactly(bytes in proptest::collection::vec(prop_oneof![
            20 => any::<u8>(),
            20 => b'a'..=b'z',
            1 => prop_oneof![Just(b'"'), Just(b'\\'), Just(0_u8), Just(0x1f), Just(b' '), Just(b'!'), Just(b'#'), Just(b'['), Just(b']'), Just(0xa2), Just(0xdc)],
        ], 0..40)) {
            let ends = bytes.iter().position(|&byte| is_end(byte));
            prop_assert_eq!(plain_length(&bytes), ends.unwrap_or(bytes.len()));
        }

        /// A plain string of any length ends at the first byte that is not plain.
        #[test]
        fn the_end_of_a_plain_string_is_found_exactly(plain in proptest::collection::vec(b'a'..=b'z', 0..40), end in any::<u8>()) {
            let mut bytes = plain.clone();
            bytes.push(end);
            let length = plain.len() + usize::from(!is_end(end));
            prop_assert_eq!(plain_length(&bytes), length);
        }
    }
}
