//! What a decision rests on: the parameters that weighed in it, each with its weight and a sentence.
//!
//! For a person about whom a decision was made (contract 11): the evidence of a score, brought down to what counted for
//! or against one of its statements.

use porchlight_schema::insight::{Evidence, ReasonCode, Score};
use serde::Serialize;

/// A parameter of a decision.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Parameter {
    /// A stable name: the statement that it is about, and the signal, as `fraudScore.teleport`.
    pub name: String,
    /// How much it weighed, in the points of its statement; above 0 it speaks for the statement, below 0 against it.
    pub weight: f64,
    /// What was seen, and the innocent explanation that there may be.
    pub text: String,
}

/// What was decided about a session, and by which parameters.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Explanation {
    /// The decision: the outcome's reason code, and the codes beside it.
    pub decision: Vec<ReasonCode>,
    /// Version of the parameters that decided.
    pub version: String,
    /// What weighed, statement by statement, within each the heaviest first. What weighed nothing stands last: it says
    /// what was looked at, and could not be told.
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
