//! Compares the app's claim of a drop-off with the place where the app made it.

use porchlight_schema::sample::SystemName;

use super::{Findings, Group, Signal};
use crate::geo::Place;
use crate::score::MarkName;
use crate::score::evidence_log::words;
use crate::score::parameters::fraud::claim::{
    BETWEEN_JUMPS_MS, DRIVING_MPS, FAR_M, FAR_SIGMAS, LATE_TAP_MS, REACH_MPS, SAID_MS, VERY_FAR_M,
    VERY_FAR_SIGMAS, WITHDRAWN_MS,
};
use crate::score::parameters::weights::fraud as weights;
use crate::score::place::{DropOff, DropOffSign, proof_at};
use crate::score::position::Estimate;
use crate::score::scoring_context::ScoringContext;
use crate::window::Fix;

/// The name of the signal of a claim far from the address by a phone that was never near it.
const NEVER_NEAR: &str = "claim_never_near";

pub(super) fn signals(scene: &ScoringContext<'_>, findings: &Findings<'_>) -> Vec<Signal> {
    let claimed = findings
        .places
        .drop_off
        .filter(|drop_off| drop_off.sign != DropOffSign::Stay);
    let Some(mut claimed) = claimed else {
        return proof_never_near(scene).into_iter().collect();
    };
    // A claim that was made before or after the stay is judged by the phone's position at that time.
    if let Some(said_ms) = claimed.said_ms {
        claimed.at_ms = said_ms;
        claimed.estimate = estimate_at(scene, said_ms);
    }
    [
        far(scene, claimed),
        driving(scene, findings, claimed),
        withdrawn(scene, claimed),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Returns the position of the phone when the app made a claim.
fn estimate_at(scene: &ScoringContext<'_>, t_ms: u32) -> Option<Estimate> {
    scene.estimate(t_ms.saturating_sub(SAID_MS), t_ms.saturating_add(SAID_MS))
}

/// The proof of delivery was sent from the vehicle, far from the address, and the phone never came
/// near it. A proof that is sent late from elsewhere is usual after a visit.
fn proof_never_near(scene: &ScoringContext<'_>) -> Option<Signal> {
    let at_ms = proof_at(scene)?;
    let claimed = DropOff {
        at_ms,
        sign: DropOffSign::Pod,
        stay: None,
        estimate: estimate_at(scene, at_ms),
        on_foot: false,
        said_ms: None,
    };
    far(scene, claimed).filter(|signal| signal.name == NEVER_NEAR)
}

/// The drop-off was far from the address, and from the usual place of drop-offs for it.
fn far(scene: &ScoringContext<'_>, claimed: DropOff) -> Option<Signal> {
    let Some(estimate) = claimed.estimate else {
        return between_jumps(scene, claimed);
    };
    let (distance_m, sigma_m) = scene.offset_from_address(estimate);
    let learned = scene
        .input
        .known
        .drop_off
        .map(|learned| scene.input.context.frame.place(learned.point));
    let usual = learned.is_some_and(|place| {
        estimate.place.distance_m(place) <= FAR_M.max(FAR_SIGMAS * estimate.sigma_m)
    });
    if usual || distance_m <= FAR_M.max(FAR_SIGMAS * sigma_m) {
        return None;
    }
    let very = distance_m > VERY_FAR_M.max(VERY_FAR_SIGMAS * sigma_m);
    // A courier who taps late, or drops off round the corner, has been near the address. A courier
    // who was never near the address cannot have dropped off a parcel there.
    let never_near = very
        && scene
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
    let words = words(
        text,
        "The position of the address may be wrong, or the courier tapped late.",
    );
    Some(Signal {
        group: Group::Outcome,
        name,
        points,
        span: Some((claimed.at_ms, claimed.at_ms)),
        words,
    })
}

/// The drop-off was at positions that had jumped away and back: the positions before and after it
/// show the true place of the phone. A receiver that was wrong from the start, and then found its
/// place, does not jump back.
fn between_jumps(scene: &ScoringContext<'_>, claimed: DropOff) -> Option<Signal> {
    let at_ms = claimed.at_ms;
    let next = scene.fixes.partition_point(|fix| fix.t_ms <= at_ms);
    let before = next.checked_sub(1).and_then(|last| scene.fixes.get(last))?;
    let after = scene.fixes.get(next)?;
    let has_jumped = scene
        .jumps
        .iter()
        .any(|jump| jump.stays && (before.t_ms..=at_ms).contains(&jump.t_ms));
    let farthest_m = |fix: &Fix| {
        let apart_ms = fix.t_ms.abs_diff(at_ms);
        let reach_m = REACH_MPS * apart_ms as f32 / 1000.0;
        let distance_m = fix.place.distance_m(Place::default()) - fix.accuracy_m;
        (apart_ms <= BETWEEN_JUMPS_MS).then_some(distance_m - reach_m)
    };
    let least_m = farthest_m(before)?.min(farthest_m(after)?);
    if !has_jumped || least_m < VERY_FAR_M {
        return None;
    }
    let text = format!(
        "The drop-off was reported between two jumps of the position, at least {least_m:.0} m from where the phone can have been."
    );
    let words = words(text, "A GPS that misjudged its own accuracy.");
    Some(Signal {
        group: Group::Outcome,
        name: "claim_between_jumps",
        points: weights::POD_NEVER_NEAR,
        span: Some((at_ms, at_ms)),
        words,
    })
}

/// The drop-off was reported at speed, without a stay at a door shortly before that would make it a
/// late tap.
fn driving(
    scene: &ScoringContext<'_>,
    findings: &Findings<'_>,
    claimed: DropOff,
) -> Option<Signal> {
    scene.driving_at(claimed.at_ms)?;
    let around = scene.fixes(
        claimed.at_ms.saturating_sub(3_000),
        claimed.at_ms.saturating_add(3_000),
    );
    let at_speed = around.iter().any(|fix| {
        fix.speed_mps
            .is_some_and(|speed_mps| speed_mps > DRIVING_MPS)
    }) || by_places(around);
    let since_ms = claimed.at_ms.saturating_sub(LATE_TAP_MS);
    let late_tap = findings
        .places
        .stays
        .iter()
        .any(|stay| stay.to_ms >= since_ms && stay.from_ms <= claimed.at_ms && !stay.passage);
    if !at_speed || late_tap {
        return None;
    }
    let words = words(
        "The drop-off was reported while the vehicle was moving.",
        "The courier tapped late.",
    );
    let span = Some((claimed.at_ms, claimed.at_ms));
    Some(Signal {
        group: Group::Outcome,
        name: "claim_while_driving",
        points: weights::POD_DRIVING,
        span,
        words,
    })
}

fn by_places(fixes: &[Fix]) -> bool {
    let (Some(first), Some(last)) = (fixes.first(), fixes.last()) else {
        return false;
    };
    let seconds = last.t_ms.saturating_sub(first.t_ms) as f32 / 1000.0;
    seconds >= 2.0 && first.place.distance_m(last.place) / seconds > DRIVING_MPS
}

/// Detects that location was switched off manually just before the drop-off.
fn withdrawn(scene: &ScoringContext<'_>, claimed: DropOff) -> Option<Signal> {
    let since_ms = claimed.at_ms.saturating_sub(WITHDRAWN_MS);
    let mut last = None;
    for &(t_ms, name) in scene
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
    let arrived = scene
        .input
        .marks
        .iter()
        .any(|&(t_ms, name)| name == MarkName::Arrived && t_ms <= at_ms);
    let when = if arrived {
        "after the arrival and before the drop-off"
    } else {
        "just before the drop-off"
    };
    let words = words(
        format!("Location was switched off {when}."),
        "The courier saved battery, or the system withdrew a permission.",
    );
    Some(Signal {
        group: Group::Outcome,
        name: "location_withdrawn",
        points: weights::LOCATION_WITHDRAWN,
        span: Some((at_ms, claimed.at_ms)),
        words,
    })
}
