//! Cache of key lookups, successful and failed ones.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use dashmap::{DashMap, DashSet};
use porchlight_core::shares::TokenBucket;
use porchlight_schema::ids::KeyId;
use porchlight_schema::key::KeyRecord;
use porchlight_schema::limits::{
    FOUND_KEYS_REMEMBERED_MAX, KEYS_REMEMBERED_MAX, UNKNOWN_KEY_LOOKUPS_BURST,
    UNKNOWN_KEY_LOOKUPS_PER_SEC, UNKNOWN_KEYS_REMEMBERED_MAX,
};

/// The result of a lookup and its time.
struct Remembered<T> {
    found: T,
    at: Instant,
    /// Whether a caller is refreshing the entry.
    is_refreshing: AtomicBool,
}

impl<T> Remembered<T> {
    fn new(found: T) -> Self {
        Self {
            found,
            at: Instant::now(),
            is_refreshing: AtomicBool::new(false),
        }
    }
}

/// The cached result of a lookup.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum CachedKey {
    /// The key exists.
    Found(Arc<KeyRecord>),
    /// There is no such key.
    Unknown,
    /// No result is cached, or the caller must refresh it.
    Missing,
}

type Map<T> = DashMap<[u8; 32], Remembered<T>>;

/// The cached lookups. Failed ones are kept separately, so that guesses cannot evict keys in use.
pub(super) struct KeyCache {
    known: Map<Arc<KeyRecord>>,
    unknown: Map<()>,
    /// Keys that were found at least once.
    found: DashSet<[u8; 32]>,
    /// Lookups of keys that were never found.
    first_lookups: Mutex<TokenBucket>,
    since: Instant,
    remembered: Duration,
}

impl KeyCache {
    pub(super) fn new(remembered: Duration) -> Self {
        Self {
            known: DashMap::new(),
            unknown: DashMap::new(),
            found: DashSet::new(),
            first_lookups: Mutex::new(TokenBucket::new(
                UNKNOWN_KEY_LOOKUPS_PER_SEC.into(),
                UNKNOWN_KEY_LOOKUPS_BURST.into(),
            )),
            since: Instant::now(),
            remembered,
        }
    }

    /// Returns the cached result of a lookup. After two thirds of the lifetime, the first caller
    /// must refresh it while the others use the cached result; otherwise all callers with a busy
    /// key would query the store simultaneously when it expires.
    pub(super) fn get(&self, hash: &[u8; 32]) -> CachedKey {
        if let Some(entry) = self.known.get(hash) {
            let age = entry.at.elapsed();
            let is_good = age < self.remembered;
            let refresh = age * 3 > self.remembered * 2;
            let is_mine = is_good && refresh && !entry.is_refreshing.swap(true, Ordering::Relaxed);
            return if is_good && !is_mine {
                CachedKey::Found(Arc::clone(&entry.found))
            } else {
                CachedKey::Missing
            };
        }
        let is_cached = |entry: &Remembered<()>| entry.at.elapsed() < self.remembered;
        if self
            .unknown
            .get(hash)
            .is_some_and(|entry| is_cached(&entry))
        {
            CachedKey::Unknown
        } else {
            CachedKey::Missing
        }
    }

    /// Checks whether a key may be looked up now. A key that was found before always may; the
    /// others are limited per second, because the checksum of a key is public, and each guess costs
    /// a read of the store.
    ///
    /// # Errors
    ///
    /// Returns the time to wait, in milliseconds, if the lookup is not permitted now.
    pub(super) fn begin_lookup(&self, hash: &[u8; 32]) -> Result<Lookup<'_>, u64> {
        let lookup = Lookup {
            cache: self,
            hash: *hash,
        };
        if !self.found.contains(hash) {
            let now_ms = u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX);
            self.first_lookups().take(now_ms)?;
        }
        Ok(lookup)
    }

    fn first_lookups(&self) -> MutexGuard<'_, TokenBucket> {
        let bucket = self.first_lookups.lock();
        bucket.unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn put(&self, hash: [u8; 32], found: Option<Arc<KeyRecord>>) {
        match found {
            Some(record) => {
                self.make_room(&self.known, KEYS_REMEMBERED_MAX);
                if self.found.len() >= FOUND_KEYS_REMEMBERED_MAX {
                    self.found.clear();
                }
                if self.found.insert(hash) {
                    self.first_lookups().give_back();
                }
                self.known.insert(hash, Remembered::new(record));
            }
            None => {
                self.make_room(&self.unknown, UNKNOWN_KEYS_REMEMBERED_MAX);
                self.known.remove(&hash);
                self.unknown.insert(hash, Remembered::new(()));
            }
        }
    }

    /// Evicts the key with this id; the lookups of the others stay cached.
    pub(super) fn evict(&self, id: KeyId) {
        self.known.retain(|_, entry| entry.found.id != id);
    }

    /// Removes expired entries.
    pub(super) fn clean_up(&self) {
        self.evict_old(&self.known);
        self.evict_old(&self.unknown);
    }

    fn evict_old<T>(&self, map: &Map<T>) {
        map.retain(|_, entry| entry.at.elapsed() < self.remembered);
    }

    /// Makes room for an entry. It is called only after a lookup in the store, which costs much
    /// more.
    fn make_room<T>(&self, map: &Map<T>, max: usize) {
        if map.len() >= max {
            self.evict_old(map);
            // If all entries are in use, or keys are being guessed, the whole cache is cleared.
            if map.len() >= max {
                map.clear();
            }
        }
    }
}

