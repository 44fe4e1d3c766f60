//! The part of an insight that lists and counts of sessions need.

use porchlight_schema::insight::{ReasonCode, Summary};

use super::StoredInsight;

/// The outcome of a scored session.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionOutcome {
    /// The reason codes, the outcome first; empty if scoring failed.
    pub codes: Vec<ReasonCode>,
    /// The scores; `None` if scoring failed.
    pub summary: Option<Summary>,
}

impl From<StoredInsight> for SessionOutcome {
    fn from(stored: StoredInsight) -> Self {
        let score = stored.record.score;
        Self {
            summary: score.as_ref().map(|score| score.summary),
            codes: score.map(|score| score.reason_codes).unwrap_or_default(),
        }
    }
}
