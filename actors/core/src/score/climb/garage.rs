//! Finds out how far below the street a vehicle was parked.
//!
//! In an underground garage the way on foot begins below the ground floor, but buildings number
//! their floors from the street.

use porchlight_schema::event::EventType;

use crate::score::height::{Rise, rise};
use crate::score::parameters::door::garage::{
    DEPTH_M, GOOD_TIMES, LEVEL_MS, PARKED_MS, RAMP_MS, SIGMA_M, USUAL_FIXES,
};
use crate::score::scoring_context::{Foot, ScoringContext, end_of, median, overlap_ms};
use crate::window::Fix;

/// Returns the rise from the street to the parked vehicle, which is negative, if the vehicle went
/// down where no satellite was seen, and the courier saw none until `until_ms`.
pub(super) fn descent(scene: &ScoringContext<'_>, foot: Foot, until_ms: u32) -> Option<Rise> {
    foot.parked_ms?;
    let street_ms = last_in_the_open(scene, foot.from_ms, until_ms)?;
    let is_lost = scene.events(EventType::GpsLost).any(|event| {
        let span = (event.t_start_ms, end_of(event, scene.end_ms));
        overlap_ms(span, (street_ms, until_ms)) > 0
    });
    if !is_lost {
        return None;
    }
    let street = scene
        .height
        .level(street_ms.saturating_sub(LEVEL_MS), street_ms)?;
    let parked = scene
        .height
        .level(foot.from_ms.saturating_sub(PARKED_MS), foot.from_ms)?;
    let down = rise(street, parked)?;
    DEPTH_M.contains(&-down.metres).then(|| Rise {
        metres: down.metres,
        sigma_m: libm::hypotf(down.sigma_m, SIGMA_M),
    })
}

/// Returns the time of the last fix that was as good as on the way, if it was before `from_ms` and no
/// other one was until `until_ms`.
fn last_in_the_open(scene: &ScoringContext<'_>, from_ms: u32, until_ms: u32) -> Option<u32> {
    let fixes = scene.fixes(from_ms.saturating_sub(RAMP_MS), until_ms);
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
