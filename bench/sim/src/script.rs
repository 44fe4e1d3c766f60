//! The true course of a delivery, in ticks of a tenth of a second.

/// The length of a tick.
pub(super) const TICK_S: f64 = 0.1;

/// The body's mode of movement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// In a moving vehicle.
    Drive,
    /// In a vehicle stopped in traffic.
    Halt,
    /// In a parked vehicle.
    Sit,
    /// Walking on level ground.
    Walk,
    /// The courier stands still.
    Stand,
    /// On stairs, including landings.
    Stairs,
    /// The courier rides an elevator between its start and its arrival, including stops on the way.
    Ride,
}

impl Mode {
    /// Returns whether the mode is in a road vehicle.
    pub(super) fn in_vehicle(self) -> bool {
        matches!(self, Self::Drive | Self::Halt | Self::Sit)
    }
}

/// The true state during one tick.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tick {
    pub(super) mode: Mode,
    pub(super) east_m: f64,
    pub(super) north_m: f64,
    /// The height above the entrance.
    pub(super) height_m: f64,
    /// The current floor, or the last one.
    pub(super) floor: i16,
    pub(super) speed_mps: f64,
    /// The heading, clockwise from local north.
    pub(super) heading_rad: f64,
    /// The upward acceleration of the ground under the feet.
    pub(super) lift_mps2: f64,
    /// The steps per second.
    pub(super) cadence_hz: f64,
    /// The share of the sky in view, 0 to 1.
    pub(super) sky: f64,
    pub(super) indoor: bool,
}

/// The course of a delivery and the times of its key events.
#[derive(Debug, Clone)]
pub(super) struct Script {
    pub(super) ticks: Vec<Tick>,
    /// The marks set in the app.
    pub(super) marks: Vec<(f64, &'static str)>,
    /// The times of passing a door in either direction, each a pressure pulse on the barometer.
    pub(super) doors_t: Vec<f64>,
    /// The first passage of the building's entrance.
    pub(super) entrance_t: Option<f64>,
    /// The stays at the door, as (from, to).
    pub(super) visits: Vec<(f64, f64)>,
    /// The waits at a gate, as (from, to).
    pub(super) gates: Vec<(f64, f64)>,
    /// The turn-backs, as (from, to, metres retraced).
    pub(super) retraced: Vec<(f64, f64, f64)>,
}

impl Script {
    /// Returns the seconds elapsed so far.
    pub(super) fn now(&self) -> f64 {
        self.ticks.len() as f64 * TICK_S
    }

    /// Returns the tick at a time, clamped to the first and the last one.
    pub(super) fn at(&self, t: f64) -> Option<&Tick> {
        let place = (t.max(0.0) / TICK_S) as usize;
        self.ticks
            .get(place.min(self.ticks.len().saturating_sub(1)))
    }
}
