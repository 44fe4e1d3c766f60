//! Reduces raw acceleration and turn rate to one-second values: spread, gravity, vertical
//! acceleration, turn, cadence, and the swing of the phone with a stride.

mod direction;
mod gait;
mod sums;

use std::ops::Range;

use porchlight_schema::sample::Imu;
use serde::{Deserialize, Serialize};

use self::direction::Direction;
use self::sums::{Bin, GRAVITY, PART, Part, Second, dot};
use crate::gait::{IMU_FEATURES, ImuSignal, Models, SecondBrief, imu_features};
use crate::window::{BodyMotion, WINDOW_MS};

/// The width of a bin of the gait signal in milliseconds: 10 Hz resolves 3 steps a second and
/// passes 93 % of a 2 Hz gait.
const BIN_MS: u32 = 100;
/// The number of bins kept: 4 s, at least five steps of an ordinary walk.
const BINS: usize = 40;
/// A bin without data.
const MISSING: i16 = i16::MIN;
/// The longest time between two samples of one sensor, in bins: one that reports irregularly at
/// [`STEPS_HZ_MIN`] leaves out no more. A longer time without a sample is a gap in the stream.
const HELD_BINS: usize = 3;
/// The least rate at which samples show steps, Hz: people take up to two steps a second, and each
/// needs two samples (sampling theorem). A slower sensor does not measure the body: its spread and
/// its mean depend on the phase of the step that it happens to meet.
const STEPS_HZ_MIN: f32 = 4.0;
/// The weight of a new second in the spread against which the stride is compared: about 4 s, like
/// the bins.
const SPREAD_NEW: f32 = 0.35;
/// The weight of a new second in the direction of gravity.
const GRAVITY_NEW: f32 = 0.4;
/// The weight of a new quiet second in the length of gravity, which is specific to the
/// accelerometer: sensors are off by up to 0.3 m/s².
const LENGTH_NEW: f32 = 0.03;
/// A second is quiet below this spread, m/s²: its mean is the length of gravity.
pub(super) const QUIET_STD: f32 = 0.4;
/// The plausible range for the length of gravity, m/s².
const LENGTH_RANGE: std::ops::RangeInclusive<f32> = 9.3..=10.3;

/// Reduces `imu` samples. All state comes from this kind alone, so the order of the other kinds
/// cannot matter.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct AccelReducer {
    begun_ms: u32,
    passed_ms: u32,
    second: Option<Second>,
    gravity: Option<[f32; 3]>,
    length: Option<f32>,
    /// The norm less gravity in bins, mm/s², or [`MISSING`]: a ring buffer.
    #[serde(with = "bins")]
    bins: [i16; BINS],
    /// The acceleration along gravity, less gravity, in the same bins.
    #[serde(with = "bins")]
    rises: [i16; BINS],
    /// The position of the oldest bin in both ring buffers.
    oldest: u8,
    filled: u8,
    bin: Bin,
    direction: Direction,
    /// The mean square of the norm's spread over the last seconds, m²/s⁴.
    spread_squared: f32,
    /// The two newest complete seconds, the older one first.
    briefs: [SecondBrief; 2],
    /// The models of the session's context.
    #[serde(skip)]
    models: Models,
}

/// The gait features of the second before the closed one, and of the closed second itself.
pub(super) type GaitFeatures = [[f32; IMU_FEATURES]; 2];

/// Serializes the bins, because serde's derive supports arrays of up to 32 elements only.
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
            oldest: 0,
            filled: 0,
            bin: Bin::default(),
            direction: Direction::default(),
            spread_squared: 0.0,
            briefs: [SecondBrief::default(); 2],
            models: Models::default(),
        }
    }
}

/// The times of an array's elements.
#[derive(Clone, Copy)]
struct Clock {
    t_ms: u32,
    step_ms: f32,
}

impl Clock {
    fn after_ms(self, place: usize) -> f32 {
        place as i32 as f32 * self.step_ms
    }

    fn at_ms(self, place: usize) -> u32 {
        self.t_ms.saturating_add(self.after_ms(place) as u32)
    }

    /// Returns the first element after `from` whose time is at least `end_ms`, which lies after
    /// `from`. Returns `to` if no such element exists.
    fn first_at(self, end_ms: u32, from: usize, to: usize) -> usize {
        // Equivalent to comparing [`Clock::at_ms`], without an integer conversion for each element.
        let after_ms = end_ms.saturating_sub(self.t_ms) as f32;
        if self.after_ms(to.saturating_sub(1)) < after_ms {
            return to;
        }
        (from + 1..to)
            .find(|&place| self.after_ms(place) >= after_ms)
            .unwrap_or(to)
    }
}

