//! Collects the evidence entry by entry, and defines the rounding of numbers.

use porchlight_schema::event::seconds;
use porchlight_schema::insight::Evidence;

/// A part of a session in milliseconds since its start; `None` means the whole session.
pub(crate) type Span = Option<(u32, u32)>;

/// Rounds to three decimals, as for every score, so that it is the same number everywhere.
pub(crate) fn rounded(value: f64) -> f64 {
    let thousandths = (value * 1000.0).round();
    // Adding 0 turns −0 into 0.
    thousandths / 1000.0 + 0.0
}

/// The text of a piece of evidence: the observation, and its possible innocent explanation.
#[derive(Debug, Clone)]
pub(crate) struct Explanation {
    pub(crate) text: String,
    pub(crate) explanation: &'static str,
}

/// Creates the words of an entry.
pub(crate) fn words(text: impl Into<String>, explanation: &'static str) -> Explanation {
    Explanation {
        text: text.into(),
        explanation,
    }
}

/// The entries in the order in which they were found.
#[derive(Debug, Default)]
pub(crate) struct EvidenceLog {
    entries: Vec<Evidence>,
}

impl EvidenceLog {
    /// Adds an entry and returns its points, which are rounded before they count anywhere.
    pub(crate) fn add(
        &mut self,
        about: &str,
        signal: &str,
        points: f64,
        span: Span,
        words: Explanation,
    ) -> f64 {
        let points = rounded(points);
        self.entries.push(Evidence {
            about: about.to_owned(),
            signal: signal.to_owned(),
            points,
            t_start: span.map(|(from_ms, _)| seconds(from_ms)),
            t_end: span.map(|(_, to_ms)| seconds(to_ms)),
            text: words.text,
            explanation: words.explanation.to_owned(),
        });
        points
    }

    /// Returns all entries.
    pub(crate) fn into_entries(self) -> Vec<Evidence> {
        self.entries
    }
}
