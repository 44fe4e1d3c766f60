//! Seconds with features and labels, as they stand in the file.

use std::fmt::Write as _;

/// Features of raw `imu`, as many as the detectors compute.
pub(super) const IMU: usize = 7;
/// Features of `motion`.
pub(super) const MOTION: usize = 8;

/// What a second is known to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Label {
    /// Walking, or on stairs.
    Gait,
    /// Standing, sitting, in an elevator or in a vehicle.
    Rest,
    /// Not labelled, or too near to a label's end.
    Unknown,
}

/// One second of a recording. Numbers are thousandths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Number of the recording within the file.
    pub recording: u32,
    /// Number of the second within the recording.
    pub second: u32,
    /// What it is.
    pub label: Label,
    /// Features of raw `imu`.
    pub imu: [i32; IMU],
    /// Range of the means of the second and its neighbours, m/s².
    pub mean_range: i32,
    /// Cadence of the second before, of this one and of the one after, Hz; 0 where there was none.
    pub cadence: [i32; 3],
}

/// The rows of a file, and which source each recording is of.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rows {
    /// The source of each recording, by its number.
    pub sources: Vec<String>,
    /// By recording, then second.
    pub rows: Vec<Row>,
}

/// A line that is no row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowsError {
    /// Counted from 1.
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
    /// A second with its features.
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

    /// The features of raw `imu`.
    #[must_use]
    pub fn imu(&self) -> [f64; IMU] {
        self.imu.map(|value| f64::from(value) / 1_000.0)
    }

    /// The features of `motion`, with these cadences instead of the row's own.
    #[must_use]
    pub fn motion(&self, cadence: [i32; 3]) -> [f64; MOTION] {
        let imu = self.imu();
        let [before, own, after] = cadence.map(|value| {
            let hz = f64::from(value) / 1_000.0;
            if (1.1..=3.3).contains(&hz) { hz } else { 0.0 }
        });
        let told = |hz: f64| f64::from(u8::from(hz > 0.0));
        let slowest = before.min(own).min(after);
        let fastest = before.max(own).max(after);
        [
            imu[0],
            imu[1],
            (imu[0] - 1.098_612_3).max(0.0),
            f64::from(self.mean_range) / 1_000.0,
            (told(before) + told(own) + told(after)) / 3.0,
            told(own),
            if slowest > 0.0 {
                fastest - slowest
            } else {
                0.0
            },
            told(own) * (imu[0] + 1.203_972_8).max(0.0),
        ]
    }

    /// Whether a phone at rest is handled: it moves by more than a quiet hand makes it, 0.3 m/s².
    #[must_use]
    pub fn is_handled(&self) -> bool {
        // ln(0.3 + 0.02)
        self.label == Label::Rest && self.imu[0] > -1_139
    }
}

impl Rows {
    /// The source of a row.
    #[must_use]
    pub fn source(&self, row: &Row) -> &str {
        self.sources
            .get(row.recording as usize)
            .map_or("", String::as_str)
    }

    /// All sources, in order of their names.
    #[must_use]
    pub fn source_names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.sources.iter().map(String::as_str).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// The text of the file: a line with the sources of the recordings, then a line a second.
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

    /// Reads what [`Rows::write`] wrote.
    ///
    /// # Errors
    ///
    /// A line is no row.
    pub fn read(text: &str) -> Result<Self, RowsError> {
        let mut rows = Self::default();
        for (place, line) in text.lines().enumerate() {
            let error = RowsError { line: place + 1 };
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
    use super::*;

    #[test]
    fn rows_read_back_as_they_were_written() {
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
