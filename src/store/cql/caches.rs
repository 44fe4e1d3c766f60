//! Caches of this process. All are bounded, and all may be dropped.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use porchlight_schema::ids::{EndpointId, SessionId};
use porchlight_schema::limits::JOURNAL_HEADS_MAX;
use porchlight_schema::session::Tenant;

use super::journal::JournalHead;
use super::layout::bounded::RowShares;
use super::sessions::own_sessions::OwnSession;
use super::sessions::state::{SessionRecord, State};
use super::webhooks::endpoints::KnownEndpoint;
use super::webhooks::outbox::{Cursor, ExaminedEntries};
use super::webhooks::relay::MessageHead;
use super::work::live_sessions::{EmptyRead, WorkTable};

/// The number of lock stripes, which exceeds the number of concurrent writers.
const STRIPES: usize = 1_024;
/// The maximum number of cached cursors.
const CURSORS_MAX: usize = 65_536;
/// The maximum number of slots known to be listed.
const SLOTS_MAX: usize = 65_536;
/// The maximum number of endpoints with a cached watermark.
const WATERMARKS_MAX: usize = 16_384;

/// The maximum number of buckets of live or marked sessions that are known to be empty: those of
/// 256 shards for two days.
const EMPTY_BUCKETS_MAX: usize = 32_768;
/// The maximum number of sessions with a cached time at which this process first saw their end.
const ENDS_SEEN_MAX: usize = 65_536;
/// The maximum number of cached live sessions that this process has examined.
const EXAMINED_MAX: usize = 262_144;
/// The maximum number of sessions whose last written copies are cached.
const COPIED_MAX: usize = 65_536;

/// The maximum number of cached starts of sessions.
const RECORDS_MAX: usize = 8_192;
/// The maximum number of cached states that this process has written.
const STATES_MAX: usize = 4_096;
/// The maximum number of cached message bodies that this process has written and not sent yet.
const BODIES_MAX: usize = 4_096;

/// The maximum number of sessions that are known without a read, about 1 KB each.
const OWN_SESSIONS_MAX: usize = 32_768;
/// The maximum number of tenants whose endpoint is cached.
const MESSAGE_ENDPOINTS_MAX: usize = 16_384;

/// The maximum number of sessions whose messages were read and whose states are not committed yet.
const LANES_READ_MAX: usize = 4_096;

/// The maximum number of cached batches whose write is in doubt.
const IN_DOUBT_MAX: usize = 65_536;

/// A cache of bounded size with two generations of entries. When the newer generation is full, the
/// cache evicts the older one, so that used entries stay.
pub(super) struct BoundedCache<K, V> {
    half: usize,
    maps: Mutex<(HashMap<K, V>, HashMap<K, V>)>,
}

impl<K: Eq + Hash + Clone, V: Clone> BoundedCache<K, V> {
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
        self.put_locked(&mut maps, key.clone(), value.clone());
        Some(value)
    }

    pub(super) fn put(&self, key: K, value: V) {
        self.put_locked(&mut self.lock(), key, value);
    }

    fn put_locked(&self, maps: &mut (HashMap<K, V>, HashMap<K, V>), key: K, value: V) {
        if maps.0.len() >= self.half && !maps.0.contains_key(&key) {
            maps.1 = std::mem::take(&mut maps.0);
        }
        maps.0.insert(key, value);
    }

    pub(super) fn remove(&self, key: &K) -> Option<V> {
        let mut maps = self.lock();
        let (young, old) = &mut *maps;
        let older = old.remove(key);
        young.remove(key).or(older)
    }

    /// Changes an existing entry; does nothing without one.
    pub(super) fn change(&self, key: &K, change: impl FnOnce(&mut V)) {
        let mut maps = self.lock();
        let (young, old) = &mut *maps;
        if let Some(value) = young.get_mut(key).or_else(|| old.get_mut(key)) {
            change(value);
        }
    }
}

/// Locks by hash, which serialize the writers of one key within this process.
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

    /// Waits for the lock of a key.
    pub(super) async fn lock(&self, key: &impl Hash) -> tokio::sync::MutexGuard<'_, ()> {
        // There are `STRIPES` locks, so each remainder is the index of one.
        let index = self.hasher.hash_one(key) as usize % STRIPES;
        self.locks[index].lock().await
    }
}

