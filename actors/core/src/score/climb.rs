//! Measures the climb from the entrance to the drop-off: its height, its floors, and whether an
//! elevator was used.

pub(super) mod elevator;
mod garage;
mod ground;
mod landings;
pub(super) mod leap;
mod lost;
mod ride_speed;
mod stops;
mod street;
mod way_back;

use core::ops::RangeInclusive;
use std::fmt::Write as _;

use porchlight_schema::event::{Direction, Event, EventType, Metadata};
use porchlight_schema::insight::statement;

use ground::Height;
use way_back::Doubt;

use super::evidence_log::{EvidenceLog, EvidenceText};
use super::height::Rise;
use super::place::{DropOffSource, Places, open_way};
use super::scoring_context::{FootPeriod, ScoringContext};
use crate::floors::{Building, Estimate, Measured, PlaceKind, STOREY_M};
use crate::score::parameters::door::climb::{
    AGREE_M, CLIMB_SIGMA_M, CONFIDENCE_MIN, INSTANT_MS, PRESSURE_GOES_ON_MS, RUNNERS_UP,
};
use crate::score::parameters::place::stays::SAME_FLOOR_M;

/// The way up or down from the entrance to the drop-off.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Climb {
    /// The probability of each floor, or `None` if no height was measured.
    pub(crate) estimate: Option<Estimate>,
    pub(crate) floors: Option<i16>,
    /// The rise from entrance to drop-off, or `None` if pressure is missing at either.
    pub(crate) rise: Option<Rise>,
    pub(crate) elevator_used: Option<bool>,
    /// The floors that the climb may have led to, if a part of it was too slow to be detected.
    pub(crate) doubtful: Option<RangeInclusive<i16>>,
    /// The rise from the street, if the courier came from a garage below it.
    pub(crate) from_street: Option<FromStreet>,
    /// Whether the way back, or a change of the level without a climb, contradicts the rise.
    pub(crate) is_doubted: bool,
}

/// The rise from the street to the drop-off of a courier who came from a garage below it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct FromStreet {
    pub(crate) rise: Rise,
    pub(crate) estimate: Estimate,
}

impl Climb {
    /// Returns a climb of which no height is known.
    fn unknown(elevator_used: Option<bool>) -> Self {
        Self {
            estimate: None,
            floors: None,
            rise: None,
            elevator_used,
            doubtful: None,
            from_street: None,
            is_doubted: false,
        }
    }

    /// Returns the height of the drop-off above the ground floor, or `None` if it was not measured
    /// beyond doubt.
    pub(crate) fn height_m(&self) -> Option<f32> {
        let from_street = self.from_street.as_ref().map(|street| street.rise);
        let rise = from_street.or(self.rise).filter(|_| !self.is_doubted);
        rise.map(|rise| rise.metres)
    }
}

/// Returns the prior knowledge of the building, and whether it has an elevator.
fn building(
    ctx: &ScoringContext<'_>,
    places: &Places,
    elevator_used: Option<bool>,
    (from_ms, to_ms): (u32, u32),
) -> Building {
    let context = ctx.input.context;
    // An address with a floor shows that the parcel went to a floor; the number of the floor has no
    // influence. The towers in the recordings, with storeys of 3.6 m and more, have fast elevators.
    let is_handed_over = places
        .drop_off
        .is_some_and(|drop_off| drop_off.source != DropOffSource::Stay);
    let is_fast = ride_speed::is_fast(ctx, &climbs(ctx, from_ms, to_ms));
    Building {
        kind: context.place_kind,
        storey_m: context.storey_height_m,
        learned: ctx.input.known.floors(),
        has_elevator: elevator_used == Some(true),
        is_parcels_goal: (context.floor.is_some() || is_handed_over) && !is_fast,
    }
}

