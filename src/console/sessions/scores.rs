//! Every score with its evidence and possible innocent explanations, as a basis for settling
//! claims.

use maud::{Markup, html};
use porchlight_core::score::explanation::NO_EXPLANATION;
use porchlight_schema::insight::{Evidence, ReasonCode, Score, statement};

use super::super::descriptions;
use super::timeline::stamp;

/// The subjects of evidence: the name in the insight and the label here.
const ABOUT: [(&str, &str); 9] = [
    (statement::RIGHT_DOORSTEP, "Right doorstep"),
    (statement::FRAUD_SCORE, "Fraud"),
    (statement::SUSPICIOUS_BEHAVIOR, "Suspicious behaviour"),
    (statement::FRICTION_SCORE, "Friction"),
    (statement::VISIBILITY_SCORE, "Visibility"),
    (statement::FLOORS_CLIMBED, "Floors climbed"),
    (statement::ELEVATOR_USED, "Elevator used"),
    (statement::ATTEMPT_CYCLES, "Visits to the door"),
    (statement::TOTAL_DURATION_SEC, "Duration"),
];

/// The subjects whose evidence may speak against a courier.
const SUSPICION: [&str; 2] = [statement::FRAUD_SCORE, statement::SUSPICIOUS_BEHAVIOR];

/// A score for display.
struct DisplayedScore {
    about: &'static str,
    name: &'static str,
    value: String,
    /// The value of a score from 0 to 1.
    share: Option<f64>,
    /// The word for such a value.
    level: Option<&'static str>,
    tone: &'static str,
}

fn displayed_scores(score: &Score) -> Vec<DisplayedScore> {
    let summary = &score.summary;
    let yes = |yes: bool| if yes { "yes" } else { "no" }.to_owned();
    let high_is_bad = |share: f64| if share >= 0.5 { "bad" } else { "" };
    let value = |about: &str| match about {
        statement::RIGHT_DOORSTEP => (
            yes(summary.right_doorstep),
            None,
            if summary.right_doorstep { "good" } else { "" },
        ),
        statement::FRAUD_SCORE => (
            two_decimals(summary.fraud_score),
            Some(summary.fraud_score),
            high_is_bad(summary.fraud_score),
        ),
        statement::SUSPICIOUS_BEHAVIOR => (
            yes(summary.suspicious_behavior),
            None,
            if summary.suspicious_behavior {
                "bad"
            } else {
                ""
            },
        ),
        statement::FRICTION_SCORE => (
            two_decimals(summary.friction_score),
            Some(summary.friction_score),
            "",
        ),
        statement::VISIBILITY_SCORE => (
            two_decimals(summary.visibility_score),
            Some(summary.visibility_score),
            "",
        ),
        statement::FLOORS_CLIMBED => (
            summary
                .floors_climbed
                .map_or_else(unknown, |floors| floors.to_string()),
            None,
            "",
        ),
        statement::ELEVATOR_USED => (summary.elevator_used.map_or_else(unknown, yes), None, ""),
        statement::ATTEMPT_CYCLES => (summary.attempt_cycles.to_string(), None, ""),
        _ => (
            stamp((summary.total_duration_sec * 1_000.0) as u32),
            None,
            "",
        ),
    };
    ABOUT
        .into_iter()
        .map(|(about, name)| {
            let (value, share, tone) = value(about);
            DisplayedScore {
                about,
                name,
                value,
                share,
                level: share.map(|share| level(about, share)),
                tone,
            }
        })
        .collect()
}

/// The lowest medium and the lowest high value of the fraud score; a high one is flagged.
const FRAUD_LEVELS: (f64, f64) = (0.2, 0.5);
/// The lowest medium and the lowest high value of the other scores: thirds.
const LEVELS: (f64, f64) = (1.0 / 3.0, 2.0 / 3.0);

/// Returns the word for a score.
fn level(about: &str, share: f64) -> &'static str {
    let (medium, high) = if about == statement::FRAUD_SCORE {
        FRAUD_LEVELS
    } else {
        LEVELS
    };
    if share >= high {
        "high"
    } else if share >= medium {
        "medium"
    } else {
        "low"
    }
}

fn two_decimals(value: f64) -> String {
    format!("{value:.2}")
}

fn unknown() -> String {
    "not known".into()
}

/// Renders the scores side by side; each links to its evidence.
pub(super) fn tiles(score: &Score) -> Markup {
    let metrics = &score.metrics;
    let seconds = |seconds: f64| stamp((seconds * 1_000.0) as u32);
    html! {
        ul.tiles {
            @for one in displayed_scores(score) {
                @let has_evidence = score.evidence.iter().any(|evidence| evidence.about == one.about);
                li { (tile(&one, has_evidence)) }
            }
            @if let Some(value) = metrics.time_at_door_sec { li { div.tile { span.name { "At the door" } span.value { (seconds(value)) } } } }
            @if let Some(value) = metrics.time_from_entrance_to_door_sec { li { div.tile { span.name { "Entrance to door" } span.value { (seconds(value)) } } } }
        }
    }
}

