//! The rows that this process may still write into the shared partitions of lists and outboxes.
//!
//! A list begins in a partition that all processes share, and each process counts its own rows
//! there. Beyond its share, it writes into partitions of its own. So a partition's rows are bounded
//! by the number of processes that wrote into it.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use porchlight_schema::limits::{
    LIST_OWN_ROWS_MAX, LIST_SHARED_ROWS_MAX, LIST_SHARED_ROWS_PER_DAY_MAX,
};
use porchlight_schema::time::{DAY_MS, HOUR_MS, TimestampMs};
use porchlight_world::fill_random;

use crate::cql::layout::slots::{SLOT_MS, SlotOwner, slot_of};
use crate::cql::sessions::session_list::List;

/// Counters of the lists of an organization's environment: 256 KB.
const TENANT_COUNTERS: usize = 65_536;
/// Counters of the lists of a courier's or a delivery's sessions: 4 MB. At 100 sessions per second,
/// eight rows a day share a counter.
const NAMED_COUNTERS: usize = 1_048_576;

/// Counters of rows by key and period. A counter has the lower 16 bits of the period in its upper
/// half and the rows in its lower. Keys whose hashes are equal share a counter, so their lists
/// leave the shared partitions earlier.
struct Counters {
    rows_max: u16,
    hasher: RandomState,
    cells: Vec<AtomicU32>,
}

impl Counters {
    fn new(cells: usize, rows_max: u16) -> Self {
        let cells = (0..cells).map(|_| AtomicU32::new(0)).collect();
        Self {
            rows_max,
            hasher: RandomState::new(),
            cells,
        }
    }

    /// Counts a row and returns whether it fits into the share of its period. A period before the
    /// counter's counts as the counter's, so that a clock that goes back does not enlarge the
    /// share.
    fn count(&self, key: &[u8], period: i64) -> bool {
        let index = self.hasher.hash_one(key) as usize % self.cells.len().max(1);
        let Some(cell) = self.cells.get(index) else {
            return false;
        };
        let period = period as u16;
        let next = |there: u32| {
            let (counted, rows) = ((there >> 16) as u16, there as u16);
            // The lower bits of the period start again from zero after the highest.
            let is_later = period.wrapping_sub(counted).cast_signed() > 0;
            let (counted, rows) = if rows == 0 || is_later {
                (period, 0)
            } else {
                (counted, rows)
            };
            (rows < self.rows_max).then(|| u32::from(counted) << 16 | u32::from(rows + 1))
        };
        cell.fetch_update(Ordering::AcqRel, Ordering::Acquire, next)
            .is_ok()
    }
}

/// The rows that this process may still write into the shared partitions of lists.
pub(in crate::cql) struct RowShares {
    /// The counters of lists of sessions by hour.
    sessions: Counters,
    deliveries: Counters,
    riders: Counters,
    /// The counters of lists of deliveries, of failed deliveries and of outboxes.
    messages: Counters,
    /// The number of this process's first own partition. It is random, so that processes do not
    /// share one.
    first_own: u32,
    own_rows: AtomicU64,
}

impl Default for RowShares {
    fn default() -> Self {
        let mut first_own = [0; 4];
        fill_random(&mut first_own);
        Self {
            sessions: Counters::new(TENANT_COUNTERS, LIST_SHARED_ROWS_MAX),
            deliveries: Counters::new(NAMED_COUNTERS, LIST_SHARED_ROWS_PER_DAY_MAX),
            riders: Counters::new(NAMED_COUNTERS, LIST_SHARED_ROWS_PER_DAY_MAX),
            messages: Counters::new(TENANT_COUNTERS, LIST_SHARED_ROWS_MAX),
            first_own: u32::from_be_bytes(first_own),
            own_rows: AtomicU64::new(0),
        }
    }
}

