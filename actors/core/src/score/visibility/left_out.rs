//! Explains the data that scoring leaves out: batches and events.

use porchlight_schema::limits::{SESSION_EVENTS_MAX, SESSION_EVENTS_MIXED_MAX};

use super::ABOUT;
use crate::score::evidence_log::{EvidenceLog, EvidenceText};
use crate::score::parameters::weights::visibility as weights;
use crate::score::scoring_context::ScoringContext;

/// Returns the deduction for quarantined batches, and adds the evidence for these and for missing
/// batches.
pub(super) fn batches_deduction(
    ctx: &ScoringContext<'_>,
    sum: f64,
    evidence: &mut EvidenceLog,
) -> f64 {
    let missing = ctx.input.missing_batches;
    if missing > 0 {
        let text =
            format!("Batches that never arrived: {missing}. Their time counts as not covered.");
        let explanation = "The phone had no network, or the app was closed.";
        evidence.add(
            ABOUT,
            "missing_batches",
            0.0,
            None,
            EvidenceText::new(text, explanation),
        );
    }
    let quarantined = ctx.input.quarantined_batches;
    if quarantined == 0 {
        return 0.0;
    }
    let points = (f64::from(quarantined) * weights::QUARANTINED)
        .min(weights::QUARANTINED_CAP)
        .min(sum);
    let text = format!("Batches left out because they could not be processed: {quarantined}.");
    let explanation = "A fault of the service, not of the courier.";
    -evidence.add(
        ABOUT,
        "quarantined_batches",
        -points,
        None,
        EvidenceText::new(text, explanation),
    )
}

/// Adds the evidence that the session had more events than are kept.
pub(super) fn explain_full_log(ctx: &ScoringContext<'_>, evidence: &mut EvidenceLog) {
    let count = ctx.input.events.len();
    if count < SESSION_EVENTS_MIXED_MAX {
        return;
    }
    let text = format!(
        "The session has {count} events. Beyond {SESSION_EVENTS_MIXED_MAX} only those of movement are kept, \
         and none beyond {SESSION_EVENTS_MAX}."
    );
    let explanation = "The session lasted for days, or reception changed all the time.";
    evidence.add(
        ABOUT,
        "many_events",
        0.0,
        None,
        EvidenceText::new(text, explanation),
    );
}
