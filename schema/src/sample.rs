//! Samples: the telemetry of a phone (contract section 3), in SI units, with times in milliseconds
//! since the session's start.
//!
//! A batch is decoded by [`json`] or [`proto`], checked, and packed column by column ([`packed`]).
//! After that only the packed form exists: it is journaled, and the detectors read it. A session's
//! machine therefore sees the same data regardless of the wire format.

pub mod json;
pub mod packed;
pub mod proto;

mod check;
#[cfg(test)]
mod fuzz;

use serde::{Deserialize, Serialize};

/// The kind of a sample. The number is part of the packed form and never changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[repr(u8)]
pub enum Kind {
    /// A position fix.
    Location = 0,
    /// An air pressure sample.
    Pressure = 1,
    /// The phone's step counter.
    Steps = 2,
    /// Up to ten seconds of raw acceleration and turn rate.
    Imu = 3,
    /// One second of motion, reduced by the phone.
    Motion = 4,
    /// A magnetic field sample.
    Magnetic = 5,
    /// The phone's own activity recogniser.
    Activity = 6,
    /// An act of the courier or the app.
    Mark = 7,
    /// An incident on the phone.
    System = 8,
}

impl Kind {
    /// All kinds, by number.
    pub const ALL: [Self; 9] = [
        Self::Location,
        Self::Pressure,
        Self::Steps,
        Self::Imu,
        Self::Motion,
        Self::Magnetic,
        Self::Activity,
        Self::Mark,
        Self::System,
    ];

    /// Returns the name on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Location => "location",
            Self::Pressure => "pressure",
            Self::Steps => "steps",
            Self::Imu => "imu",
            Self::Motion => "motion",
            Self::Magnetic => "magnetic",
            Self::Activity => "activity",
            Self::Mark => "mark",
            Self::System => "system",
        }
    }

    fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }
}

/// Defines a closed enum of wire names, which is also a column of the packed form.
macro_rules! closed_names {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $text:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum $name { $($(#[$variant_doc])* $variant),+ }

        impl $name {
            /// All variants; the position is the number in the packed form and never changes.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// Returns the name on the wire.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }

            pub(crate) fn from_name(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|one| one.as_str() == name)
            }
        }
    };
}

closed_names! {
    /// Source of a fix.
    Provider {
        /// A fix from satellites.
        Gnss = "gnss",
        /// The platform's fused location.
        Fused = "fused",
        /// A position from Wi-Fi.
        Wifi = "wifi",
        /// A position from cell towers.
        Cell = "cell",
    }
}

closed_names! {
    /// Result of the phone's own activity recogniser.
    ActivityType {
        /// The phone is at rest.
        Still = "still",
        /// The courier walks.
        Walking = "walking",
        /// The courier runs.
        Running = "running",
        /// The courier rides a bicycle.
        Cycling = "cycling",
        /// The courier is in a vehicle.
        Driving = "driving",
        /// The activity is unknown.
        Unknown = "unknown",
    }
}

closed_names! {
    /// An incident on the phone.
    SystemName {
        /// Location was switched off.
        LocationOff = "location_off",
        /// Location was switched on.
        LocationOn = "location_on",
        /// A permission was revoked.
        PermissionLost = "permission_lost",
        /// The app went to the background.
        Background = "background",
        /// The app moved to the foreground.
        Foreground = "foreground",
        /// Power saving began.
        PowerSave = "power_save",
        /// A sensor stopped.
        SensorLost = "sensor_lost",
        /// The wall clock was changed.
        ClockChanged = "clock_changed",
        /// The platform's integrity check failed.
        IntegrityFailed = "integrity_failed",
    }
}

/// A position fix.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Location {
    /// Milliseconds since the session's start.
    pub t_ms: u32,
    /// Latitude, WGS 84 degrees.
    pub lat: f64,
    /// Longitude, WGS 84 degrees.
    pub lng: f64,
    /// 68 % radius, metres; `None`: unknown.
    pub accuracy_m: Option<f32>,
    /// The altitude in metres.
    pub altitude_m: Option<f32>,
    /// Speed over ground, m/s.
    pub speed_mps: Option<f32>,
    /// Course over ground, degrees from north, clockwise.
    pub bearing_deg: Option<f32>,
    /// Whether the platform says that the fix is simulated.
    pub mock: bool,
    /// Source of the fix.
    pub provider: Option<Provider>,
}

