//! Finds the stays on foot, and rates how much each looks like the one at the door.

mod marked;

use porchlight_schema::event::EventType;

pub(crate) use marked::add_marked;

use super::ascent;
use crate::geo::Place;
use crate::score::MarkName;
use crate::score::height::{Level, rise};
use crate::score::parameters::place::stays::{
    DOOR_LEAST_MS, ELEVATOR_WAIT_MS, FIDGET_MS, GATE_CONFIDENCE_LEAST, MARKED_LEAST_MS,
    MARKED_SPAN_MS, MERGED_MS, MERGED_WALK_M, REVERSAL_M, SAME_FLOOR_M, STEPS_AWAY_MS, USUAL_MS,
    WAY_TO_WAIT_MS,
};
use crate::score::parameters::weights::stay as points;
use crate::score::position::Estimate;
use crate::score::scoring_context::{Body, Foot, ScoringContext, body, end_of, overlap_ms};
use crate::window::WINDOW_MS;

/// A stay on foot at one place.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Stay {
    pub(crate) from_ms: u32,
    pub(crate) to_ms: u32,
    pub(crate) estimate: Option<Estimate>,
    /// Height above the first pressure, in metres.
    pub(crate) height_m: Option<f32>,
    /// The points for looking like the stay at the door.
    pub(crate) points: f64,
    /// Whether a drop-off mark lies in or next to the stay.
    pub(crate) marked: bool,
    /// Whether the courier reported the arrival at this stay.
    pub(crate) arrived: bool,
    /// Whether the stay is a pause at a gate or before an elevator.
    pub(crate) passage: bool,
    /// Whether the courier enters an elevator from the stay.
    pub(crate) before_ride: bool,
    /// Whether only the height shows the stay; the part of its time spent at a door is then
    /// unknown.
    pub(crate) by_height: bool,
}

impl Stay {
    pub(crate) fn length_ms(&self) -> u32 {
        self.to_ms.saturating_sub(self.from_ms)
    }
}

/// Finds the stops within the periods on foot, and joins stops that form one stay.
pub(crate) fn find(scene: &ScoringContext<'_>) -> Vec<Stay> {
    let mut spans: Vec<(u32, u32)> = Vec::new();
    let stops = scene.events(EventType::Stopped);
    let mut stops: Vec<(u32, u32)> = stops
        .map(|event| (event.t_start_ms, end_of(event, scene.end_ms)))
        .chain(scene.handled)
        .collect();
    stops.sort_unstable();
    for (from_ms, to_ms) in stops {
        let within = |foot: &Foot| foot.from_ms <= from_ms && to_ms <= foot.to_ms;
        if !scene.feet.iter().any(within) {
            continue;
        }
        match spans.last_mut() {
            Some(last)
                if from_ms.saturating_sub(last.1) <= MERGED_MS
                    && scene
                        .walked_m(last.1, from_ms)
                        .is_some_and(|walked_m| walked_m <= MERGED_WALK_M)
                    && same_floor(scene, *last, (from_ms, to_ms)) =>
            {
                last.1 = last.1.max(to_ms);
            }
            _ => spans.push((from_ms, to_ms)),
        }
    }
    let mut stays: Vec<Stay> = spans
        .into_iter()
        .flat_map(|span| before_the_wait(scene, span))
        .map(|(from_ms, to_ms)| stay(scene, from_ms, to_ms))
        .collect();
    add_upstairs(scene, &mut stays);
    stays
}

