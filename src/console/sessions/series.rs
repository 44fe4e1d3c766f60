//! The curves of the timeline, each reduced to as many points as are visible.

use porchlight_schema::sample::Location;

use super::trace::Trace;

/// The number of points of one curve.
pub(super) const POINTS: usize = 360;
/// The maximum pause between two points that a line connects.
const GAP_MS: u32 = 15_000;
/// The window over which steps are counted.
const CADENCE_MS: u32 = 10_000;
/// The height per change of pressure near the ground, in metres per hPa (ICAO standard atmosphere,
/// 1013 hPa, 15 °C).
const METRES_PER_HPA: f32 = 8.43;

/// A signal over time.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Series {
    /// The name of the signal.
    pub(super) name: &'static str,
    /// The unit of the values.
    pub(super) unit: &'static str,
    /// The number of significant decimals.
    pub(super) decimals: usize,
    /// A short description of the signal.
    pub(super) about: &'static str,
    /// The points as time in milliseconds and value, in order.
    pub(super) points: Vec<(u32, f32)>,
    /// The ends of the axis; the values lie between them.
    pub(super) range: (f32, f32),
}

impl Series {
    /// Returns the points as runs without gaps.
    pub(super) fn runs(&self) -> impl Iterator<Item = &[(u32, f32)]> {
        let gap_ms = GAP_MS.max(self.step_ms().saturating_mul(3));
        self.points
            .chunk_by(move |one, next| next.0 - one.0 <= gap_ms)
    }

    fn step_ms(&self) -> u32 {
        let length_ms = self.points.last().map_or(0, |last| last.0);
        length_ms / POINTS as u32
    }
}

