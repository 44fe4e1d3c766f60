//! Bytes as hexadecimal digits.

/// Returns bytes as lower-case hexadecimal digits.
#[must_use]
pub fn encode(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |half: u8| char::from(DIGITS[usize::from(half & 15)]);
    bytes
        .iter()
        .flat_map(|byte| [digit(byte >> 4), digit(*byte)])
        .collect()
}

/// Returns the `N` bytes of a text of lower-case or upper-case digits, or `None` if the text has
/// another length or other characters.
#[must_use]
pub fn decode<const N: usize>(text: &[u8]) -> Option<[u8; N]> {
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let mut bytes = [0; N];
    if text.len() != 2 * N {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
        let &[high, low] = pair else { return None };
        *byte = digit(high)? << 4 | digit(low)?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_stand_for_bytes() {
        assert_eq!(encode(&[0, 0x5f, 0xa0, 0xff]), "005fa0ff");
        assert_eq!(decode(b"005fA0Ff"), Some([0, 0x5f, 0xa0, 0xff]));
        assert_eq!(decode(b""), Some([]));
        for (text, fault) in [
            ("005fa0f", "too short"),
            ("005fa0ff0", "too long"),
            ("005fa0fg", "another letter"),
            ("+05fa0ff", "a sign"),
            (" 05fa0ff", "a space"),
        ] {
            assert_eq!(decode::<4>(text.as_bytes()), None, "{fault}");
        }
    }
}
