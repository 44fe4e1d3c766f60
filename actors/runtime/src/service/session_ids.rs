//! Session ids that sort in the order of creation.

use std::sync::atomic::{AtomicU64, Ordering};

use porchlight_schema::ids::SessionId;
use porchlight_schema::time::TimestampMs;

/// The number of bits for an id's position among the ids of its millisecond.
const PLACE_BITS: u32 = 16;
/// The number of bits of an id that stay random.
const RANDOM_BITS: u32 = 64;

/// The source of session ids. On one node, ids of the same millisecond sort in the order of
/// creation: a client that starts sessions one after the other finds them in that order in the
/// list, regardless of the clock's resolution.
#[derive(Debug, Default)]
pub(crate) struct SessionIds {
    /// The millisecond of the newest id, and its position in that millisecond.
    newest: AtomicU64,
}

impl SessionIds {
    /// Creates an id at `at` that contains 64 bits of `random`. If a millisecond has more than
    /// 65,536 ids, the last ones are unordered.
    pub(crate) fn make(&self, at: TimestampMs, random: u128) -> SessionId {
        let first = u64::try_from(at.0).unwrap_or(0) << PLACE_BITS;
        let after = |newest: u64| {
            if newest >> PLACE_BITS != first >> PLACE_BITS {
                return first;
            }
            (newest + 1).min(first | ((1 << PLACE_BITS) - 1))
        };
        let update = |newest| Some(after(newest));
        let before = self
            .newest
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, update)
            .unwrap_or(first);
        let place = u128::from(after(before) & ((1 << PLACE_BITS) - 1));
        let random = random & ((1 << RANDOM_BITS) - 1);
        SessionId::new(at, (place << RANDOM_BITS) | random)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_one_millisecond_sort_in_order_of_creation() {
        let ids = SessionIds::default();
        // The randomness falls while the ids rise; a clock that is set back starts over.
        let made: Vec<SessionId> = [5_i64, 5, 5, 6, 6, 4, 4]
            .iter()
            .zip((0..7_u128).rev())
            .map(|(&ms, random)| ids.make(TimestampMs(ms), random))
            .collect();
        assert!(made[..5].is_sorted() && made[5] < made[6] && made[6] < made[0]);
        let times: Vec<i64> = made.iter().map(|id| id.made_at().0).collect();
        assert_eq!(times, [5, 5, 5, 6, 6, 4, 4]);
    }

    #[test]
    fn a_full_millisecond_does_not_overlap_the_next() {
        let ids = SessionIds::default();
        let at = TimestampMs(9);
        let made: Vec<SessionId> = (0..70_000_u128)
            .map(|random| ids.make(at, random))
            .collect();
        assert!(made.is_sorted());
        assert!(made.iter().all(|id| id.made_at() == at));
    }
}
