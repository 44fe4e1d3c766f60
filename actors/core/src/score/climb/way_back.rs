//! Finds evidence against a measured rise: a higher way back, or a change of the level before the
//! rise without any detected climb.

use super::elevator::{self, has_unexplained_rise};
use super::{climbs, signed_height_m};
use crate::floors::{Estimate, FloorMatch};
use crate::score::height::Rise;
use crate::score::parameters::door::outcome::LEVEL_M;
use crate::score::parameters::door::way_back::HIGHER_M;
use crate::score::parameters::place::open_way::WAY_M;
use crate::score::place::Places;
use crate::score::scoring_context::{FootPeriod, ScoringContext};

/// Evidence against the measured rise.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Doubt {
    /// The climbs of the way back are this many metres high, negative for down.
    Higher(f32),
    /// The level changed by a floor or more before the rise, but no climb was detected.
    Unexplained,
}

/// Returns the evidence against a rise between two times in a period on foot, from which `estimate`
/// follows, unless the estimate confirms the floor of the address.
pub(super) fn doubt(
    ctx: &ScoringContext<'_>,
    places: &Places,
    foot: FootPeriod,
    (from_ms, to_ms): (u32, u32),
    (rise, estimate): (Rise, &Estimate),
) -> Option<Doubt> {
    let verdict = ctx
        .input
        .context
        .floor
        .map(|floor| estimate.compare(floor).0);
    if verdict == Some(FloorMatch::Right) {
        return None;
    }
    let left_ms = places.door_stay().map_or(to_ms, |stay| stay.to_ms);
    if let Some(back_m) = height_m(ctx, (left_ms, foot.to_ms))
        && rise.metres.abs() >= LEVEL_M
        && rise.metres * back_m < 0.0
        && back_m.abs() - rise.metres.abs() > HIGHER_M
    {
        return Some(Doubt::Higher(back_m));
    }
    let is_unexplained = verdict == Some(FloorMatch::Wrong)
        && elevator::rides(ctx, places).next().is_none()
        && has_unexplained_rise(ctx, (foot.from_ms, from_ms));
    is_unexplained.then_some(Doubt::Unexplained)
}

/// Returns the height of the way back to the street: the climbs in one direction, each of which
/// follows the one before within the length of a corridor.
fn height_m(ctx: &ScoringContext<'_>, (left_ms, to_ms): (u32, u32)) -> Option<f32> {
    let mut sum_m = 0.0;
    let mut last_ms = left_ms;
    for climb in climbs(ctx, left_ms, to_ms) {
        let metres = signed_height_m(climb)?;
        let is_next = ctx
            .walked_m(last_ms, climb.t_start_ms)
            .is_some_and(|walked_m| walked_m <= WAY_M);
        if sum_m * metres < 0.0 || !is_next {
            break;
        }
        sum_m += metres;
        last_ms = ctx.end_of(climb);
    }
    (sum_m != 0.0).then_some(sum_m)
}
