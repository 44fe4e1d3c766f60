//! One second of a session, as detectors and scoring see it: whatever the phone sent, reduced to one form.

use porchlight_schema::sample::{ActivityType, Provider};
use serde::{Deserialize, Serialize};

use crate::geo::Place;

/// The length of a window.
pub const WINDOW_MS: u32 = 1_000;

/// Fixes kept of one window; of more, the first and the last.
pub const FIXES_PER_WINDOW: usize = 2;

/// A position fix in local metres.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Fix {
    /// Milliseconds since the session's start.
    pub t_ms: u32,
    /// Where.
    pub place: Place,
    /// 68 % radius, metres; 20 where the phone does not say (contract 3).
    pub accuracy_m: f32,
    /// Whether the phone said how exact the fix is.
    pub accuracy_known: bool,
    /// Speed over ground.
    pub speed_mps: Option<f32>,
    /// Course over ground, degrees from north, clockwise.
    pub bearing_deg: Option<f32>,
    /// Altitude, metres.
    pub altitude_m: Option<f32>,
    /// The platform says that it is simulated.
    pub mock: bool,
    /// Where it came from.
    pub provider: Option<Provider>,
}

impl Fix {
    /// Taken where the phone does not say how exact a fix is (contract 3).
    pub const ACCURACY_M_UNKNOWN: f32 = 20.0;
}

/// Motion of the body within a window, from `imu` or from `motion`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct BodyMotion {
    /// Mean of the acceleration's norm, m/s².
    pub accel_mean: f32,
    /// Standard deviation of the acceleration's norm, m/s².
    pub accel_std: f32,
    /// Mean acceleration along gravity with gravity taken off, m/s², upwards positive.
    pub vertical_mean: Option<f32>,
    /// Steps a second; 0 where there is no gait.
    pub cadence_hz: Option<f32>,
    /// Turned about gravity, radians.
    pub yaw_rad: Option<f32>,
    /// How the phone moves with a stride, over the last 4 s; only from `imu`, and only of a gait.
    pub stride: Option<Stride>,
    /// Log-odds of a gait by the learned model, of the second before this one and of this one, of which what follows is
    /// not known yet; only from `imu`.
    pub gait: Option<[f32; 2]>,
}

/// How a phone moves with a stride, two steps, over the last 4 s.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Stride {
    /// Effective value of the acceleration along gravity at 0.5 to 1.25 Hz, m/s². A phone on a thigh swings with it.
    pub swing_mps2: f32,
    /// Standard deviation of the acceleration's norm, m/s².
    pub spread_mps2: f32,
    /// Share of that variance that is quicker than 100 ms, 0 to 1: the impacts of steps, which hands and bags soften.
    pub impact_share: f32,
}

/// One second of a session.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Window {
    /// When it begins: a multiple of [`WINDOW_MS`] since the session's start.
    pub t_ms: u32,
    /// The fixes, in time order; what is none comes last.
    pub fixes: [Option<Fix>; FIXES_PER_WINDOW],
    /// Mean pressure, hPa.
    pub pressure_hpa: Option<f32>,
    /// Increase of the step counter; 0 where it spoke and did not rise, none where it was silent.
    pub steps: Option<u16>,
    /// Motion of the body.
    pub motion: Option<BodyMotion>,
    /// Mean norm of the magnetic field, µT.
    pub magnetic_ut: Option<f32>,
    /// What the phone's own recogniser said last, and how sure it was.
    pub activity: Option<(ActivityType, f32)>,
    /// When `arrived` was tapped last, as far as it has taken effect, milliseconds since the session's start.
    pub arrived_ms: Option<u32>,
    /// The same of the last mark that says that the parcel changed hands.
    pub handed_over_ms: Option<u32>,
    /// Whether any sample of a kind that measures (all but `activity`, `mark` and `system`) fell into it.
    pub alive: bool,
    /// The newest such sample in it, or its end where an `imu` array runs through it; its begin where there is none.
    pub last_sample_ms: u32,
    /// Set on the first window after a silence of at least [`porchlight_schema::limits::GAP_MS`]: when the last sample
    /// before it was. The silent seconds themselves are not handed on.
    pub silent_since_ms: Option<u32>,
}

impl Window {
    /// When it ends.
    #[must_use]
    pub fn end_ms(&self) -> u32 {
        self.t_ms + WINDOW_MS
    }

    /// The fixes in it, in time order.
    pub fn fixes(&self) -> impl Iterator<Item = &Fix> {
        self.fixes.iter().map_while(Option::as_ref)
    }

    /// Whether anything in it tells of the body.
    #[must_use]
    pub fn hears_body(&self) -> bool {
        self.motion.is_some() || self.steps.is_some()
    }

    /// The newest fix in it.
    #[must_use]
    pub fn last_fix(&self) -> Option<&Fix> {
        self.fixes().last()
    }
}
