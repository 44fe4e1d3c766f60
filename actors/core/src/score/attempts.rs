//! Counts the visits to the door: leaving by 15 m or a floor and coming back starts another visit
//! (contract 5).

use porchlight_schema::event::{Direction, EventType, Metadata, seconds};
use porchlight_schema::insight::ReasonCode;

use super::doorstep::{Doorstep, Horizontal, Vertical};
use super::earlier_attempt::earlier_attempt;
use super::evidence_log::{EvidenceLog, EvidenceText};
use super::outcome::{is_near_on_foot, is_stay_at_door};
use super::place::stays::Stay;
use super::place::{Places, arrival};
use super::scoring_context::{BodyState, ScoringContext, body_state, overlap_ms};
use crate::score::parameters::door::attempts::{
    ASIDE_M, BESIDE_CLEAR_M, BESIDE_CLEAR_SIGMAS, LEFT_HEIGHT_M, LEFT_M, LEFT_SECONDS, LEFT_WALK_M,
    PARKED_BEFORE_MS, SAME_DOOR_MARKED_SIGMAS, SAME_DOOR_SIGMAS,
};
use crate::score::parameters::place::stays::{BEFORE_MS, SAME_FLOOR_M, SEPARATED_MS};

/// The visits, and the time at the door during the visit with the drop-off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Attempts {
    pub(crate) visits: u32,
    /// The start and end of the stay at the door with the parcel, if it was observed.
    pub(crate) door: Option<(u32, u32)>,
    /// The time spent at the door within `door`, in milliseconds.
    pub(crate) at_door_ms: u32,
}

/// Counts the visits to the address's door, and adds the evidence of each.
pub(crate) fn count(
    ctx: &ScoringContext<'_>,
    places: &Places,
    doorstep: &Doorstep,
    outcome: ReasonCode,
    evidence: &mut EvidenceLog,
) -> Attempts {
    // A courier who was not seen near the address may have visited any door.
    let is_unseen = matches!(
        outcome,
        ReasonCode::NoAttempt | ReasonCode::PossibleNoAttempt
    );
    let door = stay_at_address(ctx, places, doorstep).filter(|_| !is_unseen);
    let Some(door) = door else {
        return without_stay(places, doorstep, evidence);
    };
    let mut visits: Vec<Vec<&Stay>> = Vec::new();
    for stay in places
        .stays
        .iter()
        .filter(|stay| is_at_same_door(ctx, places, door, stay))
    {
        match visits.last_mut() {
            Some(visit)
                if !visit
                    .last()
                    .is_some_and(|last| has_left(ctx, door, last, stay)) =>
            {
                visit.push(stay)
            }
            _ => visits.push(vec![stay]),
        }
    }
    let mut counted = Attempts {
        visits: visits.len() as u32,
        ..Attempts::default()
    };
    for (index, visit) in visits.iter().enumerate() {
        let visit = stays_at_door(ctx, door, visit);
        let (Some(first), Some(last)) = (visit.first(), visit.last()) else {
            continue;
        };
        let span = (first.from_ms, last.to_ms);
        let at_door_ms = at_door_ms(ctx, places, visit);
        let length_sec = seconds(at_door_ms);
        let text = format!(
            "Visit {} to the door lasted {} s.",
            index + 1,
            length_sec.round()
        );
        evidence.add(
            "attemptCycles",
            "door_visit",
            1.0,
            Some(span),
            EvidenceText::new(text, "A neighbour's door on the same floor looks the same."),
        );
        if !door.is_by_height && visit.iter().any(|stay| stay.from_ms == door.from_ms) {
            counted.door = Some(span);
            counted.at_door_ms = at_door_ms;
        }
    }
    counted
}

/// Returns the visits without a stay at the address's door: the drop-off, if it was there.
fn without_stay(places: &Places, doorstep: &Doorstep, evidence: &mut EvidenceLog) -> Attempts {
    let drop_off = places.drop_off.filter(|_| doorstep.is_right);
    let (signal, text) = match drop_off {
        Some(_) => (
            "drop_off",
            "The drop-off was at the address's door, but no stay there was found.",
        ),
        None => ("no_visit", "No stay at the address's door was found."),
    };
    let span = drop_off.map(|drop_off| (drop_off.at_ms, drop_off.at_ms));
    let text = EvidenceText::new(text, "Not every phone can detect a very short stop.");
    let visits = u32::from(drop_off.is_some());
    evidence.add("attemptCycles", signal, visits.into(), span, text);
    Attempts {
        visits,
        ..Attempts::default()
    }
}

