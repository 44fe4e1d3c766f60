//! The data keys that an erasure destroys, for its receipt.

use porchlight_schema::limits::RECEIPT_KEY_RANGES_MAX;
use serde::{Deserialize, Serialize};

/// A set of numbers of data keys, in bounded memory. Each number is added once.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct DestroyedKeys {
    /// The first and the last number of each range, in ascending order. There is a gap between any
    /// two ranges.
    ranges: Vec<(u64, u64)>,
    /// The number of keys that are in no range, because there are too many ranges.
    others: u64,
}

impl DestroyedKeys {
    /// Adds a number that is not in the set.
    pub fn add(&mut self, number: u64) {
        let index = self.ranges.partition_point(|(first, _)| *first <= number);
        let before = index.checked_sub(1).filter(|&before| {
            let range = self.ranges.get(before);
            range.is_some_and(|(_, last)| last.checked_add(1) == Some(number))
        });
        let after = number.checked_add(1).filter(|next| {
            let range = self.ranges.get(index);
            range.is_some_and(|(first, _)| first == next)
        });
        match (before, after) {
            (Some(before), Some(_)) => {
                let (_, last) = self.ranges.remove(index);
                self.extend(before, last);
            }
            (Some(before), None) => self.extend(before, number),
            (None, Some(_)) => {
                if let Some((first, _)) = self.ranges.get_mut(index) {
                    *first = number;
                }
            }
            (None, None) if self.ranges.len() < RECEIPT_KEY_RANGES_MAX => {
                self.ranges.insert(index, (number, number));
            }
            (None, None) => self.others += 1,
        }
    }

    fn extend(&mut self, index: usize, to: u64) {
        if let Some((_, last)) = self.ranges.get_mut(index) {
            *last = to;
        }
    }

    /// Returns the ranges as texts, such as `7` or `12-15`.
    #[must_use]
    pub fn ids(&self) -> Vec<String> {
        let text = |&(first, last): &(u64, u64)| match first == last {
            true => first.to_string(),
            false => format!("{first}-{last}"),
        };
        self.ranges.iter().map(text).collect()
    }

    /// Returns the number of keys that [`Self::ids`] leaves out.
    #[must_use]
    pub fn others(&self) -> u64 {
        self.others
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn of(numbers: impl IntoIterator<Item = u64>) -> DestroyedKeys {
        let mut keys = DestroyedKeys::default();
        for number in numbers {
            keys.add(number);
        }
        keys
    }

    #[test]
    fn neighbours_form_a_range() {
        assert_eq!(of([3, 9, 5, 4, 1]).ids(), ["1", "3-5", "9"]);
        assert_eq!(of([u64::MAX, 0]).ids(), ["0", "18446744073709551615"]);
    }

    #[test]
    fn keys_beyond_the_ranges_are_counted() {
        let ranges = RECEIPT_KEY_RANGES_MAX as u64;
        let mut keys = of((0..ranges + 3).map(|number| 2 * number));
        assert_eq!(keys.ids().len(), RECEIPT_KEY_RANGES_MAX);
        assert_eq!(keys.others(), 3);
        keys.add(1);
        assert_eq!(keys.ids()[0], "0-2", "a range may still grow");
    }

    proptest! {
        /// The ranges name exactly the added numbers.
        #[test]
        fn the_ranges_are_the_set(numbers in prop::collection::hash_set(0_u64..60, 0..60)) {
            let keys = of(numbers.iter().copied());
            let named: Vec<u64> = keys.ranges.iter().flat_map(|&(first, last)| first..=last).collect();
            let sorted: BTreeSet<u64> = numbers.into_iter().collect();
            prop_assert_eq!(named, sorted.into_iter().collect::<Vec<_>>());
            prop_assert!(keys.ranges.windows(2).all(|pair| pair[0].1 + 1 < pair[1].0));
        }
    }
}
