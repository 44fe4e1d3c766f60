//! The ranges of contract section 9, and the resolution of each field.

use super::FieldError;
use crate::limits::{IMU_DURATION_MS_MAX, IMU_VALUES_MAX, MARK_NAME_CHARS_MAX, SAMPLE_T_MS_MAX};

/// A numeric field: its name, its range, and its resolution in parts per unit in the packed form.
#[derive(Debug, Clone, Copy)]
pub(super) struct Field {
    pub(super) name: &'static str,
    pub(super) min: f64,
    pub(super) max: f64,
    pub(super) parts: f64,
}

const fn field(name: &'static str, min: f64, max: f64, parts: f64) -> Field {
    Field {
        name,
        min,
        max,
        parts,
    }
}

pub(super) const T: Field = field("t", 0.0, SAMPLE_T_MS_MAX as f64 / 1000.0, 1e3);
// One part is 1.1 cm on the ground, a thousandth of a phone's resolution.
pub(super) const LAT: Field = field("lat", -90.0, 90.0, 1e7);
pub(super) const LNG: Field = field("lng", -180.0, 180.0, 1e7);
pub(super) const ACCURACY_M: Field = field("accuracyM", 0.0, 100_000.0, 1e2);
pub(super) const ALTITUDE_M: Field = field("altitudeM", -1_000.0, 20_000.0, 1e2);
pub(super) const SPEED_MPS: Field = field("speedMps", 0.0, 400.0, 1e3);
pub(super) const BEARING_DEG: Field = field("bearingDeg", 0.0, 360.0, 1e2);
// One part is 0.1 Pa, 8 mm of height; a phone's barometer resolves 1 Pa.
pub(super) const HPA: Field = field("hPa", 300.0, 1_150.0, 1e3);
pub(super) const COUNT: Field = field("count", 0.0, 1e8, 1.0);
pub(super) const HZ: Field = field("hz", 1.0, 400.0, 1e2);
pub(super) const ACCEL: [Field; 3] = [
    field("ax", -400.0, 400.0, 1e3),
    field("ay", -400.0, 400.0, 1e3),
    field("az", -400.0, 400.0, 1e3),
];
pub(super) const GYRO: [Field; 3] = [
    field("gx", -100.0, 100.0, 1e4),
    field("gy", -100.0, 100.0, 1e4),
    field("gz", -100.0, 100.0, 1e4),
];
pub(super) const ACCEL_MEAN: Field = field("accelMean", 0.0, 400.0, 1e3);
pub(super) const ACCEL_STD: Field = field("accelStd", 0.0, 400.0, 1e3);
pub(super) const VERTICAL_MEAN: Field = field("verticalMean", -400.0, 400.0, 1e3);
pub(super) const CADENCE_HZ: Field = field("cadenceHz", 0.0, 10.0, 1e3);
pub(super) const YAW_RAD: Field = field("yawRad", -100.0, 100.0, 1e4);
pub(super) const FIELD_UT: [Field; 3] = [
    field("x", -10_000.0, 10_000.0, 1e2),
    field("y", -10_000.0, 10_000.0, 1e2),
    field("z", -10_000.0, 10_000.0, 1e2),
];
pub(super) const CONFIDENCE: Field = field("confidence", 0.0, 1.0, 1e3);

impl Field {
    /// Checks that a value is within the range; NaN is not.
    pub(super) fn check(&self, value: f64) -> Result<(), FieldError> {
        if value >= self.min && value <= self.max {
            Ok(())
        } else {
            Err(self.out_of_range())
        }
    }

    /// Narrows a value to single precision. A value outside of the range stays outside, even where
    /// the bound is the nearest single-precision number.
    pub(super) fn narrow(&self, value: f64) -> f32 {
        let single = value as f32;
        if value > self.max {
            single.max((self.max as f32).next_up())
        } else if value < self.min {
            single.min((self.min as f32).next_down())
        } else {
            single
        }
    }

    /// Checks every value; the error's pointer names the first invalid one.
    pub(super) fn check_values(&self, values: &[f32]) -> Result<(), FieldError> {
        for (place, &value) in values.iter().enumerate() {
            self.check(f64::from(value)).map_err(|error| FieldError {
                pointer: format!("{}/{place}", error.pointer),
                detail: error.detail,
            })?;
        }
        Ok(())
    }

    /// Converts a value to whole parts, if it is within the range.
    pub(super) fn parts_of(&self, value: f64) -> Result<i64, FieldError> {
        self.check(value)?;
        Ok(rounded(value * self.parts))
    }

    /// Converts whole parts to a value.
    pub(super) fn value_of(&self, parts: i64) -> f64 {
        parts as f64 / self.parts
    }

