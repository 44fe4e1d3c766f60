//! What a process remembers so that it need not ask. All of it is bounded, and all of it may be forgotten.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use porchlight_schema::ids::{EndpointId, SessionId};
use porchlight_schema::limits::JOURNAL_TIPS_MAX;

use super::journal::Tip;
use super::outbox::Cursor;

/// Locks that writers of one thing share. More than there are ever writers at once.
const STRIPES: usize = 1_024;
/// Cursors that are remembered.
const CURSORS_MAX: usize = 65_536;
/// Slots that are known to be listed.
const SLOTS_MAX: usize = 65_536;
/// Endpoints whose mark is remembered.
const MARKS_MAX: usize = 16_384;

/// A map of bounded size, in two generations: when the younger is full the elder is dropped, so that what is used
/// stays.
pub(super) struct Recent<K, V> {
    half: usize,
    maps: Mutex<(HashMap<K, V>, HashMap<K, V>)>,
}

impl<K: Eq + Hash + Clone, V: Clone> Recent<K, V> {
    fn new(max: usize) -> Self {
        Self {
            half: max / 2,
            maps: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, (HashMap<K, V>, HashMap<K, V>)> {
        self.maps.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn get(&self, key: &K) -> Option<V> {
        let mut maps = self.lock();
        if let Some(value) = maps.0.get(key) {
            return Some(value.clone());
        }
        let value = maps.1.get(key).cloned()?;
        self.put_in(&mut maps, key.clone(), value.clone());
        Some(value)
    }

    pub(super) fn put(&self, key: K, value: V) {
        self.put_in(&mut self.lock(), key, value);
    }

    fn put_in(&self, maps: &mut (HashMap<K, V>, HashMap<K, V>), key: K, value: V) {
        if maps.0.len() >= self.half && !maps.0.contains_key(&key) {
            maps.1 = std::mem::take(&mut maps.0);
        }
        maps.0.insert(key, value);
    }

    /// Changes what is there; does nothing where nothing is.
    pub(super) fn change(&self, key: &K, change: impl FnOnce(&mut V)) {
        let mut maps = self.lock();
        let (young, old) = &mut *maps;
        if let Some(value) = young.get_mut(key).or_else(|| old.get_mut(key)) {
            change(value);
        }
    }
}

/// Locks by hash: whoever writes one thing in this process waits for the others who do.
pub(super) struct Stripes {
    hasher: RandomState,
    locks: Vec<tokio::sync::Mutex<()>>,
}

impl Stripes {
    fn new() -> Self {
        Self {
            hasher: RandomState::new(),
            locks: (0..STRIPES).map(|_| tokio::sync::Mutex::new(())).collect(),
        }
    }

    /// Waits for the turn. None only where there are no locks at all, which is never.
    pub(super) async fn lock(&self, of: &impl Hash) -> Option<tokio::sync::MutexGuard<'_, ()>> {
        let place = self.hasher.hash_one(of) as usize % STRIPES;
        match self.locks.get(place) {
            Some(lock) => Some(lock.lock().await),
            None => None,
        }
    }
}

/// What is remembered.
pub(super) struct Memory {
    /// What is known of sessions' journals.
    pub(super) tips: Recent<SessionId, Tip>,
    /// Sessions' cursors, and the generation in which each was read or written: only the owner writes them.
    pub(super) cursors: Recent<SessionId, (u64, Arc<Cursor>)>,
    /// Slots that are listed.
    pub(super) slots: Recent<(Vec<u8>, i64), ()>,
    /// Up to which slot outboxes have nothing left.
    pub(super) marks: Recent<EndpointId, i64>,
    /// Readers of one session's tip.
    pub(super) loading: Stripes,
    /// Writers of one batch.
    pub(super) batches: Stripes,
    /// Writers of one session's state.
    pub(super) states: Stripes,
    /// Readers and writers of one session's cursor.
    pub(super) lanes: Stripes,
}

impl Default for Memory {
    fn default() -> Self {
        Self {
            tips: Recent::new(JOURNAL_TIPS_MAX),
            cursors: Recent::new(CURSORS_MAX),
            slots: Recent::new(SLOTS_MAX),
            marks: Recent::new(MARKS_MAX),
            loading: Stripes::new(),
            batches: Stripes::new(),
            states: Stripes::new(),
            lanes: Stripes::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_stays_and_the_size_is_bounded() {
        let recent = Recent::new(8);
        for number in 0..100 {
            recent.put(number, number);
            assert_eq!(recent.get(&0), Some(0));
            let maps = recent.lock();
            assert!(maps.0.len() + maps.1.len() <= 8);
        }
        assert_eq!(recent.get(&50), None);
        recent.change(&0, |value| *value = 7);
        assert_eq!(recent.get(&0), Some(7));
    }
}
