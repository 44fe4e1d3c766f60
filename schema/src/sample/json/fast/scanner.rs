//! Goes over JSON (RFC 8259) as machines write it. What it does not know (an escape, a nested value that nobody asked
//! for) or what is not JSON makes it give up: none.

use super::digits::{Short, run_of_digits};

/// A place in a text.
pub(super) struct Scanner<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// A few bytes that may be expected to come again.
#[derive(Clone, Copy)]
pub(super) struct Expected {
    bytes: u128,
    /// All bits of these bytes.
    mask: u128,
    length: usize,
}

impl Expected {
    const BYTES: usize = 16;
}

/// Powers of ten; each is a double.
const POWERS: [f64; 19] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16,
    1e17, 1e18,
];

/// Up to here every whole number is a double. One of them divided by one of [`POWERS`] is rounded once, and so exact
/// (Clinger, 1990).
const EXACT_MAX: u64 = 1 << 53;

/// Bytes that a plain string can't hold: its closing quote, an escape, a control character.
const ENDS_STRING: [bool; 256] = {
    let mut ends = [false; 256];
    let mut control = 0;
    while control < b' ' as usize {
        ends[control] = true;
        control += 1;
    }
    ends[b'"' as usize] = true;
    ends[b'\\' as usize] = true;
    ends
};

