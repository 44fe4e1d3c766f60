//! Finds the last long way in the open before the door: floors behind it do not count.
//!
//! A courier who parks on a deck goes down to the street and along it to the building of the
//! address. The floors of the deck are not floors of that building, and neither are those of the
//! previous customer's building, in which a courier on foot starts the session.

use porchlight_schema::event::{Direction, Event, Metadata};

use super::ascent;
use crate::score::parameters::place::open_way::{ACCURACY_M, WAY_M};
use crate::score::scoring_context::{FootPeriod, ScoringContext};

/// Returns the time at which the last long way in the open after a change of floors and before
/// `until_ms` began; 0 if there is none. If no vehicle was parked, it counts only if the courier
/// came down to it, or came out of a building: a long upper floor with good reception looks like
/// the open. Without a long way, the ground is where a courier who began the session in a building
/// came down before going up again.
pub(crate) fn since_ms(ctx: &ScoringContext<'_>, foot: FootPeriod, until_ms: u32) -> u32 {
    let mut next: Option<&Event> = None;
    let mut climbs: Vec<&Event> = ctx
        .climbs()
        .filter(|event| event.t_start_ms >= foot.from_ms && ctx.end_of(event) <= until_ms)
        .collect();
    climbs.sort_unstable_by_key(|event| event.t_start_ms);
    climbs
        .into_iter()
        .rev()
        .find_map(|climb| {
            let ended_ms = ctx.end_of(climb);
            let next = next.replace(climb);
            let way = (ended_ms, next.map_or(until_ms, |next| next.t_start_ms));
            let begin_ms = begin_of_way_ms(ctx, way);
            if foot.parked_ms.is_some() {
                return begin_ms;
            }
            let is_below_start = ascent::is_below_start(ctx, foot, ended_ms);
            let began_inside = began_inside(ctx, foot, ended_ms);
            let turns_up = is_to(climb, Direction::Down)
                && next.is_some_and(|next| is_to(next, Direction::Up));
            begin_ms
                .filter(|_| is_below_start || began_inside)
                .or((is_below_start && began_inside && turns_up).then_some(ended_ms))
        })
        .unwrap_or(0)
}

fn is_to(climb: &Event, wanted: Direction) -> bool {
    matches!(climb.metadata, Metadata::Climb { direction, .. } if direction == wanted)
}

/// Returns whether the courier was in a building from the start of the period on foot until the end
/// of a climb: good reception was half as frequent as fixes were later, or less.
fn began_inside(ctx: &ScoringContext<'_>, foot: FootPeriod, ended_ms: u32) -> bool {
    let before = ctx.fixes(foot.from_ms, ended_ms).iter();
    let good = before.filter(|fix| fix.accuracy_m <= ACCURACY_M).count() as u64;
    let later = ctx.fixes(ended_ms, foot.to_ms).len() as u64;
    let (before_ms, later_ms) = (
        u64::from(ended_ms.saturating_sub(foot.from_ms)),
        u64::from(foot.to_ms.saturating_sub(ended_ms)),
    );
    good * 2 * later_ms < later * before_ms
}

/// Returns the time of the first fix of a way in the open that is too long for a building.
fn begin_of_way_ms(ctx: &ScoringContext<'_>, (from_ms, to_ms): (u32, u32)) -> Option<u32> {
    let fixes = ctx.fixes(from_ms, to_ms);
    let good = || fixes.iter().filter(|fix| fix.accuracy_m <= ACCURACY_M);
    let first = good().next()?;
    let is_far = good().any(|fix| {
        let apart_m = fix.place.distance_m(first.place);
        apart_m >= WAY_M + first.accuracy_m.max(fix.accuracy_m)
            && ctx
                .walked_m(first.t_ms, fix.t_ms)
                .is_some_and(|walked_m| walked_m >= WAY_M)
    });
    let since_first = fixes.iter().filter(|fix| fix.t_ms >= first.t_ms).count();
    (is_far && good().count() * 2 > since_first).then_some(first.t_ms)
}
