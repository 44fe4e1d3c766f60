//! What really happens, tenth of a second by tenth of a second.

/// Length of a tick.
pub(super) const TICK_S: f64 = 0.1;

/// What the body is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// In a vehicle that moves.
    Drive,
    /// In a vehicle that halts in traffic.
    Halt,
    /// In a vehicle that is parked.
    Sit,
    /// On foot, level.
    Walk,
    /// On foot, staying.
    Stand,
    /// On stairs, landings included.
    Stairs,
    /// In an elevator between its start and its arrival, halts between included.
    Ride,
}

impl Mode {
    /// In a vehicle of the road.
    pub(super) fn in_vehicle(self) -> bool {
        matches!(self, Self::Drive | Self::Halt | Self::Sit)
    }
}

/// One tick of truth.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tick {
    pub(super) mode: Mode,
    pub(super) east_m: f64,
    pub(super) north_m: f64,
    /// Above the entrance.
    pub(super) height_m: f64,
    /// The floor one is on, or was last on.
    pub(super) floor: i16,
    pub(super) speed_mps: f64,
    /// From local north, clockwise.
    pub(super) heading_rad: f64,
    /// Upward acceleration of the ground under the feet.
    pub(super) lift_mps2: f64,
    /// Steps a second.
    pub(super) cadence_hz: f64,
    /// The share of the sky in view, 0 to 1.
    pub(super) sky: f64,
    pub(super) indoor: bool,
}

/// What happened, and when what matters happened.
#[derive(Debug, Clone)]
pub(super) struct Script {
    pub(super) ticks: Vec<Tick>,
    /// Acts in the app.
    pub(super) marks: Vec<(f64, &'static str)>,
    /// When a door was passed, from outside in or back: a push on the barometer.
    pub(super) doors_t: Vec<f64>,
    /// First passage of the building's entrance.
    pub(super) entrance_t: Option<f64>,
    /// Stays at the door: from, to.
    pub(super) visits: Vec<(f64, f64)>,
    /// Waits at a gate: from, to.
    pub(super) gates: Vec<(f64, f64)>,
    /// Turnings back: from, to, metres retraced.
    pub(super) retraced: Vec<(f64, f64, f64)>,
}

impl Script {
    /// Seconds that have passed so far.
    pub(super) fn now(&self) -> f64 {
        self.ticks.len() as f64 * TICK_S
    }

    /// The tick at a time; the first or the last where it lies outside.
    pub(super) fn at(&self, t: f64) -> Option<&Tick> {
        let place = (t.max(0.0) / TICK_S) as usize;
        self.ticks
            .get(place.min(self.ticks.len().saturating_sub(1)))
    }
}
