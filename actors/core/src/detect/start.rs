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
    /// The speed of that fix, m/s. The first fix may already move.
    stood_mps: f32,
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
            (self.stood_ms, self.stood_mps) = (Some(fix.t_ms), speed_mps);
            return None;
        }
        let before_mps = before_mps.unwrap_or(0.0);
        let stood_ms = self.stood_ms?;
        let since_ms = fix.t_ms.saturating_sub(stood_ms);
        // The start may be as late as the fix after the last one at a standstill.
        let rise_sec = since_ms.saturating_sub(WINDOW_MS) as f32 / 1_000.0;
        let least_mps = self.stood_mps + START_MPS2_MIN * rise_sec;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geo::Place;

    /// Returns the results of a fix a second with these speeds, m/s.
    fn results(speeds_mps: &[f32]) -> Vec<Option<u32>> {
        let mut start = VehicleStart::default();
        let seconds = (0_u32..).zip(speeds_mps).map(|(number, &speed_mps)| {
            start.observe_fix(&Fix {
                t_ms: number * 1_000,
                place: Place::default(),
                accuracy_m: 4.0,
                accuracy_known: true,
                speed_mps: Some(speed_mps),
                bearing_deg: None,
                altitude_m: None,
                mock: false,
                provider: None,
            })
        });
        seconds.collect()
    }

    /// A bicycle reaches its speed within six seconds, from a standstill or while the recording
    /// begins.
    #[test]
    fn a_vehicle_starts() {
        let from_rest = [0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0];
        assert_eq!(results(&from_rest).last(), Some(&Some(0)));
        assert_eq!(results(&from_rest[1..]).last(), Some(&Some(0)));
    }

    /// The first fix shows a brisk walk. Three seconds later the courier begins to run.
    #[test]
    fn a_walk_that_becomes_a_run_is_no_start() {
        let speeds = [1.7, 1.8, 1.8, 1.9, 1.9, 2.7, 2.9];
        assert_eq!(results(&speeds), [None; 7]);
    }
}