impl<'a> Scanner<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// The byte here; 0, which no JSON has outside of strings, at the end.
    fn peek(&self) -> u8 {
        self.bytes.get(self.at).copied().unwrap_or(0)
    }

    fn space(&mut self) {
        // Machines leave it out: one comparison says so.
        while self.peek() <= b' ' && matches!(self.peek(), b' ' | b'\n' | b'\t' | b'\r') {
            self.at += 1;
        }
    }

    /// Passes a byte, if it is here.
    fn pass(&mut self, byte: u8) -> bool {
        let here = self.peek() == byte;
        self.at += usize::from(here);
        here
    }

    fn word(&mut self, word: &[u8]) -> bool {
        let here = self
            .bytes
            .get(self.at..)
            .is_some_and(|rest| rest.starts_with(word));
        self.at += if here { word.len() } else { 0 };
        here
    }

    /// Nothing but space follows.
    pub(super) fn end(&mut self) -> Option<()> {
        self.space();
        (self.at == self.bytes.len()).then_some(())
    }

    /// Where it is.
    pub(super) fn place(&self) -> usize {
        self.at
    }

    /// The beginning of an object or array; false where it is empty, and passed.
    #[inline]
    pub(super) fn open(&mut self, opening: u8, closing: u8) -> Option<bool> {
        self.space();
        self.pass(opening).then_some(())?;
        self.space();
        Some(!self.pass(closing))
    }

    /// What follows a member or an element: whether there is another one.
    #[inline]
    pub(super) fn goes_on(&mut self, closing: u8) -> Option<bool> {
        self.space();
        if self.pass(b',') {
            self.space();
            return Some(true);
        }
        self.pass(closing).then_some(false)
    }

    /// A key and its colon.
    pub(super) fn key(&mut self) -> Option<&'a [u8]> {
        let key = self.string()?;
        self.space();
        self.pass(b':').then_some(())?;
        self.space();
        Some(key)
    }

    /// An object: `each` gets every key and reads its value.
    pub(super) fn members(
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

    /// An array: `each` reads every element.
    pub(super) fn elements(&mut self, mut each: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        let mut goes_on = self.open(b'[', b']')?;
        while goes_on {
            each(self)?;
            goes_on = self.goes_on(b']')?;
        }
        Some(())
    }

    /// What was passed since a place, to be expected again; none where it is too long.
    pub(super) fn expected_since(&self, from: usize) -> Option<Expected> {
        let passed = self.bytes.get(from..self.at)?;
        let mut bytes = [0; Expected::BYTES];
        bytes.get_mut(..passed.len())?.copy_from_slice(passed);
        Some(Expected {
            bytes: u128::from_le_bytes(bytes),
            mask: u128::MAX
                .checked_shr(128 - 8 * passed.len() as u32)
                .unwrap_or(0),
            length: passed.len(),
        })
    }

    /// Passes what is expected, if it is here. Near the end of the text nothing is.
    #[inline]
    pub(super) fn pass_expected(&mut self, expected: Expected) -> bool {
        let here = self
            .bytes
            .get(self.at..)
            .and_then(|rest| rest.first_chunk::<{ Expected::BYTES }>());
        let same = here
            .is_some_and(|here| (u128::from_le_bytes(*here) ^ expected.bytes) & expected.mask == 0);
        if same {
            self.at += expected.length;
            self.space();
        }
        same
    }

    /// Passes a string of this content, if it is here.
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

    /// A string without escapes: what stands between the quotes.
    fn string(&mut self) -> Option<&'a [u8]> {
        self.pass(b'"').then_some(())?;
        let rest = self.bytes.get(self.at..)?;
        let length = rest
            .iter()
            .position(|&byte| ENDS_STRING[usize::from(byte)])?;
        let (string, after) = rest.split_at_checked(length)?;
        (after.first() == Some(&b'"')).then_some(())?;
        self.at += length + 1;
        Some(string)
    }

    /// The same as text.
    pub(super) fn text(&mut self) -> Option<&'a str> {
        std::str::from_utf8(self.string()?).ok()
    }

    /// Whether a null is here; it is passed.
    pub(super) fn null(&mut self) -> bool {
        self.peek() == b'n' && self.word(b"null")
    }

    /// True or false.
    pub(super) fn truth(&mut self) -> Option<bool> {
        if self.word(b"true") {
            return Some(true);
        }
        self.word(b"false").then_some(false)
    }

    /// A value that nobody asked for, unless it is an object or an array.
    pub(super) fn skip_scalar(&mut self) -> Option<()> {
        match self.peek() {
            b'"' => self.text().map(drop),
            b'n' => self.null().then_some(()),
            b't' | b'f' => self.truth().map(drop),
            _ => self.number().map(drop),
        }
    }

    /// Passes digits; how many there were.
    fn digits(&mut self) -> usize {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let passed = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.at += passed;
        passed
    }

    /// A whole number without sign, fraction or exponent.
    pub(super) fn whole_number(&mut self) -> Option<u64> {
        let from = self.at;
        let leading_zero = self.peek() == b'0';
        let length = self.digits();
        let plain = !matches!(self.peek(), b'.' | b'e' | b'E');
        if (leading_zero && length > 1) || !plain {
            return None;
        }
        let digits = std::str::from_utf8(self.bytes.get(from..self.at)?);
        digits.ok()?.parse().ok()
    }

    /// A number, as the nearest double.
    #[inline]
    pub(super) fn number(&mut self) -> Option<f64> {
        let rest = self.bytes.get(self.at..)?;
        let negative = rest.first() == Some(&b'-');
        let from = usize::from(negative);
        let eight = rest.get(from..).and_then(|rest| rest.first_chunk());
        let Some(short) = eight.and_then(|eight| Short::of(*eight)) else {
            return self.long_number(negative);
        };
        self.at += from + short.length;
        // As a signed number, for which the processor has an instruction.
        let number = short.digits as i64 as f64 / POWERS.get(short.fraction)?;
        Some(if negative { -number } else { number })
    }

    /// A number of more than seven characters, or near the end of the text.
    fn long_number(&mut self, negative: bool) -> Option<f64> {
        let rest = self.bytes.get(self.at..)?;
        let from = usize::from(negative);
        let (whole, point) = run_of_digits(rest, from, 0);
        let (digits, to) = match rest.get(point) {
            Some(b'.') => run_of_digits(rest, point + 1, whole),
            _ => (whole, point),
        };
        let (whole_length, fraction) = (point - from, (to - point).saturating_sub(1));
        // What is plain and fits for certain; the rest is looked at more closely.
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

    /// A number of many digits, or with an exponent, or none: its form is looked at here, its value is the library's.
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
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The number alone, and the same with text behind it, as it stands in a batch.
    fn number(text: &str) -> Option<f64> {
        let read = |text: &str, rest: usize| {
            let mut scanner = Scanner::new(text.as_bytes());
            let number = scanner.number();
            number.filter(|_| text.len() - scanner.place() == rest)
        };
        let alone = read(text, 0);
        for behind in [",        ", "}        ", " ,       "] {
            let followed = read(&format!("{text}{behind}"), behind.len());
            assert_eq!(
                followed.map(f64::to_bits),
                alone.map(f64::to_bits),
                "{text}{behind}"
            );
        }
        alone
    }

    #[test]
    fn what_is_no_number_is_none() {
        for text in [
            "", "-", "+1", "01", "-01", "1.", ".5", "1e", "1e+", "1.e5", "0x1", "NaN", "1_0",
            "1 2", "--1",
        ] {
            assert_eq!(number(text), None, "{text}");
        }
    }

    #[test]
    fn what_is_not_well_formed_is_given_up() {
        let reads = |text: &str| {
            let mut scanner = Scanner::new(text.as_bytes());
            let whole = scanner.members(|scanner, _| scanner.skip_scalar());
            whole.and_then(|()| scanner.end()).is_some()
        };
        assert!(reads(" { } ") && reads(r#"{"a" : 1 ,"b":"x","c":null,"d":true,"e":false}"#));
        for text in [
            "",
            "{",
            "{}}",
            "[]",
            r#"{"a"}"#,
            r#"{"a":}"#,
            r#"{"a":1,}"#,
            r#"{,"a":1}"#,
            r#"{"a":1 "b":2}"#,
            r#"{a:1}"#,
            r#"{"a":nul}"#,
            r#"{"a":tru}"#,
            r#"{"a":"\n"}"#,
            "{\"a\":\"\n\"}",
            r#"{"a":"#,
            r#"{"a":"x}"#,
            r#"{"a":{}}"#,
        ] {
            assert!(!reads(text), "{text}");
        }
    }

    proptest! {
        /// A number is the same double, to the last bit, as the slow way makes of it.
        #[test]
        fn a_number_is_what_serde_json_makes_of_it(text in "-?(0|[1-9][0-9]{0,18})(\\.[0-9]{1,25})?([eE][+-]?[0-9]{1,2})?") {
            if let Some(fast) = number(&text) {
                let slow: f64 = serde_json::from_str(&text).unwrap();
                prop_assert_eq!(fast.to_bits(), slow.to_bits());
            } else {
                prop_assert!(text.contains(['e', 'E']), "{} was given up", text);
            }
        }

        /// Short ones, too, which are most of a batch.
        #[test]
        fn a_short_number_is_what_serde_json_makes_of_it(text in "-?[0-9]{0,4}\\.?[0-9]{0,4}") {
            let slow: Option<f64> = serde_json::from_str(&text).ok();
            prop_assert_eq!(number(&text).map(f64::to_bits), slow.map(f64::to_bits), "{}", text);
        }

        /// Numbers as programs write doubles, too.
        #[test]
        fn a_double_comes_back(value in -1e9_f64..1e9) {
            let text = value.to_string();
            let slow: f64 = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(number(&text).map(f64::to_bits), Some(slow.to_bits()));
        }
    }
}