/// Adds a stay that only the height shows, if no stop was detected at that time, and a short rest
/// where the courier turned round upstairs, if he stayed nowhere else there.
fn add_upstairs(scene: &ScoringContext<'_>, stays: &mut Vec<Stay>) {
    for &foot in &scene.feet {
        let is_there = |stay: &Stay| {
            foot.from_ms <= stay.from_ms
                && stay.to_ms <= foot.to_ms
                && ascent::is_on_another_floor(scene, foot, stay.from_ms)
        };
        if !stays.iter().any(is_there)
            && let Some((from_ms, to_ms)) = super::upstairs::turned_round(scene, foot)
        {
            stays.push(stay(scene, from_ms, to_ms));
        }
    }
    for (from_ms, to_ms) in scene
        .feet
        .iter()
        .filter_map(|&foot| super::upstairs::find(scene, foot))
    {
        let is_seen = stays
            .iter()
            .any(|stay| overlap_ms((stay.from_ms, stay.to_ms), (from_ms, to_ms)) > 0);
        if !is_seen {
            stays.push(Stay {
                by_height: true,
                ..stay(scene, from_ms, to_ms)
            });
        }
    }
    stays.sort_by_key(|stay| (stay.from_ms, stay.to_ms));
}

/// Cuts a stop that ends in a ride at its longest gait: the few steps from a door to the elevator
/// next to it make no walk, but the wait there is not a stay at the door.
fn before_the_wait(scene: &ScoringContext<'_>, (from_ms, to_ms): (u32, u32)) -> Vec<(u32, u32)> {
    let whole = vec![(from_ms, to_ms)];
    if !ends_in_ride(scene, to_ms) {
        return whole;
    }
    let mut longest: (u32, u32) = (0, 0);
    let mut gait = (0, 0);
    for window in scene.windows(from_ms, to_ms) {
        if body(window) != Body::Moving {
            continue;
        }
        gait = if gait.1 == window.t_ms {
            (gait.0, window.end_ms())
        } else {
            (window.t_ms, window.end_ms())
        };
        if gait.1 - gait.0 > longest.1 - longest.0 {
            longest = gait;
        }
    }
    let parts = [(from_ms, longest.0), (longest.1, to_ms)];
    let both = parts
        .iter()
        .all(|part| part.1.saturating_sub(part.0) >= MARKED_LEAST_MS);
    if both && longest.1 - longest.0 >= STEPS_AWAY_MS {
        parts.to_vec()
    } else {
        whole
    }
}

fn same_floor(scene: &ScoringContext<'_>, a: (u32, u32), b: (u32, u32)) -> bool {
    match (scene.height.level(a.0, a.1), scene.height.level(b.0, b.1)) {
        (Some(a), Some(b)) => (a.height_m - b.height_m).abs() < SAME_FLOOR_M,
        _ => true,
    }
}

fn stay(scene: &ScoringContext<'_>, from_ms: u32, to_ms: u32) -> Stay {
    Stay {
        from_ms,
        to_ms,
        estimate: scene.estimate(from_ms, to_ms),
        height_m: scene
            .height
            .level(from_ms, to_ms)
            .map(|level| level.height_m),
        points: 0.0,
        marked: false,
        arrived: false,
        passage: false,
        before_ride: ends_in_ride(scene, to_ms),
        by_height: false,
    }
}

/// The types of events that part a stay from an instant on another floor or at another place.
pub(crate) const CLIMBS_AND_DRIVES: [EventType; 3] =
    [EventType::Stairs, EventType::Elevator, EventType::Driving];
/// The types of events that part a stay from an instant at another place.
pub(crate) const DRIVES: [EventType; 1] = [EventType::Driving];

/// Returns the stay at an instant, or the nearest one within `near_ms` of it with neither a climb
/// nor a drive between.
pub(crate) fn at(
    scene: &ScoringContext<'_>,
    stays: &[Stay],
    t_ms: u32,
    near_ms: u32,
) -> Option<usize> {
    let away_ms = |stay: &Stay| {
        stay.from_ms
            .saturating_sub(t_ms)
            .max(t_ms.saturating_sub(stay.to_ms))
    };
    let near = stays.iter().enumerate().filter(|(_, stay)| {
        away_ms(stay) <= near_ms
            && (away_ms(stay) == 0 || !are_parted(scene, stay, t_ms, &CLIMBS_AND_DRIVES))
    });
    near.min_by_key(|(_, stay)| away_ms(stay))
        .map(|(index, _)| index)
}

