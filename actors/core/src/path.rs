//! The path of a scored session, prepared for drawing: legs by movement, stays, climbs, entrance,
//! door, and heights on foot.

use porchlight_schema::event::{Event, EventType};
use porchlight_schema::insight::Score;
use porchlight_schema::limits::GAP_MS;

use crate::context::SessionContext;
use crate::geo::Place;
use crate::score::position::mean_of;
use crate::score::scoring_context::{ScoringContext, event_end_ms};
use crate::score::{Knowledge, ScoreInput};
use crate::window::{ClockStep, Fix, Window};

/// Fixes worse than this, metres, are drawn only if there are no better ones: indoors they would
/// form a star.
const DRAWN_ACCURACY_M: f32 = 45.0;
/// A part on foot is in the picture if it comes this close to the address.
const NEAR_ADDRESS_M: f32 = 250.0;
/// Walks are smoothed over this much time before and after each fix: a phone's error changes more
/// slowly than steps.
const SMOOTHED_MS: u32 = 3_500;
/// If reception is bad for longer than this, positions are not drawn as a path.
const UNSEEN_MS: u32 = 8_000;
/// The time around an instant from which its position is computed.
const INSTANT_MS: u32 = 2_000;
/// The time from the start on foot over which the zero of heights is averaged.
const ZERO_MS: u32 = 15_000;
/// The time before and after the part on foot for which heights are included.
const AROUND_MS: u32 = 10_000;

/// The input of [`Track::of`].
#[derive(Debug, Clone, Copy)]
pub struct PathInput<'a> {
    /// The address and prior knowledge.
    pub context: &'a SessionContext,
    /// All windows of the session, in order of time.
    pub windows: &'a [Window],
    /// The times at which the phone's clock was set back, in order.
    pub clock_steps: &'a [ClockStep],
    /// The session's score.
    pub score: &'a Score,
    /// The length of the session, milliseconds.
    pub duration_ms: u32,
}

/// The kind of movement on a leg.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TravelMode {
    /// The courier is in a vehicle.
    Drive,
    /// The courier walks.
    Walk,
    /// The courier takes the stairs.
    Stairs,
    /// The courier takes an elevator.
    Elevator,
    /// The kind of movement is unknown.
    Other,
    /// The path has no positions here.
    Unseen,
}

/// A part of the path with one kind of movement.
#[derive(Debug, Clone, PartialEq)]
pub struct Leg {
    /// The kind of movement.
    pub mode: TravelMode,
    /// The positions, in order of time.
    pub places: Vec<Place>,
}

/// A stay or climb in one place.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Halt {
    /// The stay or climb.
    pub event: Event,
    /// The position of the stay or climb.
    pub place: Place,
    /// The duration of the stay or climb, milliseconds.
    pub duration_ms: u32,
}

/// A time and its position.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spot {
    /// The time since the session's start, milliseconds.
    pub t_ms: u32,
    /// The position; `None` if unknown at that time.
    pub place: Option<Place>,
}

/// The height at one moment on foot.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HeightAt {
    /// The time since the session's start, milliseconds.
    pub t_ms: u32,
    /// The height above the start of the time on foot, metres.
    pub height_m: f32,
}

/// Heights from the barometer around the part on foot.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Heights {
    /// The start, milliseconds since the session's start.
    pub from_ms: u32,
    /// The end, milliseconds since the session's start.
    pub to_ms: u32,
    /// Heights in order of time; empty without a barometer.
    pub levels: Vec<HeightAt>,
}

/// A prepared path.
#[derive(Debug, Clone, PartialEq)]
pub struct Track {
    /// The path, leg by leg.
    pub legs: Vec<Leg>,
    /// The stays, in order of time.
    pub stays: Vec<Halt>,
    /// The climbs, in order of time.
    pub climbs: Vec<Halt>,
    /// The first position.
    pub start: Place,
    /// The last position.
    pub end: Place,
    /// The building's entrance, if found.
    pub entrance: Option<Spot>,
    /// The recipient's door, if found.
    pub door: Option<Spot>,
    /// Positions that must be visible.
    pub focus: Vec<Place>,
    /// The start and the end of the part on foot that the profile shows, milliseconds since the
    /// session's start.
    pub foot: (u32, u32),
    /// The heights around that time.
    pub heights: Heights,
    /// The accuracy of the address, metres.
    pub address_accuracy_m: f32,
}

