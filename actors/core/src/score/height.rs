//! Computes heights from air pressure.

use crate::barometer::{self, SCALE_HEIGHT_M, whole_hpa};
use crate::score::parameters::door::height::{
    BRIDGE_MS, COARSE_SECONDS_MIN, COMPARABLE_MS, DRIFT_M_PER_MIN, LEVEL_SIGMA_M, SECONDS_MIN,
};
use crate::score::parameters::place::stays::SAME_FLOOR_M;
use crate::window::{WINDOW_MS, Window};

/// A height at a time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Level {
    pub(crate) t_ms: u32,
    /// The height above that of the session's first pressure, metres.
    pub(crate) height_m: f32,
}

/// The height above the session's first pressure for each second with a pressure sample.
#[derive(Debug, Default)]
pub(crate) struct HeightTrack {
    levels: Vec<Level>,
}

impl HeightTrack {
    pub(crate) fn new(windows: &[Window]) -> Self {
        let readings: Vec<(u32, f32)> = windows
            .iter()
            .filter_map(|window| Some((window.t_ms, window.pressure_hpa?)))
            .filter(|(_, hpa)| *hpa > 0.0)
            .collect();
        if is_coarse(&readings) {
            return Self::default();
        }
        let Some(&(_, first_hpa)) = readings.first() else {
            return Self::default();
        };
        let level = |&(t_ms, hpa): &(u32, f32)| Level {
            t_ms,
            height_m: (SCALE_HEIGHT_M * libm::log(f64::from(first_hpa) / f64::from(hpa))) as f32,
        };
        let mut levels: Vec<Level> = readings.iter().map(level).collect();
        levels.sort_by_key(|level| level.t_ms);
        Self {
            levels: with_gaps_filled(&levels),
        }
    }

    /// Returns the levels of `from_ms..to_ms`.
    pub(crate) fn levels(&self, from_ms: u32, to_ms: u32) -> &[Level] {
        let first = self.levels.partition_point(|level| level.t_ms < from_ms);
        let last = self.levels.partition_point(|level| level.t_ms < to_ms);
        self.levels.get(first..last).unwrap_or_default()
    }

    /// Returns the median level of `from_ms..to_ms`: doors and gusts affect only a few seconds.
    pub(crate) fn level(&self, from_ms: u32, to_ms: u32) -> Option<Level> {
        let mut levels = self.levels(from_ms, to_ms).to_vec();
        if levels.len() < SECONDS_MIN {
            return None;
        }
        levels.sort_by(|a, b| a.height_m.total_cmp(&b.height_m));
        let median = levels.get(levels.len() / 2)?;
        Some(Level {
            t_ms: from_ms / 2 + to_ms / 2,
            height_m: median.height_m,
        })
    }

    /// Returns whether the phone was on different floors in two spans, as far as the levels show.
    pub(crate) fn differ_in_floor(&self, a: (u32, u32), b: (u32, u32)) -> bool {
        let levels = self.level(a.0, a.1).zip(self.level(b.0, b.1));
        levels
            .and_then(|(a, b)| rise(a, b))
            .is_some_and(|rise| rise.metres.abs() >= SAME_FLOOR_M)
    }
}

/// Fills the seconds between two readings of a barometer that reports rarely. The height between
/// them counts as changing steadily.
fn with_gaps_filled(levels: &[Level]) -> Vec<Level> {
    let mut all: Vec<Level> = Vec::with_capacity(levels.len());
    for &level in levels {
        if let Some(&before) = all.last() {
            let apart_ms = level.t_ms - before.t_ms;
            let between = if apart_ms <= BRIDGE_MS {
                (apart_ms / WINDOW_MS).saturating_sub(1)
            } else {
                0
            };
            all.extend((1..=between).map(|second| {
                let past_ms = second * WINDOW_MS;
                let share = past_ms as f32 / apart_ms as f32;
                Level {
                    t_ms: before.t_ms + past_ms,
                    height_m: before.height_m + share * (level.height_m - before.height_m),
                }
            }));
        }
        all.push(level);
    }
    all
}

/// Returns whether the barometer reports whole hectopascals, 8 m each: then it cannot measure
/// floors.
fn is_coarse(readings: &[(u32, f32)]) -> bool {
    let is_whole = |(_, hpa): &&(u32, f32)| whole_hpa(*hpa).is_some();
    let whole = readings.iter().filter(is_whole).count();
    // A steady pressure may be a whole number by chance: readings between whole numbers that come
    // without a leap show a fine barometer.
    let has_leap = readings
        .iter()
        .zip(readings.iter().skip(1))
        .filter_map(|(a, b)| whole_hpa(a.1).zip(whole_hpa(b.1)))
        .any(|(before_hpa, after_hpa)| before_hpa != after_hpa);
    readings.len() >= COARSE_SECONDS_MIN
        && barometer::is_coarse(whole, readings.len())
        && (has_leap || whole == readings.len())
}

/// A difference of two levels in metres, with its uncertainty (one standard deviation).
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Rise {
    /// The difference in metres, negative for down.
    pub(crate) metres: f32,
    pub(crate) sigma_m: f32,
}

/// Returns the rise from one level to the other, or `None` if the weather may have changed the
/// pressure by more than the rise in the time between them.
pub(crate) fn rise(from: Level, to: Level) -> Option<Rise> {
    let apart_ms = to.t_ms.abs_diff(from.t_ms);
    if apart_ms > COMPARABLE_MS {
        return None;
    }
    let drift_m = apart_ms as f32 / 60_000.0 * DRIFT_M_PER_MIN;
    let sigma_m = (2.0 * LEVEL_SIGMA_M * LEVEL_SIGMA_M + drift_m * drift_m).sqrt();
    Some(Rise {
        metres: to.height_m - from.height_m,
        sigma_m,
    })
}