fn tile(one: &DisplayedScore, has_evidence: bool) -> Markup {
    let inside = html! {
        span.name { (one.name) }
        span class={ "value " (one.tone) } { (one.value) @if let Some(level) = one.level { " " span.level { (level) } } }
        @if let Some(share) = one.share {
            svg.meter class=(one.tone) viewBox="0 0 100 4" preserveAspectRatio="none" aria-hidden="true" { rect.all width="100" height="4" {} rect.part width=(format!("{:.1}", share * 100.0)) height="4" {} }
        }
    };
    html! { @if has_evidence { a.tile href={ "#why-" (one.about) } { (inside) } } @else { div.tile { (inside) } } }
}

/// Renders all evidence by subject, the outcome first.
pub(super) fn evidence(score: &Score) -> Markup {
    let codes = ReasonCode::ALL.map(|code| (code.as_str(), descriptions::reason_label(code), None));
    let scores = displayed_scores(score);
    let scores = scores
        .into_iter()
        .map(|one| (one.about, one.name, Some(one.value)));
    let groups = codes
        .into_iter()
        .chain(scores)
        .filter_map(|(about, name, value)| {
            let entries: Vec<&Evidence> = score
                .evidence
                .iter()
                .filter(|one| one.about == about)
                .collect();
            (!entries.is_empty()).then_some((about, name, value, entries))
        });
    html! {
        @for (about, name, value, entries) in groups {
            section.why #{ "why-" (about) } aria-labelledby={ "name-" (about) } {
                header { h3 #{ "name-" (about) } { @if value.is_none() { "Reason code: " } (name) } @if let Some(value) = value { strong { (value) } } }
                ul { @for entry in &entries { (line(entry)) } }
                @if about == statement::FRAUD_SCORE { (points(&entries)) }
            }
        }
        p.faint { "Scoring model " (score.weights) }
    }
}

/// Renders the points of the fraud score, which are log-odds, behind a disclosure.
fn points(entries: &[&Evidence]) -> Markup {
    let sum: f64 = entries.iter().map(|entry| entry.points).sum();
    html! {
        details { summary { "Points" }
            p.help { "The points are log-odds. They add up to " (format!("{sum:+.2}")) "." }
            ul { @for entry in entries { li { span.points { (format!("{:+.2}", entry.points)) } p { (entry.text) } } } }
        }
    }
}

/// Renders the effect of an observation: its direction for suspicion, its points for other scores.
fn effect(entry: &Evidence) -> Markup {
    let words = match entry.points {
        0.0 => "·".to_owned(),
        points if entry.about == statement::FRAUD_SCORE => {
            (if points > 0.0 { "raises" } else { "lowers" }).to_owned()
        }
        points => format!("{points:+.2}"),
    };
    html! {
        span.points class=[(entry.points > 0.0).then_some("more")] title=(if entry.about == statement::FRAUD_SCORE { "effect on suspicion" } else { "points" }) { (words) }
    }
}

fn line(entry: &Evidence) -> Markup {
    let is_whole = entry.t_start.is_none() && entry.t_end.is_none();
    let ms = |seconds: Option<f64>| (seconds.unwrap_or_default().max(0.0) * 1_000.0) as u32;
    let span = (ms(entry.t_start), ms(entry.t_end.or(entry.t_start)));
    let label = if entry.points > 0.0 && SUSPICION.contains(&entry.about.as_str()) {
        "Possible innocent explanation: "
    } else {
        "Note: "
    };
    html! {
        li {
            (effect(entry))
            div {
                p { (entry.text) }
                @if entry.explanation != NO_EXPLANATION { p.faint { (label) (entry.explanation) } }
            }
            span.when data-from=[(!is_whole).then_some(span.0 / 1_000)] {
                @if is_whole { span.faint { "whole session" } } @else { (stamp(span.0)) @if stamp(span.1) != stamp(span.0) { "–" (stamp(span.1)) } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_score_has_a_word() {
        for (about, share, word) in [
            (statement::FRAUD_SCORE, 0.19, "low"),
            (statement::FRAUD_SCORE, 0.2, "medium"),
            (statement::FRAUD_SCORE, 0.5, "high"),
            ("frictionScore", 0.3, "low"),
            ("frictionScore", 0.5, "medium"),
            ("visibilityScore", 1.0, "high"),
        ] {
            assert_eq!(level(about, share), word, "{about} {share}");
        }
    }

    fn entry(about: &str, points: f64) -> Evidence {
        Evidence {
            about: about.into(),
            signal: "signal".into(),
            points,
            t_start: Some(5.0),
            t_end: Some(5.0),
            text: "An observation.".into(),
            explanation: "A reason.".into(),
        }
    }

    #[test]
    fn evidence_of_fraud_shows_its_direction_and_other_evidence_its_points() {
        let fraud = line(&entry(statement::FRAUD_SCORE, 2.5)).into_string();
        assert!(
            fraud.contains("raises") && !fraud.contains("2.50"),
            "{fraud}"
        );
        assert!(fraud.contains("Possible innocent explanation: "), "{fraud}");
        assert!(fraud.contains(">00:05<"), "one time, not a span: {fraud}");
        let other = line(&entry("frictionScore", 0.25)).into_string();
        assert!(
            other.contains("+0.25") && other.contains("Note: "),
            "{other}"
        );
        let shown = points(&[
            &entry(statement::FRAUD_SCORE, 2.5),
            &entry(statement::FRAUD_SCORE, -4.6),
        ])
        .into_string();
        assert!(shown.contains("add up to -2.10"), "{shown}");
    }
}
