//! Finds stays on another floor that are not detected as stops, because only the height shows them
//! or because they are short.

use porchlight_schema::event::{Direction, Metadata};

use super::ascent;
use crate::score::parameters::place::stays::SAME_FLOOR_M;
use crate::score::parameters::place::upstairs::{FLOOR_M_MIN, GAP_MS, RESTS_MS_MIN, STAY_MS_MIN};
use crate::score::scoring_context::{BodyState, FootPeriod, ScoringContext, body_state};

/// Returns the time that a courier spent on the floor farthest from the start of the period on
/// foot, in milliseconds since the session's start: on that floor the courier went to a door.
/// Returns `None` if a body sensor measured most of the period, because its stops are then known,
/// or if the courier reached no other floor.
pub(super) fn time_on_farthest_floor(
    ctx: &ScoringContext<'_>,
    foot: FootPeriod,
) -> Option<(u32, u32)> {
    let windows = ctx.windows(foot.from_ms, foot.to_ms);
    let known = windows
        .iter()
        .filter(|window| body_state(window) != BodyState::Unknown)
        .count();
    if known * 2 >= windows.len() {
        return None;
    }
    let before = ctx.level_before(foot)?;
    let levels = ctx.height.levels(foot.from_ms, foot.to_ms);
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
    (span.1 - span.0 >= STAY_MS_MIN).then_some(span)
}

/// Returns the longest rest between a climb and the next one in the other direction, on another
/// floor than the start of the period on foot. The courier turned round there, so it was at a door,
/// even if the rest was shorter than a stop.
pub(super) fn rest_at_turn(ctx: &ScoringContext<'_>, foot: FootPeriod) -> Option<(u32, u32)> {
    let mut climbs: Vec<(u32, u32, Direction)> = ctx
        .climbs()
        .filter(|event| event.t_start_ms >= foot.from_ms && event.t_start_ms < foot.to_ms)
        .filter_map(|event| match event.metadata {
            Metadata::Climb { direction, .. } => {
                Some((event.t_start_ms, ctx.end_of(event), direction))
            }
            _ => None,
        })
        .collect();
    climbs.sort_by_key(|climb| climb.0);
    let turns = climbs.windows(2).filter_map(|pair| match pair {
        [one, next] if one.2 != next.2 => Some((one.1, next.0)),
        _ => None,
    });
    turns
        .filter(|turn| ascent::is_on_another_floor(ctx, foot, turn.1))
        .filter_map(|turn| longest_rest(ctx, turn))
        .max_by_key(|rest| rest.1 - rest.0)
}

/// Returns the longest time in which the body was still, at least [`RESTS_MS_MIN`].
fn longest_rest(ctx: &ScoringContext<'_>, (from_ms, to_ms): (u32, u32)) -> Option<(u32, u32)> {
    let windows = ctx.windows(from_ms, to_ms);
    let rests = windows.split(|window| body_state(window) != BodyState::Still);
    rests
        .filter_map(|rest| Some((rest.first()?.t_ms, rest.last()?.end_ms())))
        .filter(|rest| rest.1 - rest.0 >= RESTS_MS_MIN)
        .max_by_key(|rest| rest.1 - rest.0)
}
