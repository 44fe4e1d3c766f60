//! Covers the silences of a channel that are not a loss of data.

use porchlight_schema::sample::{Kind, SystemName};

use super::{BIN_MS, Bins};
use crate::geo::Place;
use crate::score::parameters::door::silence::{BUILDING_M, REPEATED_SHARE};
use crate::score::place::Places;
use crate::score::scoring_context::{ScoringContext, overlap_ms};

/// Covers the silences of a step counter that reports on change (contract 3) and is the only body
/// sensor. While it is silent and other samples arrive, the courier makes no step.
pub(super) fn cover_uncounted(ctx: &ScoringContext<'_>, motion: &mut Bins, stream: &Bins) {
    let context = ctx.input.context;
    let windows = || ctx.input.windows.iter();
    let has_motion = windows().any(|window| window.motion.is_some());
    let readings = windows().filter(|window| window.steps.is_some()).count();
    let repeated = windows().filter(|window| window.steps == Some(0)).count();
    let reports_on_change = repeated <= 1 + readings / REPEATED_SHARE;
    if !context.declares(Kind::Steps)
        || context.declares(Kind::Motion)
        || context.declares(Kind::Imu)
        || has_motion
        || ctx.has_lost_sensor()
        || !reports_on_change
    {
        return;
    }
    let first = windows().find(|window| window.steps.is_some());
    let Some(from_ms) = first.map(|window| window.t_ms) else {
        return;
    };
    let mut t_ms = from_ms - from_ms % BIN_MS;
    while t_ms < ctx.end_ms {
        if stream.has_sample(t_ms) {
            motion.cover(t_ms);
        }
        t_ms = t_ms.saturating_add(BIN_MS);
    }
}

/// Covers the bins without a fix inside a building if the body or the pressure was measured,
/// because these show the path.
pub(super) fn cover_indoors(
    ctx: &ScoringContext<'_>,
    places: &Places,
    position: &mut Bins,
    (motion, pressure): (&Bins, &Bins),
) {
    for event in ctx.poor_reception() {
        let (from_ms, to_ms) = ctx.span_of(event);
        if !is_in_building(ctx, places, (from_ms, to_ms)) {
            continue;
        }
        let mut t_ms = from_ms;
        while t_ms <= to_ms {
            if (motion.has_sample(t_ms) || pressure.has_sample(t_ms)) && !is_switched_off(ctx, t_ms)
            {
                position.cover(t_ms);
            }
            t_ms = t_ms.saturating_add(BIN_MS);
        }
    }
}

/// Returns whether a building caused the loss of reception: the courier was on foot, and near the
/// address, near the drop-off, or climbing.
fn is_in_building(ctx: &ScoringContext<'_>, places: &Places, span: (u32, u32)) -> bool {
    if ctx.driving_at(span.0).is_some()
        || ctx
            .foot_periods
            .iter()
            .all(|foot| overlap_ms((foot.from_ms, foot.to_ms), span) == 0)
    {
        return false;
    }
    if ctx
        .climbs()
        .any(|event| overlap_ms(ctx.span_of(event), span) > 0)
    {
        return true;
    }
    let Some(last) = ctx.fixes(0, span.0.saturating_add(1)).last() else {
        return false;
    };
    let door = places
        .drop_off
        .and_then(|drop_off| drop_off.estimate)
        .map(|estimate| estimate.place);
    let near_m = BUILDING_M + last.accuracy_m;
    [Some(Place::default()), door]
        .into_iter()
        .flatten()
        .any(|place| last.place.distance_m(place) <= near_m)
}

/// Returns whether location was switched off at `t_ms`. Missing fixes are then a loss in any place.
fn is_switched_off(ctx: &ScoringContext<'_>, t_ms: u32) -> bool {
    let mut off = false;
    for &(at_ms, name) in ctx.input.system {
        if at_ms > t_ms {
            break;
        }
        match name {
            SystemName::LocationOff | SystemName::PermissionLost => off = true,
            SystemName::LocationOn => off = false,
            _ => {}
        }
    }
    off
}
