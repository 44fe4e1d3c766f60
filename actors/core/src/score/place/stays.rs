//! Finds the stays on foot, and rates how much each resembles a stay at the door.

mod gate;
mod marked;
mod on_the_way;

use porchlight_schema::event::EventType;

pub(crate) use marked::add_marked;

use super::{MARK_NEAR_MS, ascent};
use crate::geo::Place;
use crate::score::MarkName;
use crate::score::height::{Level, rise};
use crate::score::parameters::place::stays::{
    DOOR_MS_MIN, ELEVATOR_WAIT_MS, FIDGET_MS, LONG_MS, MARKED_MS_MIN, MARKED_SPAN_MS, MERGED_MS,
    MERGED_WALK_M, NEAR_M_MIN, NEAR_SIGMAS, PARKED_AFTER_MS, PARKED_BEFORE_MS, REVERSAL_M,
    RIDE_EARLY_MS, SAME_FLOOR_M, SEPARATED_MS, STEPS_AWAY_MS, USUAL_MS, WAY_TO_WAIT_MS,
};
use crate::score::parameters::weights::stay as points;
use crate::score::position::Estimate;
use crate::score::scoring_context::{
    BodyState, FootPeriod, ScoringContext, body_state, overlap_ms,
};
use crate::window::WINDOW_MS;

/// A stay on foot at one place.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Stay {
    pub(crate) from_ms: u32,
    pub(crate) to_ms: u32,
    pub(crate) estimate: Option<Estimate>,
    /// The height above that of the session's first pressure, in metres.
    pub(crate) height_m: Option<f32>,
    /// The points for the resemblance to a stay at the door.
    pub(crate) points: f64,
    /// Whether a drop-off mark lies in or next to the stay.
    pub(crate) is_marked: bool,
    /// Whether the courier reported the arrival at this stay.
    pub(crate) has_arrival_mark: bool,
    /// Whether a drop-off or arrival mark lies in it, or near it and in no other stay.
    pub(crate) has_own_mark: bool,
    /// Whether the stay is a pause at a gate or before an elevator.
    pub(crate) is_passage: bool,
    /// Whether the courier enters an elevator from the stay.
    pub(crate) is_before_ride: bool,
    /// Whether only the height shows the stay; the part of its time spent at a door is then
    /// unknown.
    pub(crate) is_by_height: bool,
}

impl Stay {
    pub(crate) fn length_ms(&self) -> u32 {
        self.to_ms.saturating_sub(self.from_ms)
    }
}

/// Finds the stops within the periods on foot, and joins stops that form one stay.
pub(crate) fn find(ctx: &ScoringContext<'_>) -> Vec<Stay> {
    let mut spans: Vec<(u32, u32)> = Vec::new();
    let stops = ctx.events(EventType::Stopped);
    let mut stops: Vec<(u32, u32)> = stops
        .map(|event| ctx.span_of(event))
        .chain(ctx.apparent_ride)
        .collect();
    stops.sort_unstable();
    // A stop may go on through a silence in which the courier went to the vehicle, so only its part
    // within the period on foot counts.
    let on_foot = stops.into_iter().flat_map(|stop| {
        let feet = ctx.foot_periods.iter();
        feet.map(move |foot| (stop.0.max(foot.from_ms), stop.1.min(foot.to_ms)))
            .find(|part| part.0 < part.1)
    });
    for (from_ms, to_ms) in on_foot {
        match spans.last_mut() {
            Some(last)
                if from_ms.saturating_sub(last.1) <= MERGED_MS
                    && ctx
                        .walked_m(last.1, from_ms)
                        .is_some_and(|walked_m| walked_m <= MERGED_WALK_M)
                    && !gate::is_behind(ctx, from_ms)
                    && is_same_floor(ctx, *last, (from_ms, to_ms)) =>
            {
                last.1 = last.1.max(to_ms);
            }
            _ => spans.push((from_ms, to_ms)),
        }
    }
    let mut stays: Vec<Stay> = spans
        .into_iter()
        .flat_map(|span| split_before_wait(ctx, span))
        .map(|(from_ms, to_ms)| stay(ctx, from_ms, to_ms))
        .collect();
    add_upstairs(ctx, &mut stays);
    stays
}