    /// Converts whole parts to single precision. Multiplying gives the same result as dividing:
    /// within a field's range no count of parts comes close enough to the midpoint of two
    /// neighbouring floats for the rounding of the product to matter.
    #[inline]
    pub(super) fn single_of(&self, parts: i64) -> f32 {
        (parts as f64 * (1.0 / self.parts)) as f32
    }

    #[cold]
    fn out_of_range(&self) -> FieldError {
        self.error(format!("must be between {} and {}", self.min, self.max))
    }

    pub(super) fn error(&self, detail: impl Into<String>) -> FieldError {
        FieldError {
            pointer: format!("/{}", self.name),
            detail: detail.into(),
        }
    }
}

/// Rounds to the nearest integer, halves away from zero, like `f64::round` for values within i64.
/// Without SSE 4.1 that would be a call into the C library, and a batch of sixty samples rounds a
/// thousand times.
pub(super) fn rounded(value: f64) -> i64 {
    let whole = value as i64;
    // The difference is exact: both numbers have the same magnitude, or the rest is the whole
    // value.
    let rest = value - whole as f64;
    whole + i64::from(rest >= 0.5) - i64::from(rest <= -0.5)
}

/// The rate of an `imu` sample, with the precision in which it was given.
#[derive(Debug, Clone, Copy)]
pub(super) enum Rate {
    Single(f32),
    Double(f64),
}

impl Rate {
    /// Returns whether this many values last at most [`IMU_DURATION_MS_MAX`]. The lowest permitted
    /// rate is rounded as the given one was, and rounding keeps the order of two numbers: a decimal
    /// such as 33.3 passes with 333 values, although neither precision represents it.
    fn allows(self, values: usize) -> bool {
        let lowest_hz = values as f64 * 1_000.0 / f64::from(IMU_DURATION_MS_MAX);
        match self {
            Self::Single(hz) => lowest_hz as f32 <= hz,
            Self::Double(hz) => lowest_hz <= hz,
        }
    }
}

/// Checks the lengths of an `imu` sample's arrays: equal, within bounds, at most ten seconds.
pub(super) fn imu_lengths(
    rate: Rate,
    accel: [usize; 3],
    gyro: Option<[usize; 3]>,
) -> Result<(), FieldError> {
    let values = accel[0];
    if values == 0 || values > IMU_VALUES_MAX {
        return Err(ACCEL[0].error(format!("must have 1 to {IMU_VALUES_MAX} values")));
    }
    let lengths = ACCEL
        .iter()
        .zip(accel)
        .chain(GYRO.iter().zip(gyro.into_iter().flatten()));
    for (axis, length) in lengths {
        if length != values {
            return Err(axis.error("must be as long as ax"));
        }
    }
    if !rate.allows(values) {
        return Err(ACCEL[0].error("must not last longer than 10 s at this hz"));
    }
    Ok(())
}

/// Checks an array of an `imu` sample that is not stored: as long as `ax`, and within its range.
pub(super) fn imu_axis(field: &Field, axis: &[f32], values: usize) -> Result<(), FieldError> {
    if axis.len() != values {
        return Err(field.error("must be as long as ax"));
    }
    field.check_values(axis)
}

/// Checks the name of a mark.
pub(super) fn mark_name(name: &str) -> Result<(), FieldError> {
    let characters = name.chars().count();
    if characters == 0 || characters > MARK_NAME_CHARS_MAX {
        let detail = format!("must have 1 to {MARK_NAME_CHARS_MAX} characters");
        return Err(FieldError {
            pointer: "/name".into(),
            detail,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn rounding_matches_the_library(value in -1e15_f64..1e15, small in -1e3_f64..1e3, halves in -4_000_i32..4_000) {
            for value in [value, small, f64::from(halves) / 2.0, 0.499_999_999_999_999_94, -0.499_999_999_999_999_94] {
                prop_assert_eq!(rounded(value), value.round() as i64);
            }
        }
    }

    #[test]
    fn a_product_gives_the_same_f32_as_a_quotient() {
        let single = [
            [ACCURACY_M, ALTITUDE_M, SPEED_MPS, BEARING_DEG, HPA, HZ],
            [
                ACCEL[0],
                GYRO[0],
                ACCEL_MEAN,
                CADENCE_HZ,
                FIELD_UT[0],
                CONFIDENCE,
            ],
        ];
        for field in single.as_flattened() {
            let (from, to) = (
                (field.min * field.parts) as i64,
                (field.max * field.parts) as i64,
            );
            // All parts of fine fields; a prime step for coarse ones, so that every remainder
            // occurs.
            let step = if to - from < 1_000_000 { 1 } else { 7 };
            for parts in (from..=to).step_by(step) {
                let quotient = field.value_of(parts) as f32;
                assert_eq!(field.single_of(parts), quotient, "{} {parts}", field.name);
            }
        }
    }
}