/// Returns whether an event of one of these types lies between a stay and an instant outside it.
pub(crate) fn are_parted(
    scene: &ScoringContext<'_>,
    stay: &Stay,
    t_ms: u32,
    types: &[EventType],
) -> bool {
    let between = (stay.to_ms.min(t_ms), stay.from_ms.max(t_ms));
    scene.timeline.iter().any(|event| {
        types.contains(&event.event_type)
            && overlap_ms((event.t_start_ms, end_of(event, scene.end_ms)), between) > 1_000
    })
}

/// Returns the stay that most resembles a stay at the door, if there is one. Among equals it
/// prefers the longer, then the later stay. It takes a pause that resembles a pause at a gate only
/// if there is no other stay.
pub(crate) fn best(scene: &ScoringContext<'_>, stays: &[Stay]) -> Option<usize> {
    let best_of = |able: &dyn Fn(&Stay) -> bool| {
        let able = stays
            .iter()
            .enumerate()
            .filter(|(_, stay)| stay.points >= points::LEAST && able(stay));
        let by_length = |a: &Stay, b: &Stay| a.length_ms().cmp(&b.length_ms());
        able.max_by(|(_, a), (_, b)| a.points.total_cmp(&b.points).then(by_length(a, b)))
            .map(|(index, _)| index)
    };
    let best = best_of(&|stay| !stay.passage).or_else(|| best_of(&|stay| !stay.before_ride))?;
    // Nobody climbs past the door: a stay on the floor that the courier climbed to is the door,
    // whatever he waited for before or after it on the floor from which he came.
    let foot = stays
        .get(best)
        .and_then(|stay| super::foot_at(scene, stay.from_ms));
    let higher = foot.and_then(|foot| {
        best_of(&|stay| {
            let is_in = foot.from_ms <= stay.from_ms && stay.to_ms <= foot.to_ms;
            is_in
                && !stay.passage
                && super::may_be_at_address(scene, stay)
                && ascent::is_on_another_floor(scene, foot, stay.from_ms)
        })
    });
    higher.or(Some(best))
}

/// Assigns points to every stay.
pub(crate) fn judge(scene: &ScoringContext<'_>, stays: &mut [Stay]) {
    for stay in stays.iter_mut() {
        stay.marked = has_mark(scene, stay, MarkName::is_drop_off);
        stay.arrived = has_mark(scene, stay, |name| name == MarkName::Arrived);
    }
    let all = stays.to_vec();
    for stay in stays.iter_mut() {
        stay.passage = !stay.marked && is_passage(scene, stay, &all);
        stay.points = points_of(scene, stay, &all);
    }
}

fn has_mark(scene: &ScoringContext<'_>, stay: &Stay, wanted: impl Fn(MarkName) -> bool) -> bool {
    let from_ms = stay.from_ms.saturating_sub(super::MARK_NEAR_MS);
    let to_ms = stay.to_ms.saturating_add(super::MARK_NEAR_MS);
    scene
        .input
        .marks
        .iter()
        .any(|&(t_ms, name)| wanted(name) && (from_ms..=to_ms).contains(&t_ms))
}

/// Returns whether the stay is a pause at a gate, or ends in an elevator.
fn is_passage(scene: &ScoringContext<'_>, stay: &Stay, all: &[Stay]) -> bool {
    let span = (stay.from_ms, stay.to_ms);
    let gate = scene.events(EventType::Gate).any(|event| {
        let overlap = overlap_ms((event.t_start_ms, end_of(event, scene.end_ms)), span);
        let is_likely = event.confidence.as_probability() >= GATE_CONFIDENCE_LEAST;
        is_likely && overlap > 0 && u64::from(overlap) * 2 >= u64::from(stay.length_ms())
    });
    (gate && !is_where_he_turned(scene, stay, all)) || waits_for_elevator(scene, stay, all)
}