/// Adds two kinds of stays: a stay that only the height shows, if no stop was detected at that
/// time, and a short rest at a turn upstairs, if the courier stayed nowhere else there.
fn add_upstairs(ctx: &ScoringContext<'_>, stays: &mut Vec<Stay>) {
    for &foot in &ctx.foot_periods {
        let is_there = |stay: &Stay| {
            foot.from_ms <= stay.from_ms
                && stay.to_ms <= foot.to_ms
                && ascent::is_on_another_floor(ctx, foot, stay.from_ms)
        };
        if !stays.iter().any(is_there)
            && let Some((from_ms, to_ms)) = super::upstairs::rest_at_turn(ctx, foot)
        {
            stays.push(stay(ctx, from_ms, to_ms));
        }
    }
    for (from_ms, to_ms) in ctx
        .foot_periods
        .iter()
        .filter_map(|&foot| super::upstairs::time_on_farthest_floor(ctx, foot))
    {
        let is_covered = stays
            .iter()
            .any(|stay| overlap_ms((stay.from_ms, stay.to_ms), (from_ms, to_ms)) > 0);
        if !is_covered {
            stays.push(Stay {
                is_by_height: true,
                ..stay(ctx, from_ms, to_ms)
            });
        }
    }
    stays.sort_by_key(|stay| (stay.from_ms, stay.to_ms));
}

/// Splits a stop that ends in a ride at its longest gait. The few steps from a door to the elevator
/// next to it are too short for a walk, but the wait there is not a stay at the door.
fn split_before_wait(ctx: &ScoringContext<'_>, (from_ms, to_ms): (u32, u32)) -> Vec<(u32, u32)> {
    let whole = vec![(from_ms, to_ms)];
    if !ends_in_ride(ctx, to_ms) {
        return whole;
    }
    let mut longest: (u32, u32) = (0, 0);
    let mut gait = (0, 0);
    for window in ctx.windows(from_ms, to_ms) {
        if body_state(window) != BodyState::Moving {
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
        .all(|part| part.1.saturating_sub(part.0) >= MARKED_MS_MIN);
    if both && longest.1 - longest.0 >= STEPS_AWAY_MS {
        parts.to_vec()
    } else {
        whole
    }
}

fn is_same_floor(ctx: &ScoringContext<'_>, a: (u32, u32), b: (u32, u32)) -> bool {
    match (ctx.height.level(a.0, a.1), ctx.height.level(b.0, b.1)) {
        (Some(a), Some(b)) => (a.height_m - b.height_m).abs() < SAME_FLOOR_M,
        _ => true,
    }
}

fn stay(ctx: &ScoringContext<'_>, from_ms: u32, to_ms: u32) -> Stay {
    Stay {
        from_ms,
        to_ms,
        estimate: ctx.estimate(from_ms, to_ms),
        height_m: ctx.height.level(from_ms, to_ms).map(|level| level.height_m),
        points: 0.0,
        is_marked: false,
        has_arrival_mark: false,
        has_own_mark: false,
        is_passage: false,
        is_before_ride: ends_in_ride(ctx, to_ms),
        is_by_height: false,
    }
}

/// The types of events that separate a stay from an instant on another floor or at another place.
pub(crate) const CLIMBS_AND_DRIVES: [EventType; 3] =
    [EventType::Stairs, EventType::Elevator, EventType::Driving];
/// The types of events that separate a stay from an instant at another place.
pub(crate) const DRIVES: [EventType; 1] = [EventType::Driving];

/// Returns the stay at an instant, or the nearest one within `near_ms` of it with neither a climb
/// nor a drive between.
pub(crate) fn nearest(
    ctx: &ScoringContext<'_>,
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
            && (away_ms(stay) == 0 || !are_separated(ctx, stay, t_ms, &CLIMBS_AND_DRIVES))
    });
    near.min_by_key(|(_, stay)| away_ms(stay))
        .map(|(index, _)| index)
}

/// Returns whether an event of one of these types lies between a stay and an instant outside it.
pub(crate) fn are_separated(
    ctx: &ScoringContext<'_>,
    stay: &Stay,
    t_ms: u32,
    types: &[EventType],
) -> bool {
    let between = (stay.to_ms.min(t_ms), stay.from_ms.max(t_ms));
    ctx.is_in_event(types, between, SEPARATED_MS)
}

/// Returns the stay that most resembles a stay at the door, if there is one. Among equals it
/// prefers the longer, then the later stay. It takes a pause that resembles a pause at a gate only
/// if there is no other stay.
pub(crate) fn best(ctx: &ScoringContext<'_>, stays: &[Stay]) -> Option<usize> {
    let best_of = |is_candidate: &dyn Fn(&Stay) -> bool| {
        let candidates = stays
            .iter()
            .enumerate()
            .filter(|(_, stay)| stay.points >= points::POINTS_MIN && is_candidate(stay));
        let by_length = |a: &Stay, b: &Stay| a.length_ms().cmp(&b.length_ms());
        candidates
            .max_by(|(_, a), (_, b)| a.points.total_cmp(&b.points).then(by_length(a, b)))
            .map(|(index, _)| index)
    };
    let best =
        best_of(&|stay| !stay.is_passage).or_else(|| best_of(&|stay| !stay.is_before_ride))?;
    // Nobody climbs past the door: a stay on the floor that the courier climbed to is the one at
    // the door, even if a wait on the floor below has more points.
    let foot = stays
        .get(best)
        .and_then(|stay| super::foot_period_at(ctx, stay.from_ms));
    let higher = foot.and_then(|foot| {
        let is_upstairs = |stay: &Stay| {
            let is_in = foot.from_ms <= stay.from_ms && stay.to_ms <= foot.to_ms;
            is_in
                && !stay.is_passage
                && super::may_be_at_address(ctx, stay)
                && ascent::is_on_another_floor(ctx, foot, stay.from_ms)
        };
        let upstairs: Vec<Stay> = stays
            .iter()
            .filter(|stay| is_upstairs(stay))
            .copied()
            .collect();
        best_of(&|stay| is_upstairs(stay) && !on_the_way::is_rest(ctx, foot, stay, &upstairs))
            .or_else(|| best_of(&is_upstairs))
    });
    higher.or(Some(best))
}

