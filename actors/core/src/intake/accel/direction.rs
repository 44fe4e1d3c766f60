//! Keeps the acceleration vector of the last seconds, which shows a phone that is turned and held.
//!
//! A hand that uses the phone turns it and holds it, so that the vector changes slowly. A gait
//! moves the phone back and forth within a step, wherever it is carried. The norm cannot show that,
//! because a turn does not change it.

use serde::{Deserialize, Serialize};

use super::BINS;
use super::gait::REST_STD_MMPS2;
use super::sums;

/// The number of vectors: one for each two bins.
const VECTORS: usize = BINS / 2;
/// The number of axes.
const AXES: usize = 3;
/// The shortest lag examined, in vectors: 0.4 s, half a stride of a quick walk.
const LAG_MIN: usize = 2;
/// The longest lag examined, in vectors: 0.6 s, half a stride of a slow walk.
const LAG_MAX: usize = 3;
/// The number of lags examined.
const LAGS: usize = LAG_MAX - LAG_MIN + 1;
/// The number of values from the first to the last of an axis at the lags examined.
const LAGS_WIDTH: usize = (LAGS - 1) * AXES + 1;

/// The mean vectors of the last four seconds.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct Direction {
    /// The means over two bins, of which the later has an even number, mm/s²: a ring, by that
    /// number.
    vectors: [[i16; AXES]; VECTORS],
    /// The sum since the last mean, m/s².
    sum: [f32; AXES],
    count: u16,
}

fn slot(bin: u32) -> usize {
    bin as usize / 2 % VECTORS
}

impl Direction {
    /// Adds the sum of some samples, m/s².
    pub(super) fn take(&mut self, sum: [f32; AXES], count: usize) {
        self.sum = sums::sum(self.sum, sum);
        self.count = sums::counted(self.count, count);
    }

    /// Ends a bin. A mean without samples repeats the last one.
    pub(super) fn close(&mut self, bin: u32) {
        if !bin.is_multiple_of(2) {
            return;
        }
        let last = self.vectors.get(slot(bin.wrapping_sub(2))).copied();
        let vector = if self.count > 0 {
            self.sum.map(|sum| sums::mean_mmps2(sum, self.count))
        } else {
            last.unwrap_or_default()
        };
        if let Some(kept) = self.vectors.get_mut(slot(bin)) {
            *kept = vector;
        }
        (self.sum, self.count) = ([0.0; AXES], 0);
    }

    /// Returns the greater autocorrelation of the vector after half a stride, of the bins before
    /// the `open` one. The lowest bit of `measured` is the oldest bin. Returns 0 at rest and before
    /// there are two seconds of data.
    pub(super) fn correlation(&self, open: u32, measured: u64) -> f32 {
        // The newest bin with an even number, and the bits of its vectors.
        let newest = open.saturating_sub(1) & !1;
        let behind = open.saturating_sub(newest + 1);
        let mut bits = measured << behind >> 1;
        let (newer, older) = self.vectors.split_at((slot(newest) + 1) % VECTORS);
        let mut values = [0.0_f32; (VECTORS + LAG_MAX) * AXES];
        let (mut sum, mut count, mut known) = ([0.0_f32; AXES], 0.0_f32, 0_u32);
        let in_order = older.iter().chain(newer).enumerate();
        for ((place, vector), to) in in_order.zip(values.chunks_exact_mut(AXES)) {
            if bits & 1 == 1 {
                for ((to, sum), &axis) in to.iter_mut().zip(&mut sum).zip(vector) {
                    *to = f32::from(axis);
                    *sum += *to;
                }
                count += 1.0;
                known |= 1 << place;
            }
            bits >>= 2;
        }
        let mean = sum.map(|sum| sum / count);
        for (place, to) in values.chunks_exact_mut(AXES).enumerate().take(VECTORS) {
            if known >> place & 1 == 1 {
                for (to, mean) in to.iter_mut().zip(mean) {
                    *to -= mean;
                }
            }
        }
        // Each sum has an order of its own, so one loop adds to all of them.
        let (mut energy, mut products) = (0.0_f32, [0.0_f32; LAGS]);
        let later = values.get(LAG_MIN * AXES..).unwrap_or_default();
        for (later, value) in later.windows(LAGS_WIDTH).zip(&values[..VECTORS * AXES]) {
            energy += value * value;
            for (product, later) in products.iter_mut().zip(later.iter().step_by(AXES)) {
                *product += value * later;
            }
        }
        let is_short = (count as usize) < VECTORS / 2;
        if is_short || energy < count * REST_STD_MMPS2 * REST_STD_MMPS2 {
            return 0.0;
        }
        let lags = (LAG_MIN..=LAG_MAX).zip(products);
        let correlations = lags.map(|(lag, product)| {
            let pairs = (known & known >> lag).count_ones().max(1);
            product * count / (pairs as f32 * energy)
        });
        correlations.fold(-1.0, f32::max)
    }
}