/// Returns the stay at the address's door. It is the stay of the drop-off, or another one if a
/// neighbour took the parcel.
fn stay_at_address<'p>(
    ctx: &ScoringContext<'_>,
    places: &'p Places,
    doorstep: &Doorstep,
) -> Option<&'p Stay> {
    let of_drop_off = places.door_stay().filter(|door| {
        is_stay_at_door(ctx, places, doorstep.horizontal) && is_at_address(ctx, doorstep, door)
    });
    of_drop_off.or_else(|| earlier_attempt(ctx, places, doorstep))
}

/// Returns whether the stay of the drop-off may have been at the address's door. A stay at another
/// door is not a visit.
fn is_at_address(ctx: &ScoringContext<'_>, doorstep: &Doorstep, door: &Stay) -> bool {
    match doorstep.horizontal {
        Horizontal::Elsewhere => false,
        Horizontal::At | Horizontal::Perhaps if doorstep.vertical != Vertical::Wrong => true,
        Horizontal::Off if is_clearly_beside(ctx, door) => false,
        _ => is_near_on_foot(ctx) != Some(false),
    }
}

/// Returns whether the position of a stay near the address is accurate enough to show that it was
/// at another door.
fn is_clearly_beside(ctx: &ScoringContext<'_>, stay: &Stay) -> bool {
    stay.estimate.is_some_and(|estimate| {
        let (distance_m, sigma_m) = ctx.offset_from_address(estimate);
        distance_m >= (BESIDE_CLEAR_SIGMAS * sigma_m).max(BESIDE_CLEAR_M)
    })
}

/// Returns the stays of a visit that were at the door itself. A stay some steps before or after it
/// in the same visit was a pause on the way, for a gate or a call, unless the app sent a mark
/// there.
fn stays_at_door<'v, 's>(
    ctx: &ScoringContext<'_>,
    door: &Stay,
    visit: &'v [&'s Stay],
) -> &'v [&'s Stay] {
    let Some(place) = visit.iter().position(|stay| stay.from_ms == door.from_ms) else {
        return visit;
    };
    let is_at_one_door = |a: &Stay, b: &Stay| {
        ctx.walked_m(a.to_ms, b.from_ms)
            .is_some_and(|walked_m| walked_m <= ASIDE_M)
            || is_paced(ctx, a, b)
    };
    // A courier who paces gives the parcel in the last of several stays, shortly after the others.
    // Behind the door's stay the courier is on the way back, and the mark in that stay says nothing
    // about a later one.
    let is_reported = |before: &Stay| before.is_marked || before.has_arrival_mark;
    let pairs = |range: core::ops::Range<usize>| visit.get(range).unwrap_or_default().windows(2);
    let before = pairs(0..place + 1)
        .rev()
        .take_while(|pair| matches!(pair, [a, b] if is_reported(a) || is_at_one_door(a, b)))
        .count();
    let after = pairs(place..visit.len())
        .take_while(|pair| matches!(pair, [a, b] if b.has_own_mark || is_at_one_door(a, b)))
        .count();
    visit.get(place - before..=place + after).unwrap_or(visit)
}

/// Returns the time spent at the door in a visit, in milliseconds. A courier who paces between two
/// stays has not left the door.
fn at_door_ms(ctx: &ScoringContext<'_>, places: &Places, visit: &[&Stay]) -> u32 {
    let is_between =
        |a: &Stay, b: &Stay, other: &Stay| a.to_ms <= other.from_ms && other.to_ms <= b.from_ms;
    let stayed = visit.iter().map(|stay| stay.length_ms());
    let paced = visit.windows(2).filter_map(|pair| match pair {
        [a, b] => {
            let stayed_elsewhere = places.stays.iter().any(|other| is_between(a, b, other));
            (!stayed_elsewhere && is_paced(ctx, a, b)).then(|| b.from_ms.saturating_sub(a.to_ms))
        }
        _ => None,
    });
    stayed.chain(paced).fold(0, u32::saturating_add)
}

