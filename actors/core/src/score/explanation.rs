//! Explains a decision: the parameters that contributed to it, each with its weight and a sentence.
//!
//! A person about whom a decision was made has a right to this explanation (contract 11). It
//! consists of the evidence of the score, by statement and weight.

mod plain;

use porchlight_schema::insight::{Evidence, ReasonCode, Score};
use serde::Serialize;

pub use plain::{PlainExplanation, PlainParameter, explain_plainly};

/// The text of evidence that needs no innocent explanation. Pages leave it out.
pub const NO_EXPLANATION: &str = "No action is needed.";

/// A parameter of a decision.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Parameter {
    /// A stable name made of the statement and the signal, such as `fraudScore.teleport`.
    pub name: String,
    /// The weight in the points of its statement: above 0 it supports the statement, below 0 it
    /// contradicts it.
    pub weight: f64,
    /// The observation, and its possible innocent explanation.
    pub text: String,
}

/// The decision about a session, and the parameters behind it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Explanation {
    /// The decision: the outcome's reason code, and the additional reason codes.
    pub decision: Vec<ReasonCode>,
    /// The version of the parameters used for the decision.
    pub version: String,
    /// The parameters by statement, those with the largest weight first within each. Parameters
    /// with a weight of 0 come last: they were examined but showed nothing.
    pub parameters: Vec<Parameter>,
}

/// Explains a score.
#[must_use]
pub fn explain(score: &Score) -> Explanation {
    let mut statements: Vec<&str> = Vec::new();
    for entry in &score.evidence {
        if !statements.contains(&entry.about.as_str()) {
            statements.push(&entry.about);
        }
    }
    let parameters = statements.into_iter().flat_map(|about| {
        let mut own: Vec<&Evidence> = score
            .evidence
            .iter()
            .filter(|entry| entry.about == about)
            .collect();
        own.sort_by(|a, b| b.points.abs().total_cmp(&a.points.abs()));
        own.into_iter().map(parameter)
    });
    Explanation {
        decision: score.reason_codes.clone(),
        version: score.weights.clone(),
        parameters: parameters.collect(),
    }
}

fn parameter(entry: &Evidence) -> Parameter {
    let text = if entry.explanation.is_empty() {
        entry.text.clone()
    } else {
        format!(
            "{} Possible innocent explanation: {}",
            entry.text, entry.explanation
        )
    };
    Parameter {
        name: format!("{}.{}", entry.about, entry.signal),
        weight: entry.points,
        text,
    }
}