/// Measures the climb to the drop-off, and adds the evidence for its floors and for an elevator.
pub(crate) fn find(ctx: &ScoringContext<'_>, places: &Places, evidence: &mut EvidenceLog) -> Climb {
    let span = span(ctx, places);
    let elevator_used = elevator::is_used(ctx, places, evidence);
    let mut unknown = |reason, span| unknown(reason, span, elevator_used, evidence);
    let Some((from_ms, to_ms, foot)) = span else {
        return unknown(&NO_DROP_OFF, None);
    };
    if begins_with_drop_off(ctx, places) {
        return unknown(&BEGAN_AT_DOOR, None);
    }
    // Without a drop-off the end of the session counts only if it is on another floor: a courier
    // who has come back down shows no floor.
    let is_back_at_ground =
        |rise: &Rise| places.drop_off.is_none() && rise.metres.abs() < SAME_FLOOR_M;
    let way = match ground::measure(ctx, places, (from_ms, to_ms), foot) {
        Height::Measured(way) => Some(way).filter(|way| !is_back_at_ground(&way.rise)),
        Height::Unmeasured => None,
        Height::GroundUnknown => return unknown(&GROUND_UNKNOWN, Some((from_ms, to_ms))),
    };
    let rise = way.map(|way| way.rise);
    let detected_m = way.and_then(|way| way.detected_m);
    let building = building(ctx, places, elevator_used, (from_ms, to_ms));
    let measured = match rise {
        Some(rise) => {
            let ways = whole_ways(ctx, (from_ms, to_ms), foot, rise);
            let flights = ways.iter().filter_map(|way| landings::flights(ctx, way));
            let turns = ways.iter().filter_map(|way| stops::turns(ctx, way));
            Some(Measured {
                rise_m: rise.metres,
                sigma_m: rise.sigma_m,
                stops_m: stops::heights_m(ctx, places, (from_ms, to_ms), rise),
                flights: flights.collect(),
                turns: turns.collect(),
            })
        }
        None => measure_by_events(ctx, from_ms, to_ms),
    };
    let estimate = measured
        .as_ref()
        .and_then(|measured| Estimate::new(&building, measured));
    let doubtful = detected_m
        .zip(estimate.as_ref())
        .and_then(|(detected_m, found)| doubtful(&building, detected_m, found));
    let from_street = rise.and_then(|rise| from_street(ctx, foot, &building, (to_ms, rise)));
    let found = Climb {
        floors: estimate.as_ref().map(Estimate::best),
        estimate,
        rise,
        elevator_used,
        doubtful,
        from_street,
        is_doubted: false,
    };
    let measured_rise = rise.filter(|_| found.from_street.is_none());
    if let Some((rise, estimate)) = measured_rise.zip(found.estimate.as_ref())
        && let Some(doubt) = way_back::doubt(ctx, places, foot, (from_ms, to_ms), (rise, estimate))
    {
        return doubted(found, (rise, doubt), (from_ms, to_ms), evidence);
    }
    explain(
        &building,
        (from_ms, to_ms),
        measured.as_ref(),
        &found,
        evidence,
    );
    found
}

