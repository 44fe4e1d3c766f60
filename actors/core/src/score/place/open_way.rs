//! Finds the last long way in the open before the door: floors behind it do not count.
//!
//! A courier who parks on a deck goes down to the street and along it to the house. The floors of
//! the deck are not those of the house.

use porchlight_schema::event::EventType;

use crate::score::parameters::place::open_way::{ACCURACY_M, WAY_M};
use crate::score::scoring_context::{FootPeriod, ScoringContext, event_end_ms};

/// Returns the time at which the last long way in the open after a change of floors and before
/// `until_ms` began; 0 if there is none, or no vehicle was parked.
pub(crate) fn since_ms(ctx: &ScoringContext<'_>, foot: FootPeriod, until_ms: u32) -> u32 {
    if foot.parked_ms.is_none() {
        return 0;
    }
    let mut next_ms = until_ms;
    let mut climbs: Vec<(u32, u32)> = ctx
        .events(EventType::Stairs)
        .chain(ctx.events(EventType::Elevator))
        .map(|event| (event.t_start_ms, event_end_ms(event, ctx.end_ms)))
        .filter(|climb| climb.0 >= foot.from_ms && climb.1 <= until_ms)
        .collect();
    climbs.sort_unstable();
    climbs
        .into_iter()
        .rev()
        .find_map(|(begun_ms, ended_ms)| {
            let way = (ended_ms, next_ms);
            next_ms = begun_ms;
            begin_of_way_ms(ctx, way)
        })
        .unwrap_or(0)
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
