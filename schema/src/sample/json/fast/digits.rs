//! Parses digits in groups of eight, by arithmetic on one register.

use super::eight_bytes::EACH;

/// Parses the digits from a position on; returns their value combined with `so_far`, and the end.
/// More than 19 digits overflow.
pub(super) fn run_of_digits(bytes: &[u8], from: usize, so_far: u64) -> (u64, usize) {
    let (mut number, mut to) = (so_far, from);
    while let Some(eight) = bytes.get(to..).and_then(|rest| rest.first_chunk()) {
        let (value, count) = leading_digits(*eight);
        number = number
            .wrapping_mul(WHOLE_POWERS.get(count).copied().unwrap_or(1))
            .wrapping_add(value);
        to += count;
        if count < 8 {
            return (number, to);
        }
    }
    while let Some(digit) = bytes
        .get(to)
        .map(|byte| byte.wrapping_sub(b'0'))
        .filter(|&digit| digit < 10)
    {
        number = number.wrapping_mul(10).wrapping_add(u64::from(digit));
        to += 1;
    }
    (number, to)
}

/// Powers of ten for up to eight digits.
const WHOLE_POWERS: [u64; 9] = [
    1,
    10,
    100,
    1_000,
    10_000,
    100_000,
    1_000_000,
    10_000_000,
    100_000_000,
];

/// A number without sign and exponent that ends within eight bytes, or within sixteen.
pub(super) struct Short {
    /// The value of all digits.
    pub(super) digits: u64,
    /// Number of digits after the decimal point.
    pub(super) fraction: usize,
    /// Number of characters.
    pub(super) length: usize,
}

impl Short {
    /// Parses a number with a fraction that has its point within the first seven bytes and ends
    /// within sixteen, but not within eight; `None` if it is another one.
    #[inline]
    pub(super) fn of_two_words(bytes: &[u8; 16]) -> Option<Self> {
        let (&first, rest) = bytes.split_first_chunk::<8>()?;
        let second: [u8; 8] = rest.try_into().ok()?;
        let (digits, others) = digits_and_others(first);
        let point = (others.trailing_zeros() / 8) as usize;
        // The point is the only byte of the first word that is not a digit.
        let is_plain = (1..7).contains(&point)
            && others & (others - 1) == 0
            && first[point] == b'.'
            && (point == 1 || first[0] != b'0');
        if !is_plain {
            return None;
        }
        let whole = digits & ((1 << (8 * point)) - 1);
        let fraction = digits >> (8 * (point + 1)) << (8 * point);
        let (second_digits, second_others) = digits_and_others(second);
        let end = (second_others.trailing_zeros() / 8) as usize;
        if end == 8 || matches!(second[end], b'e' | b'E') {
            return None;
        }
        let of_second = match end {
            0 => 0,
            _ => value_of_eight(second_digits << (64 - 8 * end)),
        };
        Some(Self {
            digits: value_of_eight((whole | fraction) << 8) * WHOLE_POWERS[end] + of_second,
            fraction: 7 - point + end,
            length: 8 + end,
        })
    }

    /// Parses the number at the start. Returns `None` if there is no number or if it needs the
    /// general parser.
    #[inline]
    pub(super) fn of(bytes: [u8; 8]) -> Option<Self> {
        let (digits, others) = digits_and_others(bytes);
        let point = (others.trailing_zeros() / 8) as usize;
        // A leading zero is allowed only alone or before the point.
        if point == 0 || point == 8 || (point > 1 && bytes[0] == b'0') {
            return None;
        }
        let behind = others & (others - 1);
        let (joined, end) = if bytes[point] == b'.' {
            let end = (behind.trailing_zeros() / 8) as usize;
            if end == 8 || end == point + 1 {
                return None;
            }
            let whole = digits & ((1 << (8 * point)) - 1);
            let fraction = digits >> (8 * (point + 1)) << (8 * point);
            (whole | fraction, end)
        } else {
            (digits, point)
        };
        if matches!(bytes[end], b'e' | b'E') {
            return None;
        }
        let fraction = end.saturating_sub(point + 1);
        let count = point + fraction;
        Some(Self {
            digits: value_of_eight(joined << (64 - 8 * count)),
            fraction,
            length: end,
        })
    }
}

/// Returns the values of eight digits, and the highest bit of each byte that is not a digit.
#[inline]
fn digits_and_others(bytes: [u8; 8]) -> (u64, u64) {
    let digits = u64::from_le_bytes(bytes) ^ (EACH * 0x30);
    // No byte carries into the next, because its highest bit is not part of the sum.
    let others = (((digits & (EACH * 0x7f)) + EACH * 0x76) | digits) & (EACH * 0x80);
    (digits, others)
}

/// Returns the number formed by the digits at the start of eight bytes, and the number of digits,
/// computed on one register.
#[inline]
fn leading_digits(bytes: [u8; 8]) -> (u64, usize) {
    let (digits, others) = digits_and_others(bytes);
    let count = (others.trailing_zeros() / 8) as usize;
    if count == 0 {
        return (0, 0);
    }
    // The digits move to the high end; leading zeros do not count.
    (value_of_eight(digits << (64 - 8 * count)), count)
}

/// Returns the number formed by eight digits, the first in the lowest byte.
#[inline]
fn value_of_eight(digits: u64) -> u64 {
    let pairs = (digits & (EACH * 0x0f)).wrapping_mul(10 * 256 + 1) >> 8;
    let fours = (pairs & 0x00ff_00ff_00ff_00ff).wrapping_mul(100 * 65_536 + 1) >> 16;
    (fours & 0x0000_ffff_0000_ffff).wrapping_mul(10_000 * 4_294_967_296 + 1) >> 32
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Parsing a group of eight digits equals parsing them one by one.
        #[test]
        fn leading_digits_are_read_exactly(bytes in proptest::array::uniform8(prop_oneof![
            4 => b'0'..=b'9', 1 => any::<u8>(), 1 => prop_oneof![Just(b'/'), Just(b':'), Just(b'.'), Just(0xb0_u8), Just(0xb9_u8)],
        ])) {
            let count = bytes.iter().take_while(|byte| byte.is_ascii_digit()).count();
            let text = std::str::from_utf8(&bytes[..count]).unwrap();
            prop_assert_eq!(leading_digits(bytes), (text.parse().unwrap_or(0), count));
        }
    }
}
