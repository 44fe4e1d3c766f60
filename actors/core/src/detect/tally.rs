//! How many seconds of a run were of which kind.

use serde::{Deserialize, Serialize};

/// What is counted; a second may be several of these. Each has a bit, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Counted {
    /// The body was measured.
    Body,
    /// Steps were seen.
    Steps,
    /// The body was pushed up or down, or could have been.
    Push,
    /// Walking away from a vehicle would be seen.
    Seen,
    /// The sky was seen: the newest fix was a good one.
    Sky,
    /// A fix came.
    Fix,
    /// The stride was one of stairs.
    Stride,
    /// There was a speed over ground.
    Speed,
}

impl Counted {
    /// Its bit.
    pub(super) const fn bit(self) -> u16 {
        1 << self as u16
    }
}

/// How many there are.
const COUNTED: usize = 8;

const BITS: [u16; COUNTED] = [1, 2, 4, 8, 16, 32, 64, 128];

/// Seconds of each kind: together in one vector of the processor. They stop at the highest number.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct Tally([u16; COUNTED]);

impl Tally {
    /// Counts a second of the kinds whose bits are set.
    #[inline]
    pub(super) fn count(&mut self, bits: u16) {
        for (seconds, bit) in self.0.iter_mut().zip(BITS) {
            *seconds = seconds.saturating_add(u16::from(bits & bit != 0));
        }
    }

    /// Adds those of the kinds whose bits are set.
    pub(super) fn add(&mut self, other: &Self, bits: u16) {
        for ((seconds, more), bit) in self.0.iter_mut().zip(other.0).zip(BITS) {
            *seconds = seconds.saturating_add(if bits & bit != 0 { more } else { 0 });
        }
    }

    /// Seconds of a kind.
    pub(super) fn of(&self, counted: Counted) -> u16 {
        self.0[counted as usize]
    }
}
