//! Recognises an accelerometer that does not measure the body: its readings lack gravity, or they
//! never change. Its seconds have no motion, as on a phone without an accelerometer, because its
//! readings would show a body at rest.

use serde::{Deserialize, Serialize};

use super::accel::QUIET_STD;
use crate::window::Window;

/// The least mean of the norm with gravity in m/s², half of standard gravity. The recorded seconds
/// have 6.1 and more. Readings in multiples of gravity have 1, and readings without gravity 0 at
/// rest.
const GRAVITY_MIN: f32 = 4.9;
/// The least noise of a sensor at rest, m/s². The recorded seconds spread by 0.005 and more.
const NOISE_MIN: f32 = 0.001;
/// The time after a change of the readings from which the step counter reports only later steps:
/// twice the lag of a slow counter, 10 s.
const COUNTER_LAG_MS: u32 = 20_000;
/// The number of steps that show that the phone moved.
const STEPS_MIN: u16 = 10;

/// The newest readings of the accelerometer, as far as they show whether it measures.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct Accelerometer {
    /// The mean of the newest second, m/s².
    mean: Option<f32>,
    /// The newest second in which the readings changed. `None` if they never did.
    changed_ms: Option<u32>,
    /// The number of steps counted since the newest change, without those that the counter may
    /// report late.
    steps: u16,
    /// Whether the newest quiet second lacked gravity.
    lacks_gravity: bool,
}

impl Accelerometer {
    /// Removes the motion from the next window if the accelerometer does not measure.
    pub(super) fn filter(&mut self, window: &mut Window) {
        let Some(motion) = window.motion else {
            return;
        };
        let lacks_gravity = motion.accel_mean < GRAVITY_MIN;
        if motion.accel_std < QUIET_STD {
            self.lacks_gravity = lacks_gravity;
        }
        let before = self.mean.replace(motion.accel_mean);
        let changes = motion.accel_std >= NOISE_MIN
            || before.is_some_and(|before| (motion.accel_mean - before).abs() >= NOISE_MIN);
        if changes {
            (self.changed_ms, self.steps) = (Some(window.t_ms), 0);
        }
        let is_stuck = self.changed_ms.is_none_or(|changed_ms| {
            if window.t_ms.saturating_sub(changed_ms) >= COUNTER_LAG_MS {
                self.steps = self.steps.saturating_add(window.steps.unwrap_or(0));
            }
            self.steps >= STEPS_MIN
        });
        if is_stuck || lacks_gravity || self.lacks_gravity {
            window.motion = None;
        }
    }
}
