//! Floors from the entrance to the drop-off, and whether an elevator was used.

use porchlight_schema::event::{Direction, Event, EventType, Metadata, seconds};

use super::height::{Rise, rise};
use super::ledger::{Ledger, words};
use super::place::Places;
use super::place::stays::SAME_FLOOR_M;
use super::scene::{Foot, Scene, end_of, overlap_ms};
use crate::storeys::{STOREY_M, Storeys};

/// Before the way in, what the ground's level is taken from.
const GROUND_MS: u32 = 20_000;
/// After the entrance the level still counts as the ground's: halls are level.
const HALL_MS: u32 = 5_000;
/// A door's gust is gone after this, and the first step of a climb may lie this long before it shows.
const DOOR_MS: u32 = 2_000;
const FOOT_MS: u32 = 1_000;
/// Around a hand-over without a stay.
const INSTANT_MS: u32 = 5_000;
/// The sum of the climbs and the difference of the levels agree within this, metres.
const AGREE_M: f32 = 1.5;
/// On foot a street of one in ten makes less than this in that time; stairs make twice as much.
const STEEP_M: f32 = 2.8;
const STEEP_MS: u32 = 20_000;
/// Stairs are not climbed faster, m/s (research 2.0: 0.2 to 0.35, the quickest half a metre).
const STAIRS_MPS: f32 = 0.5;
/// An event below this is not counted on.
const CONFIDENCE_LEAST: f64 = 0.4;
/// This much of the time must be heard before "none" may be said.
const HEARD_SHARE: f64 = 0.8;
/// Pressure no rarer than this shows every climb: the slope of a height is taken over seven seconds.
const PRESSURE_GAP_MS: u32 = 2_000;
/// A rise of this much that no event explains leaves open how it was made.
const UNEXPLAINED_M: f32 = 2.2;

/// The way up or down.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Climb {
    pub(crate) floors: Option<i16>,
    /// The rise from entrance to drop-off; none where pressure was not heard at both.
    pub(crate) rise: Option<Rise>,
    pub(crate) elevator_used: Option<bool>,
}

/// What is known of the storeys: the address first, then earlier sessions, then the model.
pub(crate) fn storeys(scene: &Scene<'_>) -> Storeys {
    if let Some(storey_m) = scene
        .input
        .context
        .storey_height_m
        .filter(|metres| STOREY_M.contains(metres))
    {
        return Storeys::Given(storey_m);
    }
    match scene.input.known.storeys() {
        Some((storey_m, floors)) => Storeys::Learned { floors, storey_m },
        None => Storeys::Model,
    }
}

pub(crate) fn find(scene: &Scene<'_>, places: &Places, ledger: &mut Ledger) -> Climb {
    let span = span(scene, places);
    let elevator_used = elevator_used(scene, places, ledger);
    let Some((from_ms, to_ms, foot)) = span else {
        let text = "No hand-over was found, so that floors cannot be counted.";
        ledger.add(
            "floorsClimbed",
            "no_drop_off",
            0.0,
            None,
            words(text, "The stop may have been too short to see."),
        );
        return Climb {
            floors: None,
            rise: None,
            elevator_used,
        };
    };
    // Without a hand-over the end counts only where it is on another floor: one who came back shows nothing.
    let ended_level = |rise: &Rise| places.drop_off.is_none() && rise.metres.abs() < SAME_FLOOR_M;
    let rise = measured(scene, places, (from_ms, to_ms), foot).filter(|rise| !ended_level(rise));
    let floors = match rise {
        Some(rise) => super::storey_count::floors(scene, rise.metres),
        None => floors_by_events(scene, from_ms, to_ms),
    };
    explain(scene, (from_ms, to_ms), rise, floors, ledger);
    Climb {
        floors,
        rise,
        elevator_used,
    }
}

/// From the entrance (or, where one does not go in, from the vehicle) to the hand-over.
fn span(scene: &Scene<'_>, places: &Places) -> Option<(u32, u32, Foot)> {
    let reached_ms = places.reached_ms?;
    let foot = super::place::foot_at(scene, reached_ms)?;
    let from_ms = places
        .entrance
        .map_or(foot.from_ms, |entrance| entrance.at_ms);
    Some((from_ms.min(reached_ms), reached_ms, foot))
}

