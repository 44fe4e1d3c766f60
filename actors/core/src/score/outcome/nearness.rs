//! Determines whether the courier was within the surroundings of the address, and which positions
//! can show it.

use porchlight_schema::event::EventType;

use crate::geo::Place;
use crate::score::parameters::door::outcome::{
    BETTER_FIX_MS, BETTER_FIX_TIMES, LOCATED_MS, NEAR_ACCURACY_M, NEAR_MS_MIN, RUN_MPS,
    SURROUNDINGS_M, UNSEEN_WALK_MS,
};
use crate::score::position::SIGMA_M_MIN;
use crate::score::scoring_context::{FootPeriod, ScoringContext};
use crate::window::Fix;

/// Returns whether a position is accurate enough to show whether it was near the address.
fn is_accurate(fix: &Fix) -> bool {
    fix.accuracy_m <= NEAR_ACCURACY_M
}

/// Returns whether an accurate position shows where a walk was: one during it, or shortly before or
/// after.
pub(super) fn is_located(ctx: &ScoringContext<'_>, foot: FootPeriod) -> bool {
    let from_ms = foot.from_ms.saturating_sub(LOCATED_MS);
    let to_ms = foot.to_ms.saturating_add(LOCATED_MS);
    ctx.aged_fixes(from_ms, to_ms).any(|fix| is_accurate(&fix))
}

/// Returns the distance of a fix from the address, and by how much it exceeds the surroundings and
/// the uncertainty.
fn beyond_surroundings_m(ctx: &ScoringContext<'_>, fix: &Fix) -> (f32, f32) {
    let address_m = ctx.input.context.accuracy_m;
    let uncertain_m = (fix.accuracy_m * fix.accuracy_m + address_m * address_m).sqrt();
    let distance_m = fix.place.distance_m(Place::default());
    (distance_m, distance_m - SURROUNDINGS_M - uncertain_m)
}

fn fixes_on_foot(ctx: &ScoringContext<'_>) -> impl Iterator<Item = Fix> {
    ctx.foot_periods
        .iter()
        .flat_map(|foot| ctx.aged_fixes(foot.from_ms, foot.to_ms.saturating_add(1)))
}

/// The nearest approach to the address on foot, according to the accurate fixes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct NearestOnFoot {
    /// The time of the nearest fix.
    pub(super) t_ms: u32,
    /// The distance of the nearest fix from the address, in metres.
    pub(super) distance_m: f32,
    /// The least number of metres by which a fix exceeds the surroundings and its uncertainty.
    away_m: f32,
}

impl NearestOnFoot {
    /// Returns whether the courier came within the surroundings.
    pub(super) fn is_within(&self) -> bool {
        self.away_m <= 0.0
    }
}

/// Returns how near the courier came on foot, or `None` without an accurate fix. An inaccurate fix
/// may be the one within the surroundings, while another one is the nearest.
pub(super) fn nearest_on_foot(ctx: &ScoringContext<'_>) -> Option<NearestOnFoot> {
    let fixes = fixes_on_foot(ctx).filter(is_accurate);
    let each = fixes.map(|fix| {
        let (distance_m, away_m) = beyond_surroundings_m(ctx, &fix);
        NearestOnFoot {
            t_ms: fix.t_ms,
            distance_m,
            away_m: away_m.max(least_away_m(ctx, &fix)),
        }
    });
    each.reduce(|a, b| {
        let nearest = if b.distance_m < a.distance_m { b } else { a };
        NearestOnFoot {
            away_m: a.away_m.min(b.away_m),
            ..nearest
        }
    })
}

/// Returns whether the positions on foot leave open that the courier was within the surroundings.
pub(super) fn may_have_been_near(ctx: &ScoringContext<'_>) -> bool {
    is_perhaps_near(ctx)
        || ctx
            .foot_periods
            .iter()
            .any(|&foot| may_have_gone_there(ctx, foot))
}

