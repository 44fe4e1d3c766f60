//! Where the courier is on the way to the door: a gate is passed only on an approach.

use serde::{Deserialize, Serialize};

use crate::detect::Observation;
use crate::detect::parameters::gate::{
    GATE_AGAIN_M, GATE_GAIT_LOG_ODDS, GATE_LEVEL_M, GATE_LEVEL_NEW, GATE_OUTSIDE_ACCURACY_M,
    GATE_OUTSIDE_M,
};
use crate::geo::Place;

/// The state of the way since the vehicle was left.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct Approach {
    /// Whether the courier is in the building: after a climb or ride, doors are those of flats.
    is_inside: bool,
    /// Whether the courier goes back, from a stay near the address or out of the building.
    is_return: bool,
    /// The height outside.
    outside_m: Option<f32>,
    /// The newest good place on the approach; later the place of the door.
    door: Option<Place>,
    /// The largest distance from the door since then, in metres.
    far_m: f32,
}

impl Approach {
    /// Returns whether a pause here can be one at a gate.
    pub(super) fn is_on(&self) -> bool {
        !self.is_inside && !self.is_return
    }

    /// Forgets the approach: the courier is in a vehicle.
    pub(super) fn drive(&mut self) {
        *self = Self::default();
    }

    /// Enters the building, or is still in it.
    pub(super) fn climb(&mut self) {
        self.is_inside = true;
    }

    /// Turns back from a stay, or from the drop-off.
    pub(super) fn turn_back(&mut self, place: Option<Place>) {
        self.is_return = true;
        (self.door, self.far_m) = (place.or(self.door), 0.0);
    }

    /// Processes the next second. The courier has left the building when good fixes on foot are away
    /// from its door, at the level outside. The way from it is a return until it leads back again.
    /// A climb that is still open may have ended some seconds ago.
    pub(super) fn observe(&mut self, observation: &Observation<'_>, is_climbing: bool) {
        if observation.gait.log_odds <= GATE_GAIT_LOG_ODDS {
            return;
        }
        for fix in observation.window.fixes() {
            if fix.accuracy_m > GATE_OUTSIDE_ACCURACY_M {
                continue;
            }
            if self.is_on() {
                (self.door, self.far_m) = (Some(fix.place), 0.0);
                if let Some(height_m) = observation.height_m {
                    let before_m = self.outside_m.unwrap_or(height_m);
                    self.outside_m = Some(before_m + GATE_LEVEL_NEW * (height_m - before_m));
                }
            } else if !is_climbing && self.is_level(observation.height_m) {
                self.go(fix.place);
            }
        }
    }

    /// Walks to a place outside.
    fn go(&mut self, place: Place) {
        let away_m = self.door.get_or_insert(place).distance_m(place);
        self.far_m = self.far_m.max(away_m);
        if self.far_m >= GATE_OUTSIDE_M {
            (self.is_inside, self.is_return) = (false, true);
        }
        if !self.is_inside && away_m <= self.far_m - GATE_AGAIN_M {
            self.is_return = false;
        }
    }

    /// Returns whether a height is that outside, as far as both are known.
    fn is_level(&self, height_m: Option<f32>) -> bool {
        let both = height_m.zip(self.outside_m);
        both.is_none_or(|(height_m, outside_m)| (height_m - outside_m).abs() <= GATE_LEVEL_M)
    }
}
