//! Measures the distance walked: by steps, by cadence, or by the time spent walking.

use porchlight_schema::event::{Event, EventType};

use super::event_end_ms;
use crate::score::parameters::place::scene::{
    CADENCE_HZ_MAX, COUNTED_SHARE, COUNTER_SILENT_MS, GAIT_HZ, STAIRS_SHARE, STEP_M, WALK_MPS,
};
use crate::window::{WINDOW_MS, Window};

/// Returns the distance walked up to the start of each window and to the end of the last: by steps
/// if they are counted, else by gait, else by the time spent walking.
pub(super) fn up_to_each(windows: &[Window], timeline: &[&Event], end_ms: u32) -> Vec<f32> {
    let spans = |event_type: EventType| -> Vec<(u32, u32)> {
        let events = timeline
            .iter()
            .filter(move |event| event.event_type == event_type);
        events
            .map(|event| (event.t_start_ms, event_end_ms(event, end_ms)))
            .collect()
    };
    let walking = spans(EventType::Walking);
    let stairs = spans(EventType::Stairs);
    let is_in = |spans: &[(u32, u32)], t_ms: u32| {
        let next = spans.partition_point(|span| span.0 <= t_ms);
        next.checked_sub(1)
            .and_then(|index| spans.get(index))
            .is_some_and(|span| t_ms < span.1)
    };
    let ways_m = if are_steps_counted(windows, &walking) {
        let drives = spans(EventType::Driving);
        by_counter(windows, |window| {
            if is_in(&walking, window.t_ms) {
                Movement::Walks
            } else if is_in(&stairs, window.t_ms) {
                Movement::Climbs
            } else if is_in(&drives, window.t_ms) {
                Movement::Drives
            } else {
                Movement::Unknown
            }
        })
    } else {
        let way_m = |window| by_gait(window, |window| is_in(&walking, window.t_ms));
        windows.iter().map(way_m).collect()
    };
    let mut sum = 0.0;
    let mut sums = Vec::with_capacity(windows.len() + 1);
    for (window, way_m) in windows.iter().zip(ways_m) {
        sums.push(sum);
        sum += if is_in(&stairs, window.t_ms) {
            way_m * STAIRS_SHARE
        } else {
            way_m
        };
    }
    sums.push(sum);
    sums
}

/// Returns the distance walked in one second without a step counter, in metres.
fn by_gait(window: &Window, is_walking: impl Fn(&Window) -> bool) -> f32 {
    match window.motion.and_then(|motion| motion.cadence_hz) {
        Some(cadence_hz) if cadence_hz >= GAIT_HZ => cadence_hz.min(CADENCE_HZ_MAX) * STEP_M,
        None if is_walking(window) => WALK_MPS,
        _ => 0.0,
    }
}

/// The movement of a second according to the events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Movement {
    Walks,
    Climbs,
    Drives,
    Unknown,
}

/// Returns the distance walked in each second by the step counter, in metres.
fn by_counter(windows: &[Window], movement: impl Fn(&Window) -> Movement) -> Vec<f32> {
    let mut ways_m = vec![0.0; windows.len()];
    let mut from = 0;
    while from < windows.len() {
        let later = windows.get(from..).unwrap_or_default();
        let reported = later.iter().position(|window| window.steps.is_some());
        let to = reported.map_or(windows.len(), |after| from + after + 1);
        let unreported = windows.get(from..to).unwrap_or_default();
        if let Some(ways_m) = ways_m.get_mut(from..to) {
            spread(unreported, &movement, ways_m);
        }
        from = to;
    }
    ways_m
}

/// Sets the distance of each second since the previous report of the counter; the last second may
/// contain a report. A report of more steps than a courier takes between two prompt reports is
/// about the walk before it. If a counter that was silent for long reports too few steps of a walk,
/// or none, the time spent walking counts.
fn spread(windows: &[Window], movement: &impl Fn(&Window) -> Movement, ways_m: &mut [f32]) {
    let steps = windows.last().and_then(|window| window.steps).unwrap_or(0);
    let steps_m = f32::from(steps) * STEP_M;
    let step_m_max = CADENCE_HZ_MAX * STEP_M;
    let is_silent = windows.len() as u32 * WINDOW_MS >= COUNTER_SILENT_MS;
    let prompt_m_max = step_m_max * COUNTER_SILENT_MS as f32 / 1_000.0;
    let movements: Vec<Movement> = windows.iter().map(movement).collect();
    let of = |wanted: Movement| movements.iter().filter(|&&one| one == wanted).count() as f32;
    let (walking_sec, climbing_sec) = (of(Movement::Walks), of(Movement::Climbs));
    if is_silent && steps_m < COUNTED_SHARE * walking_sec * WALK_MPS {
        for (way_m, one) in ways_m.iter_mut().zip(&movements) {
            *way_m = if *one == Movement::Walks {
                WALK_MPS
            } else {
                0.0
            };
        }
    } else if is_silent && steps_m > prompt_m_max {
        let on_foot_sec = walking_sec + climbing_sec;
        let on_foot_m = (steps_m / on_foot_sec.max(1.0)).min(step_m_max);
        // Steps that no walk explains were taken at any time outside a vehicle.
        let rest_m = steps_m - on_foot_m * on_foot_sec;
        let each_m = rest_m / (windows.len() as f32 - of(Movement::Drives)).max(1.0);
        for (way_m, one) in ways_m.iter_mut().zip(&movements) {
            *way_m = match one {
                Movement::Walks | Movement::Climbs => on_foot_m + each_m,
                Movement::Unknown => each_m,
                Movement::Drives => 0.0,
            };
        }
    } else if let Some(own_m) = ways_m.last_mut() {
        *own_m = steps_m;
    }
}

/// Returns whether the phone counts steps: they amount to a substantial part of the time spent
/// walking. A counter may stop for good, because the permission is missing.
fn are_steps_counted(windows: &[Window], walking: &[(u32, u32)]) -> bool {
    let steps = windows.iter().filter_map(|window| window.steps);
    let stepped_m: f32 = steps.clone().map(|steps| f32::from(steps) * STEP_M).sum();
    let walked_sec: f32 = walking
        .iter()
        .map(|walk| walk.1.saturating_sub(walk.0) as f32 / 1_000.0)
        .sum();
    steps.count() > 0 && stepped_m >= COUNTED_SHARE * walked_sec * WALK_MPS
}
