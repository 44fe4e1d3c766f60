//! Counts the visits to the door: leaving by 15 m or a floor and coming back starts another visit
//! (contract 5).

use porchlight_schema::event::{EventType, seconds};

use super::doorstep::{Doorstep, Horizontal, Vertical};
use super::earlier_attempt::earlier_attempt;
use super::evidence_log::{EvidenceLog, words};
use super::outcome::{is_near_on_foot, is_stay_at_door};
use super::place::Places;
use super::place::stays::Stay;
use super::scoring_context::{ScoringContext, end_of};
use crate::score::parameters::door::attempts::{
    ASIDE_M, BESIDE_CLEAR_M, BESIDE_CLEAR_SIGMAS, LEFT_HEIGHT_M, LEFT_M, LEFT_SECONDS, LEFT_WALK_M,
};
use crate::score::parameters::place::stays::SAME_FLOOR_M;

/// The visits, and the time at the door during the visit with the drop-off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Attempts {
    pub(crate) visits: u32,
    /// The start and end of the stay at the door with the parcel, if it was observed.
    pub(crate) door: Option<(u32, u32)>,
    /// Time spent at the door within `door`, in milliseconds.
    pub(crate) at_door_ms: u32,
}

pub(crate) fn count(
    scene: &ScoringContext<'_>,
    places: &Places,
    doorstep: &Doorstep,
    ledger: &mut EvidenceLog,
) -> Attempts {
    let Some(door) = stay_at_address(scene, places, doorstep) else {
        let text = "No stay at the address's door was found.";
        ledger.add(
            "attemptCycles",
            "no_visit",
            0.0,
            None,
            words(text, "Not every phone can detect a very short stop."),
        );
        return Attempts::default();
    };
    let mut visits: Vec<Vec<&Stay>> = Vec::new();
    for stay in places
        .stays
        .iter()
        .filter(|stay| is_at(scene, places, door, stay))
    {
        match visits.last_mut() {
            Some(visit)
                if !visit
                    .last()
                    .is_some_and(|last| has_left(scene, door, last, stay)) =>
            {
                visit.push(stay)
            }
            _ => visits.push(vec![stay]),
        }
    }
    let mut handed = Attempts {
        visits: visits.len() as u32,
        ..Attempts::default()
    };
    for (index, visit) in visits.iter().enumerate() {
        let visit = at_the_door(scene, door, visit);
        let (Some(first), Some(last)) = (visit.first(), visit.last()) else {
            continue;
        };
        let span = (first.from_ms, last.to_ms);
        let at_door_ms = visit
            .iter()
            .map(|stay| stay.length_ms())
            .fold(0, u32::saturating_add);
        let length_sec = seconds(at_door_ms);
        let text = format!(
            "Visit {} to the door lasted {} s.",
            index + 1,
            length_sec.round()
        );
        ledger.add(
            "attemptCycles",
            "door_visit",
            1.0,
            Some(span),
            words(text, "A neighbour's door on the same floor looks the same."),
        );
        if !door.by_height && visit.iter().any(|stay| stay.from_ms == door.from_ms) {
            handed.door = Some(span);
            handed.at_door_ms = at_door_ms;
        }
    }
    handed
}

/// Returns the stay at the address's door. It is the stay of the drop-off, or an earlier one if a neighbour took the parcel.
fn stay_at_address<'p>(
    scene: &ScoringContext<'_>,
    places: &'p Places,
    doorstep: &Doorstep,
) -> Option<&'p Stay> {
    let of_drop_off = places.door().filter(|door| {
        is_stay_at_door(scene, places, doorstep.across) && is_at_address(scene, doorstep, door)
    });
    of_drop_off.or_else(|| earlier_attempt(scene, places, doorstep))
}

/// Returns whether the stay of the drop-off may have been at the address's door. A stay at another door is not a visit.
fn is_at_address(scene: &ScoringContext<'_>, doorstep: &Doorstep, door: &Stay) -> bool {
    match doorstep.across {
        Horizontal::Elsewhere => false,
        Horizontal::At | Horizontal::Perhaps if doorstep.up != Vertical::Wrong => true,
        Horizontal::Off if is_clearly_beside(scene, door) => false,
        _ => is_near_on_foot(scene) != Some(false),
    }
}

/// Returns whether the position of a stay near the address is good enough to tell that it was at another door.
fn is_clearly_beside(scene: &ScoringContext<'_>, stay: &Stay) -> bool {
    stay.estimate.is_some_and(|estimate| {
        let (distance_m, sigma_m) = scene.offset_from_address(estimate);
        distance_m >= (BESIDE_CLEAR_SIGMAS * sigma_m).max(BESIDE_CLEAR_M)
    })
}

