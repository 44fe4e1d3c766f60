//! The rows of the feature file: seconds with features and labels.

use std::fmt::Write as _;

use libm::{exp, log};

/// The spread that is added before the logarithm, m/s², as in the detectors.
const FLOOR_MPS2: f64 = 0.02;
/// The logarithm of a spread that is greater than that of most walks, as in the detectors: ln of 3
/// m/s².
const STRONG_LN: f64 = 1.098_612_3;
/// The logarithm of the spread from which the phone is clearly not at rest, as in the detectors: ln
/// of 0.3 m/s².
const CLEAR_LN: f64 = -1.203_972_8;
/// The range of reported cadences of a walk or a run, as in the detectors, steps per second.
const CADENCE_HZ: std::ops::RangeInclusive<f64> = 1.1..=3.3;
/// The logarithm of the spread above which a phone is handled, in thousandths: ln of 0.3 m/s², plus
/// the floor. A quiet hand moves it less.
pub(super) const HANDLED_LN_SPREAD: i32 = -1_139;
/// The number of raw `imu` features, as computed by the detectors.
pub(super) const IMU: usize = 8;
/// The number of `motion` features.
pub(super) const MOTION: usize = 8;

/// The known label of a second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Label {
    /// Walking, or on stairs.
    Gait,
    /// Standing, sitting, in an elevator or in a vehicle.
    Rest,
    /// Unlabelled, or too close to the edge of a label.
    Unknown,
}

/// One second of a recording. All values are in thousandths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// The number of the recording within the file.
    pub recording: u32,
    /// The number of the second within the recording.
    pub second: u32,
    /// The label of the second.
    pub label: Label,
    /// The features of raw `imu`.
    pub imu: [i32; IMU],
    /// The range of the mean accelerations of the second and its neighbours, in m/s².
    pub mean_range: i32,
    /// The cadences of the previous, this and the next second in Hz; 0 if there was none.
    pub cadence: [i32; 3],
}

/// The rows of a file, and the source of each recording.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rows {
    /// The source of each recording, indexed by recording number.
    pub sources: Vec<String>,
    /// The rows, ordered by recording, then second.
    pub rows: Vec<Row>,
}

/// An error for a line that is not a valid row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowsError {
    /// The line number, starting at 1.
    pub line: usize,
}

impl std::fmt::Display for RowsError {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "line {} is no row of features", self.line)
    }
}

impl std::error::Error for RowsError {}

fn thousandths(value: f32) -> i32 {
    (f64::from(value) * 1_000.0).round() as i32
}

impl Row {
    /// Creates a row for a second with its features.
    #[must_use]
    pub fn new(
        (recording, second): (u32, u32),
        label: Label,
        imu: &[f32; IMU],
        mean_range: f32,
        cadence: [f32; 3],
    ) -> Self {
        Self {
            recording,
            second,
            label,
            imu: imu.map(thousandths),
            mean_range: thousandths(mean_range.min(5.0)),
            cadence: cadence.map(thousandths),
        }
    }

    /// Returns the features of raw `imu`.
    #[must_use]
    pub fn imu(&self) -> [f64; IMU] {
        self.imu.map(|value| f64::from(value) / 1_000.0)
    }

    /// Returns the features of `motion`, with `cadence` instead of the row's own cadences. A test
    /// compares them with those of the detectors.
    #[must_use]
    pub fn motion(&self, cadence: [i32; 3]) -> [f64; MOTION] {
        let imu = self.imu();
        let [before, own, after] = cadence.map(|value| {
            let hz = f64::from(value) / 1_000.0;
            if CADENCE_HZ.contains(&hz) { hz } else { 0.0 }
        });
        let stepping = |hz: f64| f64::from(u8::from(hz > 0.0));
        let slowest = before.min(own).min(after);
        let fastest = before.max(own).max(after);
        [
            imu[0],
            imu[1],
            (imu[0] - STRONG_LN).max(0.0),
            f64::from(self.mean_range) / 1_000.0,
            (stepping(before) + stepping(own) + stepping(after)) / 3.0,
            stepping(own),
            if slowest > 0.0 {
                fastest - slowest
            } else {
                0.0
            },
            stepping(own) * (imu[0] - CLEAR_LN).max(0.0),
        ]
    }

    /// Returns the spread of the second, m/s².
    #[must_use]
    pub(super) fn spread_mps2(&self) -> f64 {
        exp(f64::from(self.imu[0]) / 1_000.0) - FLOOR_MPS2
    }

    /// Returns the row with the spread of its `imu` reduced to a share. Period and shape do not
    /// change.
    #[must_use]
    pub(super) fn damped(&self, share: f64) -> Self {
        let reduced = |ln_spread: i32| {
            let spread_mps2 = exp(f64::from(ln_spread) / 1_000.0) - FLOOR_MPS2;
            (log(share * spread_mps2.max(0.0) + FLOOR_MPS2) * 1_000.0).round() as i32
        };
        let mut copy = self.clone();
        copy.imu[0] = reduced(self.imu[0]);
        copy.imu[1] = reduced(self.imu[1]);
        copy
    }

