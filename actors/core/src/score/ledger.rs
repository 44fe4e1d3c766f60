//! The evidence, entry by entry, and how numbers are rounded.

use porchlight_schema::event::seconds;
use porchlight_schema::insight::Evidence;

/// A part of a session, milliseconds since its start; none: the whole.
pub(crate) type Span = Option<(u32, u32)>;

/// Three decimals: what every score is brought to, so that it is the same number everywhere.
pub(crate) fn rounded(value: f64) -> f64 {
    let thousandths = (value * 1000.0).round();
    // Adding 0 turns −0 into 0.
    thousandths / 1000.0 + 0.0
}

/// What a piece of evidence says, in words: what was seen, and the honest explanation that there may be.
#[derive(Debug, Clone)]
pub(crate) struct Words {
    pub(crate) text: String,
    pub(crate) explanation: &'static str,
}

/// Words for an entry.
pub(crate) fn words(text: impl Into<String>, explanation: &'static str) -> Words {
    Words {
        text: text.into(),
        explanation,
    }
}

/// Entries in the order in which they were found.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    entries: Vec<Evidence>,
}

impl Ledger {
    /// Adds an entry; the points are rounded before they count anywhere. Returns them.
    pub(crate) fn add(
        &mut self,
        about: &str,
        signal: &str,
        points: f64,
        span: Span,
        words: Words,
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

    /// All entries.
    pub(crate) fn into_entries(self) -> Vec<Evidence> {
        self.entries
    }
}
