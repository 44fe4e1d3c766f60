//! Finds the time at which the courier entered the building: from decaying reception, a known
//! entrance, a gate, or a climb.

mod doorway;

use porchlight_schema::event::{Event, EventType};

use super::{Places, ascent, open_way};
use crate::geo::Place;
use crate::score::climb::leap;
use crate::score::parameters::place::entrance::{
    AFTER_FIX_MS, AGREE_MS, BEFORE_FOOT_MS, DECAY_LOOK_BACK_MS, GATE_ACCURACY_M, GATE_FIXES,
    HALL_MS, LAG_MS, PASSED_M, PAUSE_INTERVALS, PAUSE_MS_MIN, REST_MS_MAX, REST_MS_MIN,
    STOOD_ACCURACY_M, STOOD_M, USUAL_FIXES, USUAL_MS, VAGUE_TIMES, WAIT_MS_MAX, WALL_M_MIN,
    WINDOW_VIEW_MS, WORSENED_M, WORSENED_M_MIN, WORSENED_TIMES,
};
use crate::score::scoring_context::{
    BodyState, FootPeriod, ScoringContext, body_state, median, overlap_ms,
};
use crate::window::{Fix, Window};

/// The evidence by which the entrance is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EntranceSource {
    /// The courier passed the place named by the address or learned from earlier sessions.
    KnownPlace,
    /// Reception decayed.
    Decay,
    /// The courier passed a gate, after which reception decayed or a climb began.
    Gate,
    /// Only a climb began. The true entry may be earlier.
    Climb,
}

/// The courier's entry into the building.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entrance {
    pub(crate) at_ms: u32,
    pub(crate) source: EntranceSource,
}

impl Entrance {
    /// Returns whether the time is known by more than the climb after it.
    pub(crate) fn is_timed(self) -> bool {
        self.source != EntranceSource::Climb
    }
}

/// Finds the last entry before the drop-off, if the drop-off was indoors.
pub(crate) fn find(ctx: &ScoringContext<'_>, places: &Places) -> Option<Entrance> {
    let foot = places.foot?;
    let reached_ms = places.reached_ms?;
    let until_ms = places.door_stay().map_or(reached_ms, |door| door.from_ms);
    if !(foot.from_ms..=foot.to_ms).contains(&until_ms) {
        return None;
    }
    let from_ms = foot.from_ms.saturating_sub(BEFORE_FOOT_MS);
    let since_ms =
        last_outdoors_ms(ctx, foot, from_ms, until_ms).max(open_way::since_ms(ctx, foot, until_ms));
    // An earlier attempt upstairs has its own gates and climbs.
    let is_second = climbs(ctx, from_ms).any(|climb| climb.1 <= since_ms);
    let from_ms = if is_second { since_ms } else { from_ms };
    let climb = entry_before_climb(ctx, places, from_ms, until_ms);
    let climb_ms = climb.map(|(before_ms, _)| before_ms);
    // Evidence after the start of the climb says nothing about the entrance.
    let before_ms = climb.map_or(until_ms, |(_, began_ms)| began_ms.min(until_ms));
    let decay_ms = decay_start_ms(ctx, (from_ms, since_ms), until_ms, climb.is_none())
        .filter(|&decay_ms| decay_ms <= before_ms)
        .map(|decay_ms| end_of_rest_ms(ctx, places, decay_ms, before_ms));
    let known_ms = known_entrance_ms(ctx, from_ms, before_ms);
    let agree = |&(known_ms, decay_ms): &(u32, u32)| known_ms.abs_diff(decay_ms) <= AGREE_MS;
    let (about_ms, source) = match (known_ms, decay_ms) {
        (known_ms, Some(decay_ms)) => match known_ms.zip(Some(decay_ms)).filter(agree) {
            Some((known_ms, _)) => (known_ms / 2 + decay_ms / 2, EntranceSource::KnownPlace),
            None => (decay_ms, EntranceSource::Decay),
        },
        (Some(known_ms), None) => (known_ms, EntranceSource::KnownPlace),
        (None, None) => (climb_ms?, EntranceSource::Climb),
    };
    let gates = ctx.events(EventType::Gate).map(|event| ctx.end_of(event));
    let signs = doorway::Signs {
        placed_ms: match source {
            EntranceSource::KnownPlace => known_ms.into_iter().chain(decay_ms).collect(),
            _ => vec![about_ms],
        },
        foot_of_climb_ms: climb
            .map(|(_, began_ms)| began_ms)
            .filter(|&began_ms| is_body_measured(ctx, about_ms.min(began_ms), began_ms))
            .map(|began_ms| elevator_wait_start_ms(places, began_ms).unwrap_or(began_ms)),
        gates_ms: gates
            .filter(|gate_ms| (from_ms..=before_ms).contains(gate_ms))
            .collect(),
    };
    let outdoors_ms = last_gate_outdoors(ctx, (from_ms, before_ms)).unwrap_or(from_ms);
    let at_ms = doorway::likeliest_ms(ctx, &signs, about_ms, before_ms).max(outdoors_ms);
    Some(Entrance {
        at_ms,
        source: if signs.is_gate(at_ms) {
            EntranceSource::Gate
        } else {
            source
        },
    })
}

