//! Determines whether a vehicle is still rolling. Nobody steps off a rolling vehicle, so a gait in
//! the acceleration is then from pedals, cobbles or an engine.

use serde::{Deserialize, Serialize};

use super::frame::KeptFrame;
use super::parameters::evidence::DRIVE_SPEED_MPS;
use super::parameters::runs::{BRAKE_MPS2, DRIVE_IN_GAIT_MS_MIN, STEP_OFF_MPS};

/// The newest speed of a vehicle that has not come near a standstill since.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct Rolling {
    /// The time since which the vehicle has not come near a standstill. Until
    /// [`DRIVE_IN_GAIT_MS_MIN`] have passed, the speed may be that of a run, or of fixes that jump
    /// during a walk.
    since_ms: u32,
    t_ms: u32,
    /// The speed in m/s; 0 if no vehicle rolls.
    speed_mps: f32,
}

impl Rolling {
    /// Processes the next second to be decoded; `drives` means that the second before is best
    /// explained by a drive. Returns whether the vehicle rolls in it.
    pub(super) fn observe(&mut self, kept: &KeptFrame, drives: bool) -> bool {
        let seen_mps = kept.speed_mps().filter(|_| !kept.is_non_satellite());
        if !drives {
            *self = Self::default();
            return false;
        }
        if let Some(speed_mps) = seen_mps {
            let is_vehicle = speed_mps >= DRIVE_SPEED_MPS;
            let still_rolls = self.speed_mps > 0.0 && speed_mps > STEP_OFF_MPS;
            *self = Self {
                since_ms: if still_rolls {
                    self.since_ms
                } else {
                    kept.t_ms()
                },
                t_ms: kept.t_ms(),
                speed_mps: if is_vehicle || still_rolls {
                    speed_mps
                } else {
                    0.0
                },
            };
        }
        let since_sec = kept.t_ms().saturating_sub(self.t_ms) as f32 / 1_000.0;
        let is_sure = kept.t_ms().saturating_sub(self.since_ms) >= DRIVE_IN_GAIT_MS_MIN;
        is_sure && self.speed_mps - BRAKE_MPS2 * since_sec > STEP_OFF_MPS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns whether the vehicle rolls in each second with these speeds, after half a minute at
    /// the first one.
    fn rolls(speeds_mps: &[Option<f32>]) -> Vec<bool> {
        let mut rolling = Rolling::default();
        let mut before = KeptFrame::at(0);
        before.put_speed(speeds_mps[0].unwrap(), false);
        rolling.observe(&before, true);
        let seconds = (30_u32..).zip(speeds_mps).map(|(number, speed_mps)| {
            let mut kept = KeptFrame::at(number * 1_000);
            if let Some(speed_mps) = speed_mps {
                kept.put_speed(*speed_mps, false);
            }
            rolling.observe(&kept, true)
        });
        seconds.collect()
    }

    /// A bicycle slows down in a bend and accelerates again.
    #[test]
    fn a_bicycle_that_slows_down_rolls_on() {
        let speeds = [4.2, 3.0, 2.2, 2.1, 2.4, 3.9].map(Some);
        assert_eq!(rolls(&speeds), [true; 6]);
    }

    /// A courier brakes, steps off and pushes the bicycle.
    #[test]
    fn a_bicycle_that_has_stood_no_longer_rolls() {
        let speeds = [4.2, 2.0, 0.4, 1.4, 1.5].map(Some);
        assert_eq!(rolls(&speeds), [true, true, false, false, false]);
    }

    /// A van loses reception at 22 m/s under a bridge. Braking takes it at least 5 s.
    #[test]
    fn a_van_without_reception_rolls_for_as_long_as_braking_takes() {
        let mut speeds = [None; 8];
        speeds[0] = Some(22.0);
        let mut expected = [true; 8];
        expected[6..].fill(false);
        assert_eq!(rolls(&speeds), expected);
    }

    /// Fixes drift away from a walk at a vehicle's speed for ten seconds. So does a short run.
    #[test]
    fn a_speed_of_a_few_seconds_does_not_roll() {
        let mut rolling = Rolling::default();
        for second in 0..12 {
            let mut kept = KeptFrame::at(second * 1_000);
            kept.put_speed(6.0, false);
            assert!(!rolling.observe(&kept, true));
        }
    }

    #[test]
    fn a_walk_does_not_roll() {
        assert_eq!(rolls(&[1.4, 1.5, 1.4].map(Some)), [false; 3]);
    }
}