/// Sets the points of every stay, and the facts on which they depend.
pub(crate) fn rate(ctx: &ScoringContext<'_>, stays: &mut [Stay]) {
    for stay in stays.iter_mut() {
        stay.is_marked = has_mark(ctx, stay, MarkName::is_drop_off);
        stay.has_arrival_mark = has_mark(ctx, stay, |name| name == MarkName::Arrived);
    }
    let all = stays.to_vec();
    for stay in stays.iter_mut() {
        stay.has_own_mark = gate::has_own_mark(ctx, stay, &all, |name| {
            name.is_drop_off() || name == MarkName::Arrived
        });
        stay.is_passage = !gate::has_own_mark(ctx, stay, &all, MarkName::is_drop_off)
            && is_passage(ctx, stay, &all);
        stay.points = points_of(ctx, stay, &all);
    }
}

fn has_mark(ctx: &ScoringContext<'_>, stay: &Stay, wanted: impl Fn(MarkName) -> bool) -> bool {
    let from_ms = stay.from_ms.saturating_sub(MARK_NEAR_MS);
    let to_ms = stay.to_ms.saturating_add(MARK_NEAR_MS);
    ctx.input
        .marks
        .iter()
        .any(|&(t_ms, name)| wanted(name) && (from_ms..=to_ms).contains(&t_ms))
}

/// Returns whether the stay is a pause at a gate, or ends in an elevator.
fn is_passage(ctx: &ScoringContext<'_>, stay: &Stay, all: &[Stay]) -> bool {
    let span = (stay.from_ms, stay.to_ms);
    let gate = gate::likely(ctx).any(|event| {
        let overlap = overlap_ms(ctx.span_of(event), span);
        overlap > 0 && u64::from(overlap) * 2 >= u64::from(stay.length_ms())
    });
    (gate && !is_turning_point(ctx, stay, all)) || waits_for_elevator(ctx, stay, all)
}

/// Returns whether the courier turned round at a stay: the courier returned to the vehicle from
/// there and stayed nowhere else. Such a stay was not a passage, regardless of its other features.
fn is_turning_point(ctx: &ScoringContext<'_>, stay: &Stay, all: &[Stay]) -> bool {
    let Some(foot) =
        super::foot_period_at(ctx, stay.from_ms).filter(|foot| foot.parked_ms.is_some())
    else {
        return false;
    };
    let (Some(estimate), Some(origin)) = (stay.estimate, origin(ctx, foot)) else {
        return false;
    };
    let own_m = estimate.place.distance_m(origin);
    let later = (stay.to_ms, foot.to_ms);
    let climbs = ctx
        .climbs()
        .any(|event| overlap_ms(ctx.span_of(event), later) > 0);
    let is_at_vehicle = |other: &Stay| {
        other
            .estimate
            .is_some_and(|other| other.place.distance_m(origin) + REVERSAL_M < own_m)
    };
    !climbs
        && all
            .iter()
            .filter(|other| other.from_ms >= later.0 && other.to_ms <= later.1)
            .all(|other| !other.is_marked && is_at_vehicle(other))
        && goes_back(ctx, foot, None, stay)
}

/// Returns whether a stay that ends in a ride is only the wait for that ride. Either no ride
/// precedes the stay, so the ride leads to the door, or another stay since the previous ride was
/// the one at the door.
fn waits_for_elevator(ctx: &ScoringContext<'_>, stay: &Stay, all: &[Stay]) -> bool {
    let before = ctx
        .events(EventType::Elevator)
        .filter(|ride| ride.t_start_ms < stay.from_ms);
    let Some(ride_ms) = before.map(|ride| ride.t_start_ms).max() else {
        return stay.is_before_ride;
    };
    // With a ride behind it and no other stay on that floor, it may be at a door by the elevator.
    stay.is_before_ride
        && all.iter().any(|other| {
            other.from_ms > ride_ms
                && other.to_ms < stay.from_ms
                && other.length_ms() >= DOOR_MS_MIN
                && (other.length_ms() > stay.length_ms()
                    || walked_ms(ctx, (other.to_ms, stay.from_ms)) >= WAY_TO_WAIT_MS)
        })
}

