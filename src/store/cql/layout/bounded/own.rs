//! Partitions that one process writes alone, and reads of several partitions as one list.

use std::collections::BTreeMap;

use porchlight_ports::StoreResult;
use porchlight_schema::time::TimestampMs;

use crate::cql::Inner;
use crate::cql::layout::slots::{Direction, SlotOwner};

/// The bits of an own partition's slot that hold the partition's number; the bits above hold the
/// period.
const NUMBER_BITS: u32 = 32;
/// The bit that distinguishes the key of an own partition from a period.
const OWN_KEY_BIT: i64 = 1 << 62;
/// The latest period that a slot can hold. Later periods have no rows.
const PERIOD_MAX: i64 = 1 << 30;

/// The maximum number of own partitions in one read. One hour has fewer: with 100 processes, each
/// process can start again 80 times.
pub(in crate::cql) const OWN_READ_MAX: usize = 8_192;

/// A partition that one process writes alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cql) struct OwnPartition {
    /// The hour or the ten minutes in which its sessions or messages were created.
    pub(in crate::cql) period: i64,
    /// The number of the partition, which is random for each process.
    pub(in crate::cql) number: u32,
}

impl OwnPartition {
    /// Returns the slot that lists the partition. Slots sort by period.
    pub(in crate::cql) fn slot(self) -> i64 {
        self.period.clamp(-PERIOD_MAX, PERIOD_MAX) << NUMBER_BITS | i64::from(self.number)
    }

    /// Returns the key of the partition in a table whose shared partitions have the period as their
    /// key.
    pub(in crate::cql) fn key(self) -> i64 {
        self.slot() | OWN_KEY_BIT
    }

    fn of_slot(slot: i64) -> Self {
        Self {
            period: slot >> NUMBER_BITS,
            // The lower bits are the number.
            number: slot as u32,
        }
    }
}

impl Inner {
    /// Lists the first own partitions of these periods, both inclusive: at most [`OWN_READ_MAX`].
    pub(in crate::cql) async fn own_partitions(
        &self,
        owner: SlotOwner,
        from: i64,
        to: i64,
        direction: Direction,
    ) -> StoreResult<Vec<OwnPartition>> {
        if self.bounded_since().await?.is_none() {
            return Ok(Vec::new());
        }
        let first = OwnPartition {
            period: from,
            number: 0,
        };
        let last = OwnPartition {
            period: to,
            number: u32::MAX,
        };
        let ends = (first.slot(), last.slot());
        let slots = self
            .slots_up_to(owner, ends, direction, OWN_READ_MAX)
            .await?;
        Ok(slots.into_iter().map(OwnPartition::of_slot).collect())
    }

    /// Lists the keys of the partitions of each period, in a table whose shared partitions have the
    /// period as their key. The periods keep their order.
    pub(in crate::cql) async fn keys_of_periods(
        &self,
        owner: SlotOwner,
        periods: Vec<i64>,
    ) -> StoreResult<Vec<Vec<i64>>> {
        let (Some(&first), Some(&last)) = (periods.iter().min(), periods.iter().max()) else {
            return Ok(Vec::new());
        };
        let own = self
            .own_partitions(owner, first, last, Direction::Ascending)
            .await?;
        let is_complete = own.len() < OWN_READ_MAX;
        let mut by_period: BTreeMap<i64, Vec<i64>> = BTreeMap::new();
        for own in own {
            by_period.entry(own.period).or_default().push(own.key());
        }
        let mut all = Vec::new();
        for period in periods {
            let mut keys = if is_complete {
                by_period.remove(&period).unwrap_or_default()
            } else {
                let own = self
                    .own_partitions(owner, period, period, Direction::Ascending)
                    .await?;
                own.into_iter().map(OwnPartition::key).collect()
            };
            keys.push(period);
            all.push(keys);
        }
        Ok(all)
    }

    /// Chooses the partition for a new row of a period: `None` for the shared partition while this
    /// process has rows left in its share, otherwise a partition of this process, which is listed
    /// before this returns.
    pub(in crate::cql) async fn choose_partition(
        &self,
        owner: SlotOwner,
        period: i64,
        created_at: TimestampMs,
    ) -> StoreResult<Option<OwnPartition>> {
        let now = self.clock.now();
        if self.bounded_since().await?.is_none_or(|since| now < since) {
            return Ok(None);
        }
        let number = self.caches.row_shares.count(owner, created_at, now);
        let own = number.map(|number| OwnPartition { period, number });
        if let Some(own) = own {
            self.list_slots(&[(owner, own.slot())]).await?;
        }
        Ok(own)
    }

