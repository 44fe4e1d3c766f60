//! The facts about air pressure that detection, scoring and the drawings share.

crate::parameters::table! {
    /// Parameters of `barometer.rs`.
    mod pressure {
        /// The factor from the logarithm of a pressure ratio to a height, metres: R·T/(M·g) with
        /// the molar gas constant R and the molar mass M of air, at 15 °C (US Standard Atmosphere).
        SCALE_HEIGHT_M: f64 = 8_434.0;
        /// The distance from a whole hectopascal up to which a reading counts as whole.
        WHOLE_HPA: f32 = 0.002;
        /// A barometer is coarse if at least this number of `COARSE_OF` readings are whole: a fine
        /// one gives a whole reading in every hundredth.
        COARSE_WHOLE: usize = 4;
        COARSE_OF: usize = 5;
    }
}

/// The factor from the logarithm of a pressure ratio to a height, metres.
pub const SCALE_HEIGHT_M: f64 = pressure::SCALE_HEIGHT_M;

/// Returns the number of whole hectopascals of a reading, or `None` if the reading is not whole. The
/// pressure is positive.
pub(crate) fn whole_hpa(hpa: f32) -> Option<f32> {
    // `f32::round` is a call where the processor has no instruction for it.
    let whole_hpa = (hpa + 0.5) as i32 as f32;
    ((hpa - whole_hpa).abs() < pressure::WHOLE_HPA).then_some(whole_hpa)
}

/// Returns whether a barometer reports whole hectopascals only, by the count of its whole readings.
pub(crate) fn is_coarse(whole: usize, all: usize) -> bool {
    whole * pressure::COARSE_OF >= all * pressure::COARSE_WHOLE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reading_is_whole_close_to_a_whole_hectopascal() {
        for (hpa, whole) in [
            (1_013.0, Some(1_013.0)),
            (1_012.999, Some(1_013.0)),
            (1_013.001, Some(1_013.0)),
            (1_013.01, None),
            (1_013.5, None),
        ] {
            assert_eq!(whole_hpa(hpa), whole, "{hpa}");
        }
    }

    #[test]
    fn four_of_five_whole_readings_are_coarse() {
        assert!(is_coarse(4, 5) && is_coarse(80, 100));
        assert!(!is_coarse(79, 100) && !is_coarse(0, 1));
    }
}
