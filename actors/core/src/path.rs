//! The track as it is to be drawn: legs by movement, stays, climbs, entrance and door.

use porchlight_schema::event::{Event, EventType, Metadata};
use porchlight_schema::insight::Score;
use porchlight_schema::limits::GAP_MS;

use crate::geo::Place;
use crate::score::position::mean_of;
use crate::score::scene::{Scene, end_of};
use crate::window::Fix;

/// Fixes worse than this are drawn only where there are no better ones: they would make a star of a walk indoors.
const DRAWN_ACCURACY_M: f32 = 45.0;
/// A foot part belongs to the picture when it comes this near to the address.
const NEAR_ADDRESS_M: f32 = 250.0;
/// A walk is smoothed over this much before and after each fix: a phone's error changes slower than a step is made.
const SMOOTHED_MS: u32 = 3_500;
/// Where reception is bad for longer than this, what the phone says of its position is not drawn as a path.
const UNSEEN_MS: u32 = 8_000;
/// Around an instant, what its position is taken from.
const INSTANT_MS: u32 = 2_000;

/// How a leg was gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Way {
    Drive,
    Walk,
    Stairs,
    Elevator,
    /// What was not told.
    Other,
    /// There was no position.
    Unseen,
}

/// A part of the path that was gone in one way.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Leg {
    pub(super) way: Way,
    pub(super) places: Vec<Place>,
}

/// Something that took a while in one place.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Halt {
    pub(super) event: Event,
    pub(super) place: Place,
    pub(super) duration_ms: u32,
}

/// A time, and where that was.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Spot {
    pub(super) t_ms: u32,
    pub(super) place: Option<Place>,
}

/// The track.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Track {
    pub(super) legs: Vec<Leg>,
    pub(super) stays: Vec<Halt>,
    pub(super) climbs: Vec<Halt>,
    pub(super) start: Place,
    pub(super) end: Place,
    pub(super) entrance: Option<Spot>,
    pub(super) door: Option<Spot>,
    /// What is to be seen in any case.
    pub(super) focus: Vec<Place>,
    /// The time on foot that the profile shows.
    pub(super) foot: (u32, u32),
    pub(super) address_accuracy_m: f32,
}

impl Track {
    /// The track of a scene. None: there are fewer than two fixes.
    pub(super) fn new(scene: &Scene<'_>, score: &Score) -> Option<Self> {
        let fixes = drawn(&scene.fixes);
        let (first, last) = (fixes.first()?, fixes.last()?);
        if fixes.len() < 2 {
            return None;
        }
        let halts = halts(scene);
        let legs = legs(scene, &fixes, &halts);
        let door = spot(scene, score, "timeAtDoorSec").map(|door| at_halt(door, &halts));
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
            entrance: spot(scene, score, "timeFromEntranceToDoorSec"),
            door,
            focus: Vec::new(),
            foot: (0, scene.end_ms),
            address_accuracy_m: scene.input.context.accuracy_m,
        };
        track.look_at(scene, &fixes);
        Some(track)
    }

    /// Chooses what is to be seen: the parts on foot near the address, or the longest one, or all there is.
    fn look_at(&mut self, scene: &Scene<'_>, fixes: &[Fix]) {
        let of = |(from_ms, to_ms): (u32, u32)| {
            let inside = move |fix: &&Fix| (from_ms..=to_ms).contains(&fix.t_ms);
            fixes.iter().filter(inside).map(|fix| fix.place)
        };
        let mut feet: Vec<(u32, u32)> = scene
            .feet
            .iter()
            .map(|foot| (foot.from_ms, foot.to_ms))
            .collect();
        let near = |span: &(u32, u32)| {
            of(*span).any(|place| place.distance_m(Place::default()) <= NEAR_ADDRESS_M)
        };
        if feet.iter().any(near) {
            feet.retain(near);
        } else {
            feet.sort_by_key(|(from_ms, to_ms)| to_ms - from_ms);
            feet.drain(..feet.len().saturating_sub(1));
        }
        self.focus = feet.iter().flat_map(|&span| of(span)).collect();
        if self.focus.len() < 2 {
            self.focus = fixes.iter().map(|fix| fix.place).collect();
        }
        self.focus.extend(self.door.and_then(|door| door.place));
        let door_ms = self.door.map(|door| door.t_ms);
        let at_door =
            |span: &&(u32, u32)| door_ms.is_some_and(|t_ms| (span.0..=span.1).contains(&t_ms));
        let longest = feet.iter().max_by_key(|(from_ms, to_ms)| to_ms - from_ms);
        if let Some(&foot) = feet.iter().find(at_door).or(longest) {
            self.foot = foot;
        }
    }

    /// The ways that occur.
    pub(super) fn has(&self, way: Way) -> bool {
        self.legs.iter().any(|leg| leg.way == way)
    }
}

/// The fixes that are exact enough, or all where that leaves none.
fn drawn(fixes: &[Fix]) -> Vec<Fix> {
    let good = fixes
        .iter()
        .filter(|fix| fix.accuracy_m <= DRAWN_ACCURACY_M);
    let good: Vec<_> = good.copied().collect();
    if good.len() < 2 { fixes.to_vec() } else { good }
}