    /// Lists a period, chooses the partition for a new row of it like [`Self::choose_partition`],
    /// and returns its key in a table whose shared partitions have the period as their key.
    pub(in crate::cql) async fn key_for_row(
        &self,
        (shared, own): (SlotOwner, SlotOwner),
        period: i64,
        created_at: TimestampMs,
    ) -> StoreResult<i64> {
        self.list_slots(&[(shared, period)]).await?;
        let own = self.choose_partition(own, period, created_at).await?;
        Ok(own.map_or(period, OwnPartition::key))
    }
}

/// Removes the last period from a read that was full, because the read may lack some of its
/// partitions. Returns that period, with which the next read begins.
pub(in crate::cql) fn cut_full_read(own: &mut Vec<OwnPartition>, read_max: usize) -> Option<i64> {
    let [first, last] = [own.first(), own.last()].map(|own| own.map(|own| own.period));
    // A period alone is complete: it has fewer partitions than one read.
    let next = last.filter(|_| own.len() >= read_max && first != last);
    own.retain(|own| Some(own.period) != next);
    next
}

/// Merges the first rows of several partitions, each sorted by `key`. A partition whose read was
/// full may have rows after its last one, so rows after the first such last row are left to the
/// next read. Returns the rows, and whether these are all.
pub(in crate::cql) fn merge<T, K: Ord>(
    reads: Vec<Vec<T>>,
    read_rows: usize,
    key: impl Fn(&T) -> K,
) -> (Vec<T>, bool) {
    let full = reads.iter().filter(|read| read.len() >= read_rows);
    let horizon = full.filter_map(|read| read.last().map(&key)).min();
    let mut rows: Vec<T> = reads.into_iter().flatten().collect();
    if let Some(horizon) = &horizon {
        rows.retain(|row| key(row) <= *horizon);
    }
    rows.sort_by_key(&key);
    // A write that was repeated may have a row in two partitions.
    rows.dedup_by_key(|row| key(row));
    (rows, horizon.is_none())
}

#[cfg(test)]
mod tests {
    use std::cmp::Reverse;
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn own_partitions_have_keys_of_their_own_and_slots_in_the_order_of_periods() {
        let mut seen = BTreeSet::new();
        let mut slots = Vec::new();
        for period in [-1, 0, 480_000, 480_001] {
            for number in [0, 1, u32::MAX] {
                let own = OwnPartition { period, number };
                assert_eq!(OwnPartition::of_slot(own.slot()), own);
                slots.push(own.slot());
                assert!(seen.insert(own.key()), "{own:?}");
                assert!(!(0..PERIOD_MAX).contains(&own.key()), "{own:?}");
            }
        }
        assert!(slots.is_sorted());
    }

    #[test]
    fn a_full_read_leaves_its_last_period_to_the_next_one() {
        let of = |periods: &[i64]| -> Vec<OwnPartition> {
            let own = periods
                .iter()
                .map(|&period| OwnPartition { period, number: 1 });
            own.collect()
        };
        let cut = |periods: &[i64]| {
            let mut own = of(periods);
            let next = cut_full_read(&mut own, 4);
            (own, next)
        };
        assert_eq!(cut(&[]), (of(&[]), None));
        assert_eq!(cut(&[9, 8, 8]), (of(&[9, 8, 8]), None));
        assert_eq!(cut(&[9, 9, 8, 8]), (of(&[9, 9]), Some(8)));
        assert_eq!(cut(&[8, 8, 8, 8]), (of(&[8, 8, 8, 8]), None));
    }

    proptest! {
        /// Reads that continue after the last row of the one before find each row once, newest
        /// first.
        #[test]
        fn merged_reads_are_complete(
            rows in prop::collection::vec((0_u32..500, 0_usize..3), 0..1_000),
            read_rows in 1_usize..50,
        ) {
            let mut partitions: [BTreeSet<u32>; 3] = Default::default();
            for &(row, partition) in &rows {
                partitions[partition].insert(row);
            }
            let expected: BTreeSet<u32> = rows.iter().map(|&(row, _)| row).collect();
            let mut found: Vec<u32> = Vec::new();
            let mut before = u32::MAX;
            loop {
                let reads = partitions.iter().map(|partition| {
                    partition.range(..before).rev().take(read_rows).copied().collect()
                });
                let (rows, is_end) = merge(reads.collect(), read_rows, |&row| Reverse(row));
                found.extend(&rows);
                if is_end {
                    break;
                }
                before = *rows.last().unwrap();
            }
            prop_assert!(found.iter().eq(expected.iter().rev()));
        }
    }
}
