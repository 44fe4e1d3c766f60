//! Detects a vehicle near the address with the phone still in it.

use porchlight_schema::event::EventType;

use super::{DropOffSign, Places};
use crate::score::parameters::place::halt::{
    FENCE_M, HALT_IN_TRAFFIC_MS, HALT_MS, HALT_PROVED_MS, STANDS_M,
};
use crate::score::position::Estimate;
use crate::score::scoring_context::{ScoringContext, end_of, overlap_ms};
use crate::window::Fix;

/// A time in which the vehicle stood.
#[derive(Debug, Clone, Copy)]
struct Halt {
    from_ms: u32,
    to_ms: u32,
    least_ms: u32,
    drove_on: bool,
}

/// Returns a halt near the address in which the phone did not move on foot, although the app
/// reported a drop-off or the vehicle drove on. The phone was then left in the vehicle, which is
/// common, and shows nothing about the courier's actions.
pub(super) fn not_carried(scene: &ScoringContext<'_>, places: &Places) -> Option<(u32, u32)> {
    let is_near = |estimate: Estimate| {
        let (distance_m, sigma_m) = scene.offset_from_address(estimate);
        distance_m <= FENCE_M + sigma_m
    };
    // A phone that was at the door on foot was carried; the halt was in traffic.
    let at_door = places.drop_off.filter(|drop_off| drop_off.on_foot);
    if at_door
        .and_then(|drop_off| drop_off.estimate)
        .is_some_and(is_near)
    {
        return None;
    }
    let marked = places
        .drop_off
        .filter(|drop_off| drop_off.sign != DropOffSign::Stay);
    let proved = |halt: &Halt| match marked {
        Some(drop_off) => (halt.from_ms..=halt.to_ms).contains(&drop_off.at_ms),
        None => scene.input.pod.is_some(),
    };
    halts(scene).into_iter().find_map(|halt| {
        let span = (halt.from_ms, halt.to_ms);
        let walked = scene
            .feet
            .iter()
            .any(|foot| overlap_ms((foot.from_ms, foot.to_ms), span) > 0);
        let proved = proved(&halt);
        let least_ms = match halt.least_ms {
            _ if marked.is_some() && proved => HALT_PROVED_MS,
            // Without body sensors, getting out cannot be detected.
            least_ms if is_body_unheard(scene, span) => least_ms.min(HALT_MS),
            least_ms => least_ms,
        };
        let long = halt.to_ms.saturating_sub(halt.from_ms) >= least_ms;
        if walked || !long || !(halt.drove_on || proved) {
            return None;
        }
        let until_ms = halt.from_ms.saturating_add(HALT_MS).min(halt.to_ms);
        let estimate = scene.estimate(halt.from_ms, until_ms)?;
        is_near(estimate).then_some(span)
    })
}

fn is_body_unheard(scene: &ScoringContext<'_>, (from_ms, to_ms): (u32, u32)) -> bool {
    scene
        .windows(from_ms, to_ms)
        .iter()
        .all(|window| !window.hears_body())
}

/// Returns the times between two drives and after the last one, and the long halts within them.
fn halts(scene: &ScoringContext<'_>) -> Vec<Halt> {
    let drives = scene.events(EventType::Driving);
    let drives: Vec<(u32, u32)> = drives
        .map(|event| (event.t_start_ms, end_of(event, scene.end_ms)))
        .collect();
    let mut halts = Vec::new();
    for (index, &(from_ms, to_ms)) in drives.iter().enumerate() {
        halts.extend(halts_within(scene.fixes(from_ms, to_ms)));
        let next_ms = drives.get(index + 1).map(|next| next.0);
        halts.push(Halt {
            from_ms: to_ms,
            to_ms: next_ms.unwrap_or(scene.end_ms),
            least_ms: HALT_MS,
            drove_on: next_ms.is_some(),
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
        drove_on: true,
    }
}
