//! Compares the app's claim of a drop-off with the place where the app made it.

use porchlight_schema::sample::SystemName;

use super::{Group, Signal};
use crate::geo::Place;
use crate::score::evidence_log::EvidenceText;
use crate::score::parameters::fraud::claim::{
    BETWEEN_JUMPS_MS, DRIVING_MPS, FAR_M, FAR_SIGMAS, LATE_TAP_MS, REACH_MPS, SAID_MS, VERY_FAR_M,
    VERY_FAR_SIGMAS, WITHDRAWN_MS,
};
use crate::score::parameters::weights::fraud as weights;
use crate::score::place::{DropOff, DropOffSource, proof_at};
use crate::score::position::Estimate;
use crate::score::scoring_context::{ScoringContext, recorded_fixes};
use crate::score::{Findings, MarkName};
use crate::window::Fix;

/// The name of the signal for a claim that was made far from the address, by a phone that was never
/// near it.
const NEVER_NEAR: &str = "claim_never_near";

pub(super) fn signals(ctx: &ScoringContext<'_>, findings: &Findings<'_>) -> Vec<Signal> {
    let claimed = findings
        .places
        .drop_off
        .filter(|drop_off| drop_off.source != DropOffSource::Stay);
    let Some(mut claimed) = claimed else {
        return far_proof_signal(ctx).into_iter().collect();
    };
    // A claim that was made before or after the stay is judged by the phone's position at that
    // time.
    if let Some(claimed_ms) = claimed.claimed_ms {
        claimed.at_ms = claimed_ms;
        claimed.estimate = estimate_at(ctx, claimed_ms);
    }
    [
        far_signal(ctx, claimed),
        driving_signal(ctx, findings, claimed),
        location_off_signal(ctx, claimed),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Returns the position of the phone when the app made a claim.
fn estimate_at(ctx: &ScoringContext<'_>, t_ms: u32) -> Option<Estimate> {
    ctx.estimate(t_ms.saturating_sub(SAID_MS), t_ms.saturating_add(SAID_MS))
}

/// Returns the signal of a proof of delivery that was sent from the vehicle, far from the address,
/// if the phone never came near the address. After a visit, couriers often send the proof late and
/// from elsewhere.
fn far_proof_signal(ctx: &ScoringContext<'_>) -> Option<Signal> {
    let at_ms = proof_at(ctx)?;
    let claimed = DropOff {
        at_ms,
        source: DropOffSource::Pod,
        stay: None,
        estimate: estimate_at(ctx, at_ms),
        is_on_foot: false,
        claimed_ms: None,
    };
    far_signal(ctx, claimed).filter(|signal| signal.name == NEVER_NEAR)
}

/// Returns the signal of a drop-off far from the address and from the place of earlier drop-offs.
fn far_signal(ctx: &ScoringContext<'_>, claimed: DropOff) -> Option<Signal> {
    let Some(estimate) = claimed.estimate else {
        return between_jumps_signal(ctx, claimed);
    };
    let (distance_m, sigma_m) = ctx.offset_from_address(estimate);
    let learned = ctx
        .input
        .known
        .drop_off
        .map(|learned| ctx.input.context.frame.place(learned.point));
    let usual = learned.is_some_and(|place| {
        estimate.place.distance_m(place) <= FAR_M.max(FAR_SIGMAS * estimate.sigma_m)
    });
    if usual || distance_m <= FAR_M.max(FAR_SIGMAS * sigma_m) || is_jumped_to(ctx, estimate.place) {
        return None;
    }
    let very = distance_m > VERY_FAR_M.max(VERY_FAR_SIGMAS * sigma_m);
    // A courier who taps late, or drops off round the corner, has been near the address. A courier
    // who was never near the address cannot have dropped off a parcel there.
    let never_near = very
        && ctx
            .fixes
            .iter()
            .all(|fix| fix.place.distance_m(Place::default()) > VERY_FAR_M / 2.0 + fix.accuracy_m);
    let (name, points, never) = match (very, never_near) {
        (true, true) => (
            NEVER_NEAR,
            weights::POD_NEVER_NEAR,
            ", and the phone never came near it",
        ),
        (true, false) => ("claim_very_far", weights::POD_VERY_FAR, ""),
        (false, _) => ("claim_far", weights::POD_FAR, ""),
    };
    let text = format!(
        "The drop-off was reported {distance_m:.0} m from the address{never}; the uncertainty is {sigma_m:.0} m."
    );
    let text = EvidenceText::new(
        text,
        "The position of the address may be wrong, or the courier tapped late.",
    );
    Some(Signal {
        group: Group::Outcome,
        name,
        points,
        span: Some((claimed.at_ms, claimed.at_ms)),
        text,
    })
}

/// Returns whether the first jump of the positions led to this place, which is far from the address.
/// One source of wrong positions then explains both the jump and the distance of the claim, and the
/// kinematics already count the jump. Fabricated positions jump towards the address.
fn is_jumped_to(ctx: &ScoringContext<'_>, place: Place) -> bool {
    let fixes = || recorded_fixes(ctx.input.windows);
    let Some(first) = ctx.jumps.iter().map(|jump| jump.t_ms).min() else {
        return false;
    };
    let is_there = |fix: &Fix| fix.place.distance_m(place) <= FAR_M + fix.accuracy_m;
    let jumped = fixes().find(|fix| fix.t_ms == first);
    jumped.is_some_and(is_there) && !fixes().any(|fix| fix.t_ms < first && is_there(fix))
}

/// Returns the signal of a drop-off at positions that had jumped away and back. The positions
/// before and after it show the true place of the phone. A receiver that was wrong from the start,
/// and then found its place, does not jump back.
fn between_jumps_signal(ctx: &ScoringContext<'_>, claimed: DropOff) -> Option<Signal> {
    let at_ms = claimed.at_ms;
    let next = ctx.fixes.partition_point(|fix| fix.t_ms <= at_ms);
    let before = next.checked_sub(1).and_then(|last| ctx.fixes.get(last))?;
    let after = ctx.fixes.get(next)?;
    let has_jumped = ctx
        .jumps
        .iter()
        .any(|jump| jump.is_lasting && (before.t_ms..=at_ms).contains(&jump.t_ms));
    let least_distance_m = |fix: &Fix| {
        let apart_ms = fix.t_ms.abs_diff(at_ms);
        let reach_m = REACH_MPS * apart_ms as f32 / 1000.0;
        let distance_m = fix.place.distance_m(Place::default()) - fix.accuracy_m;
        (apart_ms <= BETWEEN_JUMPS_MS).then_some(distance_m - reach_m)
    };
    let least_m = least_distance_m(before)?.min(least_distance_m(after)?);
    if !has_jumped || least_m < VERY_FAR_M {
        return None;
    }
    let text = format!(
        "The drop-off was reported between two jumps of the position, at least {least_m:.0} m from where the phone can have been."
    );
    let text = EvidenceText::new(text, "A GPS that misjudged its own accuracy.");
    Some(Signal {
        group: Group::Outcome,
        name: "claim_between_jumps",
        points: weights::POD_NEVER_NEAR,
        span: Some((at_ms, at_ms)),
        text,
    })
}

/// Returns the signal of a drop-off that was reported while driving. After a recent stay at a door
/// the courier only tapped late.
fn driving_signal(
    ctx: &ScoringContext<'_>,
    findings: &Findings<'_>,
    claimed: DropOff,
) -> Option<Signal> {
    ctx.driving_at(claimed.at_ms)?;
    let around = ctx.fixes(
        claimed.at_ms.saturating_sub(SAID_MS),
        claimed.at_ms.saturating_add(SAID_MS),
    );
    let at_speed = around.iter().any(|fix| {
        fix.speed_mps
            .is_some_and(|speed_mps| speed_mps > DRIVING_MPS)
    }) || is_fast_by_places(around);
    let since_ms = claimed.at_ms.saturating_sub(LATE_TAP_MS);
    let late_tap =
        findings.places.stays.iter().any(|stay| {
            stay.to_ms >= since_ms && stay.from_ms <= claimed.at_ms && !stay.is_passage
        });
    if !at_speed || late_tap {
        return None;
    }
    let text = EvidenceText::new(
        "The drop-off was reported while the vehicle was moving.",
        "The courier tapped late.",
    );
    let span = Some((claimed.at_ms, claimed.at_ms));
    Some(Signal {
        group: Group::Outcome,
        name: "claim_while_driving",
        points: weights::POD_DRIVING,
        span,
        text,
    })
}

/// Returns whether the distance from the first fix to the last shows the speed of a vehicle.
fn is_fast_by_places(fixes: &[Fix]) -> bool {
    let (Some(first), Some(last)) = (fixes.first(), fixes.last()) else {
        return false;
    };
    let seconds = last.t_ms.saturating_sub(first.t_ms) as f32 / 1000.0;
    seconds >= 2.0 && first.place.distance_m(last.place) / seconds > DRIVING_MPS
}

/// Returns the signal of a phone whose location was switched off just before the drop-off, by the
/// user or by the system.
fn location_off_signal(ctx: &ScoringContext<'_>, claimed: DropOff) -> Option<Signal> {
    let since_ms = claimed.at_ms.saturating_sub(WITHDRAWN_MS);
    let mut last = None;
    for &(t_ms, name) in ctx
        .input
        .system
        .iter()
        .filter(|(t_ms, _)| *t_ms <= claimed.at_ms)
    {
        match name {
            SystemName::LocationOff | SystemName::PermissionLost => last = Some(t_ms),
            SystemName::LocationOn => last = None,
            _ => {}
        }
    }
    let at_ms = last.filter(|&t_ms| t_ms >= since_ms)?;
    let arrived = ctx
        .input
        .marks
        .iter()
        .any(|&(t_ms, name)| name == MarkName::Arrived && t_ms <= at_ms);
    let when = if arrived {
        "after the arrival and before the drop-off"
    } else {
        "just before the drop-off"
    };
    let text = EvidenceText::new(
        format!("Location was switched off {when}."),
        "The courier saved battery, or the system withdrew a permission.",
    );
    Some(Signal {
        group: Group::Outcome,
        name: "location_withdrawn",
        points: weights::LOCATION_WITHDRAWN,
        span: Some((at_ms, claimed.at_ms)),
        text,
    })
}
