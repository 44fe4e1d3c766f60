//! Computes the slope of the height around a second by least squares.

use super::frame::KeptFrame;
use super::parameters::evidence::DELAY_MIN;
use crate::window::WINDOW_MS;

/// Returns the slope of the height over these seconds and its standard error, in m/s; `here` is the
/// middle second.
pub(super) fn around(seconds: &[KeptFrame], here: &KeptFrame) -> Option<(f32, f32)> {
    let whole = seconds.try_into().ok();
    whole.and_then(of_whole).or_else(|| of_any(seconds, here))
}

/// Returns the mean height of the second at `place` and its neighbours; `height_m` is its own.
pub(super) fn smooth_m(seconds: &[KeptFrame], place: usize, height_m: f32) -> f32 {
    let near = [place.checked_sub(1), place.checked_add(1)];
    let near = near
        .into_iter()
        .flatten()
        .filter_map(|near| seconds.get(near)?.height_m());
    let (sum_m, count) = near.fold((height_m, 1.0), |(sum_m, count), height_m| {
        (sum_m + height_m, count + 1.0)
    });
    sum_m / count
}

/// Computes the slope for any seconds.
fn of_any(seconds: &[KeptFrame], here: &KeptFrame) -> Option<(f32, f32)> {
    let (mut count, mut sum_t, mut sum_tt) = (0.0_f32, 0.0_f32, 0.0_f32);
    let mut sums = HeightSums::default();
    let (here_ms, here_m) = (here.t_ms(), here.height_m().unwrap_or(0.0));
    for second in seconds {
        let Some(height_m) = second.height_m() else {
            continue;
        };
        // Times are below two days, so their differences fit in 31 bits.
        let t_sec = second.t_ms().wrapping_sub(here_ms) as i32 as f32 / 1_000.0;
        count += 1.0;
        sum_t += t_sec;
        sum_tt += t_sec * t_sec;
        sums.add(t_sec, height_m - here_m);
    }
    let spread = sum_tt - sum_t * sum_t / count;
    (count >= 3.0 && count * spread >= 0.5).then(|| sums.slope(count, sum_t, spread))
}

/// The number of seconds over which a slope is computed.
const WHOLE: usize = 2 * DELAY_MIN + 1;

/// Returns the result of [`of_any`], bit for bit, if each second has a height and none is missing.
/// The sums of their times are then known.
fn of_whole(seconds: &[KeptFrame; WHOLE]) -> Option<(f32, f32)> {
    const FROM_SEC: i32 = -(DELAY_MIN as i32);
    /// The sum of the squares of -3 to 3.
    const SPREAD: f32 = (DELAY_MIN * (DELAY_MIN + 1) * WHOLE / 3) as f32;
    let here_m = seconds[DELAY_MIN].height_m()?;
    if !are_whole(seconds) {
        return None;
    }
    let mut sums = HeightSums::default();
    for (t_sec, second) in (FROM_SEC..).zip(seconds) {
        sums.add(t_sec as f32, second.height_m()? - here_m);
    }
    Some(sums.slope(WHOLE as f32, 0.0, SPREAD))
}

/// Returns whether no second is missing and each has a height.
#[inline(always)]
fn are_whole(seconds: &[KeptFrame; WHOLE]) -> bool {
    let [first, .., last] = seconds;
    last.t_ms().wrapping_sub(first.t_ms()) == (WHOLE as u32 - 1) * WINDOW_MS
        && seconds.iter().all(|second| second.height_m().is_some())
}

/// The orthogonal polynomials of first to third degree over seven places, each with the sum of its
/// squares.
const POLYNOMIALS: [([f32; WHOLE], f32); 3] = [
    ([-3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0], 28.0),
    ([5.0, 0.0, -3.0, -4.0, -3.0, 0.0, 5.0], 84.0),
    ([-1.0, 1.0, 1.0, 0.0, -1.0, -1.0, 1.0], 6.0),
];

