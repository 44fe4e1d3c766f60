//! Recognises the start of a vehicle by the receiver's speed, which rises steadily from a
//! standstill to more than the speed of a walk. The courier pedals or pushes off, and the
//! acceleration looks like a gait before the vehicle is faster than a pedestrian.

use serde::{Deserialize, Serialize};

use super::parameters::evidence::DRIVE_SPEED_MPS;
use super::parameters::runs::{ROLLING_MPS, WALK_ACCURACY_M_MAX, WALK_MS_MIN};
use super::parameters::start::{START_ERROR_MPS, START_MPS2_MIN, START_MS_MAX};
use crate::window::{Fix, WINDOW_MS, Window};

/// A speed that may be rising to that of a vehicle.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct VehicleStart {
    /// The newest fix at a standstill. `None` if the speed since then is not that of a start.
    stood_ms: Option<u32>,
    /// The speed of the newest fix, m/s. `None` before the first one.
    newest_mps: Option<f32>,
}

impl VehicleStart {
    /// Processes the next second. Returns the time since which a vehicle has been starting, once its
    /// speed shows it.
    pub(super) fn observe(&mut self, window: &Window) -> Option<u32> {
        let mut started = None;
        for fix in window.fixes() {
            started = self.observe_fix(fix).or(started);
        }
        started
    }

    fn observe_fix(&mut self, fix: &Fix) -> Option<u32> {
        let is_good = fix.accuracy_known && fix.accuracy_m <= WALK_ACCURACY_M_MAX;
        let speed_mps = fix.speed_mps.filter(|_| is_good);
        let before_mps = self.newest_mps.replace(speed_mps.unwrap_or(0.0));
        let speed_mps = speed_mps?;
        // The recording of a session often begins with the start of the vehicle.
        let may_start = before_mps.is_none() && speed_mps < DRIVE_SPEED_MPS;
        if speed_mps <= ROLLING_MPS || may_start {
            self.stood_ms = Some(fix.t_ms);
            return None;
        }
        let before_mps = before_mps.unwrap_or(0.0);
        let stood_ms = self.stood_ms?;
        let since_ms = fix.t_ms.saturating_sub(stood_ms);
        // The start may be as late as the fix after the last one at a standstill.
        let least_mps = START_MPS2_MIN * since_ms.saturating_sub(WINDOW_MS) as f32 / 1_000.0;
        let rises = speed_mps + START_ERROR_MPS >= before_mps.max(least_mps);
        if !rises || since_ms > START_MS_MAX || speed_mps >= DRIVE_SPEED_MPS {
            self.stood_ms = None;
        }
        // A runner has this speed sooner, and a start that is shorter than any walk hides none. The
        // courier pedals up to 1.5 s before the vehicle rolls.
        (rises && (WALK_MS_MIN..=START_MS_MAX).contains(&since_ms) && speed_mps >= DRIVE_SPEED_MPS)
            .then(|| stood_ms.saturating_sub(2 * WINDOW_MS))
    }

    /// Returns for how many seconds a vehicle may have been starting.
    pub(super) fn possible_sec(&self, now_ms: u32) -> usize {
        let since_ms = self
            .stood_ms
            .filter(|_| self.newest_mps.is_some_and(|mps| mps > ROLLING_MPS))
            .map(|stood_ms| now_ms.saturating_sub(stood_ms));
        since_ms
            .filter(|&since_ms| since_ms <= START_MS_MAX)
            .map_or(0, |since_ms| (since_ms / WINDOW_MS) as usize + 1)
    }
}