/// Returns the time of the last gate passed with good reception: the building is behind it.
fn last_gate_outdoors(ctx: &ScoringContext<'_>, (from_ms, before_ms): (u32, u32)) -> Option<u32> {
    let is_outdoors = |&(start_ms, end_ms): &(u32, u32)| {
        let fixes = ctx.fixes(start_ms, end_ms.saturating_add(1));
        let good = fixes
            .iter()
            .filter(|fix| fix.accuracy_m <= GATE_ACCURACY_M)
            .count();
        good >= GATE_FIXES && good == fixes.len()
    };
    ctx.spans(EventType::Gate)
        .filter(|gate| gate.0 >= from_ms && gate.1 <= before_ms)
        .filter(is_outdoors)
        .map(|gate| gate.1)
        .max()
}

/// Returns whether body sensors sent data up to the climb at `began_ms`. The wait before the climb
/// is then known, and the rest of the time is the way through a hall.
fn is_body_measured(ctx: &ScoringContext<'_>, from_ms: u32, began_ms: u32) -> bool {
    let windows = ctx.windows(from_ms.saturating_sub(HALL_MS), began_ms);
    let felt = windows.iter().filter(|window| window.has_body_data());
    felt.count() * 2 >= windows.len()
}

/// Returns the start of the wait for the elevator that began to move at `began_ms`.
fn elevator_wait_start_ms(places: &Places, began_ms: u32) -> Option<u32> {
    let stays = places.stays.iter();
    stays
        .filter(|stay| stay.is_before_ride && stay.to_ms.abs_diff(began_ms) <= AGREE_MS)
        .map(|stay| stay.from_ms)
        .max()
}

/// Returns the time at which reception began to decay, less the time that it takes to react to a
/// doorway. It considers the spans of bad reception that lead to the drop-off.
fn decay_start_ms(
    ctx: &ScoringContext<'_>,
    (from_ms, since_ms): (u32, u32),
    until_ms: u32,
    is_on_the_level: bool,
) -> Option<u32> {
    let latest_ms = until_ms.saturating_add(LAG_MS * 2);
    let is_on_way = |t_ms: u32| t_ms >= since_ms && (from_ms..=latest_ms).contains(&t_ms);
    let bad = bad_spans(ctx)
        .into_iter()
        .filter(|span| !is_rest_outside(ctx, *span, until_ms))
        .map(|span| span.0);
    // The door of a flat on the ground floor is behind the main door, where a phone that is usually
    // exact to 2 m may claim 7 m. If nothing looks like a wall there, any degradation counts.
    let mild = || {
        let is_known = ctx.input.context.floor == Some(0);
        let degraded = ctx.events(EventType::GpsDegraded).filter(move |_| is_known);
        degraded.map(|event| event.t_start_ms)
    };
    let began_ms = bad
        .filter(|&t_ms| is_on_way(t_ms))
        .min()
        .or_else(|| mild().filter(|&t_ms| is_on_way(t_ms)).min())?;
    let look_from_ms = began_ms.saturating_sub(DECAY_LOOK_BACK_MS).max(since_ms);
    let fixes = without_repeats(ctx, look_from_ms, began_ms.saturating_add(LAG_MS));
    let worsened_m = worsened_m(ctx, look_from_ms);
    let worsened = fixes
        .iter()
        .rev()
        .take_while(|fix| fix.accuracy_m > worsened_m)
        .last();
    let at_ms = match worsened {
        Some(fix) => fix.t_ms.saturating_sub(LAG_MS),
        // Fixes go on, and reception faded to a value that is bad on this phone only. Before a
        // climb, the time to cross a hall says more.
        None if is_on_the_level && fixes.last().is_some_and(|fix| fix.t_ms > began_ms) => {
            began_ms.saturating_sub(LAG_MS)
        }
        // Reception ended without a warning: the last fix of a new place is the nearest sign.
        None => fixes.last().map_or(began_ms, |fix| {
            fix.t_ms.saturating_add(AFTER_FIX_MS).min(began_ms)
        }),
    };
    Some(at_ms.clamp(from_ms, until_ms))
}

