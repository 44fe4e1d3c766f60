//! Tracks whether the courier approaches the door, is in the building, or returns: a gate is passed
//! only on an approach.

use serde::{Deserialize, Serialize};

use super::pause::Pause;
use crate::detect::Observation;
use crate::detect::parameters::gate::{
    GATE_AGAIN_M, GATE_GAIT_LOG_ODDS, GATE_LEVEL_M, GATE_LEVEL_NEW, GATE_OUTSIDE_ACCURACY_M,
    GATE_OUTSIDE_ACCURACY_M_MAX, GATE_OUTSIDE_M, GATE_OUTSIDE_NEW, GATE_OUTSIDE_USUAL,
    GATE_RETURN_M,
};
use crate::geo::Place;
use crate::window::Fix;

/// The position of the courier on the way to the door, since the vehicle was left.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct Approach {
    /// Whether the courier is in the building: after a climb or ride, doors are those of flats.
    is_inside: bool,
    /// Whether the courier goes back, from a stay near the address or out of the building.
    is_return: bool,
    /// The usual height outside, metres over the session's reference.
    outside_m: Option<f32>,
    /// The newest good place on the approach; later the place of the door.
    door: Option<Place>,
    /// The largest distance from `door` since that was set, in metres.
    far_m: f32,
    /// The time at which a return ended because it led back to the door, or at which a silence with
    /// a drive ended.
    since_ms: u32,
    /// The usual accuracy of fixes on foot, in metres; 0 before the first.
    usual_m: f32,
    /// Whether the phone has reported a speed. If so, a fix without one is not from satellites.
    reports_speed: bool,
}

impl Approach {
    /// Returns whether a pause here can be one at a gate.
    pub(super) fn is_on(&self) -> bool {
        !self.is_inside && !self.is_return
    }

    /// Returns the time since which the courier approaches again.
    pub(super) fn since_ms(&self) -> u32 {
        self.since_ms
    }

    /// Resets the approach, because the courier is in a vehicle.
    pub(super) fn start_drive(&mut self) {
        *self = Self {
            usual_m: self.usual_m,
            reports_speed: self.reports_speed,
            ..Self::default()
        };
    }

    /// Starts a new approach at `t_ms`, because the courier drove before.
    pub(super) fn restart(&mut self, t_ms: u32) {
        self.start_drive();
        self.since_ms = t_ms;
    }

    /// Forgets the height outside, because the reference of heights changes with a silence.
    pub(super) fn begin_silence(&mut self) {
        self.outside_m = None;
    }

    /// Records that the courier is in the building.
    pub(super) fn enter_building(&mut self) {
        self.is_inside = true;
    }

    /// Records that the courier turned back from a stay or from the drop-off. The return may have
    /// begun already. If the position of the stay is poor, the newest good place stands for the
    /// door.
    pub(super) fn turn_back(&mut self, pause: &Pause) {
        self.is_return = true;
        let is_good = pause.accuracy_m <= GATE_OUTSIDE_ACCURACY_M_MAX;
        self.door = pause.place.filter(|_| is_good).or(self.door);
        let both = self.door.zip(pause.onward);
        self.far_m = both.map_or(0.0, |(door, onward)| door.distance_m(onward));
    }

    /// Records that the courier rested at a place and walks on. A rest away from the door ends a
    /// return, because the courier may go to a door again.
    pub(super) fn rest_at(&mut self, place: Place, t_ms: u32) {
        let away_m = self.door.map_or(0.0, |door| door.distance_m(place));
        if !self.is_inside && self.is_return && away_m.min(self.far_m) >= GATE_RETURN_M {
            (self.is_return, self.since_ms) = (false, t_ms);
        }
    }

    /// Processes the next second. The courier has left the building when good fixes on foot are
    /// away from its door, at the height outside. The path from the door is a return until it leads
    /// back again. During an open climb nothing is decided, because the climb may have ended
    /// seconds ago.
    pub(super) fn observe(&mut self, observation: &Observation<'_>, is_climbing: bool) {
        for fix in observation.window.fixes() {
            self.reports_speed |= fix.speed_mps.is_some_and(|mps| mps > 0.0);
            if observation.gait.log_odds <= GATE_GAIT_LOG_ODDS || !self.judge_outside_fix(fix) {
                continue;
            }
            if self.is_on() {
                (self.door, self.far_m) = (Some(fix.place), 0.0);
                if let Some(height_m) = observation.height_m {
                    let before_m = self.outside_m.unwrap_or(height_m);
                    self.outside_m = Some(before_m + GATE_LEVEL_NEW * (height_m - before_m));
                }
            } else if !is_climbing
                && (!self.is_inside || self.is_outside_level(observation.height_m))
            {
                self.walk_to(fix);
            }
        }
    }

    /// Returns whether a fix on foot is as good as fixes outside usually are on this phone, and
    /// learns the usual accuracy.
    fn judge_outside_fix(&mut self, fix: &Fix) -> bool {
        let is_non_satellite = self.reports_speed && fix.speed_mps.is_none();
        if is_non_satellite || fix.accuracy_m > GATE_OUTSIDE_ACCURACY_M_MAX {
            return false;
        }
        if self.usual_m == 0.0 {
            self.usual_m = fix.accuracy_m;
        }
        let is_good =
            fix.accuracy_m <= GATE_OUTSIDE_ACCURACY_M.max(GATE_OUTSIDE_USUAL * self.usual_m);
        if self.is_on() {
            self.usual_m += GATE_OUTSIDE_NEW * (fix.accuracy_m - self.usual_m);
        }
        is_good
    }

    /// Records a fix outside on the way from the door.
    fn walk_to(&mut self, fix: &Fix) {
        let away_m = self.door.get_or_insert(fix.place).distance_m(fix.place);
        self.far_m = self.far_m.max(away_m);
        if self.far_m >= GATE_OUTSIDE_M.max(fix.accuracy_m) {
            (self.is_inside, self.is_return) = (false, true);
        }
        let again_m = GATE_AGAIN_M.min(self.far_m / 2.0);
        if !self.is_inside && self.far_m >= GATE_RETURN_M && away_m <= self.far_m - again_m {
            (self.is_return, self.since_ms) = (false, fix.t_ms);
        }
    }

    /// Returns whether a height is near that outside, or one of the two is unknown.
    fn is_outside_level(&self, height_m: Option<f32>) -> bool {
        let both = height_m.zip(self.outside_m);
        both.is_none_or(|(height_m, outside_m)| (height_m - outside_m).abs() <= GATE_LEVEL_M)
    }
}