/// Returns the time of walking within a span, in milliseconds: by the body, or by `WALKING` events
/// on a phone that reports neither steps nor cadence.
pub(crate) fn walked_ms(ctx: &ScoringContext<'_>, span: (u32, u32)) -> u32 {
    let windows = ctx.windows(span.0, span.1).iter();
    let seconds = windows
        .filter(|window| body_state(window) == BodyState::Moving)
        .count() as u32;
    let events = ctx
        .events(EventType::Walking)
        .map(|event| overlap_ms(ctx.span_of(event), span))
        .fold(0, u32::saturating_add);
    seconds.saturating_mul(WINDOW_MS).max(events)
}

/// Returns whether a ride begins about `t_ms`.
fn ends_in_ride(ctx: &ScoringContext<'_>, t_ms: u32) -> bool {
    ctx.events(EventType::Elevator).any(|ride| {
        ride.t_start_ms.saturating_add(RIDE_EARLY_MS) >= t_ms
            && ride.t_start_ms <= t_ms.saturating_add(ELEVATOR_WAIT_MS)
    })
}

/// Returns the points of a stay for its resemblance to a stay at the door.
fn points_of(ctx: &ScoringContext<'_>, stay: &Stay, all: &[Stay]) -> f64 {
    let mut sum = 0.0;
    if stay.is_marked {
        sum += points::MARK;
    } else if stay.has_arrival_mark {
        sum += points::ARRIVED;
    }
    if USUAL_MS.contains(&stay.length_ms()) {
        sum += points::LENGTH;
    } else if stay.length_ms() <= LONG_MS {
        sum += points::LONG;
    }
    if let Some(estimate) = stay.estimate {
        let (distance_m, sigma_m) = ctx.offset_from_address(estimate);
        sum += points::NEAR
            * (1.0 - f64::from(distance_m / (NEAR_SIGMAS * sigma_m).max(NEAR_M_MIN))).max(0.0);
    }
    let foot = super::foot_period_at(ctx, stay.from_ms);
    let before = foot.and_then(|foot| ctx.level_before(foot));
    if foot.is_some_and(|foot| is_farthest(ctx, foot, stay, all)) {
        sum += points::FARTHEST;
    }
    if is_extreme(before, stay, all) {
        sum += points::EXTREME;
    }
    if foot.is_some_and(|foot| goes_back(ctx, foot, before, stay)) {
        sum += points::REVERSAL;
    }
    if stay.is_passage {
        sum += if waits_for_elevator(ctx, stay, all) {
            points::ELEVATOR
        } else {
            points::GATE
        };
    }
    sum
}

/// Returns the place where the vehicle of a period on foot was left, or where the period began.
pub(crate) fn origin(ctx: &ScoringContext<'_>, foot: FootPeriod) -> Option<Place> {
    let parked_ms = foot.parked_ms.unwrap_or(foot.from_ms);
    let estimate = ctx.estimate(
        parked_ms.saturating_sub(PARKED_BEFORE_MS),
        foot.from_ms.saturating_add(PARKED_AFTER_MS),
    )?;
    Some(estimate.place)
}

/// Returns whether no other stay of the period on foot is farther from the vehicle.
fn is_farthest(ctx: &ScoringContext<'_>, foot: FootPeriod, stay: &Stay, all: &[Stay]) -> bool {
    let Some(origin) = origin(ctx, foot) else {
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

/// Returns whether the courier goes back after the stay: nearer to the vehicle, or towards the
/// level before it.
fn goes_back(
    ctx: &ScoringContext<'_>,
    foot: FootPeriod,
    before: Option<Level>,
    stay: &Stay,
) -> bool {
    if let (Some(estimate), Some(origin)) = (stay.estimate, origin(ctx, foot)) {
        let own_m = estimate.place.distance_m(origin);
        let later = ctx.fixes(stay.to_ms, foot.to_ms).iter();
        let nearest_m = later
            .map(|fix| fix.place.distance_m(origin) + fix.accuracy_m / 2.0)
            .fold(f32::INFINITY, f32::min);
        if nearest_m + REVERSAL_M < own_m {
            return true;
        }
    }
    let own = ctx.height.level(stay.from_ms, stay.to_ms);
    let (Some(before), Some(own)) = (before, own) else {
        return false;
    };
    let Some(rise) = rise(before, own) else {
        return false;
    };
    let later = ctx.height.levels(stay.to_ms, foot.to_ms).iter();
    rise.metres.abs() > SAME_FLOOR_M
        && later
            .into_iter()
            .any(|level| (level.height_m - before.height_m).abs() < rise.metres.abs() / 2.0)
}
