//! Tracks the place at which the courier left the vehicle, and the walk from there.

use serde::{Deserialize, Serialize};

use super::pause::running_mean;
use crate::detect::parameters::gate::{
    GATE_FIRST_STEPS_SEC, GATE_INSIDE_ACCURACY_M, GATE_NEAR_M, GATE_OUTSIDE_ACCURACY_M,
    GATE_OUTSIDE_M, GATE_VEHICLE_FIXES, GATE_VEHICLE_MPS, GATE_WALK_MPS_MAX,
};
use crate::detect::parameters::position::NON_SATELLITE_NOISE_SHARE;
use crate::geo::Place;
use crate::window::Fix;

/// A fix from which a later one can measure a speed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct EarlierFix {
    pub(super) t_ms: u32,
    pub(super) place: Place,
    pub(super) accuracy_m: f32,
}

impl EarlierFix {
    fn seconds_to(&self, fix: &Fix) -> f32 {
        fix.t_ms.saturating_sub(self.t_ms) as f32 / 1_000.0
    }
}

/// The walk from the vehicle.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct WalkFromVehicle {
    /// The number of seconds of walking since the phone moved faster than a walk.
    on_foot_sec: u8,
    /// The place at which the vehicle was last at rest, and the number of fixes of which it is the
    /// mean.
    vehicle: Option<(Place, u8)>,
    /// The largest distance from the vehicle since the courier left it, metres.
    away_m: f32,
    /// The newest good fix before a silence, until the first good one after it.
    before_silence: Option<EarlierFix>,
}

impl WalkFromVehicle {
    /// Returns the number of seconds of walking since the vehicle was left.
    pub(super) fn on_foot_sec(&self) -> u8 {
        self.on_foot_sec
    }

    /// Returns the place of the vehicle.
    pub(super) fn vehicle(&self) -> Option<Place> {
        self.vehicle.map(|(place, _)| place)
    }

    /// Returns whether the courier has been away from the vehicle.
    pub(super) fn was_away(&self) -> bool {
        self.away_m >= GATE_OUTSIDE_M
    }

    /// Counts a second of walking.
    pub(super) fn count_walk(&mut self) {
        self.on_foot_sec = self.on_foot_sec.saturating_add(1);
    }

    /// Processes a fix. Any motion faster than walking is a vehicle, and the courier left it where
    /// the gait begins. `earlier` is a fix some seconds ago that gives the speed if the phone
    /// reports none.
    pub(super) fn observe(&mut self, fix: &Fix, earlier: Option<EarlierFix>, is_walking: bool) {
        let earlier = earlier.filter(|_| fix.speed_mps.is_none());
        // A gait shows that the fix jumped.
        let is_fast = earlier.filter(|_| !is_walking).is_some_and(|earlier| {
            let (a_m, b_m) = (fix.accuracy_m, earlier.accuracy_m);
            let error_m = NON_SATELLITE_NOISE_SHARE * (a_m * a_m + b_m * b_m).sqrt();
            let way_m = earlier.place.distance_m(fix.place) - error_m;
            way_m >= GATE_VEHICLE_MPS * earlier.seconds_to(fix)
        });
        if is_fast || fix.speed_mps.is_some_and(|mps| mps >= GATE_VEHICLE_MPS) {
            self.restart();
        }
        if self.on_foot_sec < GATE_FIRST_STEPS_SEC && fix.accuracy_m <= GATE_INSIDE_ACCURACY_M {
            let (place, count) = self.vehicle.unwrap_or((fix.place, 0));
            // Only the last fixes at rest count: the vehicle may still have rolled before.
            let count = count.saturating_add(1).min(GATE_VEHICLE_FIXES);
            self.vehicle = Some((running_mean(place, fix.place, count), count));
        } else if let Some((place, _)) = self.vehicle
            && fix.accuracy_m <= GATE_OUTSIDE_ACCURACY_M
        {
            self.away_m = self.away_m.max(place.distance_m(fix.place));
        }
    }

    /// Records a silence after `newest`, the newest good fix. The walk continues after it.
    pub(super) fn begin_silence(&mut self, newest: Option<EarlierFix>) {
        self.before_silence = newest.or(self.before_silence);
    }

    /// Returns whether the courier drove during a silence before this fix, because the phone moved
    /// faster than a walk. The walk then starts again.
    pub(super) fn observe_after_silence(&mut self, fix: &Fix) -> bool {
        let before = self
            .before_silence
            .take_if(|_| fix.accuracy_m <= GATE_NEAR_M);
        let drove = before.is_some_and(|before| {
            let errors_m = before.accuracy_m + fix.accuracy_m;
            let way_m = before.place.distance_m(fix.place) - errors_m;
            way_m > GATE_WALK_MPS_MAX * before.seconds_to(fix)
        });
        if drove {
            self.restart();
        }
        drove
    }

    /// Starts again: the courier is in a vehicle.
    fn restart(&mut self) {
        (self.on_foot_sec, self.vehicle, self.away_m) = (0, None, 0.0);
    }
}