/// Returns whether a fix on foot is so inaccurate that the courier may have been within the
/// surroundings, and no better fix shows that this was not so.
fn is_perhaps_near(ctx: &ScoringContext<'_>) -> bool {
    fixes_on_foot(ctx)
        .filter(|fix| !is_accurate(fix))
        .any(|fix| {
            beyond_surroundings_m(ctx, &fix)
                .1
                .max(least_away_m(ctx, &fix))
                <= 0.0
        })
}

/// Returns whether the courier walked far enough between two accurate fixes to reach the
/// surroundings and to come to the place of the later fix. Before the first and after the last
/// accurate fix, only one of the two distances counts.
fn may_have_gone_there(ctx: &ScoringContext<'_>, foot: FootPeriod) -> bool {
    let from_ms = foot.from_ms.saturating_sub(LOCATED_MS);
    let to_ms = foot.to_ms.saturating_add(LOCATED_MS);
    let accurate: Vec<Fix> = ctx.aged_fixes(from_ms, to_ms).filter(is_accurate).collect();
    let ends = [None]
        .into_iter()
        .chain(accurate.iter().map(Some))
        .chain([None]);
    let away_m = |fix: &Fix| beyond_surroundings_m(ctx, fix).1.max(0.0);
    ends.clone().zip(ends.skip(1)).any(|(before, after)| {
        let from_ms = before.map_or(foot.from_ms, |fix| fix.t_ms.max(foot.from_ms));
        let to_ms = after.map_or(foot.to_ms, |fix| fix.t_ms.min(foot.to_ms));
        let way_m = before.map_or(0.0, away_m) + after.map_or(0.0, away_m);
        to_ms.saturating_sub(from_ms) >= UNSEEN_WALK_MS
            && ctx
                .walked_m(from_ms, to_ms)
                .is_some_and(|walked_m| walked_m >= way_m)
    })
}

/// Returns the least distance by which a fix lies outside the surroundings. Much better fixes just
/// before and after it bound the distance that the courier can have walked.
fn least_away_m(ctx: &ScoringContext<'_>, fix: &Fix) -> f32 {
    let from_ms = fix.t_ms.saturating_sub(BETTER_FIX_MS);
    let better = ctx
        .aged_fixes(from_ms, fix.t_ms.saturating_add(BETTER_FIX_MS))
        .filter(|other| other.accuracy_m.max(SIGMA_M_MIN) * BETTER_FIX_TIMES <= fix.accuracy_m);
    better
        .map(|other| {
            let walked_m = RUN_MPS * other.t_ms.abs_diff(fix.t_ms) as f32 / 1_000.0;
            beyond_surroundings_m(ctx, &other).1 - walked_m
        })
        .fold(f32::NEG_INFINITY, f32::max)
}

/// Returns whether the courier came on foot within the address's surroundings, or `None` if no
/// position on foot shows it.
pub(crate) fn is_near_on_foot(ctx: &ScoringContext<'_>) -> Option<bool> {
    nearest_on_foot(ctx).map(|nearest| nearest.is_within())
}

/// Returns a time within the surroundings in which the phone neither drove nor was seen on foot.
pub(super) fn near_somehow(ctx: &ScoringContext<'_>) -> Option<(u32, u32)> {
    let mut drives: Vec<(u32, u32)> = ctx.spans(EventType::Driving).collect();
    drives.sort_unstable();
    let drives_at = |t_ms: u32| {
        let next = drives.partition_point(|span| span.0 <= t_ms);
        let last = next.checked_sub(1).and_then(|index| drives.get(index));
        last.is_some_and(|span| t_ms <= span.1)
    };
    let mut near = ctx.fixes.iter().filter(|fix| {
        is_accurate(fix) && beyond_surroundings_m(ctx, fix).1 <= 0.0 && !drives_at(fix.t_ms)
    });
    let first = near.next()?;
    let last = near.next_back()?;
    (last.t_ms.saturating_sub(first.t_ms) >= NEAR_MS_MIN).then_some((first.t_ms, last.t_ms))
}
