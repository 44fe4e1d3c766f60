//! Whether a store is whole: group markers.
//!
//! The writer numbers its groups 1, 2, 3 … and writes, with each, one marker into **both** spaces. Markers lie in a
//! ring of [`RING`] slots, so that they are overwritten and never deleted. An engine that lost some of its log, at
//! the end or in the middle, in one space or in both, can't show an unbroken run of markers up to the group that was
//! acknowledged last, and is refused. (fjall cuts its journal at the first damaged entry and says nothing:
//! fjall-rs/fjall#311.)
//!
//! What has reached the engine's tables is covered by checksums of its own; only groups that may still be in its
//! journals have to be in the ring. The writer has the engine move its memory out to tables every
//! [`ROTATE_GROUPS`], and the engine halts writes while four such moves are under way.

use std::ops::ControlFlow;

use porchlight_ports::StoreError;

use super::engine::{Engine, EngineError, KeyRange, Order, Space, Write};
use super::record;

/// Slots of the ring.
pub(crate) const RING: u64 = 65_536;
/// After this many groups what is in the engine's memory is moved out to tables.
pub(crate) const ROTATE_GROUPS: u64 = RING / 8;

const _: () = assert!(
    ROTATE_GROUPS * 6 <= RING,
    "four moves under way, one memory being filled and one to spare lie within the ring"
);

/// How a store is found not to be whole.
#[derive(Debug, thiserror::Error)]
pub enum NotWhole {
    /// Groups are missing.
    #[error(
        "groups {first} to {last} of the {space} space are missing, though group {acknowledged} was acknowledged: \
         the store was cut short or damaged. Restore a backup, or the missing files"
    )]
    Missing {
        /// Where.
        space: &'static str,
        /// The first that is missing.
        first: u64,
        /// The last.
        last: u64,
        /// The highest group known to have been acknowledged.
        acknowledged: u64,
    },
    /// A marker can't be read.
    #[error("a group marker can't be read")]
    Unreadable(#[from] StoreError),
}

impl From<EngineError> for NotWhole {
    fn from(error: EngineError) -> Self {
        Self::Unreadable(error.into())
    }
}

fn slot_key(log: u64) -> Vec<u8> {
    let slot = (log % RING) as u32;
    let mut key = vec![0];
    key.extend_from_slice(&slot.to_be_bytes());
    key
}

/// The markers of a group.
pub(crate) fn markers(log: u64) -> [Write; 2] {
    Space::ALL.map(|space| {
        let key = slot_key(log);
        Write {
            space,
            value: Some(record::seal(space, &key, Vec::new(), log)),
            key,
        }
    })
}

/// Which group wrote each slot of the ring; 0: none.
fn ring(engine: &dyn Engine, space: Space) -> Result<Vec<u64>, NotWhole> {
    let mut ring = vec![0; RING as usize];
    let mut result = Ok(());
    engine.scan(
        space,
        &KeyRange::prefix([0]),
        Order::Ascending,
        &mut |key, value| match record::unseal(space, key, value.to_vec()) {
            Ok((_, log)) => {
                if let Some(slot) = ring.get_mut((log % RING) as usize) {
                    *slot = log;
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

/// Checks that nothing up to the last group is missing, and that the last group is not below `acknowledged`. Gives
/// the number of the last group, 0 where there is none.
pub(crate) fn check(engine: &dyn Engine, acknowledged: u64) -> Result<u64, NotWhole> {
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
        let is_missing = |log: &u64| ring.get((log % RING) as usize) != Some(log);
        let Some(first_missing) = (first..=last).find(is_missing) else {
            continue;
        };
        let last_missing = (first_missing..=last).rev().find(is_missing);
        return Err(NotWhole::Missing {
            space: space.as_str(),
            first: first_missing,
            last: last_missing.unwrap_or(first_missing),
            acknowledged,
        });
    }
    Ok(newest)
}