impl Track {
    /// Prepares the path of a scored session; `None` with fewer than two fixes.
    #[must_use]
    pub fn of(input: &PathInput<'_>) -> Option<Self> {
        let known = Knowledge::default();
        let scored = ScoreInput {
            context: input.context,
            windows: input.windows,
            events: &input.score.events,
            marks: &[],
            system: &[],
            clock_steps: input.clock_steps,
            pod: None,
            duration_ms: input.duration_ms,
            timed_out: false,
            missing_batches: 0,
            quarantined_batches: 0,
            known: &known,
        };
        Self::new(&ScoringContext::new(&scored), input.score)
    }

    fn new(ctx: &ScoringContext<'_>, score: &Score) -> Option<Self> {
        let fixes = drawn(&ctx.fixes);
        let (first, last) = (fixes.first()?, fixes.last()?);
        if fixes.len() < 2 {
            return None;
        }
        let halts = halts(ctx);
        let legs = legs(ctx, &fixes, &halts);
        let door = score.door_ms().map(|span_ms| door(ctx, span_ms, &halts));
        let is_stay = |halt: &&Halt| halt.event.event_type == EventType::Stopped;
        let mut track = Self {
            legs,
            stays: halts.iter().filter(is_stay).copied().collect(),
            climbs: halts
                .iter()
                .filter(|halt| !is_stay(halt))
                .copied()
                .collect(),
            start: first.place,
            end: last.place,
            entrance: score.entrance_ms().map(|t_ms| entrance(ctx, t_ms)),
            door,
            focus: Vec::new(),
            foot: (0, ctx.end_ms),
            heights: Heights::default(),
            address_accuracy_m: ctx.input.context.accuracy_m,
        };
        track.choose_view(ctx, &fixes);
        track.heights = heights(ctx, track.foot);
        Some(track)
    }

    /// Chooses the visible area: the parts on foot near the address, otherwise the longest one,
    /// otherwise everything.
    fn choose_view(&mut self, ctx: &ScoringContext<'_>, fixes: &[Fix]) {
        let of = |(from_ms, to_ms): (u32, u32)| {
            let first = fixes.partition_point(|fix| fix.t_ms < from_ms);
            let end = fixes.partition_point(|fix| fix.t_ms <= to_ms);
            let inside = fixes.get(first..end).unwrap_or_default();
            inside.iter().map(|fix| fix.place)
        };
        let mut foot_periods: Vec<(u32, u32)> = ctx
            .foot_periods
            .iter()
            .map(|foot| (foot.from_ms, foot.to_ms))
            .collect();
        let near = |span: &(u32, u32)| {
            of(*span).any(|place| place.distance_m(Place::default()) <= NEAR_ADDRESS_M)
        };
        if foot_periods.iter().any(near) {
            foot_periods.retain(near);
        } else {
            foot_periods.sort_by_key(|(from_ms, to_ms)| to_ms - from_ms);
            foot_periods.drain(..foot_periods.len().saturating_sub(1));
        }
        self.focus = foot_periods.iter().flat_map(|&span| of(span)).collect();
        if self.focus.len() < 2 {
            self.focus = fixes.iter().map(|fix| fix.place).collect();
        }
        self.focus.extend(self.door.and_then(|door| door.place));
        let door_ms = self.door.map(|door| door.t_ms);
        let at_door =
            |span: &&(u32, u32)| door_ms.is_some_and(|t_ms| (span.0..=span.1).contains(&t_ms));
        let longest = foot_periods
            .iter()
            .max_by_key(|(from_ms, to_ms)| to_ms - from_ms);
        if let Some(&foot) = foot_periods.iter().find(at_door).or(longest) {
            self.foot = foot;
        }
    }

    /// Returns whether a leg has this kind of movement.
    #[must_use]
    pub fn has(&self, mode: TravelMode) -> bool {
        self.legs.iter().any(|leg| leg.mode == mode)
    }
}

