//! What the last seconds of acceleration say of a gait: its cadence, and how far the phone swings with a stride.

use super::{AccelReducer, BIN_MS, BINS};
use crate::window::Stride;

/// Lags of the autocorrelation that can be a step: 0.3 s (3.3 steps a second, running) …
const LAG_MIN: usize = 3;
/// … to 1.4 s (a stride of two steps at 1.4 a second, where a pocket shows only every other one).
const LAG_MAX: usize = 14;
/// Lags that are looked at: from none to one beyond the last.
const LAGS: usize = LAG_MAX + 2;
/// Lags above this are a stride, two steps.
const LAG_STEP_MAX: f32 = 8.0;
/// Below this spread of the gait signal, m/s², there are no steps: a phone at rest has 0.02, in a vehicle 0.1 to 0.4.
const GAIT_STD_MIN: f32 = 0.45;
/// Share of the variance that must come back after one step.
const GAIT_CORRELATION_MIN: f32 = 0.35;
/// Two bins of vertical acceleration are taken as one for the stride: it is slow.
const STRIDE_BINS: usize = BINS / 2;
/// Twice the cosine of the angle by which each of the stride's frequencies advances from one of those to the next:
/// 2 to 5 cycles in the 4 s that are kept, 0.5 to 1.25 Hz, half the cadence of any walk.
const STRIDE_TURNS: [f32; 4] = [1.618_034, 1.175_571, 0.618_034, 0.0];

/// Spread of the gait signal below which the phone rests and its autocorrelation is not looked at, mm/s²: twice the
/// noise of accelerometers that were recorded at rest.
const REST_STD_MMPS2: f32 = 60.0;
/// Bins of three seconds.
const NEWEST_BINS: usize = 30;

/// Autocorrelation by lag in bins.
pub(super) type Correlation = [f32; LAGS];

/// The gait signal of the last seconds less its mean, mm/s².
pub(super) struct Signal {
    /// How many bins there are.
    filled: usize,
    /// What there is of it stands at the end of the first [`BINS`]; all else is 0.
    values: [f32; BINS + LAGS],
    /// The sum of its squares.
    energy: f32,
}

impl AccelReducer {
    /// A ring of bins in the order of time.
    fn in_order(&self, ring: &[i16; BINS]) -> [i16; BINS] {
        let (newer, older) = ring.split_at(usize::from(self.oldest) % BINS);
        let mut bins = [0; BINS];
        let (first, then) = bins.split_at_mut(older.len());
        first.copy_from_slice(older);
        then.copy_from_slice(newer);
        bins
    }

    pub(super) fn signal(&self) -> Signal {
        let filled = usize::from(self.filled).min(BINS);
        let bins = self.in_order(&self.bins);
        // Whole numbers far below 2^24: their sum is exact in single precision too.
        let sum: i32 = bins[BINS - filled..]
            .iter()
            .map(|&bin| i32::from(bin))
            .sum();
        let mean = sum as f32 / filled.max(1) as f32;
        let mut values = [0.0_f32; BINS + LAGS];
        for (value, &bin) in values.iter_mut().zip(&bins).skip(BINS - filled) {
            *value = f32::from(bin) - mean;
        }
        let energy = values[..BINS].iter().map(|value| value * value).sum();
        Signal {
            filled,
            values,
            energy,
        }
    }

    /// What the last 4 s say of the stride; none before there are so many, and where nobody walks.
    pub(super) fn stride(&self, signal: &Signal) -> Option<Stride> {
        let spread_squared = self.spread_squared;
        if usize::from(self.filled) < BINS || spread_squared < GAIT_STD_MIN * GAIT_STD_MIN {
            return None;
        }
        let smooth = signal.energy / (BINS as f32 * 1e6);
        let mut pairs = [0.0_f32; STRIDE_BINS];
        let rises = self.in_order(&self.rises);
        for (pair, bins) in pairs.iter_mut().zip(rises.chunks_exact(2)) {
            *pair = bins.iter().map(|&bin| f32::from(bin)).sum::<f32>() / 2_000.0;
        }
        // Goertzel's algorithm at each of the stride's frequencies; whole cycles, so that a constant counts nothing.
        // All of them in step, so that none waits for its own last value.
        let (mut newest, mut before) =
            ([0.0_f32; STRIDE_TURNS.len()], [0.0_f32; STRIDE_TURNS.len()]);
        for &value in &pairs {
            let mut next = [0.0_f32; STRIDE_TURNS.len()];
            for (place, next) in next.iter_mut().enumerate() {
                *next = value + STRIDE_TURNS[place] * newest[place] - before[place];
            }
            (newest, before) = (next, newest);
        }
        let power = STRIDE_TURNS.iter().zip(newest.iter().zip(&before));
        let power = power.map(|(turn, (newest, before))| {
            newest * newest + before * before - turn * newest * before
        });
        let bins = STRIDE_BINS as f32;
        Some(Stride {
            swing_mps2: (2.0 * power.sum::<f32>()).max(0.0).sqrt() / bins,
            spread_mps2: spread_squared.sqrt(),
            impact_share: (1.0 - smooth / spread_squared).clamp(0.0, 1.0),
        })
    }
}

impl Signal {
    /// The newest three seconds of it, or what there is, less the mean of four, mm/s².
    pub(super) fn newest(&self) -> &[f32] {
        let from = BINS - self.filled.min(NEWEST_BINS);
        self.values.get(from..BINS).unwrap_or_default()
    }

    /// Its autocorrelation by lag in bins; none at rest, and before there are two seconds.
    pub(super) fn correlation(&self) -> Option<Correlation> {
        let (filled, energy) = (self.filled, self.energy);
        if filled < BINS / 2 || energy < filled as f32 * REST_STD_MMPS2 * REST_STD_MMPS2 {
            return None;
        }
        let mut correlation = [0.0_f32; LAGS];
        for (later, &value) in self.values.windows(LAGS).zip(&self.values[..BINS]) {
            for (sum, later) in correlation.iter_mut().zip(later) {
                *sum += later * value;
            }
        }
        for (lag, value) in correlation.iter_mut().enumerate() {
            let overlap = filled as f32 / (filled - lag) as f32;
            *value = *value * overlap / energy;
        }
        Some(correlation)
    }

    /// Steps a second by the autocorrelation; 0 where there is no gait.
    pub(super) fn cadence_hz(&self, correlation: Option<&Correlation>) -> f32 {
        let clear = GAIT_STD_MIN * 1_000.0;
        let is_clear = self.energy >= self.filled as f32 * clear * clear;
        let Some(correlation) = correlation.filter(|_| is_clear) else {
            return 0.0;
        };
        let mut best: Option<(f32, f32)> = None;
        for lag in LAG_MIN..=LAG_MAX {
            let (before, here, after) =
                (correlation[lag - 1], correlation[lag], correlation[lag + 1]);
            if here < GAIT_CORRELATION_MIN || here < before || here < after {
                continue;
            }
            // A later peak must be clearly higher: the first one is the step, later ones are its multiples.
            if best.is_none_or(|(_, height)| here > height + 0.2) {
                let bend = before - 2.0 * here + after;
                let shift = if bend < -1e-6 {
                    0.5 * (before - after) / bend
                } else {
                    0.0
                };
                best = Some((lag as f32 + shift, here));
            }
        }
        match best {
            None => 0.0,
            Some((lag, _)) if lag > LAG_STEP_MAX => 2_000.0 / (lag * BIN_MS as f32),
            Some((lag, _)) => 1_000.0 / (lag * BIN_MS as f32),
        }
    }
}
