//! Finds the level of the ground, from which the rise to the drop-off is measured.

use porchlight_schema::event::Event;

use super::street::{self, Street};
use super::{climbs, is_climbing_through, leap, lost, sum_m};
use crate::score::height::{Level, Rise, rise};
use crate::score::parameters::door::climb::{
    AGREE_M, DOOR_MS, FOOT_MS, GROUND_MS, HALL_MS, INSTANT_MS, STEEP_M, STEEP_MS, UNEXPLAINED_M,
};
use crate::score::place::Places;
use crate::score::scoring_context::{FootPeriod, ScoringContext, overlap_ms};

/// The rise from the ground to the drop-off.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct MeasuredRise {
    pub(super) rise: Rise,
    /// The rise of the detected climbs alone in metres, if a part of the climb was too slow to be
    /// detected.
    pub(super) detected_m: Option<f32>,
}

/// The result of measuring the rise by pressure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Height {
    Measured(MeasuredRise),
    /// The level of the ground or of the drop-off is missing.
    Unmeasured,
    /// A part of the way up was not recorded, so the climbs are incomplete as well.
    GroundUnknown,
}

/// Measures the rise by pressure. With an entrance it is the difference of the two levels, as long
/// as the climbs between them agree. Otherwise only the climbs count, because a street may rise
/// too.
pub(super) fn measure(
    ctx: &ScoringContext<'_>,
    places: &Places,
    (from_ms, to_ms): (u32, u32),
    foot: FootPeriod,
) -> Height {
    let door = door_span(places, to_ms);
    let Some(door_level) = ctx.height.level(door.0, door.1) else {
        return Height::Unmeasured;
    };
    let climbs = climbs(ctx, from_ms, to_ms);
    let lost = climbs
        .first()
        .and_then(|first| lost::undetected_before(ctx, foot, first));
    let door_in_climb = climbs
        .first()
        .filter(|_| lost.is_none())
        .and_then(|first| leap::door_in_climb(ctx, first.t_start_ms));
    let first_climb_ms = climbs.first().map_or(to_ms, |event| event.t_start_ms);
    let begun_ms = lost.map_or(first_climb_ms, |lost| lost.from_ms);
    let ground = match door_in_climb {
        Some(door) => leap::level_inside(ctx, door.inside_ms),
        None => ground(
            ctx,
            places,
            (from_ms.min(begun_ms), begun_ms),
            if lost.is_some() { HALL_MS } else { GROUND_MS },
            foot,
            &climbs,
        ),
    };
    match street::check(ctx, foot, (door.0, door_level), ground) {
        Street::Agrees => {}
        Street::Below(rise) => {
            return Height::Measured(MeasuredRise {
                rise,
                detected_m: None,
            });
        }
        Street::Unknown => return Height::GroundUnknown,
    }
    let by_levels = ground.and_then(|ground| rise(ground, door_level));
    // A climb that goes on after the drop-off hides how much of it led there.
    let stay = places.door_stay();
    let dropped = stay.map_or((to_ms, to_ms), |stay| (stay.from_ms, stay.to_ms));
    let detected_m = sum_m(&climbs).filter(|_| !is_climbing_through(ctx, dropped));
    let lost_m = lost.map_or(0.0, |lost| lost.metres);
    let leap_m = door_in_climb.map_or(0.0, |door| door.leap_m);
    let by_climbs = detected_m.map(|detected_m| detected_m + lost_m - leap_m);
    let rise = agreed_rise(
        ctx,
        places,
        (from_ms, to_ms),
        (by_levels, by_climbs),
        lost.is_some(),
    );
    rise.map_or(Height::Unmeasured, |rise| {
        Height::Measured(MeasuredRise {
            rise,
            detected_m: lost.and(detected_m),
        })
    })
}