/// Returns the end of the rest during which reception began to decay, or else `decay_ms`. A wall
/// beside a courier who waits at the door hides half of the sky, and the courier passes the door
/// only when the rest ends.
fn end_of_rest_ms(ctx: &ScoringContext<'_>, places: &Places, decay_ms: u32, before_ms: u32) -> u32 {
    let gates = ctx.spans(EventType::Gate);
    let waits_inside = |rest: (u32, u32)| {
        let mut stays = places.stays.iter().filter(|stay| stay.is_before_ride);
        stays.any(|stay| overlap_ms((stay.from_ms, stay.to_ms), rest) > 0)
    };
    let rests = rests(ctx, decay_ms)
        .filter(|rest| rest.1.saturating_sub(rest.0) <= REST_MS_MAX)
        .filter(|&rest| !waits_inside(rest) && is_body_measured(ctx, rest.0, rest.1))
        .map(|(from_ms, to_ms)| (from_ms.saturating_add(REST_MS_MIN), to_ms));
    gates
        .map(|gate| (gate.0.saturating_sub(LAG_MS), gate.1))
        .chain(rests)
        .filter(|rest| rest.0 <= decay_ms && decay_ms <= rest.1)
        .map(|rest| rest.1)
        .filter(|&end_ms| end_ms <= before_ms)
        .max()
        .unwrap_or(decay_ms)
}

/// Returns the rests about `t_ms`: the stays, and the time in which the body was still.
fn rests(ctx: &ScoringContext<'_>, t_ms: u32) -> impl Iterator<Item = (u32, u32)> {
    let is_still = |window: &&Window| body_state(window) == BodyState::Still;
    let before = ctx.windows(t_ms.saturating_sub(REST_MS_MAX), t_ms);
    let after = ctx.windows(t_ms, t_ms.saturating_add(REST_MS_MAX));
    let since = before.iter().rev().take_while(is_still).last();
    let until = after.iter().take_while(is_still).last();
    let still = since
        .zip(until)
        .map(|(since, until)| (since.t_ms, until.end_ms()));
    ctx.spans(EventType::Stopped).chain(still)
}

/// Returns the accuracy that counts as worse than usual before `t_ms`: at most [`WORSENED_M`], unless
/// the phone is nearly as vague on the street.
fn worsened_m(ctx: &ScoringContext<'_>, t_ms: u32) -> f32 {
    let before = ctx.fixes(t_ms.saturating_sub(USUAL_MS), t_ms);
    let mut claims: Vec<f32> = before.iter().map(|fix| fix.accuracy_m).collect();
    median(&mut claims).map_or(WORSENED_M, |usual_m| {
        let most_m = WORSENED_M.max(VAGUE_TIMES * usual_m);
        (WORSENED_TIMES * usual_m).clamp(WORSENED_M_MIN, most_m)
    })
}

/// Returns whether the phone stood still outside during a span without fixes: a usable fix of the
/// same place ends the span before `until_ms`, and the courier neither walked far nor climbed
/// meanwhile.
fn is_rest_outside(ctx: &ScoringContext<'_>, (from_ms, to_ms): (u32, u32), until_ms: u32) -> bool {
    let last = ctx
        .fixes(0, from_ms.saturating_add(1))
        .last()
        .filter(|fix| fix.accuracy_m <= WORSENED_M);
    let next = ctx
        .fixes(to_ms, until_ms)
        .first()
        .filter(|fix| fix.accuracy_m <= STOOD_ACCURACY_M);
    let (Some(last), Some(next)) = (last, next) else {
        return false;
    };
    let climbed = ctx
        .climbs()
        .any(|event| event.t_start_ms < to_ms && ctx.end_of(event) > from_ms);
    let silent = ctx.fixes(last.t_ms + 1, next.t_ms).is_empty();
    silent
        && !climbed
        && last.place.distance_m(next.place) <= STOOD_M
        && ctx
            .walked_m(last.t_ms, next.t_ms)
            .is_some_and(|walked_m| walked_m <= STOOD_M)
}

/// Returns the spans of bad reception that may be due to walls, in order.
fn bad_spans(ctx: &ScoringContext<'_>) -> Vec<(u32, u32)> {
    let pause_ms = usual_pause_ms(ctx);
    let is_pause = |event: &Event| ctx.end_of(event).saturating_sub(event.t_start_ms) <= pause_ms;
    let begin_ms = |event: &Event| match event.event_type {
        EventType::GpsLost => (!is_pause(event)).then_some(event.t_start_ms),
        EventType::GpsDegraded => wall_ms(ctx, event),
        _ => None,
    };
    let events = ctx.timeline.iter().copied();
    let mut spans: Vec<(u32, u32)> = events
        .filter_map(|event| Some((begin_ms(event)?, ctx.end_of(event))))
        .collect();
    spans.sort_unstable();
    spans
}