impl RowShares {
    /// Counts a row that was created at `created_at`. Returns `None` if the row fits into the share
    /// of the shared partition, otherwise the number of the partition that this process writes
    /// alone. `owner` lists own partitions.
    ///
    /// Each hour or day of creation has its own counter, because an import writes rows of many days
    /// in one. A counter starts again from zero in each hour or day of the writes.
    pub(super) fn count(
        &self,
        owner: SlotOwner,
        created_at: TimestampMs,
        now: TimestampMs,
    ) -> Option<u32> {
        let (counters, length_ms) = match owner {
            SlotOwner::OwnSessions(_, List::All) => (&self.sessions, HOUR_MS),
            SlotOwner::OwnSessions(_, List::Delivery(_)) => (&self.deliveries, DAY_MS),
            SlotOwner::OwnSessions(_, List::Rider(_)) => (&self.riders, DAY_MS),
            _ => (&self.messages, SLOT_MS),
        };
        let mut key = owner.key();
        key.extend(slot_of(created_at, length_ms).to_be_bytes());
        if counters.count(&key, slot_of(now, length_ms)) {
            return None;
        }
        let rows = self.own_rows.fetch_add(1, Ordering::AcqRel);
        let filled = (rows / LIST_OWN_ROWS_MAX) as u32;
        Some(self.first_own.wrapping_add(filled))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use porchlight_schema::ids::OrganizationId;
    use porchlight_schema::session::{Env, Tenant};
    use proptest::prelude::*;

    use super::*;

    fn courier(number: u8) -> SlotOwner {
        courier_with([number; 32])
    }

    fn courier_with(hash: [u8; 32]) -> SlotOwner {
        let tenant = Tenant {
            organization_id: OrganizationId::from_bytes([1; 16]),
            env: Env::Production,
        };
        SlotOwner::OwnSessions(tenant, List::Rider(hash))
    }

    const T0: TimestampMs = TimestampMs(1_700_000_000_000);

    #[test]
    fn rows_beyond_the_share_of_a_day_go_into_own_partitions() {
        let row_shares = RowShares::default();
        for day in 0..3 {
            let at = T0.plus_ms(day * DAY_MS);
            for row in 0..100 {
                let is_shared = row_shares.count(courier(7), at, at).is_none();
                assert_eq!(is_shared, row < LIST_SHARED_ROWS_PER_DAY_MAX, "row {row}");
            }
            let other = row_shares.count(courier(8), at, at);
            assert_eq!(other, None, "another courier has a share of its own");
        }
    }

    #[test]
    fn many_couriers_of_a_day_keep_their_shared_partitions() {
        let row_shares = RowShares::default();
        let own = (0_u32..200_000).filter(|number| {
            let mut hash = [0; 32];
            hash[..4].copy_from_slice(&number.to_be_bytes());
            row_shares.count(courier_with(hash), T0, T0).is_some()
        });
        assert_eq!(own.count(), 0);
    }

    #[test]
    fn a_counter_starts_again_in_each_period() {
        let counters = Counters::new(1, 2);
        for period in (0..200_000).step_by(7) {
            let taken = [(); 3].map(|()| counters.count(&[], period));
            assert_eq!(taken, [true, true, false], "period {period}");
        }
    }

    #[test]
    fn a_clock_that_goes_back_does_not_enlarge_the_share() {
        let row_shares = RowShares::default();
        let is_shared = |now| row_shares.count(courier(7), T0, now).is_none();
        let shared = (0..100).filter(|_| is_shared(T0)).count();
        assert_eq!(shared, usize::from(LIST_SHARED_ROWS_PER_DAY_MAX));
        assert!(!is_shared(T0.plus_ms(-DAY_MS)));
    }

    #[test]
    fn an_own_partition_has_a_bound_and_each_process_has_its_own() {
        let row_shares = RowShares::default();
        let mut rows: BTreeMap<u32, u64> = BTreeMap::new();
        for _ in 0..2 * LIST_OWN_ROWS_MAX + 100 {
            if let Some(number) = row_shares.count(courier(7), T0, T0) {
                *rows.entry(number).or_default() += 1;
            }
        }
        assert_eq!(rows.len(), 3);
        assert!(rows.values().all(|&rows| rows <= LIST_OWN_ROWS_MAX));
        assert_ne!(row_shares.first_own, RowShares::default().first_own);
    }

    proptest! {
        /// In any order of lists and times, no shared partition gets more rows than its share in
        /// one period of writes.
        #[test]
        fn no_share_is_exceeded(rows in prop::collection::vec((0_u8..3, 0_i64..3), 1..600)) {
            let row_shares = RowShares::default();
            let mut shared: BTreeMap<(u8, i64), u16> = BTreeMap::new();
            for (rider, day) in rows {
                let at = T0.plus_ms(day * DAY_MS);
                if row_shares.count(courier(rider), at, T0).is_none() {
                    *shared.entry((rider, day)).or_default() += 1;
                }
            }
            let is_within = |&rows: &u16| rows <= LIST_SHARED_ROWS_PER_DAY_MAX;
            prop_assert!(shared.values().all(is_within));
        }
    }
}
