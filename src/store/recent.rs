//! A bounded map of recently used entries.

use std::collections::HashMap;
use std::hash::Hash;

/// A map of at most `entries_max` entries. There are two generations: when the younger is full the
/// older is dropped, so that memory stays bounded and an entry in use stays.
pub(crate) struct Recent<K, V> {
    young: HashMap<K, V>,
    old: HashMap<K, V>,
    entries_max: usize,
}

impl<K: Eq + Hash + Copy, V: Clone> Recent<K, V> {
    /// Creates an empty map.
    pub(crate) fn new(entries_max: usize) -> Self {
        Self {
            young: HashMap::new(),
            old: HashMap::new(),
            entries_max,
        }
    }

    /// Returns an entry, which counts as a use.
    pub(crate) fn get(&mut self, key: &K) -> Option<V> {
        if let Some(value) = self.young.get(key) {
            return Some(value.clone());
        }
        let value = self.old.get(key)?.clone();
        self.set(*key, value.clone());
        Some(value)
    }

    /// Adds or replaces an entry.
    pub(crate) fn set(&mut self, key: K, value: V) {
        if self.young.len() >= self.entries_max / 2 && !self.young.contains_key(&key) {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(key, value);
    }

    /// Removes an entry.
    pub(crate) fn remove(&mut self, key: &K) {
        self.young.remove(key);
        self.old.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_in_use_stay_and_the_number_is_bounded() {
        let mut recent = Recent::new(8);
        recent.set(0, 0);
        for number in 1..100 {
            recent.set(number, number);
            assert_eq!(recent.get(&0), Some(0));
            assert!(recent.young.len() + recent.old.len() <= 8);
        }
        assert_eq!(recent.get(&1), None);
        recent.remove(&0);
        assert_eq!(recent.get(&0), None);
    }
}