/// Returns the longest time without a fix that is a usual pause of a phone that reports rarely.
fn usual_pause_ms(ctx: &ScoringContext<'_>) -> u32 {
    let received = &ctx.received_ms;
    let intervals = received.iter().zip(received.iter().skip(1));
    // Fixes that arrive together are stamped with nearly one time.
    let mut intervals_ms: Vec<f32> = intervals
        .map(|(one_ms, next_ms)| next_ms.saturating_sub(*one_ms) as f32)
        .filter(|interval_ms| *interval_ms >= PAUSE_MS_MIN)
        .collect();
    median(&mut intervals_ms).map_or(0, |usual_ms| (PAUSE_INTERVALS * usual_ms) as u32)
}

/// Returns the time from which reception was so bad in a `GPS_DEGRADED` that a wall may be the
/// cause. On a phone that is usually exact to 2 m, a tree or a house front makes 5 m.
fn wall_ms(ctx: &ScoringContext<'_>, event: &Event) -> Option<u32> {
    let to_ms = ctx.end_of(event).saturating_add(1);
    let fixes = ctx.fixes(event.t_start_ms, to_ms);
    match fixes.iter().position(|fix| fix.accuracy_m >= WALL_M_MIN) {
        Some(0) => Some(event.t_start_ms),
        Some(index) => fixes.get(index).map(|fix| fix.t_ms),
        None => fixes.is_empty().then_some(event.t_start_ms),
    }
}

/// Returns the last time before the drop-off at which the courier was outdoors; 0 if unknown.
/// Reception that is good for a moment only, or after a change of floors, is that at a window.
fn last_outdoors_ms(
    ctx: &ScoringContext<'_>,
    foot: FootPeriod,
    from_ms: u32,
    until_ms: u32,
) -> u32 {
    let spans = bad_spans(ctx);
    let since_ms = foot.parked_ms.unwrap_or(0);
    let mut bad_ms = spans.iter().map(|span| span.0);
    let first_bad_ms = bad_ms.find(|&t_ms| t_ms >= since_ms).unwrap_or(0);
    let restored = ctx
        .events(EventType::GpsRestored)
        .map(|event| event.t_start_ms);
    let outside_ms = |restored_ms: u32| {
        let next_ms = spans
            .iter()
            .map(|span| span.0)
            .find(|&t_ms| t_ms > restored_ms)
            .unwrap_or(u32::MAX);
        let good = (restored_ms, next_ms.min(until_ms.max(restored_ms)));
        let good = street_part(ctx, foot, from_ms, good);
        let is_outside = good.1 - good.0 > WINDOW_VIEW_MS
            && (good.0 > restored_ms || !is_restored_at_rest(ctx, restored_ms))
            && is_usual_reception(ctx, good, first_bad_ms);
        is_outside.then_some(good.0)
    };
    restored
        .filter(|&t_ms| t_ms >= from_ms && t_ms <= until_ms)
        .filter_map(outside_ms)
        .max()
        .unwrap_or(0)
}

/// Returns that part of a span of good reception in which the courier may be on the street. After a
/// change of floors, good reception is that at a window or on a landing. If the courier came back
/// to the floor of the street before or during the span, the part lasts from then to the next
/// change of floors.
fn street_part(
    ctx: &ScoringContext<'_>,
    foot: FootPeriod,
    from_ms: u32,
    good: (u32, u32),
) -> (u32, u32) {
    let climbs = || climbs(ctx, from_ms).filter(|climb| climb.0 < good.1);
    if climbs().next().is_none() {
        return good;
    }
    let is_up = |t_ms: u32| ascent::is_on_another_floor(ctx, foot, t_ms);
    let came_back = climbs().any(|climb| climb.1 <= good.0)
        && !climbs().any(|climb| (climb.0..climb.1).contains(&good.0))
        && !is_up(good.0);
    let returned_ms = climbs()
        .filter(|climb| (good.0..good.1).contains(&climb.1) && is_up(climb.0) && !is_up(climb.1))
        .map(|climb| climb.1)
        .max();
    let Some(began_ms) = returned_ms.or(came_back.then_some(good.0)) else {
        return (good.0, good.0);
    };
    let next_ms = climbs()
        .map(|climb| climb.0)
        .filter(|&t_ms| t_ms >= began_ms);
    (began_ms, next_ms.min().unwrap_or(good.1))
}