/// The rise by pressure. With an entrance: between the two levels, as long as the climbs in between agree;
/// otherwise the climbs alone, because a street may rise too.
fn measured(
    scene: &Scene<'_>,
    places: &Places,
    (from_ms, to_ms): (u32, u32),
    foot: Foot,
) -> Option<Rise> {
    let door = places.door().map_or(
        (
            to_ms.saturating_sub(INSTANT_MS),
            to_ms.saturating_add(INSTANT_MS),
        ),
        |stay| (stay.from_ms, stay.to_ms),
    );
    let door_level = scene.height.level(door.0, door.1)?;
    let ground_from_ms = from_ms
        .saturating_sub(GROUND_MS)
        .max(foot.from_ms.saturating_sub(GROUND_MS));
    let climbs = climbs(scene, from_ms, to_ms);
    let first_climb_ms = climbs.first().map_or(to_ms, |event| event.t_start_ms);
    let ground_to_ms = from_ms
        .saturating_add(HALL_MS)
        .min(first_climb_ms.max(from_ms.saturating_add(1_000)));
    let by_climbs = climbs
        .iter()
        .try_fold(0.0, |sum, event| Some(sum + signed_height_m(event)?));
    // The air of a house is not that of the street: where one was in the hall for some seconds, its level counts.
    let in_hall = (
        from_ms.saturating_add(DOOR_MS),
        first_climb_ms.saturating_sub(FOOT_MS),
    );
    let ground = places
        .entrance
        .filter(|entrance| entrance.is_timed() && !climbs.is_empty())
        .and_then(|_| scene.height.level(in_hall.0, in_hall.1))
        .or_else(|| scene.height.level(ground_from_ms, ground_to_ms));
    let by_levels = ground.and_then(|ground| rise(ground, door_level));
    match (by_levels, by_climbs) {
        // A climb that nobody saw: how much of the difference it was, and how much the street, cannot be told.
        (Some(levels), Some(climbed))
            if places.entrance.is_none()
                && (levels.metres - climbed).abs() > UNEXPLAINED_M
                && is_steep(scene, (from_ms, to_ms)) =>
        {
            None
        }
        (Some(levels), Some(climbed)) if places.entrance.is_none() => Some(Rise {
            metres: climbed,
            sigma_m: levels.sigma_m,
        }),
        (Some(levels), Some(climbed)) if (levels.metres - climbed).abs() <= AGREE_M => Some(levels),
        // They disagree: an entrance known by more than the climb itself makes the levels the better witness.
        (Some(levels), Some(climbed)) => {
            let timed = places.entrance.is_some_and(|entrance| entrance.is_timed());
            Some(if timed {
                levels
            } else {
                Rise {
                    metres: climbed,
                    ..levels
                }
            })
        }
        (levels, None) => levels,
        (None, Some(_)) => None,
    }
}

/// Whether the level changes faster than on a street, outside of any climb that was seen.
fn is_steep(scene: &Scene<'_>, (from_ms, to_ms): (u32, u32)) -> bool {
    let seen = climbs(scene, from_ms, to_ms);
    let mut at_ms = from_ms;
    while at_ms < to_ms {
        let span = (at_ms, at_ms.saturating_add(STEEP_MS).min(to_ms));
        let is_seen = seen
            .iter()
            .any(|event| overlap_ms((event.t_start_ms, end_of(event, scene.end_ms)), span) > 0);
        let levels = scene.height.levels(span.0, span.1);
        if let (Some(first), Some(last)) = (levels.first(), levels.last())
            && !is_seen
            && (last.height_m - first.height_m).abs() > STEEP_M
        {
            return true;
        }
        at_ms = at_ms.saturating_add(STEEP_MS / 2);
    }
    false
}

