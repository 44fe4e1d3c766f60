//! A trace's fingerprint: small, the same for a replay, and different for an honest second trip on the same way.
//!
//! What is compared is the noise of the positions: pieces of four successive displacements, each brought to a
//! quarter of a metre. A receiver's errors do not repeat themselves, so two honest trips share hardly a piece, while
//! a copy shares all of them wherever it is cut, whatever its times are. Of all pieces the smallest hashes are kept
//! (Broder 1997, min-wise hashing): the share of equal ones is the share of equal pieces.

use serde::{Deserialize, Serialize};

use crate::window::{Fix, Window};

/// Hashes kept.
const SLOTS: usize = 32;
/// Displacements in a piece.
const PIECE: usize = 4;
/// Displacements are brought to this, metres: above the rounding of local coordinates, below the noise of fixes.
const GRID_M: f32 = 0.25;
/// A piece that leads no farther says nothing: standing still looks the same everywhere.
const PIECE_LEAST_M: f32 = 3.0;
/// A displacement beyond this is a gap or a jump.
const STEP_MOST_M: f32 = 500.0;
/// Pieces below which a trace has no fingerprint.
const PIECES_LEAST: u32 = 40;
/// Share of equal pieces from which a trace is called a copy. Honest traces share none: four quantised pairs hit by
/// chance once in about 10⁶ even when walking the same line at the same speed.
const COPY_SHARE: f32 = 0.5;

/// See the module. 32 hashes and a count.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fingerprint {
    slots: Vec<u64>,
    pieces: u32,
}

impl Fingerprint {
    /// The share of equal pieces, 0 to 1.
    #[must_use]
    pub fn similarity(&self, other: &Self) -> f32 {
        let equal = self
            .slots
            .iter()
            .zip(&other.slots)
            .filter(|(a, b)| a == b)
            .count();
        equal as f32 / SLOTS as f32
    }

    /// The similarity, if it is so great that one trace is a copy of the other.
    #[must_use]
    pub fn copy_of(&self, other: &Self) -> Option<f32> {
        Some(self.similarity(other)).filter(|&similarity| similarity >= COPY_SHARE)
    }

    /// Keys under which a store may find candidates: two copies share most of these, two honest traces none.
    #[must_use]
    pub fn keys(&self) -> Vec<u64> {
        self.slots.iter().copied().take(8).collect()
    }
}

/// The fingerprint of a session's positions; none where there are too few that move. Simulated fixes count too:
/// a replay may be marked as such.
#[must_use]
pub fn trace_fingerprint(windows: &[Window]) -> Option<Fingerprint> {
    let mut slots = vec![u64::MAX; SLOTS];
    let mut pieces = 0_u32;
    let mut recent: Vec<(f32, f32)> = Vec::with_capacity(PIECE + 1);
    let mut last: Option<&Fix> = None;
    for fix in windows
        .iter()
        .flat_map(|window| window.fixes.iter().flatten())
    {
        let Some(before) = last else {
            last = Some(fix);
            continue;
        };
        let step = (
            fix.place.east_m - before.place.east_m,
            fix.place.north_m - before.place.north_m,
        );
        if step == (0.0, 0.0) {
            continue;
        }
        last = Some(fix);
        if step.0.abs().max(step.1.abs()) > STEP_MOST_M {
            recent.clear();
            continue;
        }
        if recent.len() == PIECE {
            recent.remove(0);
        }
        recent.push(step);
        if let Some(piece) = piece_hash(&recent) {
            pieces = pieces.saturating_add(1);
            for (index, slot) in slots.iter_mut().enumerate() {
                *slot = (*slot).min(mixed(piece ^ mixed(index as u64 + 1)));
            }
        }
    }
    (pieces >= PIECES_LEAST).then_some(Fingerprint { slots, pieces })
}

fn piece_hash(steps: &[(f32, f32)]) -> Option<u64> {
    if steps.len() < PIECE {
        return None;
    }
    let (east, north) = steps
        .iter()
        .fold((0.0, 0.0), |sum, step| (sum.0 + step.0, sum.1 + step.1));
    if (east * east + north * north).sqrt() < PIECE_LEAST_M {
        return None;
    }
    let quantised = steps
        .iter()
        .flat_map(|step| [step.0, step.1])
        .map(|metres| (metres / GRID_M).round() as i64 as u64);
    Some(quantised.fold(0x9e37_79b9_7f4a_7c15, |hash, value| {
        mixed(hash ^ value.wrapping_mul(0xff51_afd7_ed55_8ccd))
    }))
}

/// The finaliser of SplitMix64 (Steele, Lea and Flood 2014).
fn mixed(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}
