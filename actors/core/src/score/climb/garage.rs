//! Measures how far below the street a vehicle was parked.
//!
//! In an underground garage the way on foot begins below the ground floor, but buildings number
//! their floors from the street.

use crate::score::height::{Rise, rise};
use crate::score::parameters::door::garage::{
    DEPTH_M, GOOD_TIMES, LEVEL_MS, PARKED_MS, RAMP_MS, SIGMA_M, USUAL_FIXES,
};
use crate::score::scoring_context::{FootPeriod, ScoringContext, median, overlap_ms};
use crate::window::Fix;

/// Returns the rise from the street to the parked vehicle, which is negative. Returns `None` unless
/// the vehicle went down where reception was lost or degraded, and it stayed so until `until_ms`.
pub(super) fn rise_to_vehicle(
    ctx: &ScoringContext<'_>,
    foot: FootPeriod,
    until_ms: u32,
) -> Option<Rise> {
    foot.parked_ms?;
    let street_ms = last_good_fix_ms(ctx, foot.from_ms, until_ms)?;
    let is_poor = ctx
        .poor_reception()
        .any(|event| overlap_ms(ctx.span_of(event), (street_ms, until_ms)) > 0);
    if !is_poor {
        return None;
    }
    let street = ctx
        .height
        .level(street_ms.saturating_sub(LEVEL_MS), street_ms)?;
    let parked = ctx
        .height
        .level(foot.from_ms.saturating_sub(PARKED_MS), foot.from_ms)?;
    let down = rise(street, parked)?;
    DEPTH_M.contains(&-down.metres).then(|| Rise {
        metres: down.metres,
        sigma_m: libm::hypotf(down.sigma_m, SIGMA_M),
    })
}

/// Returns the time of the last fix until `until_ms` that was as accurate as usual during the
/// drive, if that time is before `from_ms`.
fn last_good_fix_ms(ctx: &ScoringContext<'_>, from_ms: u32, until_ms: u32) -> Option<u32> {
    let fixes = ctx.fixes(from_ms.saturating_sub(RAMP_MS), until_ms);
    let mut claims: Vec<f32> = fixes
        .iter()
        .take_while(|fix| fix.t_ms < from_ms)
        .map(|fix| fix.accuracy_m)
        .collect();
    if claims.len() < USUAL_FIXES {
        return None;
    }
    let good_m = GOOD_TIMES * median(&mut claims)?;
    let is_good = |fix: &&Fix| fix.accuracy_m <= good_m;
    let last_ms = fixes.iter().rev().find(is_good)?.t_ms;
    (last_ms < from_ms).then_some(last_ms)
}
