//! Explains a decision to the person concerned. The explanation names no other session, no internal
//! threshold and no organization.
//!
//! A person about whom a decision was made has a right to this explanation (contract 11). It
//! consists of the evidence of the score, by statement and weight.

use porchlight_schema::insight::{Evidence, ReasonCode, Score};
use serde::Serialize;

/// The text of evidence that needs no innocent explanation. Pages leave it out.
pub const NO_EXPLANATION: &str = "No action is needed.";

/// A main parameter of a decision.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PlainParameter {
    /// A stable name made of the statement and the signal, such as `rightDoorstep.at_address`.
    pub name: String,
    /// The parameter's share of all observations for its statement, −1 to 1: positive if it
    /// supports the statement, negative if it contradicts it.
    pub weight: f64,
    /// The observation, in a sentence.
    pub text: String,
}

/// A decision and its main parameters, for the person concerned.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PlainExplanation {
    /// The decision, in sentences.
    pub decision: String,
    /// The main parameters by statement, the heaviest first within each.
    pub parameters: Vec<PlainParameter>,
}

/// Explains a score to the person concerned. Evidence without weight decided nothing and is left
/// out.
#[must_use]
pub fn explain_plainly(score: &Score) -> PlainExplanation {
    let mut statements: Vec<&str> = Vec::new();
    for entry in &score.evidence {
        if !statements.contains(&entry.about.as_str()) {
            statements.push(&entry.about);
        }
    }
    PlainExplanation {
        decision: decision(score),
        parameters: statements
            .into_iter()
            .flat_map(|statement| parameters_of(score, statement))
            .collect(),
    }
}

/// Returns the parameters of one statement, the heaviest first.
fn parameters_of(score: &Score, statement: &str) -> Vec<PlainParameter> {
    let of_statement = score
        .evidence
        .iter()
        .filter(|entry| entry.about == statement && entry.points != 0.0);
    let mut entries: Vec<&Evidence> = of_statement.collect();
    entries.sort_by(|a, b| b.points.abs().total_cmp(&a.points.abs()));
    let total: f64 = entries.iter().map(|entry| entry.points.abs()).sum();
    entries
        .into_iter()
        .map(|entry| PlainParameter {
            name: format!("{}.{}", entry.about, entry.signal),
            weight: (entry.points / total * 1_000.0).round() / 1_000.0,
            text: parameter_sentence(entry),
        })
        .collect()
}

/// Returns the sentence about one parameter.
fn parameter_sentence(entry: &Evidence) -> String {
    match (entry.signal.as_str(), entry.explanation.as_str()) {
        // The evidence of these two speaks of another session, and of the points of the model.
        ("replayed_trace", _) => "Much of what the phone sent is identical to an earlier recording. A harmless reason may be: the same data was sent twice by mistake.".to_owned(),
        ("group_cap", _) => {
            "Several observations of the same kind count together only up to a limit.".to_owned()
        }
        (_, "" | NO_EXPLANATION) => entry.text.clone(),
        (_, explanation) => format!("{} Note: {explanation}", entry.text),
    }
}

/// Returns the decision in sentences: the outcome, the door, and whether the session was marked as
/// suspicious.
fn decision(score: &Score) -> String {
    let mut sentences: Vec<&str> = score
        .reason_codes
        .iter()
        .map(|code| code_sentence(*code))
        .collect();
    let summary = &score.summary;
    if !summary.right_doorstep
        && score
            .reason_codes
            .first()
            .is_some_and(|code| *code == ReasonCode::FullAttempt)
    {
        sentences.push("It could not be confirmed that it was the right door.");
    }
    sentences.push(if summary.suspicious_behavior {
        "Several observations do not fit together, so the recording was marked for a check by a person."
    } else {
        "Nothing in the recording was marked as suspicious."
    });
    sentences.join(" ")
}

/// Returns the text for a reason code.
fn code_sentence(code: ReasonCode) -> &'static str {
    match code {
        ReasonCode::FullAttempt => {
            "The recording shows that you went to the door on foot and stayed there."
        }
        ReasonCode::PartialAttempt => {
            "The recording shows that you were near the address on foot, but not that you reached the door on its floor and stayed there."
        }
        ReasonCode::NoAttempt => "The recording does not show that you were at the address.",
        ReasonCode::PossibleNoAttempt => {
            "The recording may not show a visit to the address: the phone may have stayed behind, or too little was recorded."
        }
        ReasonCode::InsufficientData => {
            "Too little was recorded to say anything about the visit. This says nothing about you."
        }
        ReasonCode::DeliveredToRightDoorstep => {
            "The parcel was delivered at the door of the address."
        }
        ReasonCode::PossibleLobbyHandoff => {
            "The parcel was probably left at the entrance, although the door is on an upper floor."
        }
        ReasonCode::PossibleWrongAddress => "You stayed at a door that is not that of the address.",
        ReasonCode::SessionTimeout => {
            "The recording was ended by the service because nothing more arrived."
        }
        ReasonCode::TelemetryStreamInterrupted => "The phone sent no data for some time.",
    }
}
