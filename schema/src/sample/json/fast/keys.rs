//! Predicts the keys of objects that a sender writes alike.
//!
//! The key at a position is first compared with the one at the same position in the last object.
//! A prediction that fails costs one comparison: the text decides.

use super::scanner::{Expected, Scanner};

/// Maximum number of remembered keys.
const KEYS_MAX: usize = 24;

/// The keys of the last object, to predict those of the next one.
#[derive(Debug)]
pub struct Keys<'a, S> {
    known: Vec<Known<'a, S>>,
}

/// A key at its position, with its quotes and colon.
#[derive(Debug, Clone, Copy)]
struct Known<'a, S> {
    head: Expected,
    /// The bytes that exceed the head.
    tail: &'a [u8],
    /// The meaning of the key to the caller.
    slot: S,
}

impl<S> Default for Keys<'_, S> {
    fn default() -> Self {
        Self { known: Vec::new() }
    }
}

impl<'a> Scanner<'a> {
    /// Reads an object like [`Scanner::members`]. `slot_of` gives the meaning of a key; `each` gets
    /// it and reads the value.
    #[inline]
    pub fn members_like<S: Copy>(
        &mut self,
        keys: &mut Keys<'a, S>,
        slot_of: impl Fn(&[u8]) -> S,
        mut each: impl FnMut(&mut Self, S) -> Option<()>,
    ) -> Option<()> {
        let mut goes_on = self.open(b'{', b'}')?;
        for place in 0.. {
            if !goes_on {
                break;
            }
            let slot = match keys.known.get(place) {
                Some(known) if self.pass_long_expected(known.head, known.tail) => known.slot,
                _ => self.other_key(keys, place, &slot_of)?,
            };
            each(self, slot)?;
            goes_on = self.goes_on(b'}')?;
        }
        Some(())
    }

    /// Consumes a key that differs from the predicted one, and remembers it.
    #[inline(never)]
    fn other_key<S: Copy>(
        &mut self,
        keys: &mut Keys<'a, S>,
        place: usize,
        slot_of: &impl Fn(&[u8]) -> S,
    ) -> Option<S> {
        let from = self.place();
        let slot = slot_of(self.key()?);
        let text = self.since(from);
        let (head, tail) = text
            .split_at_checked(Expected::BYTES)
            .unwrap_or((text, &[]));
        let known = Known {
            head: Expected::of(head)?,
            tail,
            slot,
        };
        match keys.known.get_mut(place) {
            Some(old) => *old = known,
            None if place < KEYS_MAX => keys.known.push(known),
            None => {}
        }
        Some(slot)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Reads objects of numbers by `members`, and with predicted keys.
    fn both(text: &str) -> [Option<Vec<(usize, f64)>>; 2] {
        let slot_of = |key: &[u8]| key.iter().map(|&byte| usize::from(byte)).sum();
        let mut plain = Vec::new();
        let mut scanner = Scanner::new(text.as_bytes());
        let read = scanner.elements(|scanner| {
            scanner.members(|scanner, key| {
                plain.push((slot_of(key), scanner.number()?));
                Some(())
            })
        });
        let read = read.and_then(|()| scanner.end());
        let (mut predicted, mut keys) = (Vec::new(), Keys::default());
        let mut scanner = Scanner::new(text.as_bytes());
        let alike = scanner.elements(|scanner| {
            scanner.members_like(&mut keys, slot_of, |scanner, slot| {
                predicted.push((slot, scanner.number()?));
                Some(())
            })
        });
        let alike = alike.and_then(|()| scanner.end());
        [read.map(|()| plain), alike.map(|()| predicted)]
    }

    #[test]
    fn a_key_is_not_confused_with_a_similar_one() {
        for text in [
            r#"[{"abcdefghijklmnop":1},{"abcdefghijklmno  p":2},{"abcdefghijklmno p":3}]"#,
            r#"[{"abcdefghijklmno":1},{"abcdefghijklmno" :2},{"abcdefghijklmno": 3}]"#,
            r#"[{"a":1,"b":2},{"b":1,"a":2},{"a":1},{},{"a":1,"ab":2,"c":3}]"#,
            r#"[{"a" : 1, "a longer key than sixteen bytes" : 2},{"a" : 1, "a longer key than sixteen bites":2}]"#,
        ] {
            let [read, alike] = both(text);
            assert!(read.is_some(), "{text}");
            assert_eq!(read, alike, "{text}");
        }
    }

    proptest! {
        /// Predicted keys change nothing, whether the objects are alike or not.
        #[test]
        fn predicted_keys_change_nothing(
            objects in proptest::collection::vec(
                proptest::collection::vec("\"[ab]{0,3}([a-z ]{12,16}[ab]?)?\" ?: ?[0-9]{0,2}", 0..5), 0..6),
            repeats in 0_usize..3,
        ) {
            let objects: Vec<_> = objects.iter().map(|members| format!("{{{}}}", members.join(","))).collect();
            let once = objects.join(",");
            let text = format!("[{}]", vec![once; repeats + 1].join(", "));
            let [read, alike] = both(&text);
            prop_assert_eq!(read, alike);
        }
    }
}
