//! Counts the values of the latest pushes, to compute the rates of the received data.

use porchlight_schema::sample::Kind;
use serde::{Deserialize, Serialize};

use super::push::{Measurement, Push};

/// The number of values of each kind in one push, and the time that they cover.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PushCounts {
    from_ms: i64,
    to_ms: i64,
    counts: [u32; Kind::ALL.len()],
}

impl PushCounts {
    /// Counts the readings of a push. Returns `None` if it has none.
    pub(super) fn of(push: &Push) -> Option<Self> {
        let (first, last) = (push.readings.first()?, push.readings.last()?);
        let mut counts = [0_u32; Kind::ALL.len()];
        for reading in &push.readings {
            let (kind, count) = kind_of(&reading.measurement);
            counts[kind as usize] = counts[kind as usize].saturating_add(count);
        }
        Some(Self {
            from_ms: first.at_ms,
            to_ms: last.at_ms,
            counts,
        })
    }
}

/// Returns the kind of a measurement and the number of its values.
fn kind_of(measurement: &Measurement) -> (Kind, u32) {
    match measurement {
        Measurement::Location(_) => (Kind::Location, 1),
        Measurement::Pressure(_) => (Kind::Pressure, 1),
        Measurement::Steps(_) => (Kind::Steps, 1),
        Measurement::Imu(imu) => (Kind::Imu, u32::try_from(imu.accel[0].len()).unwrap_or(0)),
        Measurement::Magnetic(_) => (Kind::Magnetic, 1),
        Measurement::Activity(..) => (Kind::Activity, 1),
        Measurement::Mark(_) => (Kind::Mark, 1),
    }
}

/// Returns the received values per second, by kind, over these pushes.
pub(super) fn rates_hz(pushes: &[PushCounts]) -> Vec<(Kind, f64)> {
    // With several pushes, the first only marks the start of the interval in which the others
    // are counted.
    let (from_ms, counted) = match pushes {
        [] => return Vec::new(),
        [only] => (only.from_ms, pushes),
        [first, rest @ ..] => (first.to_ms, rest),
    };
    let to_ms = counted.iter().map(|push| push.to_ms).max();
    let length_ms = to_ms.unwrap_or(from_ms).saturating_sub(from_ms).max(1_000);
    let rate = |kind: Kind| {
        let counts = counted.iter().map(|push| push.counts[kind as usize]);
        let count: f64 = counts.map(f64::from).sum();
        (count > 0.0).then(|| (kind, count * 1_000.0 / length_ms as f64))
    };
    Kind::ALL.into_iter().filter_map(rate).collect()
}
