//! Recognises a vehicle that is as fast as a run and shakes the phone less than any run does. A
//! bicycle or a scooter on a smooth street does, and its acceleration often looks like a gait.

use serde::{Deserialize, Serialize};

use super::parameters::runs::{
    DRIVE_HOLDS_INTERVALS, ROLLING_MPS, SKY_ACCURACY_M, WALK_SPEED_MPS_MAX,
};
use super::parameters::soft::{
    SOFT_BY_WAY_MS_MIN, SOFT_HOLDS_MS_MAX, SOFT_MPS_MIN, SOFT_MS_MIN, SOFT_STD_MPS2,
    SOFT_STRONG_SEC_MIN,
};
use super::parameters::start::START_MS_MAX;
use super::position::Leg;
use crate::window::{WINDOW_MS, Window};

/// A movement that is as fast as a run, while the phone is shaken only softly.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct SoftMove {
    /// The newest fix at a standstill, or the first fix.
    stood_ms: Option<u32>,
    /// The start of the movement since the last standstill. `None` if nothing moves so fast, or
    /// the phone is shaken as by a run.
    since_ms: Option<u32>,
    /// The first and the newest fix at that speed.
    first_ms: u32,
    newest_ms: u32,
    /// The time for which the newest fix counts.
    holds_ms: u32,
    /// Whether the movement has lasted for long enough to be a vehicle's.
    is_vehicle: bool,
    /// The number of consecutive seconds with the shake of a run.
    strong_sec: u8,
}

impl SoftMove {
    /// Processes the next second and the speed that its fix shows. Returns the time since which a
    /// vehicle moves.
    pub(super) fn observe(&mut self, window: &Window, leg: Option<&Leg>) -> Option<u32> {
        let Some(motion) = window.motion else {
            // Without acceleration there is no gait to explain.
            if self.has_expired(window.t_ms) {
                self.end();
            }
            return None;
        };
        self.strong_sec = if motion.accel_std > SOFT_STD_MPS2 {
            self.strong_sec.saturating_add(1)
        } else {
            0
        };
        if let Some(leg) = leg {
            self.observe_leg(window, leg);
        }
        // Counted steps show a walk. Fast fixes are then errors.
        if window.steps.is_some_and(|steps| steps > 0)
            || self.strong_sec >= SOFT_STRONG_SEC_MIN
            || self.has_expired(window.t_ms)
        {
            self.end();
        }
        self.since_ms.filter(|_| self.is_vehicle)
    }

    fn observe_leg(&mut self, window: &Window, leg: &Leg) {
        let is_good = leg.sees_walk
            || (!leg.is_reported_speed
                && window
                    .last_fix()
                    .is_some_and(|fix| fix.accuracy_m <= SKY_ACCURACY_M));
        let stood_ms = *self.stood_ms.get_or_insert(leg.from_ms);
        if leg.speed_mps <= ROLLING_MPS {
            self.stood_ms = Some(leg.to_ms);
        }
        let goes_on = self.is_vehicle && leg.speed_mps > WALK_SPEED_MPS_MAX;
        let is_fast = is_good && leg.is_carried && leg.speed_mps >= SOFT_MPS_MIN;
        if !goes_on && !is_fast {
            self.end();
            return;
        }
        if self.since_ms.is_none() {
            // The courier pedals or pushes off before the vehicle reaches that speed.
            let is_start = leg.to_ms.saturating_sub(stood_ms) <= START_MS_MAX;
            let since_ms = if is_start {
                stood_ms.saturating_sub(WINDOW_MS)
            } else {
                leg.from_ms
            };
            (self.since_ms, self.first_ms) = (Some(since_ms), leg.to_ms);
        }
        let interval_ms = leg.to_ms.saturating_sub(leg.from_ms).max(WINDOW_MS);
        self.holds_ms = ((DRIVE_HOLDS_INTERVALS * interval_ms as f32) as u32 + WINDOW_MS)
            .min(SOFT_HOLDS_MS_MAX);
        self.newest_ms = leg.to_ms;
        let min_ms = if leg.is_reported_speed {
            SOFT_MS_MIN
        } else {
            SOFT_BY_WAY_MS_MIN
        };
        self.is_vehicle |= self.newest_ms.saturating_sub(self.first_ms) >= min_ms;
    }

    /// Returns whether the newest fix no longer counts.
    fn has_expired(&self, now_ms: u32) -> bool {
        now_ms.saturating_sub(self.newest_ms) > self.holds_ms
    }

    fn end(&mut self) {
        (self.since_ms, self.is_vehicle) = (None, false);
    }

    /// Returns for how many seconds a vehicle may have been moving that is not known yet.
    pub(super) fn possible_sec(&self, now_ms: u32) -> usize {
        self.since_ms
            .filter(|_| !self.is_vehicle)
            .map_or(0, |since_ms| {
                (now_ms.saturating_sub(since_ms) / WINDOW_MS) as usize + 1
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A bicycle begins to ride, and the app stops the accelerometer before the ride is known. The
    /// fixes go on.
    #[test]
    fn no_vehicle_stays_possible_without_acceleration() {
        let mut soft = SoftMove {
            stood_ms: Some(0),
            ..SoftMove::default()
        };
        let leg = Leg {
            from_ms: 0,
            to_ms: 1_000,
            speed_mps: 4.0,
            is_reported_speed: true,
            is_non_satellite: false,
            sees_walk: true,
            is_carried: true,
            gait: None,
        };
        soft.observe_leg(&Window::default(), &leg);
        assert_eq!(soft.since_ms, Some(0));
        assert!(soft.possible_sec(2_000) > 0);
        for number in 2..60 {
            let window = Window {
                t_ms: number * WINDOW_MS,
                ..Window::default()
            };
            assert_eq!(soft.observe(&window, None), None);
        }
        assert_eq!(soft.possible_sec(60_000), 0);
    }
}
