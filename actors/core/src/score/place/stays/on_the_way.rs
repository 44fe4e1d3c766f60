//! Recognises the stays on the way to a floor and back: rests on a landing, and stops of a cabin
//! that the courier does not leave.

use porchlight_schema::event::EventType;

use super::{Stay, walked_ms};
use crate::score::parameters::place::stays::{CABIN_MS, SAME_FLOOR_M, STEPS_AWAY_MS};
use crate::score::scoring_context::{FootPeriod, ScoringContext};

/// Returns whether a stay without a mark is a rest on the way to one of the stays in `upstairs`, or
/// back from it. The courier then climbed farther in the same direction, or did not leave the
/// cabin.
pub(super) fn is_rest(
    ctx: &ScoringContext<'_>,
    foot: FootPeriod,
    stay: &Stay,
    upstairs: &[Stay],
) -> bool {
    !stay.is_marked
        && (is_passed(ctx, foot, stay, upstairs)
            || (is_in_cabin(ctx, stay) && upstairs.iter().any(|other| !is_in_cabin(ctx, other))))
}

/// Returns whether another stay that is no shorter is farther from the level of the start in the
/// same direction.
fn is_passed(ctx: &ScoringContext<'_>, foot: FootPeriod, stay: &Stay, upstairs: &[Stay]) -> bool {
    let start = ctx.level_before(foot).map(|level| level.height_m);
    let Some((start_m, own_m)) = start.zip(stay.height_m) else {
        return false;
    };
    let own_m = own_m - start_m;
    let is_farther = |other: &Stay| {
        let rise_m = other.height_m.map(|height_m| height_m - start_m);
        rise_m.is_some_and(|rise_m| {
            rise_m * own_m > 0.0 && rise_m.abs() >= own_m.abs() + SAME_FLOOR_M
        })
    };
    upstairs.iter().any(|other| {
        other.length_ms() >= stay.length_ms() && is_farther(other) && !is_in_cabin(ctx, other)
    })
}

/// Returns whether a ride leads to the stay and the next one from it, and the courier does not walk
/// in between. A phone that does not record the body shows no steps.
fn is_in_cabin(ctx: &ScoringContext<'_>, stay: &Stay) -> bool {
    let rides = || ctx.spans(EventType::Elevator);
    let arrived_ms = rides()
        .map(|ride| ride.1)
        .find(|&ended_ms| ended_ms.abs_diff(stay.from_ms) <= CABIN_MS);
    let left_ms = rides()
        .map(|ride| ride.0)
        .find(|&begun_ms| begun_ms.abs_diff(stay.to_ms) <= CABIN_MS);
    let Some(span) = arrived_ms.zip(left_ms) else {
        return false;
    };
    let windows = ctx.windows(span.0, span.1);
    let felt = windows.iter().filter(|window| window.has_body_data());
    felt.count() * 2 >= windows.len() && walked_ms(ctx, span) < STEPS_AWAY_MS
}
