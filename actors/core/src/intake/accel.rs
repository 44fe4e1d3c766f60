//! Raw acceleration and turn rate, second by second: spread, gravity, vertical acceleration, turn, cadence, and how far
//! the phone swings with a stride.

use porchlight_schema::sample::Imu;
use serde::{Deserialize, Serialize};

use crate::window::{BodyMotion, Stride, WINDOW_MS};

/// Standard gravity, m/s² (ISO 80000-3): where nothing was measured yet.
const GRAVITY: f32 = 9.806_65;
/// Width of a bin of the gait signal: 10 Hz resolves 3 steps a second and passes 93 % of a 2 Hz gait.
const BIN_MS: u32 = 100;
/// Bins kept: 4 s, at least five steps of an ordinary walk.
const BINS: usize = 40;
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
/// Weight of a new second in the spread that the stride is compared with: about 4 s, like the bins.
const SPREAD_NEW: f32 = 0.35;
/// Weight of a new second in the direction of gravity.
const GRAVITY_NEW: f32 = 0.4;
/// Weight of a new quiet second in the length of gravity, which is the accelerometer's own: sensors are off by up to
/// 0.3 m/s².
const LENGTH_NEW: f32 = 0.03;
/// A second is quiet below this spread, m/s².
const QUIET_STD: f32 = 0.4;
/// A length of gravity is believed between these, m/s².
const LENGTH_RANGE: std::ops::RangeInclusive<f32> = 9.3..=10.3;

/// Sums over one second.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
struct Second {
    t_ms: u32,
    count: u16,
    gyro_count: u16,
    accel: [f32; 3],
    gyro: [f32; 3],
    /// Of the norm, less [`GRAVITY`].
    norm: f32,
    norm_squared: f32,
}

impl Second {
    /// Adds acceleration, axis by axis, all of it in one bin. `up` is the direction of gravity, if that is known.
    fn take(&mut self, [x, y, z]: [&[f32]; 3], up: Option<[f32; 3]>, bin: &mut Bin) {
        let (mut second, mut norms, mut rises) = (*self, bin.norm, bin.rise);
        for ((&x, &y), &z) in x.iter().zip(y).zip(z) {
            let norm = (x * x + y * y + z * z).sqrt() - GRAVITY;
            second.accel = sum(second.accel, [x, y, z]);
            second.norm += norm;
            second.norm_squared += norm * norm;
            norms += norm;
            rises += up.map_or(norm, |up| dot([x, y, z], up) - GRAVITY);
        }
        let count = u16::try_from(x.len()).unwrap_or(u16::MAX);
        second.count = second.count.saturating_add(count);
        *self = second;
        (bin.norm, bin.rise) = (norms, rises);
        bin.count = bin.count.saturating_add(count);
    }

    /// Adds turn rates, axis by axis.
    fn turn(&mut self, [x, y, z]: [&[f32]; 3]) {
        let (mut gyro, mut count) = (self.gyro, 0_u16);
        for ((&x, &y), &z) in x.iter().zip(y).zip(z) {
            gyro = sum(gyro, [x, y, z]);
            count = count.saturating_add(1);
        }
        self.gyro = gyro;
        self.gyro_count = self.gyro_count.saturating_add(count);
    }
}

/// Reduces `imu` samples. All state is of this kind alone, so the other kinds' order can't matter.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct AccelReducer {
    begun_ms: u32,
    passed_ms: u32,
    second: Option<Second>,
    gravity: Option<[f32; 3]>,
    length: Option<f32>,
    /// The norm less gravity in bins, mm/s²; the newest at the end.
    #[serde(with = "bins")]
    bins: [i16; BINS],
    /// The acceleration along gravity, less gravity, in the same bins.
    #[serde(with = "bins")]
    rises: [i16; BINS],
    filled: u8,
    bin: Bin,
    /// Mean square of the norm's spread over the last seconds, m²/s⁴.
    spread_squared: f32,
}

/// The bin that is still being filled.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
struct Bin {
    number: u32,
    norm: f32,
    rise: f32,
    count: u16,
}

impl Bin {
    /// Mean of a sum over it, mm/s².
    fn mean(&self, sum: f32) -> i16 {
        (sum / f32::from(self.count) * 1_000.0).clamp(-32_000.0, 32_000.0) as i16
    }
}

/// serde's derive reads arrays up to 32 only.
mod bins {
    use super::BINS;
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

