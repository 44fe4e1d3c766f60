//! Samples as a phone sends them (contract section 3).

use serde::Serialize;

/// A sample that serialises as the contract requires.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Sample {
    /// The seconds since the session's start.
    pub t: f64,
    /// The sensor reading.
    #[serde(flatten)]
    pub reading: Reading,
    /// The time at which the phone can send the sample; a one-second window is ready only at its
    /// end.
    #[serde(skip)]
    pub ready_t: f64,
}

impl Sample {
    /// Creates a sample at time `t` that is ready to send `delay_s` later.
    pub(super) fn new(t: f64, delay_s: f64, reading: Reading) -> Self {
        let t = rounded(t, 3);
        Self {
            t,
            reading,
            ready_t: t + delay_s,
        }
    }
}

/// A position fix. Phones send a negative speed or course for "none".
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "the fields are those of contract section 3")]
pub struct Fix {
    pub lat: f64,
    pub lng: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accuracy_m: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub altitude_m: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub speed_mps: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bearing_deg: Option<f64>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub mock: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<&'static str>,
}

/// A sensor reading by kind. Fields and units are those of contract section 3.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(
    tag = "kind",
    rename_all = "lowercase",
    rename_all_fields = "camelCase"
)]
#[expect(missing_docs, reason = "the fields are those of contract section 3")]
pub enum Reading {
    /// A position fix.
    Location(Fix),
    /// An air pressure sample.
    Pressure {
        #[serde(rename = "hPa")]
        hpa: f64,
    },
    /// A step count.
    Steps { count: u32 },
    /// One second of raw motion.
    Imu {
        hz: f64,
        ax: Vec<f64>,
        ay: Vec<f64>,
        az: Vec<f64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        gx: Option<Vec<f64>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        gy: Option<Vec<f64>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        gz: Option<Vec<f64>>,
    },
    /// One second of motion as summary values.
    Motion {
        accel_mean: f64,
        accel_std: f64,
        vertical_mean: f64,
        cadence_hz: f64,
        yaw_rad: f64,
    },
    /// The magnetic field.
    Magnetic { x: f64, y: f64, z: f64 },
    /// An activity from the phone's own recogniser.
    Activity {
        #[serde(rename = "type")]
        activity_type: &'static str,
        confidence: f64,
    },
    /// A mark set in the app.
    Mark { name: &'static str },
    /// A system incident.
    System { name: &'static str },
}

impl Reading {
    /// Returns the kind's name in the wire format.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Location(_) => "location",
            Self::Pressure { .. } => "pressure",
            Self::Steps { .. } => "steps",
            Self::Imu { .. } => "imu",
            Self::Motion { .. } => "motion",
            Self::Magnetic { .. } => "magnetic",
            Self::Activity { .. } => "activity",
            Self::Mark { .. } => "mark",
            Self::System { .. } => "system",
        }
    }
}

/// Rounds `value` to this many decimals, as phone software does.
pub(super) fn rounded(value: f64, decimals: i32) -> f64 {
    let parts = 10_f64.powi(decimals);
    (value * parts).round() / parts
}