impl AccelReducer {
    /// Sets the models that judge the gait from now on.
    pub(super) fn use_models(&mut self, models: Models) {
        self.models = models;
    }

    /// Returns the start time of the newest array.
    pub(super) fn begun_ms(&self) -> u32 {
        self.begun_ms
    }

    /// Returns the time up to which there is data.
    pub(super) fn passed_ms(&self) -> u32 {
        self.passed_ms
    }

    /// Takes an array, without the elements before `from_ms` or in a time covered by an earlier
    /// array. `done` receives each complete second with the features from which its gait was
    /// judged.
    pub(super) fn take(
        &mut self,
        imu: &Imu<'_>,
        from_ms: u32,
        mut done: impl FnMut(u32, BodyMotion, &GaitFeatures),
    ) {
        let step_ms = 1_000.0 / imu.hz;
        let from_ms = from_ms.max(self.passed_ms);
        let [x, y, z] = imu.accel;
        let count = if imu.hz >= STEPS_HZ_MIN {
            x.len().min(y.len()).min(z.len())
        } else {
            0
        };
        let clock = Clock {
            t_ms: imu.t_ms,
            step_ms,
        };
        let mut from = (0..count)
            .find(|&place| clock.at_ms(place) >= from_ms)
            .unwrap_or(count);
        while from < count {
            let start_ms = clock.at_ms(from) / WINDOW_MS * WINDOW_MS;
            if let Some(open_ms) = self.second.as_ref().map(|second| second.t_ms)
                && open_ms != start_ms
                && let Some((motion, features)) = self.close(open_ms)
            {
                done(open_ms, motion, &features);
            }
            let end_ms = start_ms.saturating_add(WINDOW_MS);
            let to = clock.first_at(end_ms, from, count.min(from + PART));
            self.take_part(imu, clock, from..to);
            from = to;
        }
        let end_ms = imu.t_ms.saturating_add((x.len() as f32 * step_ms) as u32);
        self.begun_ms = imu.t_ms;
        self.passed_ms = self.passed_ms.max(end_ms);
    }

    /// Takes at most [`PART`] elements of one second.
    fn take_part(&mut self, imu: &Imu<'_>, clock: Clock, part: Range<usize>) {
        let start_ms = clock.at_ms(part.start) / WINDOW_MS * WINDOW_MS;
        let accel = imu
            .accel
            .map(|axis| axis.get(part.clone()).unwrap_or_default());
        let elements = Part::measure(accel, self.up());
        let mut second = self.second.unwrap_or(Second {
            t_ms: start_ms,
            ..Second::default()
        });
        if let Some(gyro) = imu.gyro {
            second.turn(gyro.map(|axis| {
                let to = part.end.min(axis.len());
                axis.get(part.start..to).unwrap_or_default()
            }));
        }
        // Processes bin by bin; no bin spans two seconds.
        let mut from = part.start;
        while from < part.end {
            let bin = clock.at_ms(from) / BIN_MS;
            if bin != self.bin.number {
                self.close_bins(bin);
            }
            let to = clock.first_at((bin + 1).saturating_mul(BIN_MS), from, part.end);
            let within = from - part.start..to - part.start;
            let (accel, count) = elements.add(within, &mut self.bin, &mut second);
            self.direction.take(accel, count);
            from = to;
        }
        self.second = Some(second);
    }

    /// Returns the direction of gravity. Returns `None` before the first second is complete.
    fn up(&self) -> Option<[f32; 3]> {
        let gravity = self.gravity?;
        let length = dot(gravity, gravity).sqrt();
        (length > 1.0).then(|| gravity.map(|along| along / length))
    }

    /// Shifts the bins so that `bin` is the open one. Bins between two samples of a slow sensor
    /// repeat the previous bin; bins in a gap of the stream have no data.
    fn close_bins(&mut self, bin: u32) {
        let behind = bin.saturating_sub(self.bin.number) as usize;
        if behind >= BINS || self.bin.count == 0 {
            self.filled = 0;
        } else {
            let (mut norm, mut rise) = (self.bin.mean(self.bin.norm), self.bin.mean(self.bin.rise));
            for place in 0..behind {
                if place > 0 && behind > HELD_BINS {
                    (norm, rise) = (MISSING, MISSING);
                }
                let oldest = usize::from(self.oldest) % BINS;
                (self.bins[oldest], self.rises[oldest]) = (norm, rise);
                self.direction.close(self.bin.number + place as u32);
                self.oldest = ((oldest + 1) % BINS) as u8;
            }
            self.filled = (usize::from(self.filled) + behind).min(BINS) as u8;
        }
        self.bin = Bin {
            number: bin,
            ..Bin::default()
        };
    }