/// An air pressure sample.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pressure {
    /// Milliseconds since the session's start.
    pub t_ms: u32,
    /// The pressure in hectopascals.
    pub hpa: f32,
}

/// The phone's running step count. Only its increases matter; a decrease is a restart.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Steps {
    /// Milliseconds since the session's start.
    pub t_ms: u32,
    /// The reported count.
    pub count: u32,
}

/// Raw acceleration, including gravity, and turn rate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Imu<'a> {
    /// Time of the first element, milliseconds since the session's start.
    pub t_ms: u32,
    /// Elements per second.
    pub hz: f32,
    /// Acceleration along x, y, z in m/s²: equal lengths, at least one element.
    pub accel: [&'a [f32]; 3],
    /// Turn rate about x, y, z in rad/s, with the same lengths.
    pub gyro: Option<[&'a [f32]; 3]>,
}

/// One second of motion that begins at `t_ms`, summarised by the phone.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Motion {
    /// Milliseconds since the session's start.
    pub t_ms: u32,
    /// Mean of the acceleration's norm, m/s².
    pub accel_mean: f32,
    /// Standard deviation of the acceleration's norm, m/s².
    pub accel_std: f32,
    /// Mean acceleration along gravity without gravity itself, m/s².
    pub vertical_mean: Option<f32>,
    /// Steps per second.
    pub cadence_hz: Option<f32>,
    /// Rotation about gravity, radians.
    pub yaw_rad: Option<f32>,
}

/// Magnetic field, µT.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Magnetic {
    /// Milliseconds since the session's start.
    pub t_ms: u32,
    /// Field along x, y, z, µT.
    pub field_ut: [f32; 3],
}

/// A result of the phone's own recogniser, used as a hint.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Activity {
    /// Milliseconds since the session's start.
    pub t_ms: u32,
    /// The reported activity.
    pub activity_type: ActivityType,
    /// Confidence, 0 to 1.
    pub confidence: f32,
}

/// An act of the courier or the app.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Mark<'a> {
    /// Milliseconds since the session's start.
    pub t_ms: u32,
    /// `arrived`, `pod_captured`, `handed_over`, `left_at_door`, or the app's own name.
    pub name: &'a str,
}

/// An incident on the phone.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct System {
    /// Milliseconds since the session's start.
    pub t_ms: u32,
    /// The name of the incident.
    pub name: SystemName,
}

/// A sample of any kind.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Sample<'a> {
    /// A position fix.
    Location(Location),
    /// An air pressure sample.
    Pressure(Pressure),
    /// The step counter.
    Steps(Steps),
    /// A raw motion sample.
    Imu(Imu<'a>),
    /// A summarised motion sample.
    Motion(Motion),
    /// A magnetic field sample.
    Magnetic(Magnetic),
    /// The phone's recogniser.
    Activity(Activity),
    /// A mark of an act.
    Mark(Mark<'a>),
    /// A system incident.
    System(System),
}

impl Sample<'_> {
    /// Returns the milliseconds since the session's start.
    #[must_use]
    pub fn t_ms(&self) -> u32 {
        match self {
            Self::Location(sample) => sample.t_ms,
            Self::Pressure(sample) => sample.t_ms,
            Self::Steps(sample) => sample.t_ms,
            Self::Imu(sample) => sample.t_ms,
            Self::Motion(sample) => sample.t_ms,
            Self::Magnetic(sample) => sample.t_ms,
            Self::Activity(sample) => sample.t_ms,
            Self::Mark(sample) => sample.t_ms,
            Self::System(sample) => sample.t_ms,
        }
    }

    /// Returns the kind of the sample.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            Self::Location(_) => Kind::Location,
            Self::Pressure(_) => Kind::Pressure,
            Self::Steps(_) => Kind::Steps,
            Self::Imu(_) => Kind::Imu,
            Self::Motion(_) => Kind::Motion,
            Self::Magnetic(_) => Kind::Magnetic,
            Self::Activity(_) => Kind::Activity,
            Self::Mark(_) => Kind::Mark,
            Self::System(_) => Kind::System,
        }
    }
}

/// An invalid field: a JSON pointer relative to its sample or batch, and a safe sentence.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{pointer}: {detail}")]
pub struct FieldError {
    /// The pointer (RFC 6901).
    pub pointer: String,
    /// The expected value.
    pub detail: String,
}
