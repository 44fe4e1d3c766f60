//! Detects silences that leave the outcome uncertain, and names their cause.

use porchlight_schema::event::seconds;
use porchlight_schema::insight::ReasonCode;

use super::add_code;
use crate::score::Findings;
use crate::score::evidence_log::EvidenceLog;
use crate::score::parameters::door::outcome::{AROUND_MS, SILENCE_AT_DROP_OFF_MS, SILENCE_MS};
use crate::score::scoring_context::{ScoringContext, overlap_ms};

/// Finds the first silence that is long enough. The start and end of the session count as samples:
/// a phone that begins late or ends early was silent too.
pub(super) fn interrupted(
    ctx: &ScoringContext<'_>,
    findings: &Findings<'_>,
    evidence: &mut EvidenceLog,
) -> Option<ReasonCode> {
    let around = findings.places.drop_off.map(|drop_off| {
        (
            drop_off.at_ms.saturating_sub(AROUND_MS),
            drop_off.at_ms.saturating_add(AROUND_MS),
        )
    });
    let counts = |&(from_ms, to_ms): &(u32, u32)| {
        let silent_ms = to_ms.saturating_sub(from_ms);
        let near = around.is_some_and(|around| overlap_ms((from_ms, to_ms), around) > 0);
        silent_ms >= SILENCE_MS || (near && silent_ms >= SILENCE_AT_DROP_OFF_MS)
    };
    let silences: Vec<(u32, u32)> = silences(ctx).into_iter().filter(counts).collect();
    let longest = silences
        .iter()
        .max_by_key(|(from_ms, to_ms)| to_ms.saturating_sub(*from_ms))?;
    let silent_sec = seconds(longest.1.saturating_sub(longest.0));
    let text = match silences.len() {
        1 => format!("No data received for {silent_sec:.0} s."),
        more => {
            format!("No data received in {more} gaps, the longest {silent_sec:.0} s.")
        }
    };
    add_code(
        ReasonCode::TelemetryStreamInterrupted,
        "stream_silent",
        Some(*longest),
        text,
        cause(ctx, *longest),
        evidence,
    );
    Some(ReasonCode::TelemetryStreamInterrupted)
}

/// Returns the spans without samples, in order of time.
fn silences(ctx: &ScoringContext<'_>) -> Vec<(u32, u32)> {
    let mut silences = Vec::new();
    let mut heard_ms = 0;
    for window in ctx.input.windows.iter().filter(|window| window.has_sample) {
        match window.silent_since_ms {
            // The intake has measured this silence from sample to sample.
            Some(since_ms) => silences.push((
                since_ms,
                window.t_ms.max(since_ms.saturating_add(SILENCE_MS)),
            )),
            None if window.t_ms > heard_ms => silences.push((heard_ms, window.t_ms)),
            None => {}
        }
        // A silence begins at the last sample and not at the end of its second, so a silence of
        // exactly 30 s counts as 30 s.
        heard_ms = heard_ms.max(window.t_ms).max(window.last_sample_ms);
    }
    if ctx.end_ms > heard_ms {
        silences.push((heard_ms, ctx.end_ms));
    }
    silences
}

/// Returns a sentence with the cause that the phone reported around the silence, or with the usual
/// causes.
fn cause(ctx: &ScoringContext<'_>, (from_ms, to_ms): (u32, u32)) -> &'static str {
    use porchlight_schema::sample::SystemName;
    let near = (
        from_ms.saturating_sub(AROUND_MS),
        to_ms.saturating_add(AROUND_MS),
    );
    let reported = ctx
        .input
        .system
        .iter()
        .filter(|(t_ms, _)| (near.0..=near.1).contains(t_ms))
        .map(|(_, name)| name);
    let mut cause =
        "The phone lost its network, its battery was empty, or the system closed the app.";
    for name in reported {
        cause = match name {
            SystemName::PowerSave => "The phone entered power-save mode.",
            SystemName::Background => {
                "The app went to the background, where the system may suspend it."
            }
            SystemName::PermissionLost => "A permission was withdrawn.",
            SystemName::LocationOff => "Location was switched off.",
            _ => continue,
        };
    }
    cause
}
