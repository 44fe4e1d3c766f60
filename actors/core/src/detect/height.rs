//! Height over a reference, from pressure; and rides told by acceleration alone.

use serde::{Deserialize, Serialize};

use super::constants::{
    HEIGHT_GAP_MS, HEIGHT_LEAP_M, RIDE_ALONE_MPS, RIDE_ALONE_MS_MAX, RIDE_ALONE_MS_MIN,
    RIDE_BASE_NEW, RIDE_DEAD_MPS2, RIDE_HEIGHT_M_MIN, RIDE_OVERSHOOT, RIDE_QUIET_STD_MPS2,
    RIDE_SETTLE_SEC, RIDE_STOPPED_SHARE, SCALE_HEIGHT_M,
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

/// A ride that acceleration alone tells: a body at rest is pushed one way, and some time later the other.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct LoneRide {
    /// When the first push began, milliseconds since the session's start.
    pub start_ms: u32,
    /// Height gained by integrating twice, metres: good to a third.
    pub rise_m: f32,
}

/// Looks for the two pushes of an elevator.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct RideTrack {
    /// What the accelerometer shows at rest, m/s²: it is off by its own bias.
    base_mps2: Option<f32>,
    /// Quiet seconds running.
    quiet_sec: u8,
    /// The push that goes on: when it began, and the speed it gave.
    push: Option<(u32, f32)>,
    /// After the first push: the ride, the speed that push gave, the speed now.
    ride: Option<(LoneRide, f32, f32)>,
    /// Whether the newest second could be part of a ride's beginning or end: pushed, or shaken so that none can tell.
    has_push: bool,
}

impl RideTrack {
    /// Whether the newest second could be part of a ride's beginning or end.
    pub(super) fn has_push(&self) -> bool {
        self.has_push
    }

    /// When a ride that may be under way began, milliseconds since the session's start: with its first push.
    pub(super) fn begun_ms(&self) -> Option<u32> {
        let ride = self.ride.map(|(ride, _, _)| ride.start_ms);
        ride.or(self.push.map(|(start_ms, _)| start_ms))
    }

    /// The ride that ends with this second, if one does.
    pub(super) fn observe(&mut self, window: &Window) -> Option<LoneRide> {
        self.has_push = true;
        let Some(motion) = window
            .motion
            .filter(|motion| motion.accel_std <= RIDE_QUIET_STD_MPS2)
        else {
            self.quiet_sec = 0;
            self.push = None;
            self.ride = None;
            return None;
        };
        self.quiet_sec = self.quiet_sec.saturating_add(1);
        let base_before_mps2 = self.base_mps2.unwrap_or(motion.accel_mean);
        self.has_push = (motion.accel_mean - base_before_mps2).abs() >= RIDE_DEAD_MPS2;
        let base_mps2 = self.base_mps2.get_or_insert(motion.accel_mean);
        let over_mps2 = motion.accel_mean - *base_mps2;
        if self.quiet_sec <= RIDE_SETTLE_SEC {
            *base_mps2 += over_mps2 * 0.5;
            return None;
        }
        if let Some((ride, first_mps, speed_mps)) = &mut self.ride {
            // Less is noise, and would add up over a long ride.
            *speed_mps += if over_mps2.abs() < RIDE_DEAD_MPS2 {
                0.0
            } else {
                over_mps2
            };
            ride.rise_m += *speed_mps;
            let (ride, first_mps, speed_mps) = (*ride, *first_mps, *speed_mps);
            let is_over = window.end_ms().saturating_sub(ride.start_ms) > RIDE_ALONE_MS_MAX;
            if is_over || speed_mps * first_mps < -RIDE_OVERSHOOT * first_mps * first_mps {
                self.ride = None;
            } else if over_mps2.abs() < RIDE_DEAD_MPS2
                && speed_mps.abs() <= RIDE_STOPPED_SHARE * first_mps.abs()
            {
                self.ride = None;
                let is_long = window.t_ms.saturating_sub(ride.start_ms) >= RIDE_ALONE_MS_MIN;
                return (is_long && ride.rise_m.abs() >= RIDE_HEIGHT_M_MIN).then_some(ride);
            }
            return None;
        }
        // A push ends with the acceleration, or turns into the opposite one where there is no coasting between.
        let goes_on =
            |speed_mps: f32| over_mps2.abs() >= RIDE_DEAD_MPS2 && speed_mps * over_mps2 > 0.0;
        match self.push {
            Some((start_ms, speed_mps)) if goes_on(speed_mps) => {
                self.push = Some((start_ms, speed_mps + over_mps2))
            }
            Some((start_ms, speed_mps)) if speed_mps.abs() >= RIDE_ALONE_MPS => {
                self.push = None;
                let rise_m = speed_mps;
                self.ride = Some((
                    LoneRide { start_ms, rise_m },
                    speed_mps,
                    speed_mps + over_mps2,
                ));
            }
            _ if over_mps2.abs() >= RIDE_DEAD_MPS2 => self.push = Some((window.t_ms, over_mps2)),
            _ => {
                self.push = None;
                *base_mps2 += RIDE_BASE_NEW * over_mps2;
            }
        }
        None
    }
}