/// Returns the heights around the part on foot.
fn heights(ctx: &ScoringContext<'_>, foot: (u32, u32)) -> Heights {
    let from_ms = foot.0.saturating_sub(AROUND_MS);
    let to_ms = foot.1.saturating_add(AROUND_MS).min(ctx.end_ms);
    let levels = ctx.height.levels(from_ms, to_ms.saturating_add(1));
    let zero_m = ctx
        .height
        .level(foot.0, foot.0.saturating_add(ZERO_MS))
        .or(levels.first().copied())
        .map_or(0.0, |level| level.height_m);
    let levels = levels.iter().map(|level| HeightAt {
        t_ms: level.t_ms,
        height_m: level.height_m - zero_m,
    });
    Heights {
        from_ms,
        to_ms,
        levels: levels.collect(),
    }
}

/// Returns the fixes that are accurate enough, or all fixes if none is.
fn drawn(fixes: &[Fix]) -> Vec<Fix> {
    let good = fixes
        .iter()
        .filter(|fix| fix.accuracy_m <= DRAWN_ACCURACY_M);
    let good: Vec<_> = good.copied().collect();
    if good.len() < 2 { fixes.to_vec() } else { good }
}

/// Returns the time and position of the stay at the door.
fn door(ctx: &ScoringContext<'_>, (from_ms, to_ms): (u32, u32), halts: &[Halt]) -> Spot {
    let seen = ctx.estimate(from_ms, to_ms);
    let spot = Spot {
        t_ms: from_ms,
        place: seen.map(|estimate| estimate.place),
    };
    at_halt(spot, halts)
}

/// Returns the time and position at which the courier entered the building.
fn entrance(ctx: &ScoringContext<'_>, t_ms: u32) -> Spot {
    let seen = ctx.estimate(
        t_ms.saturating_sub(INSTANT_MS),
        t_ms.saturating_add(INSTANT_MS),
    );
    let known = ctx.input.context.entrance;
    Spot {
        t_ms,
        place: known.or(seen.map(|estimate| estimate.place)),
    }
}

/// Moves a spot to the position of the stay that contains its time.
fn at_halt(spot: Spot, halts: &[Halt]) -> Spot {
    let inside = |halt: &&Halt| {
        let from_ms = halt.event.t_start_ms;
        halt.event.event_type == EventType::Stopped
            && (from_ms..=from_ms.saturating_add(halt.duration_ms)).contains(&spot.t_ms)
    };
    match halts.iter().find(inside) {
        Some(halt) => Spot {
            place: Some(halt.place),
            ..spot
        },
        None => spot,
    }
}

/// Returns the last of the items, which are in the order of their starts, that begins by `t_ms`, if
/// `t_ms` lies within it. `span` returns the start and the end of an item.
fn item_at<T>(items: &[T], t_ms: u32, span: impl Fn(&T) -> (u32, u32)) -> Option<&T> {
    let after = items.partition_point(|item| span(item).0 <= t_ms);
    let item = items.get(after.checked_sub(1)?)?;
    (t_ms < span(item).1).then_some(item)
}

/// The times of bad reception, in order and without overlaps.
struct BadReception(Vec<(u32, u32)>);

impl BadReception {
    fn new(ctx: &ScoringContext<'_>) -> Self {
        let types = [EventType::GpsDegraded, EventType::GpsLost];
        let mut spans: Vec<(u32, u32)> = Vec::new();
        for event in ctx.timeline.iter() {
            if !types.contains(&event.event_type) {
                continue;
            }
            let end_ms = event_end_ms(event, ctx.end_ms);
            match spans.last_mut() {
                Some(last) if event.t_start_ms <= last.1 => last.1 = last.1.max(end_ms),
                _ => spans.push((event.t_start_ms, end_ms)),
            }
        }
        Self(spans)
    }

    /// Returns whether reception was bad at this time; outside of stays such a fix is not drawn.
    fn is_at(&self, t_ms: u32) -> bool {
        item_at(&self.0, t_ms, |span| *span).is_some()
    }

    /// Returns whether the path between two fixes is unknown.
    fn hides(&self, from_ms: u32, to_ms: u32) -> bool {
        let apart_ms = to_ms - from_ms;
        apart_ms > GAP_MS || apart_ms > UNSEEN_MS && self.is_at(from_ms + apart_ms / 2)
    }
}