/// Returns the rise on which the levels and the climbs agree. `is_partly_lost` says
/// that a part of the climb was too slow to be detected.
fn agreed_rise(
    ctx: &ScoringContext<'_>,
    places: &Places,
    span: (u32, u32),
    (by_levels, by_climbs): (Option<Rise>, Option<f32>),
    is_partly_lost: bool,
) -> Option<Rise> {
    let is_timed = places.entrance.is_some_and(|entrance| entrance.is_timed());
    let may_be_incomplete = || is_steep(ctx, span) || street::first_hole(ctx, span).is_some();
    match (by_levels, by_climbs) {
        // A climb was not detected, or pressure was missing during it: the shares of climb and
        // street in the difference are unknown.
        (Some(levels), Some(climbed))
            if places.entrance.is_none()
                && (levels.metres - climbed).abs() > UNEXPLAINED_M
                && may_be_incomplete() =>
        {
            None
        }
        (Some(levels), Some(climbed)) if places.entrance.is_none() => Some(Rise {
            metres: climbed,
            sigma_m: levels.sigma_m,
        }),
        (Some(levels), Some(climbed)) if (levels.metres - climbed).abs() <= AGREE_M => Some(levels),
        // If they disagree, the levels are more reliable, provided that the entrance is known by
        // more than the climb itself, or a part of the climb was too slow to be detected.
        (Some(levels), Some(climbed)) => Some(if is_timed || is_partly_lost {
            levels
        } else {
            Rise {
                metres: climbed,
                ..levels
            }
        }),
        (levels, None) => levels,
        (None, Some(_)) => None,
    }
}

/// Returns the span of the stay at the drop-off, or the time around a drop-off without a stay.
fn door_span(places: &Places, to_ms: u32) -> (u32, u32) {
    let around = (
        to_ms.saturating_sub(INSTANT_MS),
        to_ms.saturating_add(INSTANT_MS),
    );
    let stay = places.door_stay();
    stay.map_or(around, |stay| (stay.from_ms, stay.to_ms))
}

/// Returns the level of the ground, from which the climb begins at `begun_ms`. It is the level of
/// the hall, or else of the street in the time `street_ms` before the entrance.
fn ground(
    ctx: &ScoringContext<'_>,
    places: &Places,
    (from_ms, begun_ms): (u32, u32),
    street_ms: u32,
    foot: FootPeriod,
    climbs: &[&Event],
) -> Option<Level> {
    let entrance = places.entrance.filter(|entrance| entrance.is_timed());
    // Indoor air pressure differs from that of the street: after some seconds in the hall, the
    // hall's level counts. While pressure was missing, the climb may have begun.
    let hall = || {
        let entrance = entrance.filter(|_| !climbs.is_empty())?;
        let from_ms = entrance.at_ms.saturating_add(DOOR_MS);
        let to_ms = begun_ms.saturating_sub(FOOT_MS);
        let hole = street::first_hole(ctx, (from_ms, begun_ms));
        let until_ms = hole.map_or(to_ms, |(last_ms, _)| last_ms.saturating_add(1));
        ctx.height.level(from_ms, until_ms.min(to_ms))
    };
    // Without a climb nothing separates the hall from a floor that was reached unnoticed, except
    // that the pressure leaps at a door.
    let behind_door = || {
        let inside_ms = leap::inside_door_ms(ctx, entrance?.at_ms, begun_ms)?;
        let to_ms = inside_ms.saturating_add(HALL_MS);
        ctx.height.level(inside_ms, to_ms)
    };
    let street = || {
        let from_ground_ms = from_ms
            .saturating_sub(street_ms)
            .max(foot.from_ms.saturating_sub(street_ms));
        let to_ms = from_ms
            .saturating_add(HALL_MS)
            .min(begun_ms.max(from_ms.saturating_add(1_000)));
        ctx.height.level(from_ground_ms, to_ms)
    };
    hall().or_else(behind_door).or_else(street)
}

/// Returns whether the level changes faster than on a street, outside of any detected climb.
fn is_steep(ctx: &ScoringContext<'_>, (from_ms, to_ms): (u32, u32)) -> bool {
    let seen = climbs(ctx, from_ms, to_ms);
    let mut at_ms = from_ms;
    while at_ms < to_ms {
        let span = (at_ms, at_ms.saturating_add(STEEP_MS).min(to_ms));
        let is_seen = seen
            .iter()
            .any(|event| overlap_ms(ctx.span_of(event), span) > 0);
        let levels = ctx.height.levels(span.0, span.1);
        if let (Some(first), Some(last)) = (levels.first(), levels.last())
            && !is_seen
            && (last.height_m - first.height_m).abs() > STEEP_M
        {
            return true;
        }
        at_ms = at_ms.saturating_add(STEEP_MS / 2);
    }
    false
}
