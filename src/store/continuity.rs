//! Verifies with group markers that a store is complete.
//!
//! The writer numbers its groups 1, 2, 3 … and writes one marker per group into **both** spaces.
//! The markers form a ring of [`RING`] slots, so they are overwritten and never deleted. An engine
//! may have lost a part of its log, at the end or in the middle, in one space or both. Then it
//! cannot show an unbroken run of markers up to the last acknowledged group, and the store refuses
//! to open. (fjall truncates its journal at the first damaged entry without an error:
//! fjall-rs/fjall#311.)
//!
//! Data in the engine's tables is covered by the engine's checksums, so the ring only has to cover
//! groups that may still be in its journals. The writer makes the engine flush its memtables every
//! [`ROTATE_GROUPS`] groups, and the engine halts writes while four flushes are pending.

use std::ops::ControlFlow;

use porchlight_ports::StoreError;

use super::engine::{Engine, EngineError, KeyRange, Order, Space, Write};
use super::record;

/// The number of slots in the ring.
pub(crate) const RING: u64 = 65_536;
/// The number of groups after which the engine's memtables are flushed to tables.
pub(crate) const ROTATE_GROUPS: u64 = RING / 8;

const _: () = assert!(
    ROTATE_GROUPS * 6 <= RING,
    "the groups of four pending flushes, of the memtable being filled and of one more are in the ring"
);

/// The reason why a store is incomplete.
#[derive(Debug, thiserror::Error)]
pub enum MissingGroups {
    /// Groups are missing.
    #[error(
        "groups {first} to {last} of the {space} space are missing, though group {acknowledged} was acknowledged: \
         the store is truncated or damaged. Restore a backup, or the missing files"
    )]
    Missing {
        /// The name of the space.
        space: &'static str,
        /// The first missing group.
        first: u64,
        /// The last missing group.
        last: u64,
        /// The highest group known to be acknowledged.
        acknowledged: u64,
    },
    /// A marker cannot be read.
    #[error("a group marker cannot be read")]
    Unreadable(#[from] StoreError),
}

impl From<EngineError> for MissingGroups {
    fn from(error: EngineError) -> Self {
        Self::Unreadable(error.into())
    }
}

fn slot_key(group_number: u64) -> Vec<u8> {
    let slot = (group_number % RING) as u32;
    let mut key = vec![0];
    key.extend_from_slice(&slot.to_be_bytes());
    key
}

/// Returns the markers of a group.
pub(crate) fn markers(group_number: u64) -> [Write; 2] {
    Space::ALL.map(|space| {
        let key = slot_key(group_number);
        Write {
            space,
            value: Some(record::with_checksum(space, &key, Vec::new(), group_number)),
            key,
        }
    })
}

/// Returns the group that wrote each slot of the ring; 0: none.
fn ring(engine: &dyn Engine, space: Space) -> Result<Vec<u64>, MissingGroups> {
    let mut ring = vec![0; RING as usize];
    let mut result = Ok(());
    engine.scan(
        space,
        &KeyRange::prefix([0]),
        Order::Ascending,
        &mut |key, value| match record::verified(space, key, value.to_vec()) {
            Ok((_, group_number)) => {
                if let Some(slot) = ring.get_mut((group_number % RING) as usize) {
                    *slot = group_number;
                }
                ControlFlow::Continue(())
            }
            Err(error) => {
                result = Err(error);
                ControlFlow::Break(())
            }
        },
    )?;
    result?;
    Ok(ring)
}

/// Verifies that no group up to the last is missing and that the last is not below `acknowledged`.
/// Returns the number of the last group, or 0 if there are no groups.
pub(crate) fn check(engine: &dyn Engine, acknowledged: u64) -> Result<u64, MissingGroups> {
    let rings = [
        (Space::Journal, ring(engine, Space::Journal)?),
        (Space::State, ring(engine, Space::State)?),
    ];
    let newest = rings
        .iter()
        .flat_map(|(_, ring)| ring.iter().copied())
        .max()
        .unwrap_or(0);
    let last = newest.max(acknowledged);
    let first = last.saturating_sub(RING - 1).max(1);
    for (space, ring) in &rings {
        let is_missing =
            |group_number: &u64| ring.get((group_number % RING) as usize) != Some(group_number);
        let Some(first_missing) = (first..=last).find(is_missing) else {
            continue;
        };
        let last_missing = (first_missing..=last).rev().find(is_missing);
        return Err(MissingGroups::Missing {
            space: space.as_str(),
            first: first_missing,
            last: last_missing.unwrap_or(first_missing),
            acknowledged,
        });
    }
    Ok(newest)
}
