//! Scans JSON (RFC 8259) as machines write it.

use super::digits::{Short, run_of_digits};
use super::eight_bytes::plain_length;

/// Reads JSON as machines write it, in one pass and without allocating. At the first irregularity
/// (an escape, an unexpected nested value, invalid JSON) a method returns `None`; the caller then
/// parses the text again with serde.
#[derive(Debug)]
pub struct Scanner<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// A value that is not an object or an array.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Scalar<'a> {
    /// The value is `null`.
    #[default]
    Null,
    /// The value is `true` or `false`.
    Bool(bool),
    /// A number, as the nearest double.
    Number(f64),
    /// A string without escapes.
    Text(&'a str),
}

/// The depth of nested values that [`Scanner::skip_value`] skips.
const SKIPPED_DEPTH_MAX: u8 = 8;

/// A few bytes that are likely to occur again.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Expected {
    bytes: u128,
    /// Mask of the valid bytes.
    mask: u128,
    length: usize,
}

impl Expected {
    /// The maximum number of bytes.
    pub(super) const BYTES: usize = 16;

    /// Returns `None` if there are too many bytes.
    pub(super) fn of(expected: &[u8]) -> Option<Self> {
        let mut bytes = [0; Self::BYTES];
        bytes.get_mut(..expected.len())?.copy_from_slice(expected);
        Some(Self {
            bytes: u128::from_le_bytes(bytes),
            mask: u128::MAX
                .checked_shr(128 - 8 * expected.len() as u32)
                .unwrap_or(0),
            length: expected.len(),
        })
    }
}

/// Powers of ten that are exact doubles.
const POWERS: [f64; 19] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16,
    1e17, 1e18,
];

/// Every integer up to here is a double. Dividing it by one of [`POWERS`] rounds once and is
/// therefore correctly rounded (Clinger, 1990).
const EXACT_MAX: u64 = 1 << 53;

/// Returns whether the bytes are UTF-8.
#[inline]
fn is_text(string: &[u8]) -> bool {
    string.is_ascii() || std::str::from_utf8(string).is_ok()
}

impl<'a> Scanner<'a> {
    /// Creates a scanner at the beginning of a text.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Returns the current byte; 0 at the end, which JSON never contains outside strings.
    fn peek(&self) -> u8 {
        self.bytes.get(self.at).copied().unwrap_or(0)
    }

    #[inline(always)]
    fn space(&mut self) {
        // Machines write no white space, so one comparison usually suffices.
        if self.peek() <= b' ' {
            self.white_space();
        }
    }

    #[inline(never)]
    fn white_space(&mut self) {
        while matches!(self.peek(), b' ' | b'\n' | b'\t' | b'\r') {
            self.at += 1;
            self.spaces();
        }
    }

    /// Consumes a long run of spaces, sixteen at a time. Only a hostile sender writes one.
    fn spaces(&mut self) {
        const SIXTEEN: [u8; 16] = [b' '; 16];
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let runs = rest.chunks_exact(16).take_while(|&run| run == SIXTEEN);
        self.at += 16 * runs.count();
    }

    /// Consumes a byte if it is the current one. Returns whether it was.
    fn pass(&mut self, byte: u8) -> bool {
        let follows = self.peek() == byte;
        self.at += usize::from(follows);
        follows
    }

    fn word(&mut self, word: &[u8]) -> bool {
        let follows = self
            .bytes
            .get(self.at..)
            .is_some_and(|rest| rest.starts_with(word));
        self.at += if follows { word.len() } else { 0 };
        follows
    }

    /// Succeeds if only white space follows.
    pub fn end(&mut self) -> Option<()> {
        self.space();
        (self.at == self.bytes.len()).then_some(())
    }

    /// Returns the current position.
    pub(super) fn place(&self) -> usize {
        self.at
    }

    /// Consumes the start of an object or array. If it is empty, consumes its end too and returns
    /// `false`.
    #[inline]
    pub(super) fn open(&mut self, opening: u8, closing: u8) -> Option<bool> {
        self.space();
        self.pass(opening).then_some(())?;
        self.space();
        Some(!self.pass(closing))
    }

    /// Consumes the separator after a member or element. Returns whether another one follows.
    #[inline]
    pub(super) fn goes_on(&mut self, closing: u8) -> Option<bool> {
        self.space();
        if self.pass(b',') {
            self.space();
            return Some(true);
        }
        self.pass(closing).then_some(false)
    }