/// Returns the standard error of the slope by the distance of the heights from a cubic, in m/s. The
/// heights of a short ride follow an S-shaped curve, so their distance from a line is not noise.
/// Returns `None` unless each second has a height.
pub(super) fn curved_error_mps(seconds: &[KeptFrame]) -> Option<f32> {
    let seconds: &[KeptFrame; WHOLE] = seconds.try_into().ok()?;
    if !are_whole(seconds) {
        return None;
    }
    let here_m = seconds[DELAY_MIN].height_m()?;
    let heights_m = seconds.map(|second| second.height_m().unwrap_or(here_m) - here_m);
    let mean_m = heights_m.iter().sum::<f32>() / WHOLE as f32;
    let mut rest: f32 = heights_m
        .iter()
        .map(|height_m| (height_m - mean_m) * (height_m - mean_m))
        .sum();
    for (polynomial, squares) in &POLYNOMIALS {
        let share: f32 = polynomial
            .iter()
            .zip(heights_m)
            .map(|(value, height_m)| value * height_m)
            .sum();
        rest -= share * share / squares;
    }
    // Four of the seven degrees of freedom are those of the cubic.
    let variance = f32::max(rest, 0.0) / (WHOLE - 4) as f32;
    Some((variance / POLYNOMIALS[0].1).sqrt())
}

/// The sums over seconds of the height, its square, and its product with the time.
#[derive(Default)]
struct HeightSums {
    sum_h: f32,
    sum_hh: f32,
    sum_th: f32,
}

impl HeightSums {
    #[inline(always)]
    fn add(&mut self, t_sec: f32, height_m: f32) {
        self.sum_h += height_m;
        self.sum_hh += height_m * height_m;
        self.sum_th += t_sec * height_m;
    }

    /// Returns the slope and its standard error, in m/s. `spread` is the sum of the squared times
    /// less their mean. Every division waits for the one before it, so there are few.
    #[inline(always)]
    fn slope(&self, count: f32, sum_t: f32, spread: f32) -> (f32, f32) {
        let Self {
            sum_h,
            sum_hh,
            sum_th,
        } = *self;
        let mean_m = sum_h / count;
        let along = sum_th - sum_t * mean_m;
        let rate_mps = along / spread;
        let rest = (sum_hh - sum_h * mean_m - rate_mps * along).max(0.0);
        (rate_mps, (rest / ((count - 2.0).max(1.0) * spread)).sqrt())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::detect::frame::Frame;

    proptest! {
        /// The precomputed sums do not change any bit of the result.
        #[test]
        fn the_slope_of_whole_seconds_equals_the_general_slope(
            heights_m in prop::array::uniform7(-40.0_f32..400.0),
            t_sec in 0_u32..172_000,
        ) {
            let mut t_ms = t_sec * WINDOW_MS;
            let seconds = heights_m.map(|height_m| {
                t_ms += WINDOW_MS;
                KeptFrame::of(&Frame { t_ms, height_m: Some(height_m), ..Frame::default() })
            });
            let any = of_any(&seconds, &seconds[DELAY_MIN]);
            prop_assert!(any.is_some());
            prop_assert_eq!(of_whole(&seconds), any);
            prop_assert_eq!(around(&seconds, &seconds[DELAY_MIN]), any);
        }
    }

    /// Returns the standard errors by a line and by a cubic.
    fn errors_mps(heights_m: [f32; WHOLE]) -> (f32, f32) {
        let mut t_ms = 0;
        let seconds = heights_m.map(|height_m| {
            t_ms += WINDOW_MS;
            KeptFrame::of(&Frame {
                t_ms,
                height_m: Some(height_m),
                ..Frame::default()
            })
        });
        let (_, error_mps) = around(&seconds, &seconds[DELAY_MIN]).unwrap();
        (error_mps, curved_error_mps(&seconds).unwrap())
    }

    /// A cabin lifts the courier by one floor: 0.5 m/s² up to 0.63 m/s, and 3 m in 6 s. Gusts whose
    /// heights lie as far from a line also lie far from a cubic.
    #[test]
    fn the_curve_of_a_short_ride_is_not_roughness() {
        let (line_mps, cubic_mps) = errors_mps([0.0, 0.1, 0.5, 1.2, 1.8, 2.4, 2.8]);
        assert!(cubic_mps < 0.5 * line_mps, "{line_mps} {cubic_mps}");
        let (line_mps, cubic_mps) = errors_mps([0.3, -0.3, 0.3, -0.3, 0.3, -0.3, 0.3]);
        assert!(cubic_mps > 0.8 * line_mps, "{line_mps} {cubic_mps}");
    }
}
