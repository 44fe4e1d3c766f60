//! Decides which writes a store accepts while its disk fills up.
//!
//! Below the **reserve**, writes of clients are refused; the service's own writes (ends, insights,
//! webhook state, deletions) continue and use the reserve. Below the **minimum**, a part of the
//! reserve, every write is refused, because a write that fails for lack of space ends the process.
//!
//! Space counts as free only if the engine does not need it for rows that it holds in memory. A
//! level is left again only when a margin above it is free, so that a store at the edge does not
//! alternate between accepting and refusing.

use porchlight_schema::limits::{
    STORE_MINIMUM_PARTS, STORE_RESERVE_MARGIN_PARTS, STORE_RESERVE_PARTS_MIN,
};

/// The amount of disk space left for the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum SpaceLevel {
    /// Less than the minimum: no writes are accepted.
    Exhausted = 0,
    /// Less than the reserve: only the service's own writes are accepted.
    Low = 1,
    /// Enough for every write.
    Plenty = 2,
}

/// The origin of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteOrigin {
    /// A client, which receives 503 and repeats the request later.
    Client,
    /// The service itself, which has to finish the work that it accepted.
    Service,
}

impl SpaceLevel {
    /// All levels, from least space to most.
    pub const ALL: [Self; 3] = [Self::Exhausted, Self::Low, Self::Plenty];

    /// Returns whether a write is accepted at this level.
    #[must_use]
    pub const fn accepts(self, origin: WriteOrigin) -> bool {
        match self {
            Self::Plenty => true,
            Self::Low => matches!(origin, WriteOrigin::Service),
            Self::Exhausted => false,
        }
    }
}

/// A measurement of the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskUsage {
    /// Bytes that this process may still write.
    pub free_bytes: u64,
    /// The size of the file system in bytes.
    pub total_bytes: u64,
}

/// The state machine of the free space.
#[derive(Debug, Clone)]
pub struct DiskSpace {
    reserve_bytes: u64,
    level: SpaceLevel,
}

impl DiskSpace {
    /// Creates the machine with this reserve in bytes; 0 refuses nothing.
    #[must_use]
    pub const fn new(reserve_bytes: u64) -> Self {
        Self {
            reserve_bytes,
            level: SpaceLevel::Plenty,
        }
    }

    /// Returns the level of the last measurement.
    #[must_use]
    pub const fn level(&self) -> SpaceLevel {
        self.level
    }

    /// Takes a measurement into account and returns the level. `unflushed_bytes` are the bytes that
    /// the engine holds in memory and has yet to write to files.
    pub fn measure(&mut self, usage: DiskUsage, unflushed_bytes: u64) -> SpaceLevel {
        // A small disk must not consist of the reserve alone.
        let reserve = self
            .reserve_bytes
            .min(usage.total_bytes / STORE_RESERVE_PARTS_MIN);
        let minimum = reserve / STORE_MINIMUM_PARTS;
        let spare = usage.free_bytes.saturating_sub(unflushed_bytes);
        let reaches = |threshold: u64, is_above: bool| {
            let margin = if is_above {
                0
            } else {
                threshold / STORE_RESERVE_MARGIN_PARTS
            };
            self.reserve_bytes == 0 || spare >= threshold.saturating_add(margin)
        };
        self.level = if reaches(reserve, self.level == SpaceLevel::Plenty) {
            SpaceLevel::Plenty
        } else if reaches(minimum, self.level >= SpaceLevel::Low) {
            SpaceLevel::Low
        } else {
            SpaceLevel::Exhausted
        };
        self.level
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MIB: u64 = 1 << 20;

    fn usage(free_mib: u64) -> DiskUsage {
        DiskUsage {
            free_bytes: free_mib * MIB,
            total_bytes: 100_000 * MIB,
        }
    }

    #[test]
    fn levels_follow_the_free_space_and_return_with_a_margin() {
        let mut space = DiskSpace::new(1_024 * MIB);
        for (free_mib, unflushed_mib, level) in [
            (1_024, 0, SpaceLevel::Plenty),
            (1_040, 17, SpaceLevel::Low),
            (1_023, 0, SpaceLevel::Low),
            (1_100, 0, SpaceLevel::Low),
            (256, 0, SpaceLevel::Low),
            (255, 0, SpaceLevel::Exhausted),
            (280, 0, SpaceLevel::Exhausted),
            (0, 64, SpaceLevel::Exhausted),
            (288, 0, SpaceLevel::Low),
            (1_151, 0, SpaceLevel::Low),
            (1_152, 0, SpaceLevel::Plenty),
            (0, 0, SpaceLevel::Exhausted),
            (5_000, 0, SpaceLevel::Plenty),
        ] {
            assert_eq!(
                space.measure(usage(free_mib), unflushed_mib * MIB),
                level,
                "{free_mib} MiB free, {unflushed_mib} MiB in memory"
            );
        }
    }

    #[test]
    fn a_small_disk_has_a_small_reserve_and_no_reserve_refuses_nothing() {
        let small = |free_mib| DiskUsage {
            free_bytes: free_mib * MIB,
            total_bytes: 64 * MIB,
        };
        let mut space = DiskSpace::new(1_024 * MIB);
        assert_eq!(space.measure(small(60), 0), SpaceLevel::Plenty);
        assert_eq!(space.measure(small(15), 0), SpaceLevel::Low);
        assert_eq!(space.measure(small(3), 0), SpaceLevel::Exhausted);
        assert_eq!(
            DiskSpace::new(0).measure(small(0), 9 * MIB),
            SpaceLevel::Plenty
        );
    }

    proptest! {
        /// A client's write is never accepted below the reserve, and no write below the minimum,
        /// regardless of earlier measurements; with the margin free, every write is accepted.
        #[test]
        fn no_history_lowers_the_limits(
            history in proptest::collection::vec((0_u64..2_000, 0_u64..300), 0..20),
            free_mib in 0_u64..2_000,
            unflushed_mib in 0_u64..300,
        ) {
            let mut space = DiskSpace::new(1_024 * MIB);
            for (free_mib, unflushed_mib) in history {
                space.measure(usage(free_mib), unflushed_mib * MIB);
            }
            let level = space.measure(usage(free_mib), unflushed_mib * MIB);
            let spare_mib = free_mib.saturating_sub(unflushed_mib);
            prop_assert!(spare_mib >= 1_024 || !level.accepts(WriteOrigin::Client));
            prop_assert!(spare_mib >= 256 || !level.accepts(WriteOrigin::Service));
            prop_assert!(spare_mib < 288 || level.accepts(WriteOrigin::Service));
            prop_assert!(spare_mib < 1_152 || level.accepts(WriteOrigin::Client));
        }
    }
}
