//! Key look-ups, remembered for a while: those that found one, and those that did not.

use std::sync::Arc;
use std::time::{Duration, Instant};

use dashmap::DashMap;
use porchlight_schema::key::KeyRecord;
use porchlight_schema::limits::{KEYS_REMEMBERED_MAX, UNKNOWN_KEYS_REMEMBERED_MAX};

type Remembered<T> = DashMap<[u8; 32], (T, Instant)>;

/// What was looked up. The unknown are kept apart, so that guesses can't push out what is in use.
pub(super) struct KeyCache {
    known: Remembered<Arc<KeyRecord>>,
    unknown: Remembered<()>,
    remembered: Duration,
}

impl KeyCache {
    pub(super) fn new(remembered: Duration) -> Self {
        Self {
            known: DashMap::new(),
            unknown: DashMap::new(),
            remembered,
        }
    }

    /// What the last look-up gave; none where it is not remembered.
    pub(super) fn get(&self, hash: &[u8; 32]) -> Option<Option<Arc<KeyRecord>>> {
        let is_fresh = |at: Instant| at.elapsed() < self.remembered;
        if let Some(entry) = self.known.get(hash) {
            return is_fresh(entry.1).then(|| Some(Arc::clone(&entry.0)));
        }
        self.unknown
            .get(hash)
            .and_then(|entry| is_fresh(entry.1).then_some(None))
    }

    pub(super) fn put(&self, hash: [u8; 32], found: Option<Arc<KeyRecord>>) {
        let now = Instant::now();
        match found {
            Some(record) => {
                self.make_room(&self.known, KEYS_REMEMBERED_MAX);
                self.known.insert(hash, (record, now));
            }
            None => {
                self.make_room(&self.unknown, UNKNOWN_KEYS_REMEMBERED_MAX);
                self.known.remove(&hash);
                self.unknown.insert(hash, ((), now));
            }
        }
    }

    pub(super) fn clear(&self) {
        self.known.clear();
        self.unknown.clear();
    }

    /// Lets go of what is no longer good.
    pub(super) fn tidy(&self) {
        self.known
            .retain(|_, (_, at)| at.elapsed() < self.remembered);
        self.unknown
            .retain(|_, (_, at)| at.elapsed() < self.remembered);
    }

    /// Called on a look-up that the store answered, so its cost is small beside that one's.
    fn make_room<T>(&self, map: &Remembered<T>, max: usize) {
        if map.len() >= max {
            map.retain(|_, (_, at)| at.elapsed() < self.remembered);
            // All of it is in use, or somebody guesses: both are served by beginning anew.
            if map.len() >= max {
                map.clear();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use porchlight_schema::ids::{KeyId, OrganizationId};
    use porchlight_schema::key::KeyKind;
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
        })
    }

    #[test]
    fn a_look_up_is_remembered_until_it_is_too_old() {
        let cache = KeyCache::new(Duration::from_secs(60));
        assert_eq!(cache.get(&[1; 32]), None);
        cache.put([1; 32], Some(record()));
        cache.put([2; 32], None);
        assert_eq!(cache.get(&[1; 32]), Some(Some(record())));
        assert_eq!(cache.get(&[2; 32]), Some(None));
        cache.clear();
        assert_eq!((cache.get(&[1; 32]), cache.get(&[2; 32])), (None, None));
        let forgetful = KeyCache::new(Duration::ZERO);
        forgetful.put([1; 32], Some(record()));
        assert_eq!(forgetful.get(&[1; 32]), None);
    }

    #[test]
    fn guesses_are_bounded_and_push_nothing_out() {
        let cache = KeyCache::new(Duration::from_secs(60));
        cache.put([255; 32], Some(record()));
        for guess in 0..3 * UNKNOWN_KEYS_REMEMBERED_MAX as u32 {
            let mut hash = [0; 32];
            hash[..4].copy_from_slice(&guess.to_be_bytes());
            cache.put(hash, None);
            assert!(cache.unknown.len() <= UNKNOWN_KEYS_REMEMBERED_MAX);
        }
        assert!(cache.get(&[255; 32]).is_some());
    }
}
