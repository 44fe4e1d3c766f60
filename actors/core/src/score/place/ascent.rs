//! Finds the stays that a courier reached by stairs or an elevator.

use porchlight_schema::event::{Direction, Metadata};

use crate::score::height::rise;
use crate::score::parameters::place::ascent::{SLACK_MS, STOREY_M};
use crate::score::parameters::place::stays::BEFORE_MS;
use crate::score::parameters::place::upstairs::FLOOR_M_MIN;
use crate::score::scoring_context::{FootPeriod, ScoringContext};

/// Returns whether a stay that begins at `from_ms` is on another floor than the start of its period
/// on foot. The climbs between them must add up to at least one storey, and the levels must not
/// contradict that. The levels alone are not enough, because a street may rise. The climbs alone
/// are not enough, because each of them lacks its first and last steps.
pub(super) fn is_on_another_floor(
    ctx: &ScoringContext<'_>,
    foot: FootPeriod,
    from_ms: u32,
) -> bool {
    climbed_m(ctx, foot, from_ms).abs() >= FLOOR_M_MIN && !is_level(ctx, foot, from_ms)
}

/// Returns the sum of the climbs from the start of a period on foot to `until_ms`, in metres,
/// negative for down.
fn climbed_m(ctx: &ScoringContext<'_>, foot: FootPeriod, until_ms: u32) -> f32 {
    let climbs = ctx.climbs().filter(|event| {
        event.t_start_ms >= foot.from_ms && ctx.end_of(event) <= until_ms.saturating_add(SLACK_MS)
    });
    climbs
        .map(|event| match event.metadata {
            Metadata::Climb {
                direction,
                height_cm,
                ..
            } => {
                // Without a barometer only the acceleration shows a ride, and not its height.
                let metres = height_cm.map_or(STOREY_M, |height_cm| height_cm as f32 / 100.0);
                if direction == Direction::Down {
                    -metres
                } else {
                    metres
                }
            }
            _ => 0.0,
        })
        .sum()
}

/// Returns whether the courier has come down by at least one storey since the start of the period
/// on foot.
pub(super) fn is_below_start(ctx: &ScoringContext<'_>, foot: FootPeriod, t_ms: u32) -> bool {
    climbed_m(ctx, foot, t_ms) <= -FLOOR_M_MIN && !is_level(ctx, foot, t_ms)
}

/// Returns whether the level at `from_ms` is that of the start of the period on foot.
fn is_level(ctx: &ScoringContext<'_>, foot: FootPeriod, from_ms: u32) -> bool {
    let now = ctx.height.level(from_ms, from_ms.saturating_add(BEFORE_MS));
    let rise = ctx
        .level_before(foot)
        .zip(now)
        .and_then(|(before, now)| rise(before, now));
    rise.is_some_and(|rise| rise.metres.abs() < FLOOR_M_MIN / 2.0)
}
