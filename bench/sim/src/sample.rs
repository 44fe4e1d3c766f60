//! Samples as a phone writes them (contract section 3).

use serde::Serialize;

/// One sample, serialisable as the contract writes it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Sample {
    /// Seconds since the session's start.
    pub t: f64,
    /// What was read.
    #[serde(flatten)]
    pub reading: Reading,
    /// When the phone has it ready to send: a window of a second is not ready before its end.
    #[serde(skip)]
    pub ready_t: f64,
}

impl Sample {
    /// A sample of time `t` that is ready to send `delay_s` later.
    pub(super) fn new(t: f64, delay_s: f64, reading: Reading) -> Self {
        let t = rounded(t, 3);
        Self {
            t,
            reading,
            ready_t: t + delay_s,
        }
    }
}

/// A position fix. A negative speed or course is what phones send for "none".
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[expect(
    missing_docs,
    reason = "the fields are those of contract section 3 and say no more here"
)]
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

/// What was read, by kind. Fields and units are those of contract section 3.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(
    tag = "kind",
    rename_all = "lowercase",
    rename_all_fields = "camelCase"
)]
#[expect(
    missing_docs,
    reason = "the fields are those of contract section 3 and say no more here"
)]
pub enum Reading {
    /// A position fix.
    Location(Fix),
    /// Air pressure.
    Pressure {
        #[serde(rename = "hPa")]
        hpa: f64,
    },
    /// The step counter.
    Steps { count: u32 },
    /// A second of raw motion.
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
    /// A second of motion, reduced.
    Motion {
        accel_mean: f64,
        accel_std: f64,
        vertical_mean: f64,
        cadence_hz: f64,
        yaw_rad: f64,
    },
    /// Magnetic field.
    Magnetic { x: f64, y: f64, z: f64 },
    /// The phone's own recogniser.
    Activity {
        #[serde(rename = "type")]
        activity_type: &'static str,
        confidence: f64,
    },
    /// An act.
    Mark { name: &'static str },
    /// An incident.
    System { name: &'static str },
}

impl Reading {
    /// The kind's name on the wire.
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

/// `value` with this many decimals, as phones' software writes it.
pub(super) fn rounded(value: f64, decimals: i32) -> f64 {
    let parts = 10_f64.powi(decimals);
    (value * parts).round() / parts
}
