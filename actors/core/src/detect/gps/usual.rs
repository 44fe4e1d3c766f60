//! Estimates the usual accuracy in a session.

use serde::{Deserialize, Serialize};

use crate::detect::parameters::gps::DEGRADED_ACCURACY_M;
use crate::detect::parameters::gps_quality::{
    DEGRADED_RATIO, USUAL_BIN_M, USUAL_BIN_RATIO, USUAL_FIXES_MIN,
};

/// The number of bins for usable accuracies.
const BINS: usize = 64;

/// The upper edges of the bins, in metres.
const EDGES_M: [f32; BINS] = edges_m();

const fn edges_m() -> [f32; BINS] {
    let mut edges_m = [USUAL_BIN_M; BINS];
    let mut place = 1;
    while place < BINS {
        edges_m[place] = edges_m[place - 1] * USUAL_BIN_RATIO;
        place += 1;
    }
    edges_m
}

/// The median of the session's usable accuracies, interpolated within a bin.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct UsualAccuracy {
    #[serde(with = "counts")]
    counts: [u8; BINS],
    /// The bin of the median.
    bin: u8,
    /// The number of fixes in the bins below `bin`.
    below: u16,
    /// The number of fixes in all bins.
    all: u16,
    /// The accuracies of the fixes in `bin`.
    in_bin: BinContent,
}

/// The accuracies in the median's bin. Many phones claim only a few values, so the median is one of
/// them and not interpolated.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
enum BinContent {
    /// No fixes since the median entered the bin.
    #[default]
    Empty,
    /// All fixes since the median entered the bin have the same accuracy, in metres.
    One(f32),
    Several,
}

impl Default for UsualAccuracy {
    fn default() -> Self {
        Self {
            counts: [0; BINS],
            bin: 0,
            below: 0,
            all: 0,
            in_bin: BinContent::default(),
        }
    }
}

/// Serializes an array of [`BINS`] counts, because serde's derive stops at 32 elements.
mod counts {
    use super::BINS;
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

    pub(super) fn serialize<S: Serializer>(
        counts: &[u8; BINS],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        counts.as_slice().serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<[u8; BINS], D::Error> {
        let counts = Vec::<u8>::deserialize(deserializer)?;
        counts
            .try_into()
            .map_err(|_| de::Error::custom("not the number of bins"))
    }
}

/// The number of entries of a table indexed by the highest bits of an accuracy: sixteen per
/// doubling, so that each entry holds at most one edge.
const FINE: usize = 6 * 16;
const FINE_SHIFT: u32 = 19;
/// The highest bits of 1 m, where the table begins.
const FINE_FROM: u32 = 1.0_f32.to_bits() >> FINE_SHIFT;

/// For each table entry, the number of edges below it or at its beginning.
static EDGES_BELOW: [u8; FINE] = edges_below();

const fn edges_below() -> [u8; FINE] {
    let mut all = [0; FINE];
    let (mut fine, mut below) = (0, 0);
    while fine < FINE {
        let from_m = f32::from_bits((FINE_FROM + fine as u32) << FINE_SHIFT);
        while below < BINS && EDGES_M[below] < from_m {
            below += 1;
        }
        all[fine] = below as u8;
        fine += 1;
    }
    all
}

/// Returns the bin of a non-negative accuracy: the number of edges below it.
fn bin_of(accuracy_m: f32) -> usize {
    let fine = (accuracy_m.to_bits() >> FINE_SHIFT).checked_sub(FINE_FROM);
    match fine.and_then(|fine| EDGES_BELOW.get(fine as usize)) {
        Some(&below) => {
            let below = usize::from(below);
            below
                + usize::from(
                    EDGES_M
                        .get(below)
                        .is_some_and(|&edge_m| edge_m < accuracy_m),
                )
        }
        None => EDGES_M.partition_point(|&edge_m| edge_m < accuracy_m),
    }
}

/// For each bin, the limit below which an accuracy is close to any median in that bin: no median
/// lies below its bin.
const FAR_BELOW_M: [f32; BINS] = far_below_m();

const fn far_below_m() -> [f32; BINS] {
    let mut all = [0.0; BINS];
    let mut bin = 1;
    while bin < BINS {
        // The factor leaves a thousandth for rounding.
        all[bin] = 0.999 * DEGRADED_RATIO * EDGES_M[bin - 1];
        bin += 1;
    }
    all
}

impl UsualAccuracy {
    /// Counts the accuracy of a usable fix, in metres.
    pub(super) fn add(&mut self, accuracy_m: f32) {
        let place = bin_of(accuracy_m).min(BINS - 1);
        let Some(count) = self.counts.get_mut(place) else {
            return;
        };
        *count += 1;
        self.all += 1;
        self.below += u16::from(place < usize::from(self.bin));
        if *count == u8::MAX {
            // Old fixes count half, because only the proportions matter.
            self.counts = self.counts.map(|count| count / 2);
            self.all = self.counts.iter().map(|&count| u16::from(count)).sum();
            (self.bin, self.below) = (0, 0);
        }
        let before = self.bin;
        while self.below * 2 > self.all {
            self.bin = self.bin.saturating_sub(1);
            self.below -= self.median_bin_count().min(self.below);
        }
        while (self.below + self.median_bin_count()) * 2 < self.all {
            self.below += self.median_bin_count();
            self.bin += 1;
        }
        if self.bin != before {
            self.in_bin = BinContent::Empty;
        }
        if place == usize::from(self.bin) {
            self.in_bin = match self.in_bin {
                BinContent::Empty => BinContent::One(accuracy_m),
                BinContent::One(before_m) if before_m == accuracy_m => BinContent::One(accuracy_m),
                _ => BinContent::Several,
            };
        }
    }

