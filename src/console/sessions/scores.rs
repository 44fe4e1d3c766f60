//! Every score with its evidence and any honest explanation: the basis for settling a claim.

use maud::{Markup, html};
use porchlight_schema::insight::{Evidence, ReasonCode, Score};

use super::super::words;
use super::timeline::stamp;

/// The subjects of evidence: the name in the insight and the label here.
const ABOUT: [(&str, &str); 9] = [
    ("rightDoorstep", "Right doorstep"),
    ("fraudScore", "Fraud"),
    ("suspiciousBehavior", "Suspicious behaviour"),
    ("frictionScore", "Friction"),
    ("visibilityScore", "Visibility"),
    ("floorsClimbed", "Floors climbed"),
    ("elevatorUsed", "Elevator used"),
    ("attemptCycles", "Visits to the door"),
    ("totalDurationSec", "Duration"),
];

/// A score for display.
struct Shown {
    about: &'static str,
    name: &'static str,
    value: String,
    /// The value of a score from 0 to 1.
    share: Option<f64>,
    tone: &'static str,
}

fn shown(score: &Score) -> Vec<Shown> {
    let summary = &score.summary;
    let yes = |yes: bool| if yes { "yes" } else { "no" }.to_owned();
    let high_is_bad = |share: f64| if share >= 0.5 { "bad" } else { "" };
    let value = |about: &str| match about {
        "rightDoorstep" => (
            yes(summary.right_doorstep),
            None,
            if summary.right_doorstep { "good" } else { "" },
        ),
        "fraudScore" => (
            two(summary.fraud_score),
            Some(summary.fraud_score),
            high_is_bad(summary.fraud_score),
        ),
        "suspiciousBehavior" => (
            yes(summary.suspicious_behavior),
            None,
            if summary.suspicious_behavior {
                "bad"
            } else {
                ""
            },
        ),
        "frictionScore" => (
            two(summary.friction_score),
            Some(summary.friction_score),
            "",
        ),
        "visibilityScore" => (
            two(summary.visibility_score),
            Some(summary.visibility_score),
            "",
        ),
        "floorsClimbed" => (
            summary
                .floors_climbed
                .map_or_else(unknown, |floors| floors.to_string()),
            None,
            "",
        ),
        "elevatorUsed" => (summary.elevator_used.map_or_else(unknown, yes), None, ""),
        "attemptCycles" => (summary.attempt_cycles.to_string(), None, ""),
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
            Shown {
                about,
                name,
                value,
                share,
                tone,
            }
        })
        .collect()
}

fn two(value: f64) -> String {
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
            @for one in shown(score) {
                @let has_why = score.evidence.iter().any(|evidence| evidence.about == one.about);
                li { (tile(&one, has_why)) }
            }
            @if let Some(value) = metrics.time_at_door_sec { li { div.tile { span.name { "At the door" } span.value { (seconds(value)) } } } }
            @if let Some(value) = metrics.time_from_entrance_to_door_sec { li { div.tile { span.name { "Entrance to door" } span.value { (seconds(value)) } } } }
        }
    }
}

fn tile(one: &Shown, has_why: bool) -> Markup {
    let inside = html! {
        span.name { (one.name) }
        span class={ "value " (one.tone) } { (one.value) }
        @if let Some(share) = one.share {
            svg.meter class=(one.tone) viewBox="0 0 100 4" preserveAspectRatio="none" aria-hidden="true" { rect.all width="100" height="4" {} rect.part width=(format!("{:.1}", share * 100.0)) height="4" {} }
        }
    };
    html! { @if has_why { a.tile href={ "#why-" (one.about) } { (inside) } } @else { div.tile { (inside) } } }
}

/// Renders all evidence by subject, the outcome first.
pub(super) fn evidence(score: &Score) -> Markup {
    let codes = ReasonCode::ALL.map(|code| (code.as_str(), words::reason_label(code), None));
    let scores = shown(score);
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
                header { h3 #{ "name-" (about) } { @if value.is_none() { "Reason code: " } (name) } @if let Some(value) = value { strong { (value) } }
                    @if let Some(sum) = summed(about, &entries) { span.faint { (sum) } } }
                ul { @for entry in entries { (line(entry)) } }
            }
        }
        p.faint { "Weights of " (score.weights) "." }
    }
}

/// Explains how the points add up, if they do.
fn summed(about: &str, entries: &[&Evidence]) -> Option<String> {
    if about != "fraudScore" {
        return None;
    }
    let sum: f64 = entries.iter().map(|entry| entry.points).sum();
    Some(format!(
        "the points are log-odds; together {sum:+.1}, before anything that pulls them back"
    ))
}

fn line(entry: &Evidence) -> Markup {
    let is_whole = entry.t_start.is_none() && entry.t_end.is_none();
    let ms = |seconds: Option<f64>| (seconds.unwrap_or_default().max(0.0) * 1_000.0) as u32;
    let span = (ms(entry.t_start), ms(entry.t_end.or(entry.t_start)));
    html! {
        li {
            span.points class=[(entry.points > 0.0).then_some("more")] title="points" { @if entry.points == 0.0 { "·" } @else { (format!("{:+.2}", entry.points)) } }
            div {
                p { (entry.text) }
                @if !entry.explanation.starts_with("None is needed") { p.faint { "Possible innocent explanation: " (entry.explanation) } }
            }
            span.when data-from=[(!is_whole).then_some(span.0 / 1_000)] {
                @if is_whole { span.faint { "whole session" } } @else { (stamp(span.0)) "–" (stamp(span.1)) }
            }
        }
    }
}
