//! Reduces raw acceleration, second by second, with the code of the intake; the gait models are
//! fitted on the result.

use porchlight_schema::sample::Sample;
use porchlight_schema::sample::packed::{PackedBatch, PackedError};

use super::accel::AccelReducer;
use crate::gait::GaitSecond;
use crate::window::{BodyMotion, WINDOW_MS};

/// Returns the complete seconds of `imu` in some batches, with the features by which the models
/// judge them.
///
/// # Errors
///
/// Returns an error if a batch cannot be read back.
pub fn gait_seconds(batches: &[PackedBatch]) -> Result<Vec<GaitSecond>, PackedError> {
    let mut reducer = AccelReducer::default();
    let mut seconds: Vec<GaitSecond> = Vec::new();
    for batch in batches {
        let mut reader = batch.reader()?;
        while let Some(sample) = reader.next_sample()? {
            if let Sample::Imu(imu) = sample {
                reducer.take(&imu, 0, |t_ms, motion, [before, own]| {
                    if let Some(last) = seconds.last_mut()
                        && last.t_ms + WINDOW_MS == t_ms
                    {
                        last.features = *before;
                    }
                    seconds.push(second(t_ms, &motion, own));
                });
            }
        }
    }
    Ok(seconds)
}

fn second(
    t_ms: u32,
    motion: &BodyMotion,
    features: &[f32; crate::gait::IMU_FEATURES],
) -> GaitSecond {
    GaitSecond {
        t_ms,
        features: *features,
        accel_mean: motion.accel_mean,
        accel_std: motion.accel_std,
        cadence_hz: motion.cadence_hz.unwrap_or(0.0),
    }
}
