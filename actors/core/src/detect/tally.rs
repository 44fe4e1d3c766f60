//! Counts the seconds of a run by kind.

use serde::{Deserialize, Serialize};

/// The kinds of seconds that are counted. A second may be of several kinds. Each kind has a bit, in
/// this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Counted {
    /// The body was measured.
    Body,
    /// Steps were seen.
    Steps,
    /// The second shows an acceleration up or down, or cannot exclude one.
    Push,
    /// A walk away from a vehicle would have been recognised.
    Seen,
    /// The phone was under the open sky: the newest fix was a good one.
    Sky,
    /// A fix arrived.
    Fix,
    /// The stride was one of climbing stairs.
    Stride,
    /// A speed over ground was known.
    Speed,
}

impl Counted {
    /// Returns the bit of this kind.
    pub(super) const fn bit(self) -> u16 {
        1 << self as u16
    }
}

/// The number of kinds.
const COUNTED: usize = 8;

const BITS: [u16; COUNTED] = [1, 2, 4, 8, 16, 32, 64, 128];

/// The number of seconds of each kind, together in one SIMD vector. The counts saturate.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct Tally([u16; COUNTED]);

impl Tally {
    /// Counts a second for the kinds whose bits are set.
    #[inline]
    pub(super) fn count(&mut self, bits: u16) {
        // A choice between two vectors: a bit that is moved to its count takes twice as many steps.
        for (seconds, bit) in self.0.iter_mut().zip(BITS) {
            let more = seconds.saturating_add(1);
            *seconds = if bits & bit == 0 { *seconds } else { more };
        }
    }

    /// Adds the counts of the kinds whose bits are set.
    pub(super) fn add(&mut self, other: &Self, bits: u16) {
        for ((seconds, more), bit) in self.0.iter_mut().zip(other.0).zip(BITS) {
            *seconds = seconds.saturating_add(if bits & bit != 0 { more } else { 0 });
        }
    }

    /// Returns the number of seconds of a kind.
    pub(super) fn of(&self, counted: Counted) -> u16 {
        self.0[counted as usize]
    }
}
