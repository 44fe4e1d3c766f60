//! Features of three seconds of acceleration.

use serde::{Deserialize, Serialize};

/// Features of raw `imu`.
pub const IMU_FEATURES: usize = 7;
/// Their names, in order.
pub const IMU_NAMES: [&str; IMU_FEATURES] = [
    "log spread of the second",
    "lesser of that and of its clearer neighbour's",
    "autocorrelation at a step",
    "autocorrelation at a stride",
    "least autocorrelation",
    "share of the energy below 1.2 Hz",
    "zero crossings",
];
/// Features of `motion`.
pub const MOTION_FEATURES: usize = 8;
/// Their names, in order.
pub const MOTION_NAMES: [&str; MOTION_FEATURES] = [
    "log spread of the second",
    "lesser of that and of its clearer neighbour's",
    "log spread beyond 3 m/s²",
    "range of the mean",
    "share of the three with a cadence",
    "cadence in the second",
    "change of the cadence",
    "cadence of a clear spread",
];

/// Spread of a phone on a table, m/s²: below it a logarithm says nothing.
const SPREAD_FLOOR_MPS2: f32 = 0.02;
/// A spread beyond this is more than most walks, m/s².
const STRONG_LN: f32 = 1.098_612_3;
/// A spread from here on is clearly no rest: ln of 0.3 m/s².
const CLEAR_LN: f32 = -1.203_972_8;
/// Steps a second between which a told cadence is one of a walk or a run.
const CADENCE_HZ: std::ops::RangeInclusive<f32> = 1.1..=3.3;

/// Lags of the autocorrelation that are a step, in tenths of a second, …
const STEP_LAGS: std::ops::RangeInclusive<usize> = 3..=7;
/// … a stride, …
const STRIDE_LAGS: std::ops::RangeInclusive<usize> = 8..=14;
/// … and half a step to a step, between which a gait swings to the other side.
const OPPOSITE_LAGS: std::ops::RangeInclusive<usize> = 1..=7;
/// Bins whose mean passes what is slower than 1.2 Hz.
const SLOW_BINS: usize = 8;

fn ln_spread(spread_mps2: f32) -> f32 {
    libm::logf(spread_mps2 + SPREAD_FLOOR_MPS2)
}

/// What is remembered of one second of raw acceleration.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct SecondBrief {
    /// When it began, milliseconds since the session's start, plus one; 0 where there was none.
    stamp: u32,
    /// Log of the standard deviation of the norm.
    ln_spread: f32,
}

impl SecondBrief {
    /// Of a second's start and the standard deviation of its norm, m/s².
    #[must_use]
    pub fn new(t_ms: u32, norm_std: f32) -> Self {
        Self {
            stamp: t_ms.saturating_add(1),
            ln_spread: ln_spread(norm_std),
        }
    }

    /// This second where it is the one that begins `before_ms` before `t_ms`; else `stand_in`.
    fn or_if_silent(self, t_ms: u32, before_ms: u32, stand_in: Self) -> Self {
        if self.stamp > 0 && self.stamp.saturating_add(before_ms) == t_ms.saturating_add(1) {
            self
        } else {
            stand_in
        }
    }
}

/// The gait signal: the norm of the acceleration in bins of 100 ms.
#[derive(Debug, Clone, Copy)]
pub struct ImuSignal<'s> {
    /// The newest three seconds less their mean over the newest four, mm/s²; fewer at the start.
    pub bins: &'s [f32],
    /// Autocorrelation over the newest four seconds by lag in bins; none where the signal is at rest.
    pub correlation: Option<&'s [f32]>,
}

fn greatest(correlation: &[f32], lags: std::ops::RangeInclusive<usize>) -> f32 {
    let within = correlation.get(lags).unwrap_or_default();
    within
        .iter()
        .fold(-1.0, |most: f32, &value| most.max(value))
}

/// Shape of the binned signal: share below 1.2 Hz, zero crossings per bin.
fn shape(bins: &[f32]) -> (f32, f32) {
    let count = bins.len().max(1) as f32;
    let mean = bins.iter().sum::<f32>() / count;
    let (mut energy, mut crossings, mut before) = (0.0_f32, 0.0_f32, 0.0_f32);
    for bin in bins {
        let value = bin - mean;
        energy += value * value;
        crossings += if value * before < 0.0 { 1.0 } else { 0.0 };
        before = value;
    }
    let (mut sum, mut slow, mut slow_count) = (0.0_f32, 0.0_f32, 0.0_f32);
    for (place, bin) in bins.iter().enumerate() {
        sum += bin - mean;
        if place + 1 >= SLOW_BINS {
            let value = sum / SLOW_BINS as f32;
            slow += value * value;
            slow_count += 1.0;
            sum -= bins.get(place + 1 - SLOW_BINS).unwrap_or(bin) - mean;
        }
    }
    let mean_square = energy / count;
    let floor = 1.0; // 1 mm²/s⁴: a signal that is all zeros has no shape.
    let share = (slow / slow_count.max(1.0) / mean_square.max(floor)).min(1.0);
    (share, crossings / count)
}

