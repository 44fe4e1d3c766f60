//! Detects that the vehicle stood near the address while the phone was left in it.

use porchlight_schema::event::EventType;

use super::{DropOffSource, Places, proof_at};
use crate::score::parameters::place::halt::{
    FENCE_M, HALT_IN_TRAFFIC_MS, HALT_MS, HALT_PROVED_MS, STANDS_M,
};
use crate::score::position::Estimate;
use crate::score::scoring_context::{ScoringContext, overlap_ms};
use crate::window::Fix;

/// A time for which the vehicle stood still.
#[derive(Debug, Clone, Copy)]
struct Halt {
    from_ms: u32,
    to_ms: u32,
    /// The length from which the courier may have gone to the door.
    least_ms: u32,
    has_driven_on: bool,
}

/// Returns a halt near the address in which the phone did not move on foot, although the app
/// reported a drop-off or sent its proof, or the vehicle drove on. The phone was then left in the
/// vehicle, which is common, and shows nothing about the courier's actions.
pub(super) fn not_carried(ctx: &ScoringContext<'_>, places: &Places) -> Option<(u32, u32)> {
    let is_near = |estimate: Estimate| {
        let (distance_m, sigma_m) = ctx.offset_from_address(estimate);
        distance_m <= FENCE_M + sigma_m
    };
    // A phone that was at the door on foot was carried; the halt was in traffic.
    let at_door = places.drop_off.filter(|drop_off| drop_off.is_on_foot);
    if at_door
        .and_then(|drop_off| drop_off.estimate)
        .is_some_and(is_near)
    {
        return None;
    }
    let marked = places
        .drop_off
        .filter(|drop_off| drop_off.source != DropOffSource::Stay);
    let claimed_ms = marked.map(|drop_off| drop_off.at_ms).or(proof_at(ctx));
    let is_claimed =
        |halt: &Halt| claimed_ms.is_some_and(|at_ms| (halt.from_ms..=halt.to_ms).contains(&at_ms));
    halts(ctx).into_iter().find_map(|halt| {
        let span = (halt.from_ms, halt.to_ms);
        let walked = ctx
            .foot_periods
            .iter()
            .any(|foot| overlap_ms((foot.from_ms, foot.to_ms), span) > 0);
        let is_claimed = is_claimed(&halt);
        let is_proved = is_claimed || (marked.is_none() && ctx.input.pod.is_some());
        let least_ms = match halt.least_ms {
            _ if is_claimed => HALT_PROVED_MS,
            // Without body sensors, getting out cannot be detected.
            least_ms if is_body_unmeasured(ctx, span) => least_ms.min(HALT_MS),
            least_ms => least_ms,
        };
        let long = halt.to_ms.saturating_sub(halt.from_ms) >= least_ms;
        if walked || !long || !(halt.has_driven_on || is_proved) {
            return None;
        }
        let until_ms = halt.from_ms.saturating_add(HALT_MS).min(halt.to_ms);
        let estimate = ctx.estimate(halt.from_ms, until_ms)?;
        is_near(estimate).then_some(span)
    })
}

/// Returns whether no body sensor sent data in the span.
fn is_body_unmeasured(ctx: &ScoringContext<'_>, (from_ms, to_ms): (u32, u32)) -> bool {
    ctx.windows(from_ms, to_ms)
        .iter()
        .all(|window| !window.has_body_data())
}

/// Returns the times between two drives and after the last one, and the long halts within them.
fn halts(ctx: &ScoringContext<'_>) -> Vec<Halt> {
    let drives = ctx.events(EventType::Driving);
    let drives: Vec<(u32, u32)> = drives.map(|event| ctx.span_of(event)).collect();
    let mut halts = Vec::new();
    for (index, &(from_ms, to_ms)) in drives.iter().enumerate() {
        halts.extend(halts_within(ctx.fixes(from_ms, to_ms)));
        let next_ms = drives.get(index + 1).map(|next| next.0);
        halts.push(Halt {
            from_ms: to_ms,
            to_ms: next_ms.unwrap_or(ctx.end_ms),
            least_ms: HALT_MS,
            has_driven_on: next_ms.is_some(),
        });
    }
    halts
}

/// Returns the times in which the positions of a drive stay in one place.
fn halts_within(fixes: &[Fix]) -> Vec<Halt> {
    let mut halts = Vec::new();
    let mut began: Option<Fix> = None;
    let mut last_ms = 0;
    for fix in fixes {
        match began {
            Some(first) if first.place.distance_m(fix.place) <= STANDS_M.max(first.accuracy_m) => {}
            _ => {
                halts.extend(began.map(|first| halt_within(first, last_ms)));
                began = Some(*fix);
            }
        }
        last_ms = fix.t_ms;
    }
    halts.extend(began.map(|first| halt_within(first, last_ms)));
    halts
}

fn halt_within(first: Fix, to_ms: u32) -> Halt {
    Halt {
        from_ms: first.t_ms,
        to_ms,
        least_ms: HALT_IN_TRAFFIC_MS,
        has_driven_on: true,
    }
}