/// Returns the changes of floors that begin at or after `from_ms`.
fn climbs(ctx: &ScoringContext<'_>, from_ms: u32) -> impl Iterator<Item = (u32, u32)> {
    ctx.climbs()
        .map(|event| ctx.span_of(event))
        .filter(move |climb| climb.0 >= from_ms)
}

/// Returns whether reception came back while the courier had been standing for longer than
/// reception takes to react to a doorway. The courier then did not walk out: a window, a network or
/// a satellite improved the position.
fn is_restored_at_rest(ctx: &ScoringContext<'_>, restored_ms: u32) -> bool {
    let stood = ctx.events(EventType::Stopped).any(|event| {
        event.t_start_ms.saturating_add(LAG_MS * 2) <= restored_ms
            && restored_ms <= ctx.end_of(event)
    });
    // A position that stands still indoors shows nothing about the body.
    stood && is_body_measured(ctx, restored_ms.saturating_sub(LAG_MS), restored_ms)
}

/// Returns whether most fixes of a span are as accurate as usual before reception first went bad.
/// Under a roof a phone often claims a medium accuracy, which is not that under the open sky.
fn is_usual_reception(ctx: &ScoringContext<'_>, good: (u32, u32), first_bad_ms: u32) -> bool {
    let before = ctx.fixes(first_bad_ms.saturating_sub(USUAL_MS), first_bad_ms);
    if before.len() < USUAL_FIXES {
        return true;
    }
    let mut claims: Vec<f32> = ctx
        .fixes(good.0, good.1)
        .iter()
        .map(|fix| fix.accuracy_m)
        .collect();
    median(&mut claims).is_none_or(|claim_m| claim_m <= worsened_m(ctx, first_bad_ms))
}

/// Returns the fixes without those that repeat the place and the accuracy of the one before.
fn without_repeats(ctx: &ScoringContext<'_>, from_ms: u32, to_ms: u32) -> Vec<Fix> {
    let mut fixes: Vec<Fix> = Vec::new();
    for fix in ctx.fixes(from_ms, to_ms) {
        if fixes
            .last()
            .is_none_or(|last| last.place != fix.place || last.accuracy_m != fix.accuracy_m)
        {
            fixes.push(*fix);
        }
    }
    fixes
}

/// Returns the time of entry before the first climb, and the time at which that climb began. The
/// entry is earlier by the way through a hall and the wait for an elevator.
fn entry_before_climb(
    ctx: &ScoringContext<'_>,
    places: &Places,
    from_ms: u32,
    until_ms: u32,
) -> Option<(u32, u32)> {
    let began_ms = climbs(ctx, from_ms)
        .map(|climb| climb.0)
        .filter(|&t_ms| t_ms < until_ms)
        .min()?;
    // A climb that seems to begin with the leap of the pressure at a door begins behind that door.
    let began_ms = leap::door_in_climb(ctx, began_ms).map_or(began_ms, |door| door.inside_ms);
    let waited_ms = elevator_wait_start_ms(places, began_ms)
        .map(|from_ms| from_ms.max(began_ms.saturating_sub(WAIT_MS_MAX)));
    let hall_ms = waited_ms
        .unwrap_or(began_ms)
        .min(began_ms)
        .saturating_sub(HALL_MS);
    Some((hall_ms.max(from_ms), began_ms))
}

/// Returns the time of passing the entrance named by the address or found by earlier sessions.
fn known_entrance_ms(ctx: &ScoringContext<'_>, from_ms: u32, until_ms: u32) -> Option<u32> {
    let learned = ctx
        .input
        .known
        .entrance
        .map(|learned| ctx.input.context.frame.place(learned.point));
    let entrance: Place = ctx.input.context.entrance.or(learned)?;
    let passed = without_repeats(ctx, from_ms, until_ms.saturating_add(1))
        .into_iter()
        .map(|fix| (fix.place.distance_m(entrance), fix))
        .filter(|(distance_m, fix)| *distance_m <= PASSED_M + fix.accuracy_m.min(WORSENED_M) / 2.0);
    let at_ms = passed
        .min_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, fix)| fix.t_ms)?;
    // A courier who waits before the entrance passes it when the wait ends.
    let waited = ctx
        .events(EventType::Gate)
        .chain(ctx.events(EventType::Stopped))
        .map(|event| ctx.span_of(event))
        .filter(|wait| (wait.0..=wait.1).contains(&at_ms) && wait.1 <= until_ms);
    waited.map(|wait| wait.1).max().or(Some(at_ms))
}
