//! The file of detected events: one line for each group of equal events.

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The number of sensor sets, as defined by the detectors.
pub const SETS: usize = 25;
/// The source of simulated events.
pub const SIMULATED: &str = "simulated";

/// A group of detected events that have the same source, sensors and strength.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Group {
    /// The source of the recordings, or [`SIMULATED`].
    pub source: String,
    /// The number of the sensor set.
    pub set: usize,
    /// The strength of the events, in hundredths.
    pub strength: i32,
}

/// The events of a file: for each group the number of correct events, and of all events.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rows(pub BTreeMap<Group, (u32, u32)>);

/// An error for a line that is not a group of events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowsError {
    /// The line number, starting at 1.
    pub line: usize,
}

impl std::fmt::Display for RowsError {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "line {} is not a group of events", self.line)
    }
}

impl std::error::Error for RowsError {}

impl Rows {
    /// Adds one event.
    pub fn add(&mut self, source: &str, set: usize, strength: i32, is_right: bool) {
        let group = Group {
            source: source.to_owned(),
            set,
            strength,
        };
        let (right, all) = self.0.entry(group).or_default();
        *right += u32::from(is_right);
        *all += 1;
    }

    /// Returns the recorded sources.
    #[must_use]
    pub fn sources(&self) -> Vec<String> {
        let mut sources: Vec<String> = self.0.keys().map(|group| group.source.clone()).collect();
        sources.retain(|source| source != SIMULATED);
        sources.dedup();
        sources
    }

    /// Writes the text of the file.
    #[must_use]
    pub fn write(&self) -> String {
        let mut text = String::new();
        for (group, (right, all)) in &self.0 {
            let Group {
                source,
                set,
                strength,
            } = group;
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{source} {set} {strength} {right} {all}");
        }
        text
    }

    /// Reads the text of a file.
    ///
    /// # Errors
    ///
    /// Returns an error with the first line that is not a group of events.
    pub fn read(text: &str) -> Result<Self, RowsError> {
        let mut rows = Self::default();
        for (number, line) in text.lines().enumerate() {
            let (group, counts) = group(line).ok_or(RowsError { line: number + 1 })?;
            rows.0.insert(group, counts);
        }
        Ok(rows)
    }
}

fn group(line: &str) -> Option<(Group, (u32, u32))> {
    let mut fields = line.split(' ');
    let source = fields.next()?.to_owned();
    let set = fields.next()?.parse().ok().filter(|&set| set < SETS)?;
    let strength = fields.next()?.parse().ok()?;
    let right = fields.next()?.parse().ok()?;
    let all = fields.next()?.parse().ok().filter(|&all| right <= all)?;
    let group = Group {
        source,
        set,
        strength,
    };
    Some((group, (right, all)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_as_it_was_written() {
        let mut rows = Rows::default();
        rows.add("nyc", 15, 1_234, true);
        rows.add("nyc", 15, 1_234, false);
        rows.add(SIMULATED, 0, -20, true);
        assert_eq!(rows.write(), "nyc 15 1234 1 2\nsimulated 0 -20 1 1\n");
        assert_eq!(Rows::read(&rows.write()), Ok(rows.clone()));
        assert_eq!(rows.sources(), ["nyc"]);
    }

    #[test]
    fn a_line_that_is_not_a_group_is_refused() {
        for line in ["", "nyc 15 1", "nyc 25 1 1 1", "nyc 1 1 2 1"] {
            let text = format!("nyc 1 1 1 1\n{line}\n");
            assert_eq!(Rows::read(&text).unwrap_err().line, 2, "{line}");
        }
    }
}