    pub(super) fn serialize<S: Serializer>(
        bins: &[i16; BINS],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        bins.as_slice().serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<[i16; BINS], D::Error> {
        let bins = Vec::<i16>::deserialize(deserializer)?;
        bins.try_into()
            .map_err(|_| de::Error::custom("not the number of bins"))
    }
}

impl Default for AccelReducer {
    fn default() -> Self {
        Self {
            begun_ms: 0,
            passed_ms: 0,
            second: None,
            gravity: None,
            length: None,
            bins: [0; BINS],
            rises: [0; BINS],
            filled: 0,
            bin: Bin::default(),
            spread_squared: 0.0,
        }
    }
}

fn dot(a: [f32; 3], b: [f32; 3]) -> f32 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

fn sum(a: [f32; 3], b: [f32; 3]) -> [f32; 3] {
    [a[0] + b[0], a[1] + b[1], a[2] + b[2]]
}

/// The gait signal of the last seconds less its mean, mm/s².
struct Signal {
    /// What there is of it stands at the end of the first [`BINS`]; all else is 0.
    values: [f32; BINS + LAGS],
    /// The sum of its squares.
    energy: f32,
}

impl AccelReducer {
    /// When the newest array began.
    pub(super) fn begun_ms(&self) -> u32 {
        self.begun_ms
    }

    /// Up to where there is data.
    pub(super) fn passed_ms(&self) -> u32 {
        self.passed_ms
    }

    /// Takes an array; elements before `from_ms`, or in a time that an earlier array covered, are left out.
    /// `done` gets each second that is complete.
    pub(super) fn take(
        &mut self,
        imu: &Imu<'_>,
        from_ms: u32,
        mut done: impl FnMut(u32, BodyMotion),
    ) {
        let step_ms = 1_000.0 / imu.hz;
        let from_ms = from_ms.max(self.passed_ms);
        let [x, y, z] = imu.accel;
        let count = x.len().min(y.len()).min(z.len());
        let after_ms = |place: usize| (place as i32 as f32 * step_ms) as u32;
        let at_ms = |place: usize| imu.t_ms.saturating_add(after_ms(place));
        let mut from = (0..count)
            .find(|&place| at_ms(place) >= from_ms)
            .unwrap_or(count);
        let mut up = self.up();
        // Bin by bin; no bin lies in two seconds.
        while from < count {
            let t_ms = at_ms(from);
            let bin = t_ms / BIN_MS;
            let bin_end_ms = (bin + 1).saturating_mul(BIN_MS);
            let to = (from + 1..count)
                .find(|&place| at_ms(place) >= bin_end_ms)
                .unwrap_or(count);
            let start_ms = t_ms / WINDOW_MS * WINDOW_MS;
            if let Some(open_ms) = self.second.as_ref().map(|second| second.t_ms)
                && open_ms != start_ms
                && let Some(motion) = self.close(open_ms)
            {
                done(open_ms, motion);
                up = self.up();
            }
            if bin != self.bin.number {
                self.close_bins(bin);
            }
            let second = self.second.get_or_insert(Second {
                t_ms: start_ms,
                ..Second::default()
            });
            let accel = imu.accel.map(|axis| axis.get(from..to).unwrap_or_default());
            second.take(accel, up, &mut self.bin);
            if let Some(gyro) = imu.gyro {
                second
                    .turn(gyro.map(|axis| axis.get(from..to.min(axis.len())).unwrap_or_default()));
            }
            from = to;
        }
        let end_ms = imu.t_ms.saturating_add((x.len() as f32 * step_ms) as u32);
        self.begun_ms = imu.t_ms;
        self.passed_ms = self.passed_ms.max(end_ms);
    }

    /// The direction of gravity; none before the first second is whole.
    fn up(&self) -> Option<[f32; 3]> {
        let gravity = self.gravity?;
        let length = dot(gravity, gravity).sqrt();
        (length > 1.0).then(|| gravity.map(|along| along / length))
    }

    /// Shifts the bins so that `bin` is the open one; bins that got nothing repeat the one before.
    fn close_bins(&mut self, bin: u32) {
        let behind = bin.saturating_sub(self.bin.number) as usize;
        if behind > BINS / 2 || self.bin.count == 0 {
            self.filled = 0;
        } else {
            let means = (self.bin.mean(self.bin.norm), self.bin.mean(self.bin.rise));
            for (bins, mean) in [(&mut self.bins, means.0), (&mut self.rises, means.1)] {
                bins.copy_within(behind.., 0);
                bins[BINS - behind..].fill(mean);
            }
            self.filled = (usize::from(self.filled) + behind).min(BINS) as u8;
        }
        self.bin = Bin {
            number: bin,
            ..Bin::default()
        };
    }

