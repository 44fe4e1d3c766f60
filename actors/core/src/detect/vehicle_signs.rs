//! Combines the signs that a gait in the acceleration is the shake of a vehicle.

use serde::{Deserialize, Serialize};

use super::position::Leg;
use super::shaken::Shaken;
use super::soft::SoftMove;
use super::start::VehicleStart;
use crate::window::Window;

/// The signs of a vehicle that shakes the phone.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct VehicleSigns {
    shaken: Shaken,
    start: VehicleStart,
    soft: SoftMove,
}

impl VehicleSigns {
    /// Processes the next second and the speed that its fix shows. Returns the earliest time since
    /// which a vehicle shakes the phone.
    pub(super) fn observe(&mut self, window: &Window, leg: Option<&Leg>) -> Option<u32> {
        let shaken = self.shaken.observe(window);
        let start = self.start.observe(window);
        let soft = self.soft.observe(window, leg);
        [shaken, start, soft].into_iter().flatten().min()
    }

    /// Returns for how many seconds a vehicle may have been moving that is not known yet.
    pub(super) fn possible_sec(&self, now_ms: u32) -> usize {
        let by_start = self.start.possible_sec(now_ms);
        by_start.max(self.soft.possible_sec(now_ms))
    }
}