/// A reason for which floors cannot be counted: its signal, text and explanation.
type Reason = (&'static str, &'static str, &'static str);

const NO_DROP_OFF: Reason = (
    "no_drop_off",
    "No drop-off was found, so floors cannot be counted.",
    "The stop may have been too short to detect.",
);
const BEGAN_AT_DOOR: Reason = (
    "began_at_door",
    "The session began at the door, so the way up was not recorded.",
    "The app was started late.",
);
const GROUND_UNKNOWN: Reason = (
    "ground_unknown",
    "A part of the way to the drop-off was not recorded, so floors cannot be counted.",
    "No data arrived on the way, or the app was started late.",
);

/// Adds the evidence that no floors can be counted.
fn unknown(
    (signal, text, explanation): &Reason,
    span: Option<(u32, u32)>,
    elevator_used: Option<bool>,
    evidence: &mut EvidenceLog,
) -> Climb {
    let text = EvidenceText::new(*text, explanation);
    evidence.add(statement::FLOORS_CLIMBED, signal, 0.0, span, text);
    Climb::unknown(elevator_used)
}

/// Returns the climb without a number of floors, and adds the evidence against its rise.
fn doubted(
    found: Climb,
    (rise, doubt): (Rise, Doubt),
    span: (u32, u32),
    evidence: &mut EvidenceLog,
) -> Climb {
    let rise_m = rise.metres;
    let (signal, text) = match doubt {
        Doubt::Higher(back_m) => (
            "way_back_differs",
            format!(
                "Air pressure shows a rise of {rise_m:.1} m to the drop-off, but the climbs on the way back add up to {back_m:.1} m, so floors cannot be counted."
            ),
        ),
        Doubt::Unexplained => (
            "rise_unexplained",
            format!(
                "Air pressure shows a rise of {rise_m:.1} m to the drop-off, and changed by a floor or more before it without a detected climb, so floors cannot be counted."
            ),
        ),
    };
    let text = EvidenceText::new(text, "A part of the way up was not detected as a climb.");
    evidence.add(statement::FLOORS_CLIMBED, signal, 0.0, Some(span), text);
    Climb {
        floors: None,
        is_doubted: true,
        ..found
    }
}

/// Returns whether the courier was at the drop-off from the beginning of the session.
fn begins_with_drop_off(ctx: &ScoringContext<'_>, places: &Places) -> bool {
    ctx.began_at_door.is_some_and(|mark_ms| {
        let door = places.door_stay();
        door.is_some_and(|door| door.from_ms <= mark_ms.saturating_add(INSTANT_MS))
    })
}

/// Returns the floors that a climb may have led to if a part of it was not detected. They reach
/// from the floor of the detected part to the one beyond `found`, because the climb may have begun
/// still earlier.
fn doubtful(building: &Building, detected_m: f32, found: &Estimate) -> Option<RangeInclusive<i16>> {
    let detected = Measured {
        rise_m: detected_m,
        sigma_m: CLIMB_SIGMA_M,
        ..Measured::default()
    };
    let detected = Estimate::new(building, &detected)?.best();
    let found = found.best();
    Some(if detected_m < 0.0 {
        found.saturating_sub(1)..=detected
    } else {
        detected..=found.saturating_add(1)
    })
}

/// Measures the rise to the drop-off from the street, if the vehicle was parked in a garage below
/// it.
fn from_street(
    ctx: &ScoringContext<'_>,
    foot: FootPeriod,
    building: &Building,
    (to_ms, rise): (u32, Rise),
) -> Option<FromStreet> {
    let climbed_ms = climbs(ctx, foot.from_ms, to_ms)
        .first()
        .map(|event| event.t_start_ms)?;
    let down = garage::rise_to_vehicle(ctx, foot, climbed_ms)?;
    let rise = Rise {
        metres: rise.metres + down.metres,
        sigma_m: libm::hypotf(rise.sigma_m, down.sigma_m),
    };
    let measured = Measured {
        rise_m: rise.metres,
        sigma_m: rise.sigma_m,
        ..Measured::default()
    };
    let estimate = Estimate::new(building, &measured)?;
    Some(FromStreet { rise, estimate })
}

/// Returns the climbs of the way to the drop-off and those of the way back, each only if they add
/// up to the whole rise.
fn whole_ways<'a>(
    ctx: &ScoringContext<'a>,
    (from_ms, to_ms): (u32, u32),
    foot: FootPeriod,
    rise: Rise,
) -> Vec<Vec<&'a Event>> {
    let there = climbs(ctx, from_ms, to_ms);
    let back = climbs(ctx, to_ms.saturating_add(INSTANT_MS), foot.to_ms);
    let is_whole = |way: &[&Event], rise_m: f32| {
        sum_m(way).is_some_and(|climbed_m| (climbed_m - rise_m).abs() <= AGREE_M)
    };
    [(there, rise.metres), (back, -rise.metres)]
        .into_iter()
        .filter_map(|(way, rise_m)| is_whole(&way, rise_m).then_some(way))
        .collect()
}

/// Returns the span from the entrance to the drop-off. If the courier does not go in, it begins on
/// the last long way in the open, or at the vehicle.
fn span(ctx: &ScoringContext<'_>, places: &Places) -> Option<(u32, u32, FootPeriod)> {
    let reached_ms = places.reached_ms?;
    let foot = super::place::foot_period_at(ctx, reached_ms)?;
    let from_ms = places.entrance.map_or_else(
        || open_way::since_ms(ctx, foot, reached_ms).max(foot.from_ms),
        |entrance| entrance.at_ms,
    );
    Some((from_ms.min(reached_ms), reached_ms, foot))
}

/// Returns the stairs and rides within a span.
fn climbs<'a>(ctx: &ScoringContext<'a>, from_ms: u32, to_ms: u32) -> Vec<&'a Event> {
    let is_climb =
        |event: &&Event| matches!(event.event_type, EventType::Stairs | EventType::Elevator);
    let events = ctx.timeline.iter().copied().filter(is_climb);
    // A climb that begins a few seconds before the entrance's estimate still belongs to it.
    let from_ms = from_ms.saturating_sub(INSTANT_MS);
    events
        .filter(|event| {
            event.t_start_ms >= from_ms && ctx.end_of(event) <= to_ms.saturating_add(INSTANT_MS)
        })
        .collect()
}

/// Returns the height of a climb in metres, negative for down. Returns `None` if it was not
/// measured.
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

/// Returns the sum of the climbs' heights within a span in metres, or `None` if one of them was not
/// measured or continues beyond the end of the span.
pub(crate) fn net_height_m(ctx: &ScoringContext<'_>, from_ms: u32, to_ms: u32) -> Option<f32> {
    if is_climbing_through(ctx, (to_ms, to_ms)) {
        return None;
    }
    sum_m(&climbs(ctx, from_ms, to_ms))
}