    /// Finishes the second that begins at `t_ms`, if it is the open one.
    pub(super) fn close(&mut self, t_ms: u32) -> Option<BodyMotion> {
        let second = self.second.take_if(|second| second.t_ms == t_ms)?;
        let count = f32::from(second.count.max(1));
        let mean = second.accel.map(|sum| sum / count);
        let norm = second.norm / count;
        let accel_std = (second.norm_squared / count - norm * norm).max(0.0).sqrt();
        let gravity = match self.gravity {
            None => mean,
            Some(before) => {
                let mut blend = before;
                for (blend, mean) in blend.iter_mut().zip(mean) {
                    *blend += GRAVITY_NEW * (mean - *blend);
                }
                blend
            }
        };
        self.gravity = Some(gravity);
        let signal = self.signal();
        let unit = dot(gravity, gravity).sqrt();
        let accel_mean = norm + GRAVITY;
        let is_first = self.spread_squared <= 0.0;
        self.spread_squared +=
            if is_first { 1.0 } else { SPREAD_NEW } * (accel_std * accel_std - self.spread_squared);
        if accel_std < QUIET_STD && LENGTH_RANGE.contains(&accel_mean) {
            let length = self.length.get_or_insert(accel_mean);
            *length += LENGTH_NEW * (accel_mean - *length);
        }
        let along = |vector: [f32; 3]| {
            if unit > 1.0 {
                dot(vector, gravity) / unit
            } else {
                0.0
            }
        };
        let vertical_mean = self.length.map(|length| along(mean) - length);
        let yaw_rad =
            (second.gyro_count > 0).then(|| along(second.gyro) / f32::from(second.gyro_count));
        Some(BodyMotion {
            accel_mean,
            accel_std,
            vertical_mean,
            cadence_hz: Some(self.cadence_hz(&signal)),
            yaw_rad,
            stride: self.stride(&signal),
        })
    }

    fn signal(&self) -> Signal {
        let filled = usize::from(self.filled).min(BINS);
        // Whole numbers far below 2^24: their sum is exact in single precision too.
        let sum: i32 = self.bins[BINS - filled..]
            .iter()
            .map(|&bin| i32::from(bin))
            .sum();
        let mean = sum as f32 / filled.max(1) as f32;
        let mut values = [0.0_f32; BINS + LAGS];
        for (value, &bin) in values.iter_mut().zip(&self.bins).skip(BINS - filled) {
            *value = f32::from(bin) - mean;
        }
        let energy = values[..BINS].iter().map(|value| value * value).sum();
        Signal { values, energy }
    }

    /// What the last 4 s say of the stride; none before there are so many, and where nobody walks.
    fn stride(&self, signal: &Signal) -> Option<Stride> {
        let spread_squared = self.spread_squared;
        if usize::from(self.filled) < BINS || spread_squared < GAIT_STD_MIN * GAIT_STD_MIN {
            return None;
        }
        let smooth = signal.energy / (BINS as f32 * 1e6);
        let mut pairs = [0.0_f32; STRIDE_BINS];
        for (pair, bins) in pairs.iter_mut().zip(self.rises.chunks_exact(2)) {
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

    /// Steps a second by the autocorrelation of the last 4 s; 0 where there is no gait.
    fn cadence_hz(&self, signal: &Signal) -> f32 {
        let (filled, energy) = (usize::from(self.filled), signal.energy);
        if filled < BINS / 2 || (energy / filled as f32).sqrt() < GAIT_STD_MIN * 1_000.0 {
            return 0.0;
        }
        let mut correlation = [0.0_f32; LAGS];
        for (later, &value) in signal.values.windows(LAGS).zip(&signal.values[..BINS]) {
            for (sum, later) in correlation.iter_mut().zip(later) {
                *sum += later * value;
            }
        }
        for (lag, value) in correlation.iter_mut().enumerate().skip(LAG_MIN - 1) {
            let overlap = filled as f32 / (filled - lag) as f32;
            *value = *value * overlap / energy;
        }
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
