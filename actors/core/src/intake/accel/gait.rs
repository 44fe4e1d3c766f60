//! Derives gait properties from the last seconds of acceleration: the cadence, and the swing of the
//! phone with a stride.

use super::{AccelReducer, BIN_MS, BINS, MISSING};
use crate::window::{Stride, WINDOW_MS};

/// The shortest autocorrelation lag that can be a step: 0.3 s (3.3 steps a second, running).
const LAG_MIN: usize = 3;
/// The longest such lag: 1.4 s (a stride of two steps at 1.4 a second, where a pocket shows only
/// every other step).
const LAG_MAX: usize = 14;
/// The number of lags examined: from zero to one beyond [`LAG_MAX`].
const LAGS: usize = LAG_MAX + 2;
/// A lag above this is a stride, two steps.
const LAG_STEP_MAX: f32 = 8.0;
/// The spread of the gait signal, m/s², below which there are no steps: a phone at rest has 0.02,
/// in a vehicle 0.1 to 0.4.
const GAIT_STD_MIN: f32 = 0.45;
/// The share of the variance that must recur after one step.
const GAIT_CORRELATION_MIN: f32 = 0.35;
/// The number of bins for the stride: two bins of vertical acceleration are merged into one because
/// the stride is slow.
const STRIDE_BINS: usize = BINS / 2;
/// The rate of the recordings by which the share of impacts in a trouser pocket is known.
const USUAL_HZ: u16 = 50;
/// The lowest rate that shows impacts: two samples in each bin.
const SPARSE_HZ: u16 = 20;
/// Twice the cosine of the angle by which each stride frequency advances per merged bin: 2 to 5
/// cycles in the retained 4 s, 0.5 to 1.25 Hz, half the cadence of any walk.
const STRIDE_TURNS: [f32; 4] = [1.618_034, 1.175_571, 0.618_034, 0.0];

/// The spread of the gait signal, mm/s², below which the phone is at rest and its autocorrelation
/// is not computed: twice the noise of accelerometers recorded at rest.
pub(super) const REST_STD_MMPS2: f32 = 60.0;
/// The number of bins in three seconds.
const NEWEST_BINS: usize = 30;

/// A bit for each bin.
const ALL_BINS: u64 = (1 << BINS) - 1;

/// The factors of [`Signal::correlation`] for the pairs of bins that are missing at each lag, if no
/// bin lacks data.
const WHOLE_OVERLAPS: [f32; LAGS] = whole_overlaps();

const fn whole_overlaps() -> [f32; LAGS] {
    let mut overlaps = [0.0; LAGS];
    let mut lag = 0;
    while lag < LAGS {
        overlaps[lag] = BINS as f32 / (BINS - lag) as f32;
        lag += 1;
    }
    overlaps
}

/// The autocorrelation by lag in bins.
pub(super) type Correlation = [f32; LAGS];

/// The fewest pairs of bins that show an autocorrelation: half a second of data on both sides of
/// the lag.
const PAIRS_MIN: u32 = 5;

/// The gait signal of the last seconds less its mean, mm/s².
pub(super) struct Signal {
    /// The bins with data: the lowest bit is the oldest bin.
    measured: u64,
    /// The values are at the end of the first [`BINS`]; all others, and those of gaps, are 0.
    values: [f32; BINS + LAGS],
    /// The values of the newest three seconds, without gaps.
    newest: Newest,
    /// The sum of the squared values.
    energy: f32,
}

/// Up to three seconds of values.
#[derive(Debug, Clone, Copy, Default)]
struct Newest {
    values: [f32; NEWEST_BINS],
    count: usize,
}

impl Newest {
    /// Copies the newest of the values that were `measured`: the lowest bit is the oldest value.
    fn of(values: &[f32; BINS + LAGS], measured: u64) -> Self {
        let mut newest = Self::default();
        let places = BINS - NEWEST_BINS..BINS;
        if (measured >> places.start).count_ones() as usize == NEWEST_BINS {
            newest.values.copy_from_slice(&values[places]);
            newest.count = NEWEST_BINS;
            return newest;
        }
        for place in places.filter(|place| measured >> place & 1 == 1) {
            newest.values[newest.count] = values[place];
            newest.count += 1;
        }
        newest
    }
}

impl AccelReducer {
    /// Returns a ring of bins in chronological order.
    fn in_order(&self, ring: &[i16; BINS]) -> [i16; BINS] {
        let (newer, older) = ring.split_at(usize::from(self.oldest) % BINS);
        let mut bins = [0; BINS];
        let (first, then) = bins.split_at_mut(older.len());
        first.copy_from_slice(older);
        then.copy_from_slice(newer);
        bins
    }

    /// Returns the bins with data, of bins in chronological order: the lowest bit is the oldest bin.
    fn measured(&self, bins: &[i16; BINS]) -> u64 {
        let filled = usize::from(self.filled).min(BINS);
        if filled == BINS && !bins.contains(&MISSING) {
            return ALL_BINS;
        }
        let filled = bins.iter().enumerate().skip(BINS - filled);
        filled.fold(0, |measured, (place, &bin)| {
            measured | u64::from(bin != MISSING) << place
        })
    }

