//! The track of a scored session, as it is drawn: legs by movement, stays, climbs, entrance, door, and the heights on
//! foot. How it is drawn is decided elsewhere.

use porchlight_schema::event::{Event, EventType};
use porchlight_schema::insight::Score;
use porchlight_schema::limits::GAP_MS;

use crate::context::SessionContext;
use crate::geo::Place;
use crate::score::position::mean_of;
use crate::score::scene::{Scene, end_of};
use crate::score::{Knowledge, ScoreInput};
use crate::window::{Fix, Window};

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
/// How long the zero of the heights is averaged from the start of the time on foot.
const ZERO_MS: u32 = 15_000;
/// How much of the heights before and after the time on foot is given.
const AROUND_MS: u32 = 10_000;

/// The input of [`Track::of`].
#[derive(Debug, Clone, Copy)]
pub struct PathInput<'a> {
    /// What was known of the address.
    pub context: &'a SessionContext,
    /// All windows of the session, in order of time.
    pub windows: &'a [Window],
    /// The session's score.
    pub score: &'a Score,
    /// From the session's start to its end.
    pub duration_ms: u32,
}

/// How a leg was gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Way {
    /// In a vehicle.
    Drive,
    /// On foot.
    Walk,
    /// By stairs.
    Stairs,
    /// By elevator.
    Elevator,
    /// The movement is unknown.
    Other,
    /// There was no position.
    Unseen,
}

/// A part of the path that was gone in one way.
#[derive(Debug, Clone, PartialEq)]
pub struct Leg {
    /// The movement.
    pub way: Way,
    /// The positions, in order of time.
    pub places: Vec<Place>,
}

/// Something that took a while in one place.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Halt {
    /// The stay or climb.
    pub event: Event,
    /// Where it was.
    pub place: Place,
    /// How long it took.
    pub duration_ms: u32,
}

/// A time, and where that was.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spot {
    /// When, from the session's start.
    pub t_ms: u32,
    /// Where; none without a position at that time.
    pub place: Option<Place>,
}

/// The height at one moment on foot.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HeightAt {
    /// When, from the session's start.
    pub t_ms: u32,
    /// Metres above the start of the time on foot.
    pub height_m: f32,
}

/// The heights from the barometer around the time on foot.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Heights {
    /// Where they start.
    pub from_ms: u32,
    /// Where they end.
    pub to_ms: u32,
    /// In order of time; empty without a barometer.
    pub levels: Vec<HeightAt>,
}

/// The track.
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
    /// The building's entrance, where the score found one.
    pub entrance: Option<Spot>,
    /// The recipient's door, where the score found one.
    pub door: Option<Spot>,
    /// What is to be seen in any case.
    pub focus: Vec<Place>,
    /// The time on foot that the profile shows.
    pub foot: (u32, u32),
    /// The heights around that time.
    pub heights: Heights,
    /// How exactly the address is known.
    pub address_accuracy_m: f32,
}

impl Track {
    /// The track of a scored session; `None` if it has fewer than two fixes.
    #[must_use]
    pub fn of(input: &PathInput<'_>) -> Option<Self> {
        let known = Knowledge::default();
        let scored = ScoreInput {
            context: input.context,
            windows: input.windows,
            events: &input.score.events,
            marks: &[],
            system: &[],
            pod: None,
            duration_ms: input.duration_ms,
            timed_out: false,
            missing_batches: 0,
            quarantined_batches: 0,
            known: &known,
        };
        Self::new(&Scene::new(&scored), input.score)
    }

    fn new(scene: &Scene<'_>, score: &Score) -> Option<Self> {
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
            heights: Heights::default(),
            address_accuracy_m: scene.input.context.accuracy_m,
        };
        track.look_at(scene, &fixes);
        track.heights = heights(scene, track.foot);
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

    /// Whether a leg was gone in this way.
    #[must_use]
    pub fn has(&self, way: Way) -> bool {
        self.legs.iter().any(|leg| leg.way == way)
    }
}

/// The heights around the time on foot.
fn heights(scene: &Scene<'_>, foot: (u32, u32)) -> Heights {
    let from_ms = foot.0.saturating_sub(AROUND_MS);
    let to_ms = foot.1.saturating_add(AROUND_MS).min(scene.end_ms);
    let levels = scene.height.levels(from_ms, to_ms.saturating_add(1));
    let zero_m = scene
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