    /// Finishes the second that begins at `t_ms`, if that second is open.
    pub(super) fn close(&mut self, t_ms: u32) -> Option<(BodyMotion, GaitFeatures)> {
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
        let correlation = signal.correlation();
        let features = self.gait_features(
            SecondBrief::new(t_ms, accel_std),
            ImuSignal {
                bins: signal.newest(),
                correlation: correlation
                    .as_ref()
                    .map(|correlation| correlation.as_slice()),
                direction: self
                    .direction
                    .correlation(self.bin.number, signal.measured()),
            },
        );
        let model = &self.models.get().imu;
        let motion = BodyMotion {
            accel_mean,
            accel_std,
            vertical_mean,
            cadence_hz: signal
                .shows_period()
                .then(|| signal.cadence_hz(correlation.as_ref())),
            yaw_rad,
            stride: self.stride(&signal, second.count),
            gait: signal
                .shows_period()
                .then(|| features.map(|features| model.log_odds(&features))),
        };
        Some((motion, features))
    }

    /// Returns the gait features including the newest second, and remembers that second.
    fn gait_features(&mut self, newest: SecondBrief, signal: ImuSignal<'_>) -> GaitFeatures {
        let [_, before] = self.briefs;
        let features = imu_features(self.briefs, newest, signal);
        self.briefs = [before, newest];
        features
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The grouping of elements does not affect the result: an array of ten seconds equals ten
    /// arrays of one second.
    #[test]
    fn a_long_array_equals_its_seconds_one_by_one() {
        for per_second in [20_usize, 25, 50, 100, 400] {
            let wave = |place: usize, turn: f32| {
                let t = place as f32 / per_second as f32;
                (turn + 11.0 * t).sin() * 2.5 + (turn + 71.0 * t).cos() * 0.7
            };
            let axis = |turn: f32, base: f32| -> Vec<f32> {
                let places = 0..10 * per_second;
                places.map(|place| base + wave(place, turn)).collect()
            };
            let accel = [axis(0.0, 0.3), axis(1.0, -0.2), axis(2.0, 9.7)];
            let gyro = [axis(3.0, 0.0), axis(4.0, 0.1), axis(5.0, 0.0)];
            let take = |at_once: usize| {
                let (mut reducer, mut seconds) = (AccelReducer::default(), Vec::new());
                for from in (0..10).step_by(at_once) {
                    let part = from * per_second..(from + at_once) * per_second;
                    let imu = Imu {
                        t_ms: 7_000 + from as u32 * WINDOW_MS,
                        hz: per_second as f32,
                        accel: accel.each_ref().map(|axis| &axis[part.clone()]),
                        gyro: Some(gyro.each_ref().map(|axis| &axis[part.clone()])),
                    };
                    reducer.take(&imu, 0, |t_ms, motion, _| seconds.push((t_ms, motion)));
                }
                seconds.extend(reducer.close(16_000).map(|(motion, _)| (16_000, motion)));
                (reducer, seconds)
            };
            let (reducer, seconds) = take(1);
            assert_eq!(seconds.len(), 10);
            assert!(seconds.iter().any(|(_, motion)| motion.stride.is_some()));
            assert_eq!(
                take(10),
                (
                    AccelReducer {
                        begun_ms: 7_000,
                        ..reducer.clone()
                    },
                    seconds.clone(),
                )
            );
            assert_eq!(take(2).1, seconds);
        }
    }

    /// A logger stores the acceleration of a walk at two steps a second only twice a second. Its
    /// readings meet the same phase of each step, so that the body would seem to be at rest.
    #[test]
    fn a_sensor_that_is_too_slow_for_steps_measures_nothing() {
        let seconds_at = |hz: usize| {
            let (mut reducer, mut seconds) = (AccelReducer::default(), 0);
            for second in 0..20_u32 {
                let t = |place: usize| second as f32 + place as f32 / hz as f32;
                let swing = |place| (std::f32::consts::TAU * 2.0 * t(place)).sin();
                let norm: Vec<f32> = (0..hz).map(|place| GRAVITY + 3.0 * swing(place)).collect();
                let zeros = vec![0.0; hz];
                let imu = Imu {
                    t_ms: second * WINDOW_MS,
                    hz: hz as f32,
                    accel: [&zeros, &zeros, &norm],
                    gyro: None,
                };
                reducer.take(&imu, 0, |_, _, _| seconds += 1);
            }
            assert_eq!(reducer.passed_ms(), 20_000, "the stream has no gap");
            seconds
        };
        assert_eq!(seconds_at(2), 0);
        assert_eq!(seconds_at(10), 19);
    }
}
