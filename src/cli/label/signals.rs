//! The signals of a recording, second by second.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use porchlight_core::barometer::SCALE_HEIGHT_M;
use porchlight_schema::limits::SAMPLE_T_MS_MAX;
use serde_json::Value;

use crate::cli::recording::read_samples;

/// The maximum `t` of a sample, in seconds.
const T_SEC_MAX: f64 = SAMPLE_T_MS_MAX as f64 / 1_000.0;

/// The measurements of one second.
#[derive(Debug, Clone, Copy, Default)]
struct Second {
    hpa: Option<f64>,
    accuracy_m: Option<f64>,
    speed_mps: Option<f64>,
    accel_spread: Option<f64>,
    steps: Option<f64>,
}

/// The signals of a recording, as they are shown.
#[derive(Debug, Default)]
pub(super) struct Signals {
    seconds: BTreeMap<u32, Second>,
    kinds: BTreeMap<String, u32>,
    end_sec: f64,
}

impl Signals {
    /// Reads a recording, plain or compressed, with one sample per line.
    pub(super) fn read(file: &Path) -> anyhow::Result<Self> {
        let mut signals = Self::default();
        read_samples(file, |sample| signals.add(&sample))?;
        Ok(signals)
    }

    /// Adds a sample; a sample without a time is skipped.
    pub(super) fn add(&mut self, sample: &Value) {
        let Some(t_sec) = sample["t"]
            .as_f64()
            .filter(|t_sec| (0.0..=T_SEC_MAX).contains(t_sec))
        else {
            return;
        };
        self.end_sec = self.end_sec.max(t_sec);
        let kind = sample["kind"].as_str().unwrap_or_default();
        *self.kinds.entry(kind.to_owned()).or_default() += 1;
        let second = self.seconds.entry(t_sec as u32).or_default();
        let number = |name: &str| sample[name].as_f64();
        match kind {
            "pressure" => second.hpa = number("hPa"),
            "location" => {
                second.accuracy_m = number("accuracyM");
                second.speed_mps = number("speedMps").filter(|mps| *mps >= 0.0);
            }
            "steps" => second.steps = number("count"),
            "motion" => second.accel_spread = number("accelStd"),
            "imu" => second.accel_spread = spread(sample),
            _ => {}
        }
    }

    /// Returns the number of samples of each kind.
    pub(super) fn streams(&self) -> &BTreeMap<String, u32> {
        &self.kinds
    }

    /// Returns the time of the last sample, in seconds.
    pub(super) fn end_sec(&self) -> f64 {
        self.end_sec
    }

    /// Formats the seconds around a time as a table. Heights are relative to the first of them with
    /// pressure.
    pub(super) fn table(&self, around_sec: f64, side_sec: f64) -> String {
        let from = (around_sec - side_sec).max(0.0) as u32;
        let to = (around_sec + side_sec).clamp(0.0, T_SEC_MAX) as u32;
        let shown = || self.seconds.range(from..=to);
        let first_hpa = shown().find_map(|(_, second)| second.hpa);
        let mut text =
            String::from("     t  height m  speed m/s  accuracy m  accel m/s²     steps");
        for (t_sec, second) in shown() {
            let height_m = first_hpa
                .zip(second.hpa)
                .map(|(first, now)| SCALE_HEIGHT_M * (first / now).ln());
            let cell = |value: Option<f64>, digits: usize, width: usize| {
                value.map_or_else(
                    || format!("{:>width$}", "-"),
                    |value| format!("{value:>width$.digits$}"),
                )
            };
            // Writing to a string cannot fail.
            let _ = write!(
                text,
                "\n{t_sec:>6}{}{}{}{}{}",
                cell(height_m, 1, 10),
                cell(second.speed_mps, 1, 11),
                cell(second.accuracy_m, 0, 12),
                cell(second.accel_spread, 2, 12),
                cell(second.steps, 0, 10),
            );
        }
        text
    }
}

/// Computes the standard deviation of the acceleration's norm.
fn spread(sample: &Value) -> Option<f64> {
    let axis = |name: &str| -> Option<Vec<f64>> {
        sample[name].as_array()?.iter().map(Value::as_f64).collect()
    };
    let (x, y, z) = (axis("ax")?, axis("ay")?, axis("az")?);
    let norms: Vec<f64> = x
        .iter()
        .zip(&y)
        .zip(&z)
        .map(|((x, y), z)| (x * x + y * y + z * z).sqrt())
        .collect();
    let count = norms.len() as f64;
    let mean = norms.iter().sum::<f64>() / count;
    let squares: f64 = norms.iter().map(|norm| (norm - mean).powi(2)).sum();
    (count > 0.0).then(|| (squares / count).sqrt())
}
