//! A bounded cache that several owners share: an owner with many entries evicts its own.

use std::collections::{BTreeMap, VecDeque};

/// The cached values of all owners, oldest first.
#[derive(Debug)]
pub struct FairCache<O, K, V> {
    entries: VecDeque<Entry<O, K, V>>,
    entries_max: usize,
}

#[derive(Debug)]
struct Entry<O, K, V> {
    owner: O,
    key: K,
    value: V,
}

impl<O: Copy + Ord, K: PartialEq, V> FairCache<O, K, V> {
    /// Creates an empty cache for at most `entries_max` values.
    #[must_use]
    pub fn new(entries_max: usize) -> Self {
        Self {
            entries: VecDeque::new(),
            entries_max,
        }
    }

    /// Returns the value of a key.
    #[must_use]
    pub fn get(&self, key: &K) -> Option<&V> {
        let found = self.entries.iter().find(|entry| entry.key == *key);
        found.map(|entry| &entry.value)
    }

    /// Inserts a value. A full cache evicts the oldest value of the owner that has most, so an
    /// owner keeps its values as long as it has no more than an equal part.
    pub fn insert(&mut self, owner: O, key: K, value: V) {
        self.entries.retain(|entry| entry.key != key);
        self.entries.push_back(Entry { owner, key, value });
        while self.entries.len() > self.entries_max {
            let Some(evicted) = self.oldest_of_largest_owner() else {
                return;
            };
            self.entries.remove(evicted);
        }
    }

    /// Returns the place of the oldest value of the owner that has most values.
    fn oldest_of_largest_owner(&self) -> Option<usize> {
        let mut counts: BTreeMap<O, usize> = BTreeMap::new();
        for entry in &self.entries {
            *counts.entry(entry.owner).or_default() += 1;
        }
        let most = counts.values().max()?;
        self.entries
            .iter()
            .position(|entry| counts.get(&entry.owner) == Some(most))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_owner_cannot_evict_the_values_of_the_others() {
        let mut cache = FairCache::new(64);
        for key in 0..8 {
            cache.insert("quiet", key, ());
        }
        for key in 1_000..2_000 {
            cache.insert("loud", key, ());
        }
        assert!((0..8).all(|key| cache.get(&key).is_some()));
        assert!((1_944..2_000).all(|key| cache.get(&key).is_some()));
        assert_eq!(cache.entries.len(), 64);
    }

    #[test]
    fn the_oldest_value_of_a_single_owner_is_evicted() {
        let mut cache = FairCache::new(2);
        for key in [1, 2, 1, 3] {
            cache.insert((), key, key);
        }
        assert_eq!(cache.get(&2), None);
        assert_eq!((cache.get(&1), cache.get(&3)), (Some(&1), Some(&3)));
    }
}