    /// Consumes a key and its colon.
    pub(super) fn key(&mut self) -> Option<&'a [u8]> {
        let key = self.string()?;
        is_text(key).then_some(())?;
        self.space();
        self.pass(b':').then_some(())?;
        self.space();
        Some(key)
    }

    /// Reads an object: `each` gets every key and reads its value.
    #[inline]
    pub fn members(
        &mut self,
        mut each: impl FnMut(&mut Self, &'a [u8]) -> Option<()>,
    ) -> Option<()> {
        let mut goes_on = self.open(b'{', b'}')?;
        while goes_on {
            let key = self.key()?;
            each(self, key)?;
            goes_on = self.goes_on(b'}')?;
        }
        Some(())
    }

    /// Reads an array: `each` reads every element.
    #[inline]
    pub fn elements(&mut self, mut each: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        let mut goes_on = self.open(b'[', b']')?;
        while goes_on {
            each(self)?;
            goes_on = self.goes_on(b']')?;
        }
        Some(())
    }

    /// Returns the bytes consumed since a position, for comparison with later input; `None` if
    /// there are too many.
    pub(super) fn expected_since(&self, from: usize) -> Option<Expected> {
        Expected::of(self.since(from))
    }

    /// Returns the bytes consumed since a position.
    pub(super) fn since(&self, from: usize) -> &'a [u8] {
        self.bytes.get(from..self.at).unwrap_or_default()
    }

    /// Consumes the expected bytes, and white space after them, if they follow. Near the end of the
    /// text it never matches.
    #[inline]
    pub(super) fn pass_expected(&mut self, expected: Expected) -> bool {
        self.pass_long_expected(expected, &[])
    }

    /// Consumes the expected bytes with `tail` after them, and white space, if they follow. Near
    /// the end of the text it never matches.
    #[inline(always)]
    pub(super) fn pass_long_expected(&mut self, expected: Expected, tail: &[u8]) -> bool {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let here = rest.first_chunk::<{ Expected::BYTES }>();
        let same = here
            .is_some_and(|here| (u128::from_le_bytes(*here) ^ expected.bytes) & expected.mask == 0)
            && (tail.is_empty()
                || rest
                    .get(expected.length..)
                    .is_some_and(|rest| rest.starts_with(tail)));
        if same {
            self.at += expected.length + tail.len();
            self.space();
        }
        same
    }

    /// Consumes a string with this content if it follows.
    #[inline]
    pub(super) fn pass_text(&mut self, text: &str) -> bool {
        let Some((b'"', rest)) = self
            .bytes
            .get(self.at..)
            .and_then(|rest| rest.split_first())
        else {
            return false;
        };
        let same = rest
            .strip_prefix(text.as_bytes())
            .is_some_and(|rest| rest.first() == Some(&b'"'));
        self.at += if same { text.len() + 2 } else { 0 };
        same
    }

    /// Consumes a string without escapes and returns its content, which may not be UTF-8.
    #[inline]
    pub fn string(&mut self) -> Option<&'a [u8]> {
        let rest = self.bytes.get(self.at..)?.strip_prefix(b"\"")?;
        let (string, after) = rest.split_at_checked(plain_length(rest))?;
        (after.first() == Some(&b'"')).then_some(())?;
        self.at += string.len() + 2;
        Some(string)
    }

    /// Consumes a string without escapes and returns it as text.
    pub fn text(&mut self) -> Option<&'a str> {
        std::str::from_utf8(self.string()?).ok()
    }

    /// Consumes a null if it follows. Returns whether it did.
    pub(super) fn null(&mut self) -> bool {
        self.peek() == b'n' && self.word(b"null")
    }

    /// Consumes a boolean.
    pub fn truth(&mut self) -> Option<bool> {
        if self.word(b"true") {
            return Some(true);
        }
        self.word(b"false").then_some(false)
    }

    /// Consumes a value that is not an object or an array.
    #[inline]
    pub fn scalar(&mut self) -> Option<Scalar<'a>> {
        Some(match self.peek() {
            b'"' => Scalar::Text(self.text()?),
            b'n' => self.null().then_some(Scalar::Null)?,
            b't' | b'f' => Scalar::Bool(self.truth()?),
            _ => Scalar::Number(self.number()?),
        })
    }

    /// Consumes a value that is not an object or an array.
    pub fn skip_scalar(&mut self) -> Option<()> {
        if self.peek() != b'"' {
            return self.scalar().map(drop);
        }
        let string = self.string()?;
        is_text(string).then_some(())
    }

    /// Returns whether the next value is an object.
    #[must_use]
    pub fn is_object(&self) -> bool {
        self.peek() == b'{'
    }

    /// Returns whether the next value is an array.
    #[must_use]
    pub fn is_array(&self) -> bool {
        self.peek() == b'['
    }

    /// Consumes a value of any type, with up to eight levels of nested values.
    pub fn skip_value(&mut self) -> Option<()> {
        self.skip_nested(SKIPPED_DEPTH_MAX)
    }

    fn skip_nested(&mut self, depth: u8) -> Option<()> {
        if self.is_object() {
            let depth = depth.checked_sub(1)?;
            self.members(|scanner, _| scanner.skip_nested(depth))
        } else if self.is_array() {
            let depth = depth.checked_sub(1)?;
            self.elements(|scanner| scanner.skip_nested(depth))
        } else {
            self.skip_scalar()
        }
    }

    /// Consumes digits; returns their number.
    fn digits(&mut self) -> usize {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let passed = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.at += passed;
        passed
    }

    /// Consumes an integer without sign, fraction or exponent.
    pub fn whole_number(&mut self) -> Option<u64> {
        let from = self.at;
        let leading_zero = self.peek() == b'0';
        let (number, to) = run_of_digits(self.bytes, from, 0);
        self.at = to;
        let plain = !matches!(self.peek(), b'.' | b'e' | b'E');
        match to - from {
            0 => None,
            length if (leading_zero && length > 1) || !plain => None,
            // Nineteen digits always fit.
            1..=19 => Some(number),
            _ => {
                let digits = std::str::from_utf8(self.bytes.get(from..to)?);
                digits.ok()?.parse().ok()
            }
        }
    }

    /// Consumes a number and returns the nearest double.
    #[inline]
    pub fn number(&mut self) -> Option<f64> {
        let rest = self.bytes.get(self.at..)?;
        let negative = rest.first() == Some(&b'-');
        let from = usize::from(negative);
        let eight = rest.get(from..).and_then(|rest| rest.first_chunk());
        let short = eight.and_then(|eight| Short::of(*eight)).or_else(|| {
            let sixteen = rest.get(from..).and_then(|rest| rest.first_chunk());
            sixteen.and_then(Short::of_two_words)
        });
        let Some(short) = short else {
            return self.long_number(negative);
        };
        self.at += from + short.length;
        // The processor has an instruction for signed integers.
        let number = short.digits as i64 as f64 / POWERS.get(short.fraction)?;
        Some(if negative { -number } else { number })
    }

    /// Parses a number with many characters, or near the end of the text.
    fn long_number(&mut self, negative: bool) -> Option<f64> {
        let rest = self.bytes.get(self.at..)?;
        let from = usize::from(negative);
        let (whole, point) = run_of_digits(rest, from, 0);
        let (digits, to) = match rest.get(point) {
            Some(b'.') => run_of_digits(rest, point + 1, whole),
            _ => (whole, point),
        };
        let (whole_length, fraction) = (point - from, (to - point).saturating_sub(1));
        // Plain numbers that certainly fit; the others need the general parser.
        let plain = whole_length > 0
            && (whole_length == 1 || rest.get(from) != Some(&b'0'))
            && (to == point || fraction > 0)
            && whole_length + fraction <= 18
            && digits <= EXACT_MAX
            && !matches!(rest.get(to), Some(b'e' | b'E'));
        if !plain {
            return self.odd_number();
        }
        self.at += to;
        let number = digits as i64 as f64 / POWERS.get(fraction)?;
        Some(if negative { -number } else { number })
    }

    /// Parses a number with many digits or an exponent: this code checks its form, the library
    /// computes its value.
    fn odd_number(&mut self) -> Option<f64> {
        let from = self.at;
        self.pass(b'-');
        let leading_zero = self.peek() == b'0';
        let whole = self.digits();
        if whole == 0 || (leading_zero && whole > 1) {
            return None;
        }
        if self.pass(b'.') && self.digits() == 0 {
            return None;
        }
        if self.pass(b'e') || self.pass(b'E') {
            let _ = self.pass(b'-') || self.pass(b'+');
            if self.digits() == 0 {
                return None;
            }
        }
        let text = std::str::from_utf8(self.bytes.get(from..self.at)?).ok()?;
        text.parse().ok().filter(|number: &f64| number.is_finite())
    }
}

#[cfg(test)]
mod tests;