fn climbs<'a>(scene: &Scene<'a>, from_ms: u32, to_ms: u32) -> Vec<&'a Event> {
    let is_climb =
        |event: &&Event| matches!(event.event_type, EventType::Stairs | EventType::Elevator);
    let events = scene.timeline.iter().copied().filter(is_climb);
    // A climb that begins a few seconds before the entrance's estimate still belongs to it.
    let from_ms = from_ms.saturating_sub(INSTANT_MS);
    events
        .filter(|event| {
            event.t_start_ms >= from_ms
                && end_of(event, scene.end_ms) <= to_ms.saturating_add(INSTANT_MS)
        })
        .collect()
}

fn signed_height_m(event: &Event) -> Option<f32> {
    let Metadata::Climb {
        direction,
        height_cm,
        ..
    } = event.metadata
    else {
        return None;
    };
    let height_m = height_cm? as f32 / 100.0;
    Some(if direction == Direction::Down {
        -height_m
    } else {
        height_m
    })
}

/// Without pressure: the floors of the climbs, where the detectors could count them.
fn floors_by_events(scene: &Scene<'_>, from_ms: u32, to_ms: u32) -> Option<i16> {
    let climbs = climbs(scene, from_ms, to_ms);
    if climbs.is_empty() {
        return None;
    }
    climbs.iter().try_fold(0_i16, |sum, event| {
        let Metadata::Climb {
            floors, direction, ..
        } = event.metadata
        else {
            return None;
        };
        let floors = i16::try_from(floors?).ok()?;
        let trusted = event.confidence.as_probability() >= CONFIDENCE_LEAST;
        let signed = if direction == Direction::Down {
            -floors
        } else {
            floors
        };
        if trusted {
            sum.checked_add(signed)
        } else {
            None
        }
    })
}

fn explain(
    scene: &Scene<'_>,
    span: (u32, u32),
    rise: Option<Rise>,
    floors: Option<i16>,
    ledger: &mut Ledger,
) {
    let how = match storeys(scene) {
        Storeys::Given(_) => "the storey height of the address",
        Storeys::Learned { .. } => {
            "the storey height learned from earlier deliveries to this building"
        }
        Storeys::Model => "an average storey height",
    };
    let (signal, text) = match (rise, floors) {
        (Some(rise), Some(floors)) => {
            let metres = super::ledger::rounded(f64::from(rise.metres));
            let counted = storeys(scene).floors(rise.metres);
            let near = match counted {
                Some(counted) if counted != floors => format!("; {counted} would be as likely, but the address is on floor {floors}"),
                _ => String::new(),
            };
            ("height_by_pressure", format!("The air pressure shows {metres:.1} m from the entrance to the drop-off, which is {floors} floors by {how}{near}."))
        }
        (Some(_), None) => ("height_implausible", "The air pressure shows a height that no building has.".to_owned()),
        (None, Some(floors)) => ("floors_by_motion", format!("The height was not measured; the climbs themselves add up to {floors} floors.")),
        (None, None) => ("height_not_measured", "The height from the entrance to the drop-off was not measured, so that floors cannot be counted.".to_owned()),
    };
    let points = floors.map_or(0.0, f64::from);
    ledger.add(
        "floorsClimbed",
        signal,
        points,
        Some(span),
        words(
            text,
            "Storeys differ in height, and weather moves the air pressure.",
        ),
    );
}