/// All caches of the process.
pub(super) struct Caches {
    /// The heads of sessions' journals.
    pub(super) journal_heads: BoundedCache<SessionId, JournalHead>,
    /// Sessions' cursors with the generation in which each was read or written: only the owner
    /// writes them.
    pub(super) cursors: BoundedCache<SessionId, (u64, Arc<Cursor>)>,
    /// Slots known to be listed, each with the time at which this process wrote its row, in
    /// milliseconds of the monotonic clock.
    pub(super) slots: BoundedCache<(Vec<u8>, i64), i64>,
    /// The slots up to which outboxes are empty.
    pub(super) watermarks: BoundedCache<EndpointId, i64>,
    /// The ready entries that the owner has examined, by outbox.
    pub(super) examined_outboxes: BoundedCache<EndpointId, ExaminedEntries>,
    /// Hashes of batches whose write failed and may still have happened, by session and number.
    pub(super) in_doubt: BoundedCache<(SessionId, u32), Vec<[u8; 32]>>,
    /// Buckets of live or marked sessions that were read and had no rows, by kind, shard and
    /// bucket. `None` after a write of this process.
    pub(super) empty_buckets: BoundedCache<(WorkTable, u8, i64), Option<EmptyRead>>,
    /// The hours up to which shards have no live or marked sessions.
    pub(super) shard_watermarks: BoundedCache<(WorkTable, u8), i64>,
    /// The times at which this process first saw the ends of sessions, in milliseconds of its
    /// monotonic clock.
    pub(super) ends_seen: BoundedCache<SessionId, i64>,
    /// Live sessions for which this process has completed the work that an earlier process may have
    /// left.
    pub(super) examined: BoundedCache<SessionId, ()>,
    /// The last change of a session's state whose copies this process has written.
    pub(super) copied: BoundedCache<SessionId, [u8; 16]>,
    /// Starts of sessions, each with the time of its read in milliseconds of the monotonic clock.
    pub(super) records: BoundedCache<SessionId, (i64, Arc<SessionRecord>)>,
    /// The last state of a session, with its version, if this process has written it. Another
    /// process may have written a later one, so it is used only as the expectation of a
    /// transaction, or under the conditions of [`OwnSession`].
    pub(super) states_written: BoundedCache<SessionId, (i64, Arc<State>)>,
    /// Bodies of messages that this process has written and not sent yet, by session and number.
    pub(super) bodies: BoundedCache<(SessionId, u32), Arc<str>>,
    /// Sessions that this process has created and nobody else writes, if it serves alone.
    pub(super) own_sessions: BoundedCache<SessionId, OwnSession>,
    /// The endpoints of tenants' messages, as read a moment ago.
    pub(super) message_endpoints: BoundedCache<Tenant, KnownEndpoint>,
    /// The number of times that this process has begun or finished a change of an endpoint.
    pub(super) endpoint_changes: AtomicU64,
    /// The messages of sessions as this process last read them, until it commits a change of their
    /// states.
    pub(super) lanes_read: BoundedCache<SessionId, Arc<Vec<MessageHead>>>,
    /// The rows that this process may still write into shared partitions of lists.
    pub(super) row_shares: RowShares,
    /// Serializes readers of one journal head.
    pub(super) loading: Stripes,
    /// Serializes writers of one batch.
    pub(super) batches: Stripes,
    /// Serializes writers of one session's state.
    pub(super) states: Stripes,
    /// Serializes readers and writers of one session's cursor.
    pub(super) lanes: Stripes,
}

impl Default for Caches {
    fn default() -> Self {
        Self {
            journal_heads: BoundedCache::new(JOURNAL_HEADS_MAX),
            cursors: BoundedCache::new(CURSORS_MAX),
            slots: BoundedCache::new(SLOTS_MAX),
            watermarks: BoundedCache::new(WATERMARKS_MAX),
            examined_outboxes: BoundedCache::new(WATERMARKS_MAX),
            in_doubt: BoundedCache::new(IN_DOUBT_MAX),
            empty_buckets: BoundedCache::new(EMPTY_BUCKETS_MAX),
            shard_watermarks: BoundedCache::new(2_048),
            ends_seen: BoundedCache::new(ENDS_SEEN_MAX),
            examined: BoundedCache::new(EXAMINED_MAX),
            copied: BoundedCache::new(COPIED_MAX),
            records: BoundedCache::new(RECORDS_MAX),
            states_written: BoundedCache::new(STATES_MAX),
            bodies: BoundedCache::new(BODIES_MAX),
            own_sessions: BoundedCache::new(OWN_SESSIONS_MAX),
            message_endpoints: BoundedCache::new(MESSAGE_ENDPOINTS_MAX),
            endpoint_changes: AtomicU64::new(0),
            lanes_read: BoundedCache::new(LANES_READ_MAX),
            row_shares: RowShares::default(),
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
    fn used_entries_stay_and_the_size_is_bounded() {
        let cache = BoundedCache::new(8);
        for number in 0..100 {
            cache.put(number, number);
            assert_eq!(cache.get(&0), Some(0));
            let maps = cache.lock();
            assert!(maps.0.len() + maps.1.len() <= 8);
        }
        assert_eq!(cache.get(&50), None);
        cache.change(&0, |value| *value = 7);
        assert_eq!(cache.get(&0), Some(7));
        assert_eq!(cache.remove(&0), Some(7));
        assert_eq!(cache.get(&0), None);
    }
}
