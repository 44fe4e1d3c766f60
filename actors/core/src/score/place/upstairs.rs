//! Finds a stay on another floor that only the height shows.

use crate::score::parameters::place::stays::SAME_FLOOR_M;
use crate::score::parameters::place::upstairs::{FLOOR_M_MIN, GAP_MS, LEAST_MS};
use crate::score::scoring_context::{Body, Foot, ScoringContext, body};

/// Returns the time that a courier without body sensors spent on the floor farthest from the start
/// of the period on foot, in milliseconds since the session's start: up there he went to a door.
/// Returns `None` if the body is measured, since then its stays are known, or if no other floor was
/// reached.
pub(super) fn find(scene: &ScoringContext<'_>, foot: Foot) -> Option<(u32, u32)> {
    let windows = scene.windows(foot.from_ms, foot.to_ms);
    let told = windows
        .iter()
        .filter(|window| body(window) != Body::Unknown)
        .count();
    if told * 2 >= windows.len() {
        return None;
    }
    let before = scene.level_before(foot)?;
    let levels = scene.height.levels(foot.from_ms, foot.to_ms);
    let away_m = |height_m: f32| (height_m - before.height_m).abs();
    let farthest = levels
        .iter()
        .max_by(|a, b| away_m(a.height_m).total_cmp(&away_m(b.height_m)))?;
    if away_m(farthest.height_m) < FLOOR_M_MIN {
        return None;
    }
    let is_there = |height_m: f32| (height_m - farthest.height_m).abs() < SAME_FLOOR_M / 2.0;
    let mut span = (farthest.t_ms, farthest.t_ms);
    for level in levels.iter().filter(|level| is_there(level.height_m)) {
        if level.t_ms.saturating_sub(span.1) <= GAP_MS && level.t_ms > span.1 {
            span.1 = level.t_ms;
        }
    }
    for level in levels.iter().rev().filter(|level| is_there(level.height_m)) {
        if span.0.saturating_sub(level.t_ms) <= GAP_MS && level.t_ms < span.0 {
            span.0 = level.t_ms;
        }
    }
    (span.1 - span.0 >= LEAST_MS).then_some(span)
}