/// Returns whether the courier turned round at a stay: the courier returned to the vehicle from it,
/// and stayed nowhere else. Then the stay was not a passage, regardless of its other features.
fn is_where_he_turned(scene: &ScoringContext<'_>, stay: &Stay, all: &[Stay]) -> bool {
    let Some(foot) = super::foot_at(scene, stay.from_ms).filter(|foot| foot.parked_ms.is_some())
    else {
        return false;
    };
    let (Some(estimate), Some(origin)) = (stay.estimate, origin(scene, foot)) else {
        return false;
    };
    let own_m = estimate.place.distance_m(origin);
    let later = (stay.to_ms, foot.to_ms);
    let climbs = scene
        .events(EventType::Stairs)
        .chain(scene.events(EventType::Elevator))
        .any(|event| overlap_ms((event.t_start_ms, end_of(event, scene.end_ms)), later) > 0);
    let is_at_vehicle = |other: &Stay| {
        other
            .estimate
            .is_some_and(|other| other.place.distance_m(origin) + REVERSAL_M < own_m)
    };
    !climbs
        && all
            .iter()
            .filter(|other| other.from_ms >= later.0 && other.to_ms <= later.1)
            .all(|other| !other.marked && is_at_vehicle(other))
        && goes_back(scene, foot, None, stay)
}

/// Returns whether the stay ends in a ride and is only the wait for it: either no ride precedes it,
/// so that it leads to the door, or another stay since the latest ride was the one at the door.
fn waits_for_elevator(scene: &ScoringContext<'_>, stay: &Stay, all: &[Stay]) -> bool {
    let before = scene
        .events(EventType::Elevator)
        .filter(|ride| ride.t_start_ms < stay.from_ms);
    let Some(ride_ms) = before.map(|ride| ride.t_start_ms).max() else {
        return stay.before_ride;
    };
    // With a ride behind it and no other stay on that floor, it may be at a door by the elevator.
    stay.before_ride
        && all.iter().any(|other| {
            other.from_ms > ride_ms
                && other.to_ms < stay.from_ms
                && other.length_ms() >= DOOR_LEAST_MS
                && (other.length_ms() > stay.length_ms()
                    || walked_ms(scene, (other.to_ms, stay.from_ms)) >= WAY_TO_WAIT_MS)
        })
}

/// Returns the time of walking within a span, in milliseconds: by the body, or by `WALKING` events on
/// a phone that reports neither steps nor cadence.
fn walked_ms(scene: &ScoringContext<'_>, span: (u32, u32)) -> u32 {
    let windows = scene.windows(span.0, span.1).iter();
    let seconds = windows
        .filter(|window| body(window) == Body::Moving)
        .count() as u32;
    let events = scene
        .events(EventType::Walking)
        .map(|event| overlap_ms((event.t_start_ms, end_of(event, scene.end_ms)), span))
        .fold(0, u32::saturating_add);
    seconds.saturating_mul(WINDOW_MS).max(events)
}

/// Returns whether a ride begins about `t_ms`.
fn ends_in_ride(scene: &ScoringContext<'_>, t_ms: u32) -> bool {
    scene.events(EventType::Elevator).any(|ride| {
        ride.t_start_ms.saturating_add(2_000) >= t_ms
            && ride.t_start_ms <= t_ms.saturating_add(ELEVATOR_WAIT_MS)
    })
}

fn points_of(scene: &ScoringContext<'_>, stay: &Stay, all: &[Stay]) -> f64 {
    let mut sum = 0.0;
    if stay.marked {
        sum += points::MARK;
    } else if stay.arrived {
        sum += points::ARRIVED;
    }
    if USUAL_MS.contains(&stay.length_ms()) {
        sum += points::LENGTH;
    } else if stay.length_ms() <= 600_000 {
        sum += points::LENGTH / 2.0;
    }
    if let Some(estimate) = stay.estimate {
        let (distance_m, sigma_m) = scene.offset_from_address(estimate);
        sum += points::NEAR * (1.0 - f64::from(distance_m / (3.0 * sigma_m).max(50.0))).max(0.0);
    }
    let foot = super::foot_at(scene, stay.from_ms);
    let before = foot.and_then(|foot| scene.level_before(foot));
    if foot.is_some_and(|foot| is_farthest(scene, foot, stay, all)) {
        sum += points::FARTHEST;
    }
    if is_extreme(before, stay, all) {
        sum += points::EXTREME;
    }
    if foot.is_some_and(|foot| goes_back(scene, foot, before, stay)) {
        sum += points::REVERSAL;
    }
    if stay.passage {
        sum += if waits_for_elevator(scene, stay, all) {
            points::ELEVATOR
        } else {
            points::GATE
        };
    }
    sum
}