/// Returns the smoothed position of a fix on a walk.
fn smoothed(fixes: &[Fix], fix: &Fix) -> Place {
    let first = fixes.partition_point(|one| one.t_ms.saturating_add(SMOOTHED_MS) < fix.t_ms);
    let last = fixes.partition_point(|one| one.t_ms <= fix.t_ms.saturating_add(SMOOTHED_MS));
    let around = fixes.get(first..last).unwrap_or_default();
    mean_of(around).map_or(fix.place, |mean| mean.place)
}

/// Returns the stays and climbs of the path.
fn halts(ctx: &ScoringContext<'_>) -> Vec<Halt> {
    let types = [EventType::Stopped, EventType::Stairs, EventType::Elevator];
    let events = ctx
        .timeline
        .iter()
        .filter(|event| types.contains(&event.event_type));
    events
        .filter_map(|event| {
            let to_ms = event_end_ms(event, ctx.end_ms);
            Some(Halt {
                event: **event,
                place: ctx.estimate(event.t_start_ms, to_ms)?.place,
                duration_ms: to_ms - event.t_start_ms,
            })
        })
        .collect()
}

/// Returns the mode of travel at a time, of the movement events in the order of their starts.
fn mode_at(movements: &[&Event], end_ms: u32, t_ms: u32) -> TravelMode {
    let during = item_at(movements, t_ms, |event| {
        (event.t_start_ms, event_end_ms(event, end_ms))
    });
    match during.map(|event| event.event_type) {
        Some(EventType::Driving) => TravelMode::Drive,
        Some(EventType::Walking | EventType::Stopped) => TravelMode::Walk,
        Some(EventType::Stairs) => TravelMode::Stairs,
        Some(EventType::Elevator) => TravelMode::Elevator,
        _ => TravelMode::Other,
    }
}

/// Returns the path, leg by leg; each begins where the previous one ended. Stays and climbs are
/// single points.
fn legs(ctx: &ScoringContext<'_>, fixes: &[Fix], halts: &[Halt]) -> Vec<Leg> {
    let bad = BadReception::new(ctx);
    let timeline = ctx.timeline.iter().copied();
    let movements: Vec<&Event> = timeline
        .filter(|event| event.event_type.is_movement())
        .collect();
    let mut legs: Vec<Leg> = Vec::new();
    let mut before: Option<(u32, Place)> = None;
    for fix in fixes {
        let halt = item_at(halts, fix.t_ms, |halt| {
            let from_ms = halt.event.t_start_ms;
            (from_ms, from_ms.saturating_add(halt.duration_ms))
        });
        let mode = mode_at(&movements, ctx.end_ms, fix.t_ms);
        if halt.is_none() && mode != TravelMode::Drive && bad.is_at(fix.t_ms) {
            continue;
        }
        let place = match halt {
            Some(halt) => halt.place,
            None if mode == TravelMode::Walk => smoothed(fixes, fix),
            None => fix.place,
        };
        if let Some((_, last)) = before.filter(|(t_ms, _)| bad.hides(*t_ms, fix.t_ms)) {
            legs.push(Leg {
                mode: TravelMode::Unseen,
                places: vec![last, place],
            });
        }
        match legs.last_mut() {
            Some(leg) if leg.mode == mode => {
                if leg.places.last() != Some(&place) {
                    leg.places.push(place);
                }
            }
            last => {
                let joint = last.and_then(|leg| leg.places.last().copied());
                legs.push(Leg {
                    mode,
                    places: joint.into_iter().chain([place]).collect(),
                });
            }
        }
        before = Some((fix.t_ms, place));
    }
    legs
}

#[cfg(test)]
mod tests {
    use porchlight_schema::event::{Confidence, Metadata};

    use super::*;

    #[test]
    fn a_stay_holds_the_door_that_begins_with_it() {
        let place = Place {
            east_m: 3.0,
            north_m: 4.0,
        };
        let stay = Halt {
            event: Event {
                event_type: EventType::Stopped,
                t_start_ms: 1_001,
                t_end_ms: Some(31_001),
                confidence: Confidence::from_probability(0.9),
                metadata: Metadata::None,
            },
            place,
            duration_ms: 30_000,
        };
        let door = Spot {
            t_ms: 1_001,
            place: None,
        };
        assert_eq!(at_halt(door, &[stay]).place, Some(place));
    }
}