/// Whether a ride was seen; "no" only where pressure (or vertical acceleration) was heard nearly all the time.
fn elevator_used(scene: &Scene<'_>, places: &Places, ledger: &mut Ledger) -> Option<bool> {
    // A ride before the courier left the vehicle is one of the vehicle's: a ramp, or a car lift.
    let within = |event: &Event| {
        places.foot.is_none_or(|foot| {
            overlap_ms(
                (event.t_start_ms, end_of(event, scene.end_ms)),
                (foot.from_ms, foot.to_ms),
            ) > 0
        })
    };
    let ride = scene.events(EventType::Elevator).find(|event| {
        event.confidence.as_probability() >= CONFIDENCE_LEAST
            && within(event)
            && !may_be_stairs(scene, event)
    });
    if let Some(ride) = ride {
        let span = (ride.t_start_ms, end_of(ride, scene.end_ms));
        let length_sec = seconds(span.1.saturating_sub(span.0));
        let text = format!("An elevator ride of {length_sec:.0} s was seen.");
        ledger.add(
            "elevatorUsed",
            "elevator_ride",
            1.0,
            Some(span),
            words(text, "An escalator on which one stands looks alike."),
        );
        return Some(true);
    }
    let foot = places.foot.or_else(|| scene.feet.first().copied());
    let (from_ms, to_ms) = foot.map_or((0, scene.end_ms), |foot| (foot.from_ms, foot.to_ms));
    let seconds_in = f64::from(to_ms.saturating_sub(from_ms) / 1000).max(1.0);
    let pressure = f64::from(height_heard_ms(scene, (from_ms, to_ms)) / 1000) / seconds_in;
    let windows = scene.windows(from_ms, to_ms);
    let vertical = windows.iter().filter(|window| {
        window
            .motion
            .is_some_and(|motion| motion.vertical_mean.is_some())
    });
    let vertical = vertical.count() as f64 / seconds_in;
    let told = (pressure >= HEARD_SHARE && !unexplained_rise(scene, (from_ms, to_ms)))
        || vertical >= HEARD_SHARE;
    if told {
        let text = "Height was measured nearly all the time on foot, and no ride shows in it.";
        ledger.add(
            "elevatorUsed",
            "no_ride",
            0.0,
            Some((from_ms, to_ms)),
            words(text, "A very slow elevator may be taken for stairs."),
        );
        return Some(false);
    }
    let text = "Neither air pressure nor vertical acceleration was heard well enough to tell.";
    ledger.add(
        "elevatorUsed",
        "height_not_measured",
        0.0,
        Some((from_ms, to_ms)),
        words(text, "Some phones have no barometer."),
    );
    None
}

/// How long of `from_ms..to_ms` pressure was heard often enough for a ride to show, milliseconds.
fn height_heard_ms(scene: &Scene<'_>, (from_ms, to_ms): (u32, u32)) -> u32 {
    let levels = scene.height.levels(from_ms, to_ms);
    let next = levels.iter().skip(1).map(|level| level.t_ms);
    let lengths = levels
        .iter()
        .zip(next.chain([to_ms]))
        .map(|(level, next_ms)| next_ms.saturating_sub(level.t_ms));
    lengths
        .filter(|length_ms| *length_ms <= PRESSURE_GAP_MS)
        .fold(0, u32::saturating_add)
}

/// Whether a ride is as slow as stairs and nothing of the body was measured in it: it may have been either.
fn may_be_stairs(scene: &Scene<'_>, ride: &Event) -> bool {
    let (from_ms, to_ms) = (ride.t_start_ms, end_of(ride, scene.end_ms));
    let told = scene
        .windows(from_ms, to_ms)
        .iter()
        .any(|window| window.hears_body());
    let length_sec = seconds(to_ms.saturating_sub(from_ms)) as f32;
    !told && signed_height_m(ride).is_some_and(|height_m| height_m.abs() <= STAIRS_MPS * length_sec)
}

/// Whether the level changed by a floor within a minute without any event that says how.
fn unexplained_rise(scene: &Scene<'_>, (from_ms, to_ms): (u32, u32)) -> bool {
    const MINUTE_MS: u32 = 60_000;
    let stairs: Vec<(u32, u32)> = scene
        .events(EventType::Stairs)
        .map(|event| (event.t_start_ms, end_of(event, scene.end_ms)))
        .collect();
    let mut at_ms = from_ms;
    while at_ms < to_ms {
        let next_ms = at_ms.saturating_add(MINUTE_MS);
        let span = (at_ms, next_ms.min(to_ms));
        let levels = scene
            .height
            .levels(span.0, span.1)
            .iter()
            .map(|level| level.height_m);
        let (low, high) = levels.fold((f32::INFINITY, f32::NEG_INFINITY), |(low, high), height| {
            (low.min(height), high.max(height))
        });
        // Outdoors a walk of a minute over a hill changes the level as well; half a floor more is left to it.
        if high - low > UNEXPLAINED_M * 1.5
            && !stairs.iter().any(|stairs| overlap_ms(*stairs, span) > 0)
        {
            return true;
        }
        at_ms = next_ms;
    }
    false
}
