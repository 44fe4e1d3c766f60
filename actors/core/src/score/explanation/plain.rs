//! Explains a decision to the person concerned. The explanation names no other session, no internal
//! limit and nothing of the customer's.

use porchlight_schema::insight::{ReasonCode, Score};
use serde::Serialize;

use super::{NO_EXPLANATION, explain};

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

/// Explains a score to the person concerned.
#[must_use]
pub fn explain_plainly(score: &Score) -> PlainExplanation {
    let parameters = explain(score).parameters;
    let statement = |name: &str| -> String {
        let (statement, _) = name.split_once('.').unwrap_or((name, ""));
        statement.to_owned()
    };
    let total = |of: &str| -> f64 {
        let own = parameters
            .iter()
            .filter(|parameter| statement(&parameter.name) == of);
        own.map(|parameter| parameter.weight.abs()).sum()
    };
    let mut plain: Vec<PlainParameter> = Vec::new();
    for parameter in &parameters {
        let total = total(&statement(&parameter.name));
        let share = parameter.weight / total;
        // A parameter without weight decided nothing.
        if !share.is_finite() || share == 0.0 {
            continue;
        }
        plain.push(PlainParameter {
            name: parameter.name.clone(),
            weight: (share * 1_000.0).round() / 1_000.0,
            text: String::new(),
        });
    }
    for parameter in &mut plain {
        parameter.text = parameter_sentence(score, &parameter.name);
    }
    PlainExplanation {
        decision: decision(score),
        parameters: plain,
    }
}

/// Returns the sentence about one parameter.
fn parameter_sentence(score: &Score, name: &str) -> String {
    let signal = name.split_once('.').map_or("", |(_, signal)| signal);
    // These texts speak of another session and of the points of the model.
    match signal {
        "replayed_trace" => {
            return "Much of what the phone sent is identical to an earlier recording. A harmless reason may be: the same data was sent twice by mistake.".to_owned();
        }
        "group_cap" => {
            return "Several observations of the same kind count together only up to a limit."
                .to_owned();
        }
        _ => {}
    }
    let entry = score
        .evidence
        .iter()
        .find(|entry| format!("{}.{}", entry.about, entry.signal) == name);
    let Some(entry) = entry else {
        return String::new();
    };
    match entry.explanation.as_str() {
        "" | NO_EXPLANATION => entry.text.clone(),
        explanation => format!("{} Note: {explanation}", entry.text),
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
            "The recording shows that you were near the address on foot, but not that you stayed at the door."
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
