//! Measures how much the air pressure sways while nothing carries the courier up or down.

use serde::{Deserialize, Serialize};

use super::decode::State;
use super::frame::KeptFrame;
use super::parameters::runs::{CLIMB_ROUGH_SEC, SWAY_NEW};

/// The sway of the height in the last stays and walks: gusts of wind and doors move the air.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct Sway {
    /// The usual slope of the height, which is that of the street.
    usual_mps: f32,
    /// The usual deviation from that slope.
    spread_mps: f32,
}

impl Sway {
    /// Processes the next decided second.
    pub(super) fn observe(&mut self, frame: &KeptFrame, state: State) {
        if frame.height_m().is_some() && matches!(state, State::Still | State::Walk) {
            let off_mps = frame.rate_mps() - self.usual_mps;
            self.usual_mps += SWAY_NEW * off_mps;
            self.spread_mps += SWAY_NEW * (off_mps.abs() - self.spread_mps);
        }
    }

    /// Returns whether the sway explains a change of the height.
    pub(super) fn explains(&self, rise_m: f32) -> bool {
        rise_m.abs() < CLIMB_ROUGH_SEC * self.spread_mps
    }
}
