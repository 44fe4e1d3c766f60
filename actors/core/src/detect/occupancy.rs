//! Tracks whether the courier is in a vehicle.

use serde::{Deserialize, Serialize};

use super::decode::State;
use super::frame::KeptFrame;
use super::parameters::runs::PARKED_WALK_MS_MIN;
use super::tally::Counted;
use crate::window::WINDOW_MS;

/// The courier's presence in the vehicle that drove last.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct Occupancy {
    /// Whether the courier is in a vehicle, or was not seen leaving it by an event on foot.
    in_vehicle: bool,
    /// The number of seconds with steps since the vehicle last moved.
    step_sec: u8,
    /// The time at which those steps became enough to show that the vehicle was left. Several walks
    /// that are each too short for an event may be enough together: from a vehicle at the main door
    /// to the intercom, and on through the hall.
    left_ms: Option<u32>,
}

impl Occupancy {
    /// Processes the next second.
    pub(super) fn observe(&mut self, frame: &KeptFrame, state: State) {
        if state == State::Drive || frame.is_carried() {
            (self.step_sec, self.left_ms) = (0, None);
        } else if frame.counted() & Counted::Steps.bit() != 0 && frame.gait() > 0.0 {
            self.step_sec = self.step_sec.saturating_add(1);
            if u32::from(self.step_sec) * WINDOW_MS >= PARKED_WALK_MS_MIN {
                self.left_ms.get_or_insert(frame.t_ms() + WINDOW_MS);
            }
        }
    }

    /// Records the start of a drive.
    pub(super) fn board(&mut self) {
        self.in_vehicle = true;
    }

    /// Records an event on foot.
    pub(super) fn leave(&mut self) {
        self.in_vehicle = false;
    }

    /// Returns whether the courier is in a vehicle, as far as events on foot show.
    pub(super) fn is_in_vehicle(&self) -> bool {
        self.in_vehicle
    }

    /// Returns whether the courier had left the vehicle by `t_ms`, as far as events on foot or
    /// steps show.
    pub(super) fn had_left_by(&self, t_ms: u32) -> bool {
        !self.in_vehicle || self.left_ms.is_some_and(|left_ms| left_ms <= t_ms)
    }
}