    /// Returns the number of fixes in the bin of the median.
    fn median_bin_count(&self) -> u16 {
        self.counts
            .get(usize::from(self.bin))
            .map_or(self.all, |&count| u16::from(count))
    }

    /// Returns whether an accuracy is at least [`DEGRADED_RATIO`] times worse than the usual one.
    pub(super) fn is_degraded(&self, accuracy_m: f32) -> bool {
        let surely_near_m = FAR_BELOW_M.get(usize::from(self.bin));
        if self.all < USUAL_FIXES_MIN || surely_near_m.is_some_and(|&near_m| accuracy_m < near_m) {
            return false;
        }
        accuracy_m >= DEGRADED_RATIO * self.median_m()
    }

    /// Returns the median accuracy, metres.
    fn median_m(&self) -> f32 {
        if let BinContent::One(accuracy_m) = self.in_bin {
            return accuracy_m;
        }
        let edge_m = EDGES_M
            .get(usize::from(self.bin))
            .copied()
            .unwrap_or(DEGRADED_ACCURACY_M);
        let over = f32::from(self.all) * 0.5 - f32::from(self.below);
        let share = over / f32::from(self.median_bin_count().max(1));
        let lower_m = edge_m / USUAL_BIN_RATIO;
        lower_m + (edge_m - lower_m) * share
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table finds the same bin as a search, at every edge and around it.
    #[test]
    fn the_table_finds_the_same_bin_as_a_search() {
        let searched = |accuracy_m: f32| EDGES_M.partition_point(|&edge_m| edge_m < accuracy_m);
        let begins = (0..=FINE as u32).map(|fine| f32::from_bits((FINE_FROM + fine) << FINE_SHIFT));
        let each_cm = (0..20_000_u16).map(|cm| f32::from(cm) / 100.0);
        for near_m in EDGES_M.into_iter().chain(begins).chain(each_cm) {
            for accuracy_m in [near_m.next_down().max(0.0), near_m, near_m.next_up()] {
                assert_eq!(bin_of(accuracy_m), searched(accuracy_m), "{accuracy_m}");
            }
        }
    }

    /// The quick check finds an accuracy near the usual one only if the comparison with the median
    /// does so too.
    #[test]
    fn the_quick_distance_check_agrees_with_the_median() {
        let mut usual = UsualAccuracy::default();
        let mut near_count = 0;
        for step in 0..20_000_u32 {
            let accuracy_m = f32::from((step.wrapping_mul(2_654_435_761) >> 18) as u16) / 300.0;
            usual.add(if step % 3 == 0 {
                5.0
            } else {
                accuracy_m.min(49.0)
            });
            let is_far = accuracy_m >= DEGRADED_RATIO * usual.median_m();
            let is_found_far = usual.is_degraded(accuracy_m);
            assert_eq!(is_found_far, usual.all >= USUAL_FIXES_MIN && is_far);
            near_count += u32::from(!is_found_far);
        }
        assert!((1_000..19_000).contains(&near_count));
    }
}
