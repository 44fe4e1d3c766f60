//! Height over a reference, from pressure; and vertical speed from acceleration where a body at rest is carried.

use serde::{Deserialize, Serialize};

use super::constants::{
    HEIGHT_GAP_MS, HEIGHT_LEAP_M, RIDE_BASE_NEW, RIDE_DEAD_MPS2, RIDE_LEAK, RIDE_QUIET_STD_MPS2,
    RIDE_SPEED_MPS_MAX, SCALE_HEIGHT_M,
};
use crate::window::Window;

/// The height track.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct HeightTrack {
    reference_hpa: Option<f32>,
    /// The newest height, and when.
    last: Option<(u32, f32)>,
    /// What is added after a leap that no body makes.
    offset_m: f32,
}

impl HeightTrack {
    /// Height over the session's reference after the next second; none without pressure.
    pub(super) fn observe(&mut self, window: &Window) -> Option<f32> {
        let pressure_hpa = window.pressure_hpa?;
        let reference_hpa = *self.reference_hpa.get_or_insert(pressure_hpa);
        let raw_m = SCALE_HEIGHT_M * libm::logf(reference_hpa / pressure_hpa) + self.offset_m;
        let mut height_m = raw_m;
        if let Some((last_ms, last_m)) = self.last {
            let apart_ms = window.t_ms.saturating_sub(last_ms);
            let leap_m = HEIGHT_LEAP_M * (apart_ms as f32 / 1_000.0).max(1.0);
            // A stale first value, a door slammed, a sensor restarted: the track goes on from where it was.
            if apart_ms <= HEIGHT_GAP_MS && (raw_m - last_m).abs() > leap_m {
                self.offset_m += last_m - raw_m;
                height_m = last_m;
            }
        }
        self.last = Some((window.t_ms, height_m));
        Some(height_m)
    }
}

/// Vertical speed by acceleration.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct RideTrack {
    /// What the accelerometer shows at rest, m/s².
    base_mps2: Option<f32>,
    speed_mps: f32,
}

impl RideTrack {
    /// Vertical speed after the next second, m/s; 0 while the body moves.
    pub(super) fn observe(&mut self, window: &Window) -> f32 {
        let Some(motion) = window.motion else {
            self.speed_mps = 0.0;
            return 0.0;
        };
        if motion.accel_std > RIDE_QUIET_STD_MPS2 {
            self.speed_mps *= 0.5;
            return 0.0;
        }
        let base_mps2 = self.base_mps2.get_or_insert(motion.accel_mean);
        let over_mps2 = motion.accel_mean - *base_mps2;
        if over_mps2.abs() < RIDE_DEAD_MPS2 {
            *base_mps2 += RIDE_BASE_NEW * over_mps2;
            self.speed_mps *= RIDE_LEAK;
        } else {
            *base_mps2 += 0.2 * RIDE_BASE_NEW * over_mps2;
            self.speed_mps =
                (self.speed_mps + over_mps2).clamp(-RIDE_SPEED_MPS_MAX, RIDE_SPEED_MPS_MAX);
        }
        self.speed_mps
    }
}