    pub(super) fn signal(&self) -> Signal {
        let bins = self.in_order(&self.bins);
        let measured = self.measured(&bins);
        let mut values = [0.0_f32; BINS + LAGS];
        // The bins are integers far below 2^24, so their sum is also exact in single precision.
        if measured == ALL_BINS {
            // Without a choice for each bin the loops are vectorised. Together with
            // `WHOLE_OVERLAPS` this saves 4 % of the instructions of a second of `imu`.
            let sum: i32 = bins.iter().map(|&bin| i32::from(bin)).sum();
            let mean = sum as f32 / BINS as f32;
            for (value, &bin) in values.iter_mut().zip(&bins) {
                *value = f32::from(bin) - mean;
            }
        } else {
            let has_data = |place: usize| measured >> place & 1 == 1;
            let with_data = bins
                .iter()
                .enumerate()
                .filter(|&(place, _)| has_data(place));
            let sum: i32 = with_data.map(|(_, &bin)| i32::from(bin)).sum();
            let mean = sum as f32 / measured.count_ones().max(1) as f32;
            for (place, (value, &bin)) in values.iter_mut().zip(&bins).enumerate() {
                *value = if has_data(place) {
                    f32::from(bin) - mean
                } else {
                    0.0
                };
            }
        }
        let newest = Newest::of(&values, measured);
        let energy = values[..BINS].iter().map(|value| value * value).sum();
        Signal {
            measured,
            values,
            newest,
            energy,
        }
    }

    /// Returns the stride in the last 4 s, of which the newest second had `per_sec` samples. Returns
    /// `None` with less than 4 s of data or without a walk.
    pub(super) fn stride(&self, signal: &Signal, per_sec: u16) -> Option<Stride> {
        let spread_squared = self.spread_squared;
        if signal.measured_bins() < BINS || spread_squared < GAIT_STD_MIN * GAIT_STD_MIN {
            return None;
        }
        let smooth = signal.energy / (BINS as f32 * 1e6);
        let mut pairs = [0.0_f32; STRIDE_BINS];
        let rises = self.in_order(&self.rises);
        for (pair, bins) in pairs.iter_mut().zip(rises.chunks_exact(2)) {
            *pair = bins.iter().map(|&bin| f32::from(bin)).sum::<f32>() / 2_000.0;
        }
        // Goertzel's algorithm at each stride frequency, over whole cycles, so that a constant
        // contributes nothing. All frequencies advance in step, so that none waits for its own last
        // value.
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
            impact_share: ((1.0 - smooth / spread_squared) * sparse_factor(per_sec))
                .clamp(0.0, 1.0),
        })
    }
}

/// Returns the factor by which the share of impacts is lower at a low rate of samples than at
/// [`USUAL_HZ`].
fn sparse_factor(per_sec: u16) -> f32 {
    hidden_share(USUAL_HZ) / hidden_share(per_sec.clamp(SPARSE_HZ, USUAL_HZ))
}

/// Returns the share of the variance of impacts that the means of bins hide. The mean of n independent
/// samples has 1/n of their variance, and the spread about the mean of a second lacks as much.
fn hidden_share(per_sec: u16) -> f32 {
    let bins = (WINDOW_MS / BIN_MS) as u16;
    let (fewer, fuller) = (per_sec / bins, per_sec % bins);
    let shown =
        f32::from(bins - fuller) / f32::from(fewer) + f32::from(fuller) / f32::from(fewer + 1);
    1.0 - shown / f32::from(bins) - 1.0 / f32::from(per_sec)
}

impl Signal {
    /// Returns the number of bins with data.
    fn measured_bins(&self) -> usize {
        self.measured.count_ones() as usize
    }

    /// Returns the bins with data: the lowest bit is the oldest bin.
    pub(super) fn measured(&self) -> u64 {
        self.measured
    }

    /// Returns whether there are two seconds of data, which show whether the signal has a period.
    pub(super) fn shows_period(&self) -> bool {
        self.measured_bins() >= BINS / 2
    }

    /// Returns up to three of the newest seconds of the signal, less the mean of four, mm/s².
    pub(super) fn newest(&self) -> &[f32] {
        self.newest
            .values
            .get(..self.newest.count)
            .unwrap_or_default()
    }

    /// Returns the autocorrelation by lag in bins. Returns `None` at rest and before there are two
    /// seconds of data.
    pub(super) fn correlation(&self) -> Option<Correlation> {
        let (count, energy) = (self.measured_bins(), self.energy);
        if count < BINS / 2 || energy < count as f32 * REST_STD_MMPS2 * REST_STD_MMPS2 {
            return None;
        }
        let mut correlation = [0.0_f32; LAGS];
        for (later, &value) in self.values.windows(LAGS).zip(&self.values[..BINS]) {
            for (sum, later) in correlation.iter_mut().zip(later) {
                *sum += later * value;
            }
        }
        if self.measured == ALL_BINS {
            for (value, overlap) in correlation.iter_mut().zip(WHOLE_OVERLAPS) {
                *value = *value * overlap / energy;
            }
            return Some(correlation);
        }
        for (lag, value) in correlation.iter_mut().enumerate() {
            let pairs = (self.measured & self.measured >> lag).count_ones();
            if pairs < PAIRS_MIN {
                *value = 0.0;
                continue;
            }
            let overlap = count as f32 / pairs as f32;
            *value = *value * overlap / energy;
        }
        Some(correlation)
    }

