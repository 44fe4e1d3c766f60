//! Keeps the newest place of the phone, and determines whether a fix only repeats it.

use serde::{Deserialize, Serialize};

use super::parameters::position::{
    INTERVAL_MS_MAX, INTERVAL_NEW, REPEATED_INTERVALS, SPEED_AGE_MS,
};
use super::parameters::runs::ROLLING_MPS;
use crate::geo::Place;
use crate::window::Fix;

/// The newest place.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct NewestPlace {
    /// The place, and the phone's speed there in m/s; 0 without one.
    newest: Option<(Place, f32)>,
    /// The time of the first fix with this place and speed.
    since_ms: u32,
    /// The usual time between two places of the moving phone in milliseconds; 0 if unknown.
    moving_interval_ms: f32,
}

/// The relation of a fix to the newest place before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Repetition {
    /// The fix has another place.
    None,
    /// The fix has the same place.
    OfPlace,
    /// The fix has the same place and the speed of a moving phone, so this speed is an old one: at
    /// this speed the place would have changed.
    OfMovement,
}

impl NewestPlace {
    /// Returns whether a fix has the newest place.
    pub(super) fn is_at(&self, fix: &Fix) -> bool {
        self.newest.is_some_and(|(place, _)| place == fix.place)
    }

    /// Returns the usual time between two places of the moving phone in milliseconds; 0 if unknown.
    pub(super) fn moving_interval_ms(&self) -> f32 {
        self.moving_interval_ms
    }

    /// Returns whether the app read the newest fix of a moving phone again before the receiver had
    /// another one. A receiver that repeats it for much longer than usual is frozen.
    pub(super) fn is_read_again(&self, fix: &Fix) -> bool {
        let held_ms = if self.moving_interval_ms > 0.0 {
            (REPEATED_INTERVALS * self.moving_interval_ms) as u32
        } else {
            SPEED_AGE_MS.1
        };
        self.repetition(fix) == Repetition::OfMovement
            && fix.t_ms.saturating_sub(self.since_ms) <= held_ms
    }

    fn repetition(&self, fix: &Fix) -> Repetition {
        let speed_mps = fix.speed_mps.unwrap_or(0.0);
        if !self.is_at(fix) {
            Repetition::None
        } else if speed_mps >= ROLLING_MPS && self.newest == Some((fix.place, speed_mps)) {
            Repetition::OfMovement
        } else {
            Repetition::OfPlace
        }
    }

    /// Takes the next fix, and returns its relation to the newest place before it.
    pub(super) fn observe(&mut self, fix: &Fix) -> Repetition {
        let repetition = self.repetition(fix);
        if repetition == Repetition::None && self.newest.is_some_and(|(_, mps)| mps >= ROLLING_MPS)
        {
            let apart_ms = fix.t_ms.saturating_sub(self.since_ms) as f32;
            let interval_ms = apart_ms.min(INTERVAL_MS_MAX);
            self.moving_interval_ms = if self.moving_interval_ms > 0.0 {
                self.moving_interval_ms + INTERVAL_NEW * (interval_ms - self.moving_interval_ms)
            } else {
                interval_ms
            };
        }
        if repetition != Repetition::OfMovement {
            self.newest = Some((fix.place, fix.speed_mps.unwrap_or(0.0)));
            self.since_ms = fix.t_ms;
        }
        repetition
    }
}