/// When and where something was, by the evidence that the score gives for the time of it.
fn spot(scene: &Scene<'_>, score: &Score, about: &str) -> Option<Spot> {
    let evidence = score.evidence.iter().find(|one| one.about == about)?;
    let ms = |seconds: Option<f64>| seconds.map(|seconds| (seconds * 1_000.0) as u32);
    let from_ms = ms(evidence.t_start)?;
    let is_door = about == "timeAtDoorSec";
    let to_ms = ms(evidence.t_end).filter(|_| is_door);
    let around = match to_ms {
        Some(to_ms) => (from_ms, to_ms),
        None => (
            from_ms.saturating_sub(INSTANT_MS),
            from_ms.saturating_add(INSTANT_MS),
        ),
    };
    let known = scene.input.context.entrance.filter(|_| !is_door);
    let seen = scene.estimate(around.0, around.1);
    Some(Spot {
        t_ms: from_ms,
        place: known.or(seen.map(|estimate| estimate.place)),
    })
}

/// The same time, where the stay is that it falls into.
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

/// Whether reception was bad at this time: outside of stays such a fix is no place on a path.
fn is_bad_at(scene: &Scene<'_>, t_ms: u32) -> bool {
    let bad = scene
        .events(EventType::GpsDegraded)
        .chain(scene.events(EventType::GpsLost));
    bad.into_iter()
        .any(|event| event.t_start_ms <= t_ms && t_ms < end_of(event, scene.end_ms))
}

/// Whether nothing can be said of the way between two fixes.
fn is_unseen(scene: &Scene<'_>, from_ms: u32, to_ms: u32) -> bool {
    let apart_ms = to_ms - from_ms;
    apart_ms > GAP_MS || apart_ms > UNSEEN_MS && is_bad_at(scene, from_ms + apart_ms / 2)
}

/// Where a fix of a walk was, by those around it.
fn smoothed(fixes: &[Fix], fix: &Fix) -> Place {
    let first = fixes.partition_point(|one| one.t_ms.saturating_add(SMOOTHED_MS) < fix.t_ms);
    let last = fixes.partition_point(|one| one.t_ms <= fix.t_ms.saturating_add(SMOOTHED_MS));
    let around = fixes.get(first..last).unwrap_or_default();
    mean_of(around).map_or(fix.place, |mean| mean.place)
}

/// What took a while in one place: stays and climbs.
fn halts(scene: &Scene<'_>) -> Vec<Halt> {
    let types = [EventType::Stopped, EventType::Stairs, EventType::Elevator];
    let events = scene
        .timeline
        .iter()
        .filter(|event| types.contains(&event.event_type));
    events
        .filter_map(|event| {
            let to_ms = end_of(event, scene.end_ms);
            Some(Halt {
                event: **event,
                place: scene.estimate(event.t_start_ms, to_ms)?.place,
                duration_ms: to_ms - event.t_start_ms,
            })
        })
        .collect()
}

fn way_of(scene: &Scene<'_>, t_ms: u32) -> Way {
    let during = scene.timeline.iter().find(|event| {
        event.event_type.is_movement()
            && event.t_start_ms <= t_ms
            && t_ms < end_of(event, scene.end_ms)
    });
    match during.map(|event| event.event_type) {
        Some(EventType::Driving) => Way::Drive,
        Some(EventType::Walking | EventType::Stopped) => Way::Walk,
        Some(EventType::Stairs) => Way::Stairs,
        Some(EventType::Elevator) => Way::Elevator,
        _ => Way::Other,
    }
}

/// The path, leg by leg; each begins where the one before it ended. What took a while in one place is one point.
fn legs(scene: &Scene<'_>, fixes: &[Fix], halts: &[Halt]) -> Vec<Leg> {
    let mut legs: Vec<Leg> = Vec::new();
    let mut before: Option<(u32, Place)> = None;
    for fix in fixes {
        let halt = halts.iter().find(|halt| {
            let end_ms = halt.event.t_start_ms.saturating_add(halt.duration_ms);
            (halt.event.t_start_ms..end_ms).contains(&fix.t_ms)
        });
        let way = way_of(scene, fix.t_ms);
        if halt.is_none() && way != Way::Drive && is_bad_at(scene, fix.t_ms) {
            continue;
        }
        let place = match halt {
            Some(halt) => halt.place,
            None if way == Way::Walk => smoothed(fixes, fix),
            None => fix.place,
        };
        if let Some((_, last)) = before.filter(|(t_ms, _)| is_unseen(scene, *t_ms, fix.t_ms)) {
            legs.push(Leg {
                way: Way::Unseen,
                places: vec![last, place],
            });
        }
        match legs.last_mut() {
            Some(leg) if leg.way == way => {
                if leg.places.last() != Some(&place) {
                    leg.places.push(place);
                }
            }
            last => {
                let joint = last.and_then(|leg| leg.places.last().copied());
                legs.push(Leg {
                    way,
                    places: joint.into_iter().chain([place]).collect(),
                });
            }
        }
        before = Some((fix.t_ms, place));
    }
    legs
}

/// What a climb is labelled with: `3 floors up`.
pub(super) fn climb_words(event: &Event) -> String {
    let Metadata::Climb {
        floors,
        direction,
        height_cm,
    } = event.metadata
    else {
        return String::new();
    };
    let way = match direction {
        porchlight_schema::event::Direction::Up => "up",
        porchlight_schema::event::Direction::Down => "down",
    };
    match (floors, height_cm) {
        (Some(1), _) => format!("1 floor {way}"),
        (Some(floors), _) => format!("{floors} floors {way}"),
        (None, Some(height_cm)) => format!("{:.0} m {way}", f64::from(height_cm) / 100.0),
        (None, None) => way.to_owned(),
    }
}