/// Returns the sum of the heights of some climbs in metres, or `None` if one of them was not
/// measured.
fn sum_m(climbs: &[&Event]) -> Option<f32> {
    climbs
        .iter()
        .try_fold(0.0, |sum, event| Some(sum + signed_height_m(event)?))
}

/// Returns whether a climb begins before a span and ends after it.
fn is_climbing_through(ctx: &ScoringContext<'_>, (from_ms, to_ms): (u32, u32)) -> bool {
    ctx.climbs().any(|event| {
        event.t_start_ms < from_ms && ctx.end_of(event) > to_ms.saturating_add(INSTANT_MS)
    })
}

/// Measures the rise by the sum of the climbs' heights, if each was measured and is likely a climb.
/// It is used if the level at one of the two ends is unknown. A climb at whose end the barometer
/// stopped may have gone on, so its height is unknown.
fn measure_by_events(ctx: &ScoringContext<'_>, from_ms: u32, to_ms: u32) -> Option<Measured> {
    let climbs = climbs(ctx, from_ms, to_ms);
    if climbs.is_empty() {
        return None;
    }
    let rise_m = climbs.iter().try_fold(0.0, |sum, event| {
        let ended_ms = ctx.end_of(event);
        ctx.height
            .level(ended_ms, ended_ms.saturating_add(PRESSURE_GOES_ON_MS))?;
        let is_likely = event.confidence.as_probability() >= CONFIDENCE_MIN;
        Some(sum + signed_height_m(event).filter(|_| is_likely)?)
    })?;
    Some(Measured {
        rise_m,
        sigma_m: CLIMB_SIGMA_M * (climbs.len() as f32).sqrt(),
        ..Measured::default()
    })
}

/// Adds the evidence for the floors.
fn explain(
    building: &Building,
    span: (u32, u32),
    measured: Option<&Measured>,
    climb: &Climb,
    evidence: &mut EvidenceLog,
) {
    let assumption = match building {
        Building {
            storey_m: Some(storey_m),
            ..
        } if STOREY_M.contains(storey_m) => {
            format!("storeys of {storey_m:.1} m, as the address says")
        }
        Building { learned, .. } if !learned.is_empty() => {
            "the storeys learned from earlier deliveries to this building".to_owned()
        }
        Building { kind, .. } => match kind {
            PlaceKind::Dwelling | PlaceKind::Units => "the usual storeys of homes".to_owned(),
            PlaceKind::Office => "the usual storeys of offices".to_owned(),
            PlaceKind::Unknown => "the usual storeys of buildings".to_owned(),
        },
    };
    let (signal, text) = match (measured, &climb.estimate) {
        (Some(measured), Some(estimate)) => {
            let metres = super::evidence_log::rounded(f64::from(measured.rise_m));
            let source = match climb.rise {
                Some(_) => "Air pressure shows",
                None => "The climbs add up to",
            };
            let signal = match climb.rise {
                Some(_) => "height_by_pressure",
                None => "height_by_climbs",
            };
            let found = floor_probabilities(estimate);
            let text = format!(
                "{source} a rise of {metres:.1} m from the entrance to the drop-off. With {assumption}: {found}."
            );
            (signal, text)
        }
        (Some(_), None) => (
            "height_implausible",
            "Air pressure shows a height that no building has.".to_owned(),
        ),
        (None, _) => (
            "height_not_measured",
            "The height from the entrance to the drop-off was not measured, so floors cannot be counted."
                .to_owned(),
        ),
    };
    let points = climb.floors.map_or(0.0, f64::from);
    let explanation =
        "Storeys differ in height between buildings, and weather moves the air pressure.";
    evidence.add(
        statement::FLOORS_CLIMBED,
        signal,
        points,
        Some(span),
        EvidenceText::new(text, explanation),
    );
}

/// Formats the best floor and its alternatives, each with its probability.
fn floor_probabilities(estimate: &Estimate) -> String {
    let best = estimate.best();
    let percent = |probability: f64| (probability * 100.0).round();
    let plural = if best.abs() == 1 { "floor" } else { "floors" };
    let mut text = format!(
        "{best} {plural} ({:.0} %)",
        percent(estimate.probability(best))
    );
    for (floor, probability) in estimate.runners_up(RUNNERS_UP) {
        // Writing to a string cannot fail.
        let _ = write!(text, ", {floor} ({:.0} %)", percent(probability));
    }
    text
}
