//! Collects the evidence entry by entry, and defines the rounding of numbers.

use porchlight_schema::event::seconds;
use porchlight_schema::insight::Evidence;
#[cfg(doc)]
use porchlight_schema::insight::statement;

/// A part of a session in milliseconds since its start; `None` means the whole session.
pub(crate) type Span = Option<(u32, u32)>;

/// Rounds to three decimals, so that a score has the same digits in the API, the console and the
/// evidence.
pub(crate) fn rounded(value: f64) -> f64 {
    let thousandths = (value * 1000.0).round();
    // Adding 0 turns −0 into 0.
    thousandths / 1000.0 + 0.0
}

/// The text of a piece of evidence: the observation, and its possible innocent explanation.
#[derive(Debug, Clone)]
pub(crate) struct EvidenceText {
    observation: String,
    explanation: &'static str,
}

impl EvidenceText {
    pub(crate) fn new(observation: impl Into<String>, explanation: &'static str) -> Self {
        Self {
            observation: observation.into(),
            explanation,
        }
    }
}

/// The evidence of a score: its entries, in the order in which they were found.
#[derive(Debug, Default)]
pub(crate) struct EvidenceLog {
    entries: Vec<Evidence>,
}

impl EvidenceLog {
    /// Adds an entry about a field or code of the insight, and returns its points, rounded by
    /// [`rounded`]. `about` is a constant of [`statement`], or the name of a code.
    pub(crate) fn add(
        &mut self,
        about: &'static str,
        signal: &str,
        points: f64,
        span: Span,
        text: EvidenceText,
    ) -> f64 {
        let points = rounded(points);
        self.entries.push(Evidence {
            about: about.to_owned(),
            signal: signal.to_owned(),
            points,
            t_start: span.map(|(from_ms, _)| seconds(from_ms)),
            t_end: span.map(|(_, to_ms)| seconds(to_ms)),
            text: text.observation,
            explanation: text.explanation.to_owned(),
        });
        points
    }

    /// Adds the entries of another log behind its own.
    pub(crate) fn append(&mut self, mut other: Self) {
        self.entries.append(&mut other.entries);
    }

    /// Returns all entries.
    pub(crate) fn into_entries(self) -> Vec<Evidence> {
        self.entries
    }
}
