//! Sums the elements of an array of acceleration by bin and by second.

use std::ops::Range;

use serde::{Deserialize, Serialize};

/// Standard gravity, m/s² (ISO 80000-3), used before the first measurement.
pub(super) const GRAVITY: f32 = 9.806_65;

pub(super) fn dot(a: [f32; 3], b: [f32; 3]) -> f32 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

pub(super) fn sum(a: [f32; 3], b: [f32; 3]) -> [f32; 3] {
    [a[0] + b[0], a[1] + b[1], a[2] + b[2]]
}

/// The sums over one second.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct Second {
    pub(super) t_ms: u32,
    pub(super) count: u16,
    pub(super) gyro_count: u16,
    pub(super) accel: [f32; 3],
    pub(super) gyro: [f32; 3],
    /// The sum of the norm, less [`GRAVITY`].
    pub(super) norm: f32,
    pub(super) norm_squared: f32,
}

impl Second {
    /// Adds turn rates, axis by axis.
    pub(super) fn turn(&mut self, [x, y, z]: [&[f32]; 3]) {
        let mut gyro = self.gyro;
        for ((&x, &y), &z) in x.iter().zip(y).zip(z) {
            gyro = sum(gyro, [x, y, z]);
        }
        self.gyro = gyro;
        let count = x.len().min(y.len()).min(z.len());
        self.gyro_count = counted(self.gyro_count, count);
    }
}

/// The bin that is still being filled.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct Bin {
    pub(super) number: u32,
    pub(super) norm: f32,
    pub(super) rise: f32,
    pub(super) count: u16,
}

impl Bin {
    /// Returns the mean of a sum over this bin, mm/s².
    pub(super) fn mean(&self, sum: f32) -> i16 {
        mean_mmps2(sum, self.count)
    }
}

/// Returns the mean of a sum in m/s² over `count` elements, mm/s².
pub(super) fn mean_mmps2(sum: f32, count: u16) -> i16 {
    (sum / f32::from(count) * 1_000.0).clamp(-32_000.0, 32_000.0) as i16
}

/// Adds elements to a count, which stops at the maximum of its type.
pub(super) fn counted(count: u16, more: usize) -> u16 {
    count.saturating_add(u16::try_from(more).unwrap_or(u16::MAX))
}

/// The maximum number of array elements processed together.
pub(super) const PART: usize = 64;

/// At most [`PART`] elements of an array, with values that are computed several elements at a time,
/// which the ordered summation does not allow.
pub(super) struct Part<'i> {
    accel: [&'i [f32]; 3],
    /// Each element's norm less gravity.
    norms: [f32; PART],
    /// Each element's acceleration along gravity, less gravity.
    rises: [f32; PART],
}

impl<'i> Part<'i> {
    /// Measures elements. `up` is the direction of gravity; without it, the norm stands in for the
    /// acceleration along gravity.
    pub(super) fn measure(accel: [&'i [f32]; 3], up: Option<[f32; 3]>) -> Self {
        let [x, y, z] = accel;
        let mut norms = [0.0; PART];
        for (((norm, &x), &y), &z) in norms.iter_mut().zip(x).zip(y).zip(z) {
            *norm = (x * x + y * y + z * z).sqrt() - GRAVITY;
        }
        let mut rises = norms;
        if let Some(up) = up {
            for (((rise, &x), &y), &z) in rises.iter_mut().zip(x).zip(y).zip(z) {
                *rise = dot([x, y, z], up) - GRAVITY;
            }
        }
        Self {
            accel,
            norms,
            rises,
        }
    }

    /// Adds the elements `within` this part to the sums of their bin and their second. Returns the
    /// sum of their acceleration by axis, and their number.
    ///
    /// Every sum has an order of its own, so one loop adds to all of them and none waits for another.
    pub(super) fn add(
        &self,
        within: Range<usize>,
        bin: &mut Bin,
        second: &mut Second,
    ) -> ([f32; 3], usize) {
        let [x, y, z] = self
            .accel
            .map(|axis| axis.get(within.clone()).unwrap_or_default());
        let norms = self.norms.get(within.clone()).unwrap_or_default();
        let rises = self.rises.get(within).unwrap_or_default();
        let (mut accel, mut all_norms, mut all_rises) = ([0.0; 3], bin.norm, bin.rise);
        let (mut norm_sum, mut squares) = (second.norm, second.norm_squared);
        for ((((&norm, &rise), &x), &y), &z) in norms.iter().zip(rises).zip(x).zip(y).zip(z) {
            accel = sum(accel, [x, y, z]);
            all_norms += norm;
            all_rises += rise;
            norm_sum += norm;
            squares += norm * norm;
        }
        (bin.norm, bin.rise) = (all_norms, all_rises);
        (second.norm, second.norm_squared) = (norm_sum, squares);
        second.accel = sum(second.accel, accel);
        let count = norms.len();
        bin.count = counted(bin.count, count);
        second.count = counted(second.count, count);
        (accel, count)
    }
}