/// Returns whether the courier paced between two stays in the open. Walks, each too short to leave
/// a door, alternate with pauses. The positions show no progress: they are nearer to each other
/// than their uncertainty, or than half of the distance walked.
fn is_paced(ctx: &ScoringContext<'_>, a: &Stay, b: &Stay) -> bool {
    let (Some(from), Some(to)) = (a.estimate, b.estimate) else {
        return false;
    };
    let walked_m = |from_ms: u32, to_ms: u32| ctx.walked_m(from_ms, to_ms).unwrap_or(0.0);
    let uncertain_m = libm::hypotf(from.sigma_m, to.sigma_m);
    let is_back =
        from.place.distance_m(to.place) <= uncertain_m.max(walked_m(a.to_ms, b.from_ms) / 2.0);
    if !is_back {
        return false;
    }
    let walks = walks_between(ctx, a, b);
    walks.len() > 1
        && walks.iter().all(|walk| walked_m(walk.0, walk.1) < LEFT_M)
        && !ctx.is_indoors(a.to_ms, b.from_ms)
}

/// Returns the walks between two stays, with pauses between them.
fn walks_between(ctx: &ScoringContext<'_>, a: &Stay, b: &Stay) -> Vec<(u32, u32)> {
    let mut walks: Vec<(u32, u32)> = Vec::new();
    let mut is_walking = false;
    for window in ctx.windows(a.to_ms, b.from_ms) {
        match (body_state(window), walks.last_mut()) {
            (BodyState::Moving, Some(walk)) if is_walking => walk.1 = window.end_ms(),
            (BodyState::Moving, _) => {
                walks.push((window.t_ms, window.end_ms()));
                is_walking = true;
            }
            (BodyState::Still, _) => is_walking = false,
            (BodyState::Unknown, _) => {}
        }
    }
    walks
}

/// Returns whether `stay` was at the same door: the same place within position accuracy, the same
/// floor, and not at the vehicle.
fn is_at_same_door(ctx: &ScoringContext<'_>, places: &Places, door: &Stay, stay: &Stay) -> bool {
    if stay.from_ms == door.from_ms {
        return true;
    }
    let (first, second) = if stay.from_ms < door.from_ms {
        (stay, door)
    } else {
        (door, stay)
    };
    let is_passage = stay.is_passage && !is_paced(ctx, first, second);
    if stay.is_before_ride || (is_passage && !is_left_for(ctx, door, stay)) {
        return false;
    }
    if !stay.is_marked && !stay.has_arrival_mark && arrival::is_driven_to(ctx, stay) {
        return false;
    }
    if is_before_entrance(ctx, places, door, stay) {
        return false;
    }
    if let (Some(a), Some(b)) = (door.height_m, stay.height_m)
        && (a - b).abs() >= SAME_FLOOR_M
    {
        return false;
    }
    if door.height_m.is_none() && is_other_floor_by_events(ctx, first, second) {
        return false;
    }
    let (Some(a), Some(b)) = (door.estimate, stay.estimate) else {
        return false;
    };
    let apart_m = a.place.distance_m(b.place);
    let uncertain_m = (a.sigma_m * a.sigma_m + b.sigma_m * b.sigma_m).sqrt();
    // A stay that the courier reported may be a little farther from the door: its position is then
    // more likely off.
    let within_m = if stay.has_arrival_mark || stay.is_marked {
        SAME_DOOR_MARKED_SIGMAS
    } else {
        SAME_DOOR_SIGMAS
    } * uncertain_m.min(2.0 * LEFT_M);
    let within_m = if is_passage { 0.0 } else { within_m };
    if apart_m > LEFT_M.max(within_m) {
        return false;
    }
    // Indoor positions are unreliable, and without a height nothing else separates two doors.
    let is_indoors = places.entrance.is_some() && door.height_m.is_none();
    if is_indoors && uncertain_m > 2.0 * LEFT_M {
        return false;
    }
    let parked = super::place::foot_period_at(ctx, stay.from_ms)
        .and_then(|foot| foot.parked_ms)
        // If the height shows another floor than that of the vehicle, positions do not count.
        .filter(|&at_ms| {
            let parked = (at_ms, at_ms.saturating_add(BEFORE_MS));
            !ctx.height
                .differ_in_floor(parked, (stay.from_ms, stay.to_ms))
        });
    let vehicle =
        parked.and_then(|at_ms| ctx.estimate(at_ms.saturating_sub(PARKED_BEFORE_MS), at_ms));
    // After the drop-off the courier returns to the vehicle; a stay that may be there is not
    // another visit.
    let after_m = if stay.from_ms > door.to_ms && !stay.is_marked {
        LEFT_M
    } else {
        0.0
    };
    vehicle.is_none_or(|vehicle| b.place.distance_m(vehicle.place) >= apart_m + after_m)
}

