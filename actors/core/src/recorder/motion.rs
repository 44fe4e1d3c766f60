//! Combines single values of acceleration and turn rate, as apps push them, into the arrays of
//! `imu` samples.

use super::push::{ImuArrays, Measurement, Push};

/// The silence after which a new array begins, nanoseconds.
const SILENCE_NS: i64 = 250_000_000;
/// The duration of one array, nanoseconds.
const ARRAY_NS: i64 = 1_000_000_000;
/// The maximum number of elements per second; a faster sensor is thinned to every second, third …
/// element.
const HZ_MAX: f64 = 220.0;

/// A vector and the time of its measurement, nanoseconds since 1970.
pub(super) type Timed = (i64, [f32; 3]);

/// The vectors of one push, each list in order of time.
#[derive(Debug, Default)]
pub(super) struct Vectors {
    /// Acceleration without gravity, m/s².
    pub(super) user: Vec<Timed>,
    /// Gravity samples, m/s².
    pub(super) gravity: Vec<Timed>,
    /// Acceleration with gravity, m/s².
    pub(super) total: Vec<Timed>,
    /// Turn rate, rad/s.
    pub(super) turn: Vec<Timed>,
}

/// Returns the vector nearest to `at_ns`, from vectors in order of time, or `None` if their sensor
/// was silent then. The search begins at `place` and advances it.
fn nearest(vectors: &[Timed], at_ns: i64, place: &mut usize) -> Option<[f32; 3]> {
    while let (Some(here), Some(next)) = (vectors.get(*place), vectors.get(*place + 1)) {
        if (next.0 - at_ns).abs() > (here.0 - at_ns).abs() {
            break;
        }
        *place += 1;
    }
    let &(nearest_ns, vector) = vectors.get(*place)?;
    ((nearest_ns - at_ns).abs() <= SILENCE_NS).then_some(vector)
}

impl Vectors {
    /// Adds the arrays to `push`. Acceleration without gravity is useless where gravity is missing.
    pub(super) fn into_arrays(mut self, push: &mut Push) {
        for vectors in [
            &mut self.user,
            &mut self.gravity,
            &mut self.total,
            &mut self.turn,
        ] {
            vectors.sort_by_key(|&(at_ns, _)| at_ns);
        }
        let needs_gravity = self.total.is_empty();
        let accel = self.acceleration();
        let useless = if accel.is_empty() {
            self.user.len().max(self.turn.len())
        } else if needs_gravity {
            self.user.len() - accel.len()
        } else {
            0
        };
        push.skipped = push
            .skipped
            .saturating_add(u32::try_from(useless).unwrap_or(u32::MAX));
        let mut turn_place = 0;
        let is_gap = |pair: &(Timed, Timed)| pair.1.0 - pair.0.0 > SILENCE_NS;
        let mut begin = 0;
        for end in 1..=accel.len() {
            let is_end = match (accel.get(end - 1), accel.get(end)) {
                (Some(&last), Some(&next)) => is_gap(&(last, next)),
                _ => true,
            };
            if is_end && let Some(stretch) = accel.get(begin..end) {
                self.cut(stretch, &mut turn_place, push);
                begin = end;
            }
        }
    }

    /// Returns the acceleration with gravity, in either form of the app.
    fn acceleration(&mut self) -> Vec<Timed> {
        if !self.total.is_empty() {
            return std::mem::take(&mut self.total);
        }
        let mut place = 0;
        let with_gravity = self.user.iter().filter_map(|&(at_ns, [x, y, z])| {
            let [gx, gy, gz] = nearest(&self.gravity, at_ns, &mut place)?;
            Some((at_ns, [x + gx, y + gy, z + gz]))
        });
        with_gravity.collect()
    }

    /// Cuts a stretch without silences into arrays of about a second, at the stretch's own rate. An
    /// array has turn rates for all of its values or for none.
    fn cut(&self, stretch: &[Timed], turn_place: &mut usize, push: &mut Push) {
        let (Some(&(first_ns, _)), Some(&(last_ns, _))) = (stretch.first(), stretch.last()) else {
            return;
        };
        if last_ns <= first_ns {
            // The rate of a single value is unknown.
            push.skip();
            return;
        }
        let hz = (stretch.len() - 1) as f64 * 1e9 / (last_ns - first_ns) as f64;
        let stride = (hz / HZ_MAX).ceil().max(1.0);
        let hz = (hz / stride).max(1.0) as f32;
        let mut array: Option<(i64, ImuArrays)> = None;
        for &(at_ns, vector) in stretch.iter().step_by(stride as usize) {
            let turn = nearest(&self.turn, at_ns, turn_place);
            if array.as_ref().is_some_and(|(begun_ns, imu)| {
                at_ns - begun_ns >= ARRAY_NS || imu.gyro.is_some() != turn.is_some()
            }) {
                finish(array.take(), push);
            }
            let (_, imu) =
                array.get_or_insert_with(|| (at_ns, empty(hz, stretch.len(), turn.is_some())));
            for (axis, value) in imu.accel.iter_mut().zip(vector) {
                axis.push(value);
            }
            if let (Some(axes), Some(turn)) = (&mut imu.gyro, turn) {
                for (axis, value) in axes.iter_mut().zip(turn) {
                    axis.push(value);
                }
            }
        }
        finish(array, push);
    }
}

/// Returns arrays with room for a second, or for all `values` if they are fewer.
fn empty(hz: f32, values: usize, with_turn: bool) -> ImuArrays {
    let room = values.min(hz as usize + 1);
    let axes = || std::array::from_fn(|_| Vec::with_capacity(room));
    ImuArrays {
        hz,
        accel: axes(),
        gyro: with_turn.then(axes),
    }
}

fn finish(array: Option<(i64, ImuArrays)>, push: &mut Push) {
    if let Some((begun_ns, imu)) = array {
        push.add(begun_ns / 1_000_000, Measurement::Imu(Box::new(imu)));
    }
}
