//! Finds the periods on foot of a session.

use porchlight_schema::event::{Event, EventType};

use super::{BodyState, body_state, event_end_ms, movements_of, overlap_ms, silences};
use crate::score::ScoreInput;
use crate::score::height::HeightTrack;
use crate::score::parameters::door::attempts::LEFT_M;
use crate::score::parameters::place::scene::{
    AT_DRIVE_MS, BEGIN_WALK_MS, MARKED_AWAY_M, ON_FOOT_MS_MIN,
};
use crate::score::parameters::place::stays::BEFORE_MS;
use crate::score::position::{Estimate, mean_of};
use crate::window::{Fix, WINDOW_MS, Window, windows_between};

/// A period on foot, from the first step after a vehicle to the last one before the next.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct FootPeriod {
    pub(crate) from_ms: u32,
    pub(crate) to_ms: u32,
    /// The time at which the vehicle was parked before it, or `None` if there was no vehicle.
    pub(crate) parked_ms: Option<u32>,
}

/// The time between two drives, with its movements.
struct Period<'p, 'a> {
    movements: &'p [&'a Event],
    /// The end of the drive before it.
    parked_ms: Option<u32>,
    /// The start of the drive after it.
    departed_ms: Option<u32>,
}

/// Returns the periods on foot: the times between drives with enough steps in them.
pub(super) fn find(
    timeline: &[&Event],
    input: &ScoreInput<'_>,
    fixes: &[Fix],
    height: &HeightTrack,
    end_ms: u32,
) -> Vec<FootPeriod> {
    let movements = movements_of(timeline);
    let drives: Vec<&Event> = movements
        .iter()
        .copied()
        .filter(|event| event.event_type == EventType::Driving)
        .collect();
    let periods = movements.split(|event| event.event_type == EventType::Driving);
    let mut foot_periods = Vec::new();
    for (index, movements) in periods.enumerate() {
        let before = index.checked_sub(1).and_then(|index| drives.get(index));
        let period = Period {
            movements,
            parked_ms: before.map(|drive| event_end_ms(drive, end_ms)),
            departed_ms: drives.get(index).map(|drive| drive.t_start_ms),
        };
        let Some(mut foot) = foot_period_of(&period, (input.windows, height), end_ms) else {
            continue;
        };
        add_unrecorded_ways(&mut foot, &period, (input, fixes), end_ms);
        // After the last drive no vehicle takes the courier away, so a stay at the end still
        // belongs to the period on foot.
        if period.departed_ms.is_none() {
            foot.to_ms = end_ms.max(foot.to_ms);
        }
        foot_periods.push(foot);
    }
    foot_periods
}

/// Returns the period on foot between two drives, or `None` if it is too short.
fn foot_period_of(
    period: &Period<'_, '_>,
    (windows, height): (&[Window], &HeightTrack),
    end_ms: u32,
) -> Option<FootPeriod> {
    let on_foot = period
        .movements
        .iter()
        .filter(|event| event.event_type != EventType::Stopped);
    let spans: Vec<(u32, u32)> = on_foot
        .clone()
        .map(|event| (event.t_start_ms, event_end_ms(event, end_ms)))
        .collect();
    let total_ms = spans
        .iter()
        .map(|(from_ms, to_ms)| to_ms - from_ms)
        .fold(0, u32::saturating_add);
    let first = on_foot.clone().next()?;
    let to_ms = spans.iter().map(|span| span.1).max()?;
    // Before a climb without a walk, or a walk on another floor than that of the vehicle, a walk
    // was not detected: the path began at the vehicle.
    let about = |t_ms: u32| (t_ms, t_ms.saturating_add(BEFORE_MS));
    let begins_there = |parked_ms| {
        let before = windows_between(windows, parked_ms, first.t_start_ms).iter();
        let moving = before.filter(|window| body_state(window) == BodyState::Moving);
        // The ventilation of a vehicle changes the pressure as well, but takes no steps.
        moving.count() as u32 * WINDOW_MS >= ON_FOOT_MS_MIN
            && height.differ_in_floor(about(parked_ms), about(first.t_start_ms))
    };
    let from_ms = match first.event_type {
        EventType::Walking if !period.parked_ms.is_some_and(begins_there) => first.t_start_ms,
        _ => period.parked_ms.unwrap_or(0).min(first.t_start_ms),
    };
    (total_ms >= ON_FOOT_MS_MIN).then_some(FootPeriod {
        from_ms,
        to_ms,
        parked_ms: period.parked_ms,
    })
}

