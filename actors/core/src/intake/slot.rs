//! A window that is still being filled.

use porchlight_schema::sample::{Motion, Sample};
use serde::{Deserialize, Serialize};

use crate::window::{BodyMotion, FIXES_PER_WINDOW, Fix, WINDOW_MS, Window};

/// The values of one second so far. Each kind arrives in its own order, so the sums do not depend
/// on the interleaving.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct Slot {
    fixes: [Option<Fix>; FIXES_PER_WINDOW],
    /// The pressure over [`PRESSURE_BASE_HPA`].
    pressure: Sum,
    steps: Option<u16>,
    motion: Option<BodyMotion>,
    /// Whether `motion` is from raw `imu`, which takes precedence over values reduced on the phone.
    is_from_imu: bool,
    magnetic: Sum,
    /// Whether a measuring kind has a sample in the second.
    pub(super) is_measured: bool,
    /// The times of the first and the newest sample of any kind, milliseconds within the second.
    sample_span: Option<(u16, u16)>,
}

/// The sum of the values of one second.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
struct Sum {
    sum: f32,
    count: u16,
}

impl Sum {
    fn add(&mut self, value: f32) {
        if self.count < u16::MAX {
            self.sum += value;
            self.count += 1;
        }
    }

    /// Returns the mean, or `None` without a value. A single value is its own mean.
    fn mean(self) -> Option<f32> {
        match self.count {
            0 => None,
            1 => Some(self.sum),
            count => Some(self.sum / f32::from(count)),
        }
    }
}

/// The offset that is subtracted before summing pressures, so that a single-precision sum keeps a
/// resolution of a tenth of a pascal.
const PRESSURE_BASE_HPA: f32 = 1_000.0;

/// Returns the time that assigns a sample to a window. For an array this is its end, up to which it
/// can still be of use; for a reduced second its middle, so that the sample goes to the window that
/// contains most of it.
pub(super) fn place_ms(sample: &Sample<'_>) -> u32 {
    match sample {
        Sample::Imu(imu) => imu
            .t_ms
            .saturating_add((imu.accel[0].len() as f32 * 1_000.0 / imu.hz) as u32),
        Sample::Motion(motion) => motion.t_ms.saturating_add(WINDOW_MS / 2),
        other => other.t_ms(),
    }
}

impl Slot {
    /// Records a sample of any kind, from `from_ms` to `to_ms`.
    pub(super) fn record_sample(&mut self, from_ms: u32, to_ms: u32) {
        let first = (from_ms % WINDOW_MS) as u16;
        let last = first + to_ms.saturating_sub(from_ms).min(WINDOW_MS) as u16;
        self.sample_span = Some(match self.sample_span {
            None => (first, last),
            Some((first_before, last_before)) => (first.min(first_before), last.max(last_before)),
        });
    }

    pub(super) fn take_fix(&mut self, fix: Fix) {
        let place = usize::from(self.fixes[0].is_some());
        self.fixes[place] = Some(fix);
    }

    pub(super) fn take_pressure(&mut self, hpa: f32) {
        self.pressure.add(hpa - PRESSURE_BASE_HPA);
    }

    pub(super) fn take_steps(&mut self, risen: u16) {
        self.steps = Some(self.steps.unwrap_or(0).saturating_add(risen));
    }

    pub(super) fn take_magnetic(&mut self, [x, y, z]: [f32; 3]) {
        self.magnetic.add((x * x + y * y + z * z).sqrt());
    }

    pub(super) fn take_motion(&mut self, motion: &Motion) {
        if self.motion.is_none() {
            self.motion = Some(BodyMotion {
                accel_mean: motion.accel_mean,
                accel_std: motion.accel_std,
                vertical_mean: motion.vertical_mean,
                cadence_hz: motion.cadence_hz,
                yaw_rad: motion.yaw_rad,
                stride: None,
                gait: None,
            });
        }
    }

    pub(super) fn take_imu(&mut self, motion: BodyMotion) {
        if !self.is_from_imu {
            self.motion = Some(motion);
            self.is_from_imu = true;
        }
    }

    pub(super) fn has_sample(&self) -> bool {
        self.sample_span.is_some()
    }

    /// Returns the finished window. `silent_since_ms` holds the time of its first sample until the
    /// intake has processed it.
    #[inline]
    pub(super) fn window(&self, t_ms: u32) -> Window {
        let (first, last) = self.sample_span.unwrap_or_default();
        Window {
            t_ms,
            fixes: self.fixes,
            pressure_hpa: self.pressure.mean().map(|over| over + PRESSURE_BASE_HPA),
            steps: self.steps,
            motion: self.motion,
            magnetic_ut: self.magnetic.mean(),
            activity: None,
            arrived_ms: None,
            dropped_off_ms: None,
            has_measurement: self.is_measured,
            has_sample: self.has_sample(),
            last_sample_ms: t_ms + u32::from(last),
            silent_since_ms: Some(t_ms + u32::from(first)),
        }
    }
}
