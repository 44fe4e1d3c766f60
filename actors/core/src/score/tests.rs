//! Scripted sessions and their expected scores.

mod acts;
mod afoot;
mod ascents;
mod clock;
mod contract;
mod coverage;
mod doors;
mod doubtful;
mod errands;
mod explanation;
mod fields;
mod frauds;
mod hostile;
mod indoors;
mod kerbside;
mod knowledge;
mod levels;
mod odd;
mod phone;
mod returns;
mod scenarios;
mod script;
mod sensors;
mod sparse;
mod spoofs;
mod steps;
mod streams;
mod taps;
mod terse;
mod trace;
mod unrecorded;
mod vehicle;
mod waits;

use porchlight_schema::event::{Event, EventType};
use porchlight_schema::insight::{Evidence, ReasonCode, Score, statement};

/// The outcome reason codes, including the code that replaces an outcome.
const OUTCOMES: [ReasonCode; 5] = [
    ReasonCode::FullAttempt,
    ReasonCode::PartialAttempt,
    ReasonCode::NoAttempt,
    ReasonCode::PossibleNoAttempt,
    ReasonCode::InsufficientData,
];

fn about<'s>(score: &'s Score, field: &'s str) -> impl Iterator<Item = &'s Evidence> {
    score
        .evidence
        .iter()
        .filter(move |entry| entry.about == field)
}

/// Returns the events with start and end in whole seconds, for messages of failed tests.
fn spans(score: &Score) -> Vec<(EventType, u32, Option<u32>)> {
    let span = |event: &Event| {
        let end_sec = event.t_end_ms.map(|t_ms| t_ms / 1_000);
        (event.event_type, event.t_start_ms / 1_000, end_sec)
    };
    score.events.iter().map(span).collect()
}

fn sum(score: &Score, field: &str) -> f64 {
    about(score, field).map(|entry| entry.points).sum()
}

fn is_rounded(value: f64) -> bool {
    ((value * 1000.0) - (value * 1000.0).round()).abs() < 1e-9
}

/// Asserts the invariants of every score.
fn assert_sound(name: &str, score: &Score) {
    let summary = &score.summary;
    for value in [
        summary.fraud_score,
        summary.friction_score,
        summary.visibility_score,
    ] {
        assert!(
            (0.0..=1.0).contains(&value) && is_rounded(value),
            "{name}: {value}"
        );
    }
    let outcomes = score
        .reason_codes
        .iter()
        .filter(|code| OUTCOMES.contains(code))
        .count();
    assert_eq!(outcomes, 1, "{name}: {:?}", score.reason_codes);
    assert!(
        OUTCOMES.contains(&score.reason_codes[0]),
        "{name}: the outcome comes first"
    );
    let mut sorted = score.reason_codes.clone();
    sorted.sort();
    sorted.dedup();
    assert_eq!(sorted, score.reason_codes, "{name}: in order, each once");
    let right = score
        .reason_codes
        .contains(&ReasonCode::DeliveredToRightDoorstep);
    assert_eq!(right, summary.right_doorstep, "{name}");
    if score.reason_codes.contains(&ReasonCode::NoAttempt) {
        assert_eq!(summary.attempt_cycles, 0, "{name}: never at the address");
        assert_eq!(score.metrics.time_at_door_sec, None, "{name}");
    }
    if right {
        assert!(summary.attempt_cycles > 0, "{name}: at the door");
    }
    if summary.elevator_used == Some(false) {
        let rides = about(score, "frictionScore").filter(|item| item.signal == "elevator");
        assert!(
            rides.into_iter().all(|item| item.points == 0.0),
            "{name}: no ride counts as friction"
        );
    }
    for code in &score.reason_codes {
        assert!(
            about(score, code.as_str()).next().is_some(),
            "{name}: no evidence for {code:?}"
        );
    }
    for field in [
        "rightDoorstep",
        "fraudScore",
        "frictionScore",
        "visibilityScore",
        "suspiciousBehavior",
    ] {
        assert!(
            about(score, field).next().is_some(),
            "{name}: no evidence for {field}"
        );
    }
    assert_eq!(
        sum(score, "suspiciousBehavior") > 0.0,
        summary.suspicious_behavior,
        "{name}: the evidence of the flag"
    );
    assert_evidence(name, score);
}

fn assert_evidence(name: &str, score: &Score) {
    let summary = &score.summary;
    // The sum of the points is the logit, so the score can be recomputed manually.
    let logit = sum(score, "fraudScore");
    let recomputed = 1.0 / (1.0 + libm::exp(-logit));
    assert!(
        (recomputed - summary.fraud_score).abs() < 0.001,
        "{name}: {recomputed} {}",
        summary.fraud_score
    );
    assert!(
        (sum(score, "frictionScore") - summary.friction_score).abs() < 0.002,
        "{name}"
    );
    assert!(
        (sum(score, "visibilityScore") - summary.visibility_score).abs() < 0.004,
        "{name}"
    );
    for entry in &score.evidence {
        let about = entry.about.as_str();
        let is_code = ReasonCode::ALL.iter().any(|code| code.as_str() == about);
        assert!(
            is_code || statement::FIELDS.contains(&about),
            "{name}: {about} is no statement"
        );
        assert!(
            !entry.text.is_empty() && !entry.explanation.is_empty(),
            "{name}: {entry:?}"
        );
        assert!(!has_coordinate(&entry.text), "{name}: {}", entry.text);
        assert!(entry.t_start <= entry.t_end, "{name}: {entry:?}");
        assert!(is_rounded(entry.points), "{name}: {entry:?}");
    }
    assert_eq!(score.weights, super::versions());
}

/// Returns whether the text has four digits after a point: metres and seconds are never that exact,
/// only a coordinate is.
fn has_coordinate(text: &str) -> bool {
    let fractions = text.split('.').skip(1);
    fractions
        .into_iter()
        .any(|rest| rest.bytes().take_while(u8::is_ascii_digit).count() > 3)
}