/// A lookup in progress. If it ends without a result, the next caller refreshes the entry.
pub(super) struct Lookup<'c> {
    cache: &'c KeyCache,
    hash: [u8; 32],
}

impl Drop for Lookup<'_> {
    fn drop(&mut self) {
        if let Some(entry) = self.cache.known.get(&self.hash) {
            entry.is_refreshing.store(false, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use porchlight_schema::ids::OrganizationId;
    use porchlight_schema::key::{KeyKind, Role};
    use porchlight_schema::session::{Env, Tenant};
    use porchlight_schema::time::TimestampMs;

    use super::*;

    fn record() -> Arc<KeyRecord> {
        Arc::new(KeyRecord {
            id: KeyId::new(TimestampMs(1), 1),
            tenant: Tenant {
                organization_id: OrganizationId::new(TimestampMs(1), 1),
                env: Env::Sandbox,
            },
            kind: KeyKind::Secret,
            last4: "abcd".into(),
            created_at: TimestampMs(1),
            expires_at: None,
            revoked_at: None,
            name: None,
            last_used_at: None,
            role: Role::Admin,
        })
    }

    #[test]
    fn lookups_of_unknown_keys_are_limited_and_of_known_keys_not() {
        let cache = KeyCache::new(Duration::from_secs(0));
        cache.begin_lookup(&[0; 32]).unwrap();
        cache.put([0; 32], Some(record()));
        let guess = |number: u16| {
            let mut hash = [1; 32];
            hash[..2].copy_from_slice(&number.to_be_bytes());
            cache.begin_lookup(&hash).is_ok()
        };
        let looked_up = (0..u16::MAX).filter(|&number| guess(number)).count();
        assert!(looked_up < usize::from(u16::MAX) / 2, "{looked_up}");
        cache.begin_lookup(&[0; 32]).unwrap();
        cache.evict(record().id);
        cache.begin_lookup(&[0; 32]).unwrap();
    }

    #[test]
    fn a_lookup_is_cached_until_it_expires() {
        let cache = KeyCache::new(Duration::from_secs(60));
        assert_eq!(cache.get(&[1; 32]), CachedKey::Missing);
        cache.put([1; 32], Some(record()));
        cache.put([2; 32], None);
        assert_eq!(cache.get(&[1; 32]), CachedKey::Found(record()));
        assert_eq!(cache.get(&[2; 32]), CachedKey::Unknown);
        cache.evict(record().id);
        assert_eq!(cache.get(&[1; 32]), CachedKey::Missing);
        assert_eq!(cache.get(&[2; 32]), CachedKey::Unknown);
        let never_caching = KeyCache::new(Duration::ZERO);
        never_caching.put([1; 32], Some(record()));
        assert_eq!(never_caching.get(&[1; 32]), CachedKey::Missing);
    }

    #[test]
    fn the_eviction_of_a_key_leaves_the_others() {
        let cache = KeyCache::new(Duration::from_secs(60));
        let other = Arc::new(KeyRecord {
            id: KeyId::new(TimestampMs(1), 2),
            ..record().as_ref().clone()
        });
        cache.put([1; 32], Some(record()));
        cache.put([2; 32], Some(Arc::clone(&other)));
        cache.evict(record().id);
        assert_eq!(cache.get(&[1; 32]), CachedKey::Missing);
        assert_eq!(cache.get(&[2; 32]), CachedKey::Found(other));
    }

    #[test]
    fn one_of_many_callers_refreshes_a_lookup() {
        let cache = KeyCache::new(Duration::from_secs(60));
        let (young, old) = (Duration::from_secs(39), Duration::from_secs(41));
        for (age, look_ups) in [(young, 0), (old, 1)] {
            cache.put([1; 32], Some(record()));
            cache.known.get_mut(&[1; 32]).unwrap().at -= age;
            let must_look_up = |_: &i32| cache.get(&[1; 32]) == CachedKey::Missing;
            assert_eq!(
                (0..10).filter(must_look_up).count(),
                look_ups,
                "after {age:?}"
            );
        }
        cache.put([1; 32], Some(record()));
        assert_eq!(cache.get(&[1; 32]), CachedKey::Found(record()));
    }

    #[test]
    fn another_caller_refreshes_after_a_lookup_that_failed() {
        let cache = KeyCache::new(Duration::from_secs(60));
        cache.put([1; 32], Some(record()));
        cache.known.get_mut(&[1; 32]).unwrap().at -= Duration::from_secs(41);
        for _ in 0..3 {
            assert_eq!(cache.get(&[1; 32]), CachedKey::Missing);
            let lookup = cache.begin_lookup(&[1; 32]).unwrap();
            assert_eq!(cache.get(&[1; 32]), CachedKey::Found(record()));
            drop(lookup);
        }
    }

    #[test]
    fn guesses_are_bounded_and_evict_no_known_key() {
        let cache = KeyCache::new(Duration::from_secs(60));
        cache.put([255; 32], Some(record()));
        for guess in 0..3 * UNKNOWN_KEYS_REMEMBERED_MAX as u32 {
            let mut hash = [0; 32];
            hash[..4].copy_from_slice(&guess.to_be_bytes());
            cache.put(hash, None);
            assert!(cache.unknown.len() <= UNKNOWN_KEYS_REMEMBERED_MAX);
        }
        assert_eq!(cache.get(&[255; 32]), CachedKey::Found(record()));
    }
}