/// Extends a period on foot to a stop away from the vehicle, if no data was received on the whole
/// way between the stop and the vehicle.
fn add_unrecorded_ways(
    foot: &mut FootPeriod,
    period: &Period<'_, '_>,
    (input, fixes): (&ScoreInput<'_>, &[Fix]),
    end_ms: u32,
) {
    let stops = || {
        let stops = period.movements.iter();
        stops
            .filter(|event| event.event_type == EventType::Stopped)
            .map(|event| (event.t_start_ms, event_end_ms(event, end_ms)))
    };
    let way = |from_ms, to_ms| silences(input.windows, from_ms, to_ms).pop();
    if let Some(parked_ms) = period.parked_ms
        && let Some(way) = way(parked_ms, foot.from_ms)
        && let Some(stop) = stops().find(|stop| stop.1 > way.1 && stop.0 < foot.from_ms)
        && is_away((stop.0.max(way.1), stop.1), parked_ms, input, fixes)
    {
        foot.from_ms = stop.0.max(way.1);
    }
    if let Some(departed_ms) = period.departed_ms
        && let Some(way) = way(foot.to_ms, departed_ms)
        && let Some(stop) = stops().rfind(|stop| stop.0 < way.0 && stop.1 > foot.to_ms)
        && is_away((stop.0, stop.1.min(way.0)), departed_ms, input, fixes)
    {
        foot.to_ms = stop.1.min(way.0);
    }
}

/// Returns whether a stop was away from the vehicle, which stood where it was at `drive_ms`. A
/// courier who reports the drop-off there is at a door, so a smaller distance is enough.
fn is_away(
    (from_ms, to_ms): (u32, u32),
    drive_ms: u32,
    input: &ScoreInput<'_>,
    fixes: &[Fix],
) -> bool {
    let place = |from_ms: u32, to_ms: u32| -> Option<Estimate> {
        let first = fixes.partition_point(|fix| fix.t_ms < from_ms);
        let last = fixes.partition_point(|fix| fix.t_ms <= to_ms);
        mean_of(fixes.get(first..last)?)
    };
    let vehicle = place(
        drive_ms.saturating_sub(AT_DRIVE_MS),
        drive_ms.saturating_add(AT_DRIVE_MS),
    );
    let (Some(stop), Some(vehicle)) = (place(from_ms, to_ms), vehicle) else {
        return false;
    };
    let mut marks = input.marks.iter();
    let is_marked =
        marks.any(|(t_ms, name)| name.is_drop_off() && (from_ms..=to_ms).contains(t_ms));
    let away_m = stop.place.distance_m(vehicle.place);
    let sigma_m = libm::hypotf(stop.sigma_m, vehicle.sigma_m);
    away_m > LEFT_M + sigma_m || (is_marked && away_m > MARKED_AWAY_M)
}

/// Extends the first period on foot to the start of the session, if the session begins at the door:
/// with a mark of a drop-off before any drive or climb, and after hardly a step. Returns the time
/// of that mark.
pub(super) fn start_at_door(
    foot_periods: &mut [FootPeriod],
    timeline: &[&Event],
    input: &ScoreInput<'_>,
    end_ms: u32,
) -> Option<u32> {
    let first = foot_periods
        .first_mut()
        .filter(|foot| foot.parked_ms.is_none())?;
    let marks = input.marks.iter();
    let mark_ms = marks
        .filter(|(_, name)| name.is_drop_off())
        .map(|&(t_ms, _)| t_ms)
        .min()?;
    let before = timeline.iter().filter(|event| event.t_start_ms < mark_ms);
    let walked_ms = before
        .clone()
        .filter(|event| event.event_type == EventType::Walking)
        .map(|event| {
            overlap_ms(
                (event.t_start_ms, event_end_ms(event, end_ms)),
                (0, mark_ms),
            )
        })
        .fold(0, u32::saturating_add);
    let is_climb =
        |event: &&Event| matches!(event.event_type, EventType::Stairs | EventType::Elevator);
    if walked_ms > BEGIN_WALK_MS || before.copied().any(|event| is_climb(&event)) {
        return None;
    }
    first.from_ms = 0;
    Some(mark_ms)
}