/// Returns the place where the vehicle of a period on foot was left, or where the period began.
fn origin(scene: &ScoringContext<'_>, foot: Foot) -> Option<Place> {
    let parked_ms = foot.parked_ms.unwrap_or(foot.from_ms);
    let estimate = scene.estimate(
        parked_ms.saturating_sub(5_000),
        foot.from_ms.saturating_add(2_000),
    )?;
    Some(estimate.place)
}

fn is_farthest(scene: &ScoringContext<'_>, foot: Foot, stay: &Stay, all: &[Stay]) -> bool {
    let Some(origin) = origin(scene, foot) else {
        return false;
    };
    let away_m = |stay: &Stay| {
        stay.estimate
            .map_or(0.0, |estimate| estimate.place.distance_m(origin))
    };
    let own_m = away_m(stay);
    let peers = all
        .iter()
        .filter(|other| other.from_ms >= foot.from_ms && other.to_ms <= foot.to_ms);
    own_m > REVERSAL_M && peers.map(away_m).fold(0.0, f32::max) <= own_m
}

/// Returns whether the stay is at the highest or lowest level of all stays of the session, on
/// another floor than `before`, the level that the courier came from.
fn is_extreme(before: Option<Level>, stay: &Stay, all: &[Stay]) -> bool {
    let Some(own_m) = stay.height_m else {
        return false;
    };
    if before.is_some_and(|before| (before.height_m - own_m).abs() < SAME_FLOOR_M) {
        return false;
    }
    let heights = all.iter().filter_map(|stay| stay.height_m);
    let (low_m, high_m) = heights.fold((own_m, own_m), |(low, high), height| {
        (low.min(height), high.max(height))
    });
    let spread = high_m - low_m > SAME_FLOOR_M;
    spread
        && (high_m - own_m < SAME_FLOOR_M || own_m - low_m < SAME_FLOOR_M)
        && all.iter().any(|other| {
            other.from_ms < stay.from_ms
                && other
                    .height_m
                    .is_some_and(|height_m| (height_m - own_m).abs() > SAME_FLOOR_M)
        })
}

/// Returns whether the courier goes back afterwards: nearer to the vehicle, or to the level he came
/// from.
fn goes_back(scene: &ScoringContext<'_>, foot: Foot, before: Option<Level>, stay: &Stay) -> bool {
    if let (Some(estimate), Some(origin)) = (stay.estimate, origin(scene, foot)) {
        let own_m = estimate.place.distance_m(origin);
        let later = scene.fixes(stay.to_ms, foot.to_ms).iter();
        let nearest_m = later
            .map(|fix| fix.place.distance_m(origin) + fix.accuracy_m / 2.0)
            .fold(f32::INFINITY, f32::min);
        if nearest_m + REVERSAL_M < own_m {
            return true;
        }
    }
    let own = scene.height.level(stay.from_ms, stay.to_ms);
    let (Some(before), Some(own)) = (before, own) else {
        return false;
    };
    let Some(up) = rise(before, own) else {
        return false;
    };
    let later = scene.height.levels(stay.to_ms, foot.to_ms).iter();
    up.metres.abs() > SAME_FLOOR_M
        && later
            .into_iter()
            .any(|level| (level.height_m - before.height_m).abs() < up.metres.abs() / 2.0)
}