/// Returns whether the climbs and rides between two stays show that the stays are on different
/// floors. Where no pressure was measured, nothing else does.
fn is_other_floor_by_events(ctx: &ScoringContext<'_>, first: &Stay, second: &Stay) -> bool {
    let between = (first.to_ms, second.from_ms);
    let directions = ctx
        .climbs()
        .filter(|event| overlap_ms(ctx.span_of(event), between) > SEPARATED_MS)
        .filter_map(|event| match event.metadata {
            Metadata::Climb { direction, .. } => Some(direction),
            _ => None,
        });
    lead_elsewhere(directions)
}

/// Returns whether climbs and rides all lead up, or all lead down. One climb may be several events,
/// so climbs in both directions may lead back to the same floor.
fn lead_elsewhere(directions: impl Iterator<Item = Direction>) -> bool {
    let (mut up, mut down) = (false, false);
    for direction in directions {
        match direction {
            Direction::Up => up = true,
            Direction::Down => down = true,
        }
    }
    up != down
}

/// Returns whether a stay was outside the building in which the door is: it ended before the
/// entrance, and reception was good. If the height of the door is known, that decides instead.
fn is_before_entrance(ctx: &ScoringContext<'_>, places: &Places, door: &Stay, stay: &Stay) -> bool {
    let is_poor = || {
        ctx.poor_reception()
            .map(|event| ctx.span_of(event))
            .any(|poor| overlap_ms(poor, (stay.from_ms, stay.to_ms)) > 0)
    };
    let is_early = places.entrance.is_some_and(|entrance| {
        entrance.is_timed() && stay.to_ms <= entrance.at_ms && entrance.at_ms <= door.from_ms
    });
    is_early && door.height_m.is_none() && !stay.is_marked && !is_poor()
}

/// Returns whether the courier was seen away from the door between the door's stay and another one.
/// A gate on the way is followed by the door. A short stay at the door itself looks like a gate,
/// but the courier goes away after it and comes back.
fn is_left_for(ctx: &ScoringContext<'_>, door: &Stay, stay: &Stay) -> bool {
    if stay.from_ms < door.from_ms {
        is_seen_away(ctx, door, stay, door)
    } else {
        is_seen_away(ctx, door, door, stay)
    }
}

/// Returns whether the courier left the door between two stays there.
fn has_left(ctx: &ScoringContext<'_>, door: &Stay, before: &Stay, after: &Stay) -> bool {
    let walked_m = ctx.walked_m(before.to_ms, after.from_ms);
    let has_walked = walked_m.is_some_and(|walked_m| walked_m >= LEFT_WALK_M);
    (has_walked && !is_paced(ctx, before, after)) || is_seen_away(ctx, door, before, after)
}

/// Returns whether a drive, the height or a fix shows the courier away from the door between two
/// stays.
fn is_seen_away(ctx: &ScoringContext<'_>, door: &Stay, before: &Stay, after: &Stay) -> bool {
    let (from_ms, to_ms) = (before.to_ms, after.from_ms);
    let drove = ctx
        .events(EventType::Driving)
        .any(|event| event.t_start_ms < to_ms && ctx.end_of(event) > from_ms);
    if drove {
        return true;
    }
    if let Some(height_m) = door.height_m {
        let away = ctx.height.levels(from_ms, to_ms).iter();
        if away
            .filter(|level| (level.height_m - height_m).abs() >= LEFT_HEIGHT_M)
            .count()
            >= LEFT_SECONDS
        {
            return true;
        }
    }
    let Some(estimate) = door.estimate else {
        return false;
    };
    let mut away = ctx.fixes(from_ms, to_ms).iter();
    away.any(|fix| {
        fix.place.distance_m(estimate.place) > LEFT_M + fix.accuracy_m.max(estimate.sigma_m)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The detector splits stairs at long landings, so one floor down and up again may be two
    /// events down and three up.
    #[test]
    fn only_climbs_in_one_direction_lead_to_another_floor() {
        let (up, down) = (Direction::Up, Direction::Down);
        for (directions, expected) in [
            (&[][..], false),
            (&[up], true),
            (&[down, down], true),
            (&[down, up], false),
            (&[down, down, up, up, up], false),
        ] {
            let found = lead_elsewhere(directions.iter().copied());
            assert_eq!(found, expected, "{directions:?}");
        }
    }
}
