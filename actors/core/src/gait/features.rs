//! Computes the features of three seconds of acceleration.

use serde::{Deserialize, Serialize};

/// The number of features of raw `imu`. In order: the logarithm of the second's spread; the lesser of
/// that and of its clearer neighbour's; the autocorrelation at a step, at a stride, and its minimum;
/// the share of the energy below 1.2 Hz; the zero crossings; the autocorrelation of the vector after
/// half a stride.
pub const IMU_FEATURES: usize = 8;
/// The number of features of `motion`. In order: the logarithm of the second's spread; the lesser of
/// that and of its clearer neighbour's; the logarithm of the spread beyond 3 m/s²; the range of the
/// mean; the share of the three seconds with a cadence; the cadence in the second; its change; the
/// cadence of a clear spread.
pub const MOTION_FEATURES: usize = 8;

/// The spread of a phone on a table, m/s²: below it a logarithm carries no information.
const SPREAD_FLOOR_MPS2: f32 = 0.02;
/// The logarithm of a spread that is greater than that of most walks: ln of 3 m/s².
const STRONG_LN: f32 = 1.098_612_3;
/// The logarithm of the spread from which the phone is clearly not at rest: ln of 0.3 m/s².
const CLEAR_LN: f32 = -1.203_972_8;
/// The range of reported cadences of a walk or a run, steps per second.
const CADENCE_HZ: std::ops::RangeInclusive<f32> = 1.1..=3.3;

/// The lags of the autocorrelation that correspond to one step, in tenths of a second.
const STEP_LAGS: std::ops::RangeInclusive<usize> = 3..=7;
/// The lags of the autocorrelation that correspond to one stride, in tenths of a second.
const STRIDE_LAGS: std::ops::RangeInclusive<usize> = 8..=14;
/// The lags from half a step to a step, between which a gait swings to the other side, in tenths of
/// a second.
const OPPOSITE_LAGS: std::ops::RangeInclusive<usize> = 1..=7;
/// The number of bins whose mean passes frequencies below 1.2 Hz.
const SLOW_BINS: usize = 8;

fn ln_spread(spread_mps2: f32) -> f32 {
    libm::logf(spread_mps2 + SPREAD_FLOOR_MPS2)
}

/// The stored summary of one second of raw acceleration.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct SecondBrief {
    /// The start of the second, milliseconds since the session's start, plus one; 0 if there was no
    /// second.
    stamp: u32,
    /// The logarithm of the standard deviation of the norm.
    ln_spread: f32,
}

impl SecondBrief {
    /// Builds a summary from a second's start and the standard deviation of its norm, m/s².
    #[must_use]
    pub fn new(t_ms: u32, norm_std: f32) -> Self {
        Self {
            stamp: t_ms.saturating_add(1),
            ln_spread: ln_spread(norm_std),
        }
    }

    /// Returns this second if it begins `before_ms` before `t_ms`, otherwise `stand_in`.
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
    /// The newest three seconds less their mean over the newest four, mm/s²; shorter at the start.
    pub bins: &'s [f32],
    /// The autocorrelation over the newest four seconds by lag in bins. `None` if the signal is at
    /// rest.
    pub correlation: Option<&'s [f32]>,
    /// The autocorrelation of the acceleration vector after half a stride, over the newest four
    /// seconds: near 1 if the phone is turned and held. 0 at rest.
    pub direction: f32,
}

fn greatest(correlation: &[f32], lags: std::ops::RangeInclusive<usize>) -> f32 {
    let within = correlation.get(lags).unwrap_or_default();
    within
        .iter()
        .fold(-1.0, |most: f32, &value| most.max(value))
}

/// Returns the shape of the binned signal: the share below 1.2 Hz, and zero crossings per bin.
fn shape(bins: &[f32]) -> (f32, f32) {
    let count = bins.len().max(1) as f32;
    let mean = bins.iter().sum::<f32>() / count;
    let (mut energy, mut crossings, mut before) = (0.0_f32, 0.0_f32, 0.0_f32);
    let (mut sum, mut slow, mut slow_count) = (0.0_f32, 0.0_f32, 0.0_f32);
    for (place, bin) in bins.iter().enumerate() {
        let value = bin - mean;
        energy += value * value;
        crossings += if value * before < 0.0 { 1.0 } else { 0.0 };
        before = value;
        sum += value;
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

/// Returns the features of the second before the newest, and those of the newest, whose next second
/// is not known yet.
///
/// `before` contains the two seconds before the newest, older first.
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
            signal.direction,
        ]
    };
    [of(oldest, middle, newest), of(middle, newest, newest)]
}

/// Returns the lesser of a second's value and of the greater one beside it: a gait lasts longer
/// than a second, unlike a single jolt.
fn sustained(before: f32, own: f32, after: f32) -> f32 {
    own.min(before.max(after))
}

fn extremes([a, b, c]: [f32; 3]) -> [f32; 2] {
    [a.min(b).min(c), a.max(b).max(c)]
}

/// The gait information of one second of `motion`.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
struct MotionBrief {
    ln_spread: f32,
    mean: f32,
    /// The cadence; 0 if the phone reported none, or one outside a gait.
    cadence_hz: f32,
}

/// The newest seconds of `motion`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct MotionHistory {
    /// The two seconds before the newest, older first.
    before: [Option<MotionBrief>; 2],
    /// Whether the phone has ever reported a cadence of a gait. If so, its silence means that the
    /// courier does not walk.
    reports_cadence: bool,
}

impl MotionHistory {
    /// Returns whether the phone has ever reported a cadence.
    #[must_use]
    pub fn reports_cadence(&self) -> bool {
        self.reports_cadence
    }

    /// Records a second without data about the body.
    pub fn skip(&mut self) {
        self.before = [self.before[1], None];
    }

    /// Forgets the newest seconds.
    pub fn clear(&mut self) {
        self.before = [None; 2];
    }

    /// Processes the next second: mean and standard deviation of the norm, m/s², and the cadence
    /// that the phone reported. Returns the features of the second before it, and its own, whose
    /// next second is not known yet.
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
        self.reports_cadence |= newest.cadence_hz > 0.0;
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
    let stepping = cadences.map(|hz| if hz > 0.0 { 1.0_f32 } else { 0.0 });
    let [slowest, fastest] = extremes(cadences);
    let share = (stepping[0] + stepping[1] + stepping[2]) / 3.0;
    [
        own,
        sustained(before, own, after),
        (own - STRONG_LN).max(0.0),
        (highest - lowest).min(5.0),
        share,
        stepping[1],
        if slowest > 0.0 {
            fastest - slowest
        } else {
            0.0
        },
        stepping[1] * (own - CLEAR_LN).max(0.0),
    ]
}