/// Features of the second before the newest and of the newest, of which what follows is not known yet.
///
/// `before` are the two seconds before the newest, the older one first.
#[must_use]
pub fn imu_features(
    before: [SecondBrief; 2],
    newest: SecondBrief,
    signal: ImuSignal<'_>,
) -> [[f32; IMU_FEATURES]; 2] {
    let t_ms = newest.stamp.saturating_sub(1);
    let middle = before[1].or_if_silent(t_ms, 1_000, newest);
    let oldest = before[0].or_if_silent(t_ms, 2_000, middle);
    let (slow, crossings) = shape(signal.bins);
    let (step, stride, opposite) = signal.correlation.map_or((0.0, 0.0, 0.0), |correlation| {
        let opposite = correlation.get(OPPOSITE_LAGS).unwrap_or_default();
        let opposite = opposite
            .iter()
            .fold(1.0, |least: f32, &value| least.min(value));
        (
            greatest(correlation, STEP_LAGS),
            greatest(correlation, STRIDE_LAGS),
            opposite,
        )
    });
    let of = |one: SecondBrief, second: SecondBrief, after: SecondBrief| {
        [
            second.ln_spread,
            sustained(one.ln_spread, second.ln_spread, after.ln_spread),
            step,
            stride,
            opposite,
            slow,
            crossings,
        ]
    };
    [of(oldest, middle, newest), of(middle, newest, newest)]
}

/// A gait goes on for more than a second: what a single jolt is not.
fn sustained(before: f32, own: f32, after: f32) -> f32 {
    own.min(before.max(after))
}

fn extremes([a, b, c]: [f32; 3]) -> [f32; 2] {
    [a.min(b).min(c), a.max(b).max(c)]
}

/// What one second of `motion` says of a gait.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
struct MotionBrief {
    ln_spread: f32,
    mean: f32,
    /// 0 where none was told, or one of no gait.
    cadence_hz: f32,
}

/// The newest seconds of `motion`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct MotionHistory {
    /// The two before the newest, the older one first.
    before: [Option<MotionBrief>; 2],
    /// Whether the phone has ever told a cadence of a gait: then its silence says that nobody walks.
    tells_cadence: bool,
}

impl MotionHistory {
    /// Whether the phone has ever told a cadence.
    #[must_use]
    pub fn tells_cadence(&self) -> bool {
        self.tells_cadence
    }

    /// Nothing was heard of the body in a second.
    pub fn skip(&mut self) {
        self.before = [self.before[1], None];
    }

    /// Takes the next second and gives the features of the one before it and its own, of which what follows is not known
    /// yet: mean and standard deviation of the norm, m/s², and the cadence that the phone told.
    pub fn observe(
        &mut self,
        mean: f32,
        spread_mps2: f32,
        cadence_hz: Option<f32>,
    ) -> [[f32; MOTION_FEATURES]; 2] {
        let newest = MotionBrief {
            ln_spread: ln_spread(spread_mps2),
            mean,
            cadence_hz: cadence_hz
                .filter(|hz| CADENCE_HZ.contains(hz))
                .unwrap_or(0.0),
        };
        self.tells_cadence |= newest.cadence_hz > 0.0;
        let middle = self.before[1].unwrap_or(newest);
        let oldest = self.before[0].unwrap_or(middle);
        self.before = [self.before[1], Some(newest)];
        [
            motion_features([oldest, middle, newest]),
            motion_features([middle, newest, newest]),
        ]
    }
}

fn motion_features(seconds: [MotionBrief; 3]) -> [f32; MOTION_FEATURES] {
    let [before, own, after] = seconds.map(|second| second.ln_spread);
    let [lowest, highest] = extremes(seconds.map(|second| second.mean));
    let cadences = seconds.map(|second| second.cadence_hz);
    let told = cadences.map(|hz| if hz > 0.0 { 1.0_f32 } else { 0.0 });
    let [slowest, fastest] = extremes(cadences);
    let share = (told[0] + told[1] + told[2]) / 3.0;
    [
        own,
        sustained(before, own, after),
        (own - STRONG_LN).max(0.0),
        (highest - lowest).min(5.0),
        share,
        told[1],
        if slowest > 0.0 {
            fastest - slowest
        } else {
            0.0
        },
        told[1] * (own - CLEAR_LN).max(0.0),
    ]
}