    /// Returns the steps per second according to the autocorrelation, or 0 without a gait.
    pub(super) fn cadence_hz(&self, correlation: Option<&Correlation>) -> f32 {
        let clear = GAIT_STD_MIN * 1_000.0;
        let is_clear = self.energy >= self.measured_bins() as f32 * clear * clear;
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
            // A later peak must be clearly higher: the first peak is the step, later ones are its
            // multiples.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gait::IMU_FEATURES;
    use porchlight_schema::sample::Imu;

    /// The overlaps of a signal without gaps equal, bit for bit, those of counted pairs.
    #[test]
    fn the_overlaps_of_a_whole_signal_equal_those_of_counted_pairs() {
        for (lag, overlap) in WHOLE_OVERLAPS.into_iter().enumerate() {
            let pairs = (ALL_BINS & ALL_BINS >> lag).count_ones();
            assert!(pairs >= PAIRS_MIN);
            assert_eq!(overlap.to_bits(), (BINS as f32 / pairs as f32).to_bits());
        }
    }

    /// Returns the share of impacts of a walk with the phone in a trouser pocket: the thigh swings it
    /// with each stride, and each heel makes it tremble.
    fn impact_share(per_sec: u32) -> f32 {
        let mut reducer = AccelReducer::default();
        let mut seed = 7_u32;
        let mut share = 0.0;
        for second in 0..60 {
            let z: Vec<f32> = (0..per_sec)
                .map(|place| {
                    let t = second as f32 + place as f32 / per_sec as f32;
                    seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    let tremor = (seed >> 8) as f32 / (1 << 24) as f32 - 0.5;
                    9.81 + 1.6 * libm::sinf(5.97 * t) + 4.0 * tremor
                })
                .collect();
            let level = vec![0.0; z.len()];
            let imu = Imu {
                t_ms: second * 1_000,
                hz: per_sec as f32,
                accel: [&level, &level, &z],
                gyro: None,
            };
            reducer.take(&imu, 0, |_, motion, _| {
                let own = motion.stride.map_or(0.0, |stride| stride.impact_share);
                share += own / 55.0;
            });
        }
        share
    }

    /// A phone that is read 20 or 25 times a second shows as many impacts as one that is read 50
    /// or 100 times.
    #[test]
    fn a_low_rate_hides_no_impacts() {
        let usual = impact_share(50);
        for per_sec in [20, 25, 100] {
            let share = impact_share(per_sec);
            assert!(
                (share / usual - 1.0).abs() < 0.15,
                "{per_sec}: {share} {usual}"
            );
        }
    }

    /// Returns the features of the last second of a walk with 1.9 steps a second. Each second has
    /// only its first samples out of 50.
    fn features(samples: impl Fn(u32) -> usize) -> [f32; IMU_FEATURES] {
        let mut reducer = AccelReducer::default();
        for second in 0..9 {
            let z: Vec<f32> = (0..samples(second))
                .map(|place| {
                    let phase = 11.94 * (second as f32 + place as f32 / 50.0);
                    9.81 + 1.6 * libm::sinf(phase) + 0.6 * libm::sinf(2.0 * phase)
                })
                .collect();
            let level = vec![0.0; z.len()];
            let imu = Imu {
                t_ms: second * 1_000,
                hz: 50.0,
                accel: [&level, &level, &z],
                gyro: None,
            };
            reducer.take(&imu, 0, |_, _, _| {});
        }
        let closed = reducer.close(8_000);
        closed.map_or([0.0; IMU_FEATURES], |(_, [_, own])| own)
    }

    /// A walk keeps its period, and gets no slow part, when an app reads the accelerometer for 0.6
    /// s of each second or loses every third second.
    #[test]
    fn a_gap_in_the_acceleration_hides_no_gait() {
        let whole = features(|_| 50);
        let short = features(|_| 30);
        let lossy = features(|second| if second % 3 == 1 { 0 } else { 50 });
        let [
            ..,
            whole_stride,
            whole_opposite,
            whole_slow,
            _,
            whole_direction,
        ] = whole;
        for held in [short, lossy] {
            let [_, _, step, stride, opposite, slow, _, direction] = held;
            // Few pairs of bins are a step apart if most of a second is missing.
            assert!(step > 0.5, "{whole:?} {held:?}");
            let off = [
                stride - whole_stride,
                opposite - whole_opposite,
                slow - whole_slow,
                direction - whole_direction,
            ];
            assert!(off.iter().all(|off| off.abs() < 0.2), "{whole:?} {held:?}");
        }
    }
}