/// Returns the stays of a visit that were at the door itself. A stay some steps before or after it
/// in the same visit was a pause on the way, for a gate or a call, unless the app recorded
/// something there.
fn at_the_door<'v, 's>(
    scene: &ScoringContext<'_>,
    door: &Stay,
    visit: &'v [&'s Stay],
) -> &'v [&'s Stay] {
    let Some(place) = visit.iter().position(|stay| stay.from_ms == door.from_ms) else {
        return visit;
    };
    let is_one = |a: &Stay, b: &Stay, other: &Stay| {
        other.marked
            || other.arrived
            || scene
                .walked_m(a.to_ms, b.from_ms)
                .is_some_and(|walked_m| walked_m <= ASIDE_M)
    };
    let pairs = |range: core::ops::Range<usize>| visit.get(range).unwrap_or_default().windows(2);
    let before = pairs(0..place + 1)
        .rev()
        .take_while(|pair| matches!(pair, [a, b] if is_one(a, b, a)))
        .count();
    let after = pairs(place..visit.len())
        .take_while(|pair| matches!(pair, [a, b] if is_one(a, b, b)))
        .count();
    visit.get(place - before..=place + after).unwrap_or(visit)
}

/// Returns whether `stay` was at the same door: the same place within position accuracy, the same
/// floor, and not at the vehicle.
fn is_at(scene: &ScoringContext<'_>, places: &Places, door: &Stay, stay: &Stay) -> bool {
    if stay.from_ms == door.from_ms {
        return true;
    }
    if stay.passage || stay.before_ride {
        return false;
    }
    if let (Some(a), Some(b)) = (door.height_m, stay.height_m)
        && (a - b).abs() >= SAME_FLOOR_M
    {
        return false;
    }
    let (Some(a), Some(b)) = (door.estimate, stay.estimate) else {
        return false;
    };
    let apart_m = a.place.distance_m(b.place);
    let uncertain_m = (a.sigma_m * a.sigma_m + b.sigma_m * b.sigma_m).sqrt();
    // If the courier reported his arrival, the door may be a little farther off than the positions
    // agree.
    let within_m = if stay.arrived || stay.marked {
        3.0
    } else {
        2.0
    } * uncertain_m.min(2.0 * LEFT_M);
    if apart_m > LEFT_M.max(within_m) {
        return false;
    }
    // Indoor positions are unreliable: if the courier went in for one stay, he went in for the
    // other too.
    let climbed = places.entrance.is_some() && door.height_m.is_none();
    if climbed && uncertain_m > 2.0 * LEFT_M {
        return false;
    }
    let parked = super::place::foot_at(scene, stay.from_ms).and_then(|foot| foot.parked_ms);
    let vehicle = parked.and_then(|at_ms| scene.estimate(at_ms.saturating_sub(5_000), at_ms));
    // After the drop-off the courier returns to the vehicle; a stay that may be there is not
    // another visit.
    let after_m = if stay.from_ms > door.to_ms && !stay.marked {
        LEFT_M
    } else {
        0.0
    };
    vehicle.is_none_or(|vehicle| b.place.distance_m(vehicle.place) >= apart_m + after_m)
}

/// Returns whether the courier left the door between two stays at it.
fn has_left(scene: &ScoringContext<'_>, door: &Stay, before: &Stay, after: &Stay) -> bool {
    let (from_ms, to_ms) = (before.to_ms, after.from_ms);
    let drove = scene
        .events(EventType::Driving)
        .any(|event| event.t_start_ms < to_ms && end_of(event, scene.end_ms) > from_ms);
    if drove {
        return true;
    }
    if let Some(height_m) = door.height_m {
        let away = scene.height.levels(from_ms, to_ms).iter();
        if away
            .filter(|level| (level.height_m - height_m).abs() >= LEFT_HEIGHT_M)
            .count()
            >= LEFT_SECONDS
        {
            return true;
        }
    }
    let walked_far = scene
        .walked_m(from_ms, to_ms)
        .is_some_and(|walked_m| walked_m >= LEFT_WALK_M);
    let Some(estimate) = door.estimate else {
        return walked_far;
    };
    let mut away = scene.fixes(from_ms, to_ms).iter();
    let seen_away = away.any(|fix| {
        fix.place.distance_m(estimate.place) > LEFT_M + fix.accuracy_m.max(estimate.sigma_m)
    });
    seen_away || walked_far
}