    /// Returns whether a phone at rest is handled: it moves by more than a quiet hand does.
    #[must_use]
    pub fn is_handled(&self) -> bool {
        self.label == Label::Rest && self.imu[0] > HANDLED_LN_SPREAD
    }
}

impl Rows {
    /// Returns the source of a row.
    #[must_use]
    pub fn source(&self, row: &Row) -> &str {
        self.sources
            .get(row.recording as usize)
            .map_or("", String::as_str)
    }

    /// Returns the names of all sources, sorted.
    #[must_use]
    pub fn source_names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.sources.iter().map(String::as_str).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Writes the text of the file: one line with the sources of the recordings, then one line per
    /// second.
    #[must_use]
    pub fn write(&self) -> String {
        let mut out = format!("sources {}\n", self.sources.join(" "));
        for row in &self.rows {
            let label = match row.label {
                Label::Gait => 'g',
                Label::Rest => 'r',
                Label::Unknown => '-',
            };
            let _ = write!(out, "{} {} {label}", row.recording, row.second);
            let numbers = row.imu.iter().chain([&row.mean_range]).chain(&row.cadence);
            for number in numbers {
                let _ = write!(out, " {number}");
            }
            out.push('\n');
        }
        out
    }

    /// Reads the output of [`Rows::write`].
    ///
    /// # Errors
    ///
    /// Returns an error if a line is not a valid row.
    pub fn read(text: &str) -> Result<Self, RowsError> {
        let mut rows = Self::default();
        for (index, line) in text.lines().enumerate() {
            let error = RowsError { line: index + 1 };
            if let Some(sources) = line.strip_prefix("sources ") {
                rows.sources = sources.split(' ').map(str::to_owned).collect();
                continue;
            }
            rows.rows.push(row(line).ok_or(error)?);
        }
        Ok(rows)
    }
}

fn row(line: &str) -> Option<Row> {
    let mut fields = line.split(' ');
    let (recording, second) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    let label = match fields.next()? {
        "g" => Label::Gait,
        "r" => Label::Rest,
        "-" => Label::Unknown,
        _ => return None,
    };
    let mut number = || fields.next()?.parse::<i32>().ok();
    let mut imu = [0; IMU];
    for value in &mut imu {
        *value = number()?;
    }
    let mean_range = number()?;
    let cadence = [number()?, number()?, number()?];
    Some(Row {
        recording,
        second,
        label,
        imu,
        mean_range,
        cadence,
    })
}

#[cfg(test)]
mod tests {
    use porchlight_core::gait::MotionHistory;

    use super::*;

    /// A change of the features in the detectors must not leave the training with other features.
    #[test]
    fn the_features_of_motion_are_those_of_the_detectors() {
        let mut state = 1_u32;
        let mut share = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / (1 << 24) as f32
        };
        let seconds: Vec<(f32, f32, f32)> = (0..1_000)
            .map(|_| {
                let cadence = (share() * 8_000.0 - 3_500.0).max(0.0).round() / 1_000.0;
                (9.0 + 2.0 * share(), (6.0 * share() - 4.0).exp(), cadence)
            })
            .collect();
        let mut history = MotionHistory::default();
        let mut counted = [0; 2];
        for (place, &(mean, spread, cadence)) in seconds.iter().enumerate() {
            let cadence_hz = Some(cadence).filter(|&hz| hz > 0.0);
            let [detected, _] = history.observe(mean, spread, cadence_hz);
            let Some(&[before, own, after]) = place
                .checked_sub(2)
                .and_then(|from| seconds[from..=place].first_chunk::<3>())
            else {
                continue;
            };
            let three = [before, own, after];
            let ln = three.map(|second| (second.1 + FLOOR_MPS2 as f32).ln());
            let mut imu = [0.0; IMU];
            (imu[0], imu[1]) = (ln[1], ln[1].min(ln[0].max(ln[2])));
            let means = three.map(|second| second.0);
            let range =
                means.into_iter().fold(0.0, f32::max) - means.into_iter().fold(99.0, f32::min);
            let cadences = three.map(|second| second.2);
            let row = Row::new((0, 0), Label::Unknown, &imu, range, cadences);
            for (trained, detected) in row.motion(row.cadence).into_iter().zip(detected) {
                let off = (trained - f64::from(detected)).abs();
                assert!(off < 0.002, "{row:?}: {trained} instead of {detected}");
            }
            counted[usize::from(row.motion(row.cadence)[6] > 0.0)] += 1;
        }
        assert!(counted.iter().all(|&count| count > 20), "{counted:?}");
    }

    #[test]
    fn rows_round_trip() {
        let rows = Rows {
            sources: vec!["a".to_owned(), "b".to_owned()],
            rows: [Label::Gait, Label::Rest, Label::Unknown]
                .into_iter()
                .map(|label| Row::new((1, 7), label, &[-0.5; IMU], 0.25, [0.0, 1.9, 2.0]))
                .collect(),
        };
        assert_eq!(Rows::read(&rows.write()).unwrap(), rows);
        assert_eq!(Rows::read("sources a\n1 2 x 3").unwrap_err().line, 2);
    }
}
