//! One second of a session, as the input of detectors and scoring: all sensors reduced to one form.

use porchlight_schema::sample::{ActivityType, Provider};
use serde::{Deserialize, Serialize};

use crate::geo::Place;

/// The length of a window, milliseconds.
pub const WINDOW_MS: u32 = 1_000;

/// The maximum number of fixes kept per window: the first and the last.
pub const FIXES_PER_WINDOW: usize = 2;

/// A position fix in local metres.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Fix {
    /// The time of the fix, milliseconds since the session's start.
    pub t_ms: u32,
    /// The position of the courier.
    pub place: Place,
    /// The accuracy: the radius in metres that contains the true place with 68 % probability; 20 if
    /// the phone does not report it (contract 3).
    pub accuracy_m: f32,
    /// Whether the phone reported the accuracy.
    pub accuracy_known: bool,
    /// The speed over ground, m/s.
    pub speed_mps: Option<f32>,
    /// The course over ground, degrees from north, clockwise.
    pub bearing_deg: Option<f32>,
    /// The altitude, metres.
    pub altitude_m: Option<f32>,
    /// Whether the platform says that the fix is simulated.
    pub mock: bool,
    /// The source of the fix.
    pub provider: Option<Provider>,
}

impl Fix {
    /// The assumed accuracy of a fix without one, metres (contract 3).
    pub const ACCURACY_M_UNKNOWN: f32 = 20.0;

    /// Returns the accuracy of a fix in metres, and whether it is known. Android reports 0 for a
    /// fix that has no accuracy (`Location.getAccuracy`), and no receiver is exact.
    #[must_use]
    pub fn accuracy(reported_m: Option<f32>) -> (f32, bool) {
        match reported_m {
            Some(accuracy_m) if accuracy_m > 0.0 => (accuracy_m, true),
            _ => (Self::ACCURACY_M_UNKNOWN, false),
        }
    }
}

/// The motion of the body within a window, from `imu` or `motion` samples.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct BodyMotion {
    /// The mean of the acceleration's norm, m/s².
    pub accel_mean: f32,
    /// The standard deviation of the acceleration's norm, m/s².
    pub accel_std: f32,
    /// The mean acceleration along gravity without gravity, m/s², upwards positive.
    pub vertical_mean: Option<f32>,
    /// The steps per second; 0 without a gait.
    pub cadence_hz: Option<f32>,
    /// The rotation about gravity, radians.
    pub yaw_rad: Option<f32>,
    /// The motion of the phone with each stride, over the last 4 s; only from `imu`, and only
    /// during a gait.
    pub stride: Option<Stride>,
    /// The log-odds of a gait by the learned model: of the second before this one, and of this one
    /// without knowledge of the next; only from `imu`.
    pub gait: Option<[f32; 2]>,
}

/// The motion of a phone per stride, which is two steps, over the last 4 s.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Stride {
    /// The root mean square of the acceleration along gravity at 0.5 to 1.25 Hz, m/s². A phone on a
    /// thigh swings at these frequencies.
    pub swing_mps2: f32,
    /// The standard deviation of the acceleration's norm, m/s².
    pub spread_mps2: f32,
    /// The share of the norm's variance that is faster than 100 ms, 0 to 1: the impacts of steps,
    /// which hands and bags dampen.
    pub impact_share: f32,
}

/// One second of a session.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Window {
    /// The start, milliseconds since the session's start: a multiple of [`WINDOW_MS`].
    pub t_ms: u32,
    /// The fixes in order of time; empty entries come last.
    pub fixes: [Option<Fix>; FIXES_PER_WINDOW],
    /// The mean pressure, hPa.
    pub pressure_hpa: Option<f32>,
    /// The increase of the step counter; 0 if the counter reported no increase, `None` if it
    /// reported nothing.
    pub steps: Option<u16>,
    /// The motion of the body.
    pub motion: Option<BodyMotion>,
    /// The mean norm of the magnetic field, µT.
    pub magnetic_ut: Option<f32>,
    /// The phone's last recognised activity and its confidence.
    pub activity: Option<(ActivityType, f32)>,
    /// The time of the last effective `arrived` mark, milliseconds since the session's start.
    pub arrived_ms: Option<u32>,
    /// The time of the last effective mark of a drop-off, milliseconds since the session's start.
    pub dropped_off_ms: Option<u32>,
    /// Whether the window contains a sample of a measuring kind (all but `activity`, `mark` and
    /// `system`).
    pub has_measurement: bool,
    /// Whether the window contains a sample of any kind.
    pub has_sample: bool,
    /// The time of the newest sample of any kind, or the window's end if an `imu` array runs
    /// through it; the window's start without a sample.
    pub last_sample_ms: u32,
    /// The time of the last sample before a silence of at least
    /// [`porchlight_schema::limits::GAP_MS`]; only the first window after the silence has it.
    /// Silent seconds have no windows.
    pub silent_since_ms: Option<u32>,
}

/// A time at which the phone's clock was set back. Samples of the repeated time were dropped, so more
/// time passed there than their times show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockStep {
    /// The time of the last fix before it, in milliseconds since the session's start.
    pub t_ms: u32,
    /// The time by which the clock was set back, in milliseconds.
    pub by_ms: u32,
}

/// Returns the windows that begin in `from_ms..to_ms`, of windows in order.
pub(crate) fn windows_between(windows: &[Window], from_ms: u32, to_ms: u32) -> &[Window] {
    let first = windows.partition_point(|window| window.t_ms < from_ms);
    let last = windows.partition_point(|window| window.t_ms < to_ms);
    windows.get(first..last).unwrap_or_default()
}

impl Window {
    /// Returns the end of the window.
    #[must_use]
    pub fn end_ms(&self) -> u32 {
        self.t_ms + WINDOW_MS
    }

    /// Returns the fixes in order of time.
    pub fn fixes(&self) -> impl Iterator<Item = &Fix> {
        self.fixes.iter().map_while(Option::as_ref)
    }

    /// Returns whether the window has data about the body.
    #[must_use]
    pub fn has_body_data(&self) -> bool {
        self.motion.is_some() || self.steps.is_some()
    }

    /// Returns the newest fix.
    #[must_use]
    pub fn last_fix(&self) -> Option<&Fix> {
        self.fixes().last()
    }
}
