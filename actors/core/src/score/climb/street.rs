//! Checks the level of the ground against that of the street, if a part of the way up was not
//! recorded.

use porchlight_schema::event::EventType;

use super::{climbs, sum_m};
use crate::score::height::{Level, Rise, rise};
use crate::score::parameters::door::climb::{AGREE_M, INSTANT_MS};
use crate::score::parameters::door::street::{
    HOLE_MS, OUTDOORS_ACCURACY_M, OUTDOORS_FIXES, STREET_MS,
};
use crate::score::parameters::place::stays::SAME_FLOOR_M;
use crate::score::scoring_context::{FootPeriod, ScoringContext};

/// The level of the street in relation to that of the ground from which the climb was measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Street {
    /// Nothing shows that the ground is not that of the street.
    Agrees,
    /// The street is on another level, as the way back confirms. This is the rise from it.
    Below(Rise),
    /// A part of the way up was not recorded, and the level of the street is unknown.
    Unknown,
}

/// Checks the level of the ground if pressure was missing before it (a *hole*), or if the session
/// began indoors. `door` is the start of the stay at the drop-off, and its level.
pub(super) fn check(
    ctx: &ScoringContext<'_>,
    foot: FootPeriod,
    door: (u32, Level),
    ground: Option<Level>,
) -> Street {
    let ground_ms = ground.map_or(door.0, |ground| ground.t_ms.min(door.0));
    let hole = hole(ctx, foot, door.0).filter(|hole| hole.0 <= ground_ms);
    if hole.is_none() && !began_indoors(ctx, foot, door.0) {
        return Street::Agrees;
    }
    let before = hole.and_then(|hole| {
        let from_ms = hole.0.saturating_sub(STREET_MS);
        let since_ms = foot.parked_ms.unwrap_or(foot.from_ms);
        ctx.height.level(from_ms.max(since_ms), hole.0)
    });
    let streets = [before, level_after(ctx, foot)];
    let is_ground = |street: &Level| {
        ground.is_some_and(|ground| (street.height_m - ground.height_m).abs() < SAME_FLOOR_M)
    };
    if streets.iter().flatten().any(is_ground) {
        return Street::Agrees;
    }
    let back = climbs(ctx, door.0.saturating_add(INSTANT_MS), foot.to_ms);
    let back_m = sum_m(&back);
    let confirmed = streets.into_iter().flatten().find_map(|street| {
        let rise = rise(street, door.1)?;
        (rise.metres + back_m?).abs().le(&AGREE_M).then_some(rise)
    });
    match confirmed {
        Some(rise) if !back.is_empty() => Street::Below(rise),
        // Under the open sky after the hole, the courier was still in the street.
        _ if hole.is_some_and(|hole| is_outdoors(ctx, hole.1, ground_ms)) => Street::Agrees,
        _ => Street::Unknown,
    }
}

/// Returns the first time without pressure on the way from the vehicle to the door.
fn hole(ctx: &ScoringContext<'_>, foot: FootPeriod, door_ms: u32) -> Option<(u32, u32)> {
    let from_ms = foot.parked_ms.unwrap_or(foot.from_ms).min(foot.from_ms);
    first_hole(ctx, (from_ms, door_ms.saturating_add(INSTANT_MS)))
}

/// Returns the first hole of a span: a time of at least [`HOLE_MS`] without pressure. It begins at
/// the last reading before it, or at the start of the span, and ends at the first reading after it.
pub(super) fn first_hole(
    ctx: &ScoringContext<'_>,
    (from_ms, to_ms): (u32, u32),
) -> Option<(u32, u32)> {
    let levels = ctx.height.levels(from_ms, to_ms);
    let times = || levels.iter().map(|level| level.t_ms);
    [from_ms]
        .into_iter()
        .chain(times())
        .zip(times())
        .find(|(before_ms, next_ms)| next_ms.saturating_sub(*before_ms) >= HOLE_MS)
}

/// Returns the level of the street after the way back: the level at which the vehicle drives away.
fn level_after(ctx: &ScoringContext<'_>, foot: FootPeriod) -> Option<Level> {
    let departed_ms = ctx
        .events(EventType::Driving)
        .map(|drive| drive.t_start_ms)
        .find(|&start_ms| start_ms >= foot.to_ms)?;
    ctx.height
        .level(departed_ms.saturating_sub(STREET_MS), departed_ms)
}

/// Returns whether the session began on foot in a building, above or below the street: no position
/// was as good as under the open sky up to the door, and no whole climb led there. A climb in the
/// first seconds was under way already.
fn began_indoors(ctx: &ScoringContext<'_>, foot: FootPeriod, door_ms: u32) -> bool {
    let is_lost = ctx
        .poor_reception()
        .any(|event| event.t_start_ms <= door_ms);
    let climbs = climbs(ctx, 0, door_ms);
    let is_incomplete = climbs
        .first()
        .is_none_or(|first| first.t_start_ms <= INSTANT_MS);
    let fixes = ctx.fixes(0, door_ms);
    let is_vague =
        !fixes.is_empty() && fixes.iter().all(|fix| fix.accuracy_m > OUTDOORS_ACCURACY_M);
    foot.parked_ms.is_none()
        && (is_lost || is_vague)
        && is_incomplete
        && !is_outdoors(ctx, 0, door_ms)
}

/// Returns whether positions show that the phone was under the open sky in a span.
fn is_outdoors(ctx: &ScoringContext<'_>, from_ms: u32, to_ms: u32) -> bool {
    let fixes = ctx.fixes(from_ms, to_ms);
    let good = fixes
        .iter()
        .filter(|fix| fix.accuracy_m <= OUTDOORS_ACCURACY_M);
    good.count() >= OUTDOORS_FIXES
}