/// Returns the curves of a session of this length.
pub(super) fn all(trace: &Trace, length_ms: u32) -> Vec<Series> {
    [
        height(trace, length_ms),
        speed(trace, length_ms),
        accuracy(trace, length_ms),
        cadence(trace, length_ms),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Averages the samples over equal steps of time, and returns one point per step with samples.
fn downsample(samples: impl Iterator<Item = (u32, f32)>, length_ms: u32) -> Vec<(u32, f32)> {
    let step_ms = (length_ms / POINTS as u32).max(1);
    let mut points: Vec<(u32, f32)> = Vec::new();
    // The number of the current step, the sums of its times and values, and their count.
    let mut current: Option<(u32, u64, f64, u32)> = None;
    for (t_ms, value) in samples.filter(|(_, value)| value.is_finite()) {
        let step = t_ms / step_ms;
        current = match current {
            Some((current_step, t_sum, sum, count)) if current_step == step => Some((
                step,
                t_sum + u64::from(t_ms),
                sum + f64::from(value),
                count + 1,
            )),
            previous => {
                points.extend(previous.map(mean));
                Some((step, u64::from(t_ms), f64::from(value), 1))
            }
        };
    }
    points.extend(current.map(mean));
    points
}

fn mean((_, t_sum, sum, count): (u32, u64, f64, u32)) -> (u32, f32) {
    let t_ms = t_sum / u64::from(count);
    (t_ms as u32, (sum / f64::from(count)) as f32)
}

/// Returns the minimum and maximum value.
fn value_range(points: &[(u32, f32)]) -> Option<(f32, f32)> {
    let first = points.first()?.1;
    Some(
        points
            .iter()
            .fold((first, first), |(low, high), &(_, value)| {
                (low.min(value), high.max(value))
            }),
    )
}

fn height(trace: &Trace, length_ms: u32) -> Option<Series> {
    let ground = trace.pressure.first()?.1;
    let heights = trace.pressure.iter();
    let heights = heights.map(|&(t_ms, hpa)| (t_ms, (ground - hpa) * METRES_PER_HPA));
    let points = downsample(heights, length_ms);
    let (low, high) = value_range(&points)?;
    // The axis spans at least 8 m, so that the noise of a resting barometer stays a flat line.
    let middle = (low + high) / 2.0;
    let half = ((high - low) / 2.0).max(4.0);
    Some(Series {
        name: "Height",
        unit: "m",
        decimals: 1,
        about: "from air pressure, relative to the start",
        points,
        range: (middle - half, middle + half),
    })
}

fn speed(trace: &Trace, length_ms: u32) -> Option<Series> {
    let samples = trace
        .fixes
        .iter()
        .filter_map(|fix| Some((fix.t_ms, fix.speed_mps?)));
    let points = downsample(samples, length_ms);
    let (_, high) = value_range(&points)?;
    Some(Series {
        name: "Speed",
        unit: "m/s",
        decimals: 1,
        about: "from GPS",
        points,
        range: (0.0, high.max(2.0)),
    })
}

fn accuracy(trace: &Trace, length_ms: u32) -> Option<Series> {
    let accuracy = |fix: &Location| Some((fix.t_ms, fix.accuracy_m?));
    let points = downsample(trace.fixes.iter().filter_map(accuracy), length_ms);
    let (_, high) = value_range(&points)?;
    let high = high.clamp(20.0, 200.0);
    Some(Series {
        name: "Accuracy",
        unit: "m",
        decimals: 0,
        about: "of GPS, 68 % radius; lower is better",
        points: points
            .into_iter()
            .map(|(t_ms, value)| (t_ms, value.min(high)))
            .collect(),
        range: (0.0, high),
    })
}

fn cadence(trace: &Trace, length_ms: u32) -> Option<Series> {
    let last_ms = trace.steps.last()?.0;
    let window_ms = CADENCE_MS.max(length_ms / POINTS as u32);
    let mut counts = vec![0_u32; (last_ms / window_ms) as usize + 1];
    for pair in trace.steps.windows(2) {
        if let [before, after] = pair
            && let Some(count) = counts.get_mut((after.0 / window_ms) as usize)
        {
            // Only increases of the counter matter: a decrease is a restart (contract 3).
            *count = count.saturating_add(after.1.saturating_sub(before.1));
        }
    }
    let per_minute = |(number, count): (usize, u32)| {
        let t_ms = number as u32 * window_ms + window_ms / 2;
        (
            t_ms.min(last_ms),
            count as f32 * 60_000.0 / window_ms as f32,
        )
    };
    let points: Vec<_> = counts.into_iter().enumerate().map(per_minute).collect();
    let (_, high) = value_range(&points)?;
    Some(Series {
        name: "Steps",
        unit: "/min",
        decimals: 0,
        about: "from the phone's step counter",
        points,
        range: (0.0, high.max(60.0)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_is_reduced_to_the_visible_number_of_points() {
        let length_ms = 86_400_000;
        let samples = (0..86_400).map(|second| (second * 1_000, second as f32));
        let points = downsample(samples, length_ms);
        assert!(points.len() <= POINTS + 1, "{}", points.len());
        assert!(points.is_sorted_by(|one, next| one.0 < next.0 && one.1 < next.1));
    }

    #[test]
    fn a_restarted_counter_does_not_decrease() {
        let trace = Trace {
            steps: vec![(0, 1_000), (5_000, 1_010), (12_000, 2), (15_000, 7)],
            ..Trace::default()
        };
        let series = cadence(&trace, 20_000).unwrap();
        assert_eq!(series.points, [(5_000, 60.0), (15_000, 30.0)]);
    }

    #[test]
    fn no_line_is_drawn_over_a_silence() {
        let points = vec![(0, 1.0), (1_000, 2.0), (60_000, 3.0)];
        let series = Series {
            name: "",
            unit: "",
            decimals: 0,
            about: "",
            points,
            range: (0.0, 3.0),
        };
        let runs: Vec<_> = series.runs().map(<[_]>::len).collect();
        assert_eq!(runs, [2, 1]);
    }
}
