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
        let mut up = self.up();
        for (place, ((&x, &y), &z)) in x.iter().zip(y).zip(z).enumerate() {
            let t_ms = imu.t_ms.saturating_add((place as f32 * step_ms) as u32);
            if t_ms < from_ms {
                continue;
            }
            let start_ms = t_ms / WINDOW_MS * WINDOW_MS;
            if let Some(second) = self.second.filter(|second| second.t_ms != start_ms)
                && let Some(motion) = self.close(second.t_ms)
            {
                done(second.t_ms, motion);
                up = self.up();
            }
            let second = self.second.get_or_insert(Second {
                t_ms: start_ms,
                ..Second::default()
            });
            let norm = (x * x + y * y + z * z).sqrt() - GRAVITY;
            second.count = second.count.saturating_add(1);
            second.accel = [
                second.accel[0] + x,
                second.accel[1] + y,
                second.accel[2] + z,
            ];
            second.norm += norm;
            second.norm_squared += norm * norm;
            if let Some([gx, gy, gz]) = imu.gyro
                && let (Some(&gx), Some(&gy), Some(&gz)) =
                    (gx.get(place), gy.get(place), gz.get(place))
            {
                second.gyro_count = second.gyro_count.saturating_add(1);
                second.gyro = [
                    second.gyro[0] + gx,
                    second.gyro[1] + gy,
                    second.gyro[2] + gz,
                ];
            }
            let rise = up.map_or(norm, |up| dot([x, y, z], up) - GRAVITY);
            self.put_in_bin(t_ms / BIN_MS, norm, rise);
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

    fn put_in_bin(&mut self, bin: u32, norm: f32, rise: f32) {
        if bin != self.bin.number {
            self.close_bins(bin);
        }
        self.bin.norm += norm;
        self.bin.rise += rise;
        self.bin.count = self.bin.count.saturating_add(1);
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
            cadence_hz: Some(self.cadence_hz()),
            yaw_rad,
            stride: self.stride(),
        })
    }

    /// What the last 4 s say of the stride; none before there are so many, and where nobody walks.
    fn stride(&self) -> Option<Stride> {
        let spread_squared = self.spread_squared;
        if usize::from(self.filled) < BINS || spread_squared < GAIT_STD_MIN * GAIT_STD_MIN {
            return None;
        }
        let mean = self.bins.iter().map(|&bin| f32::from(bin)).sum::<f32>() / BINS as f32;
        let smooth = self
            .bins
            .iter()
            .map(|&bin| (f32::from(bin) - mean) * (f32::from(bin) - mean))
            .sum::<f32>()
            / (BINS as f32 * 1e6);
        let mut pairs = [0.0_f32; STRIDE_BINS];
        for (pair, bins) in pairs.iter_mut().zip(self.rises.chunks_exact(2)) {
            *pair = bins.iter().map(|&bin| f32::from(bin)).sum::<f32>() / 2_000.0;
        }
        // Goertzel's algorithm at each of the stride's frequencies; whole cycles, so that a constant counts nothing.
        let power = STRIDE_TURNS.iter().map(|turn| {
            let (mut newest, mut before) = (0.0_f32, 0.0_f32);
            for &value in &pairs {
                (newest, before) = (value + turn * newest - before, newest);
            }
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
    fn cadence_hz(&self) -> f32 {
        let filled = usize::from(self.filled);
        if filled < BINS / 2 {
            return 0.0;
        }
        let mut signal = [0.0_f32; BINS];
        let mean = self.bins[BINS - filled..]
            .iter()
            .map(|&bin| f32::from(bin))
            .sum::<f32>()
            / filled as f32;
        for (value, &bin) in signal.iter_mut().zip(&self.bins).skip(BINS - filled) {
            *value = f32::from(bin) - mean;
        }
        let energy = signal.iter().map(|value| value * value).sum::<f32>();
        if (energy / filled as f32).sqrt() < GAIT_STD_MIN * 1_000.0 {
            return 0.0;
        }
        let mut correlation = [0.0_f32; LAG_MAX + 2];
        for (lag, value) in correlation.iter_mut().enumerate().skip(LAG_MIN - 1) {
            let overlap = filled as f32 / (filled - lag) as f32;
            *value = signal[lag..]
                .iter()
                .zip(&signal)
                .map(|(a, b)| a * b)
                .sum::<f32>()
                * overlap
                / energy;
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
