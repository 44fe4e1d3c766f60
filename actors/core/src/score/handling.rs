//! Finds apparent rides that the courier's hands caused: while handing over a parcel, the courier
//! moves the phone up and down, as an elevator does when it starts and stops.

use porchlight_schema::event::{Event, EventType, Metadata};

use super::ScoreInput;
use super::body_state::{BodyState, body_state};
use crate::score::parameters::place::handling::{DOORS_MS, STEPS_MAX};
use crate::window::{Window, windows_between};

/// Returns the time of an apparent ride during which the courier reported a drop-off, if only the
/// acceleration shows it and the session has no other ride. Nobody drops off a parcel in an
/// elevator, and a courier who reports the drop-off only on the way down has another ride, on the
/// way up.
pub(super) fn apparent_ride(
    input: &ScoreInput<'_>,
    windows: &[Window],
    end_ms: u32,
) -> Option<(u32, u32)> {
    let rides = || {
        let events = input.events.iter();
        events.filter(|event| event.event_type == EventType::Elevator)
    };
    let event_end_ms = |ride: &Event| ride.t_end_ms.unwrap_or(end_ms);
    let first = rides().next()?;
    let mut span = (first.t_start_ms, event_end_ms(first));
    for ride in rides().skip(1) {
        // The doors take longer than that to open and close, so several apparent rides that are
        // closer to each other have one cause.
        if ride.t_start_ms.saturating_sub(span.1) > DOORS_MS {
            return None;
        }
        span.1 = span.1.max(event_end_ms(ride));
    }
    let is_reported = input
        .marks
        .iter()
        .any(|&(t_ms, name)| name.is_drop_off() && span.0 < t_ms && t_ms < span.1);
    let moving = windows_between(windows, span.0, span.1)
        .iter()
        .filter(|window| body_state(window) == BodyState::Moving);
    let steps = moving.filter_map(|window| window.steps);
    let is_still = steps.fold(0, u16::saturating_add) <= STEPS_MAX;
    (is_reported && is_still && !rides().any(is_measured)).then_some(span)
}

/// Returns whether a barometer measured the height of the ride.
fn is_measured(ride: &Event) -> bool {
    !matches!(
        ride.metadata,
        Metadata::Climb {
            height_cm: None,
            ..
        }
    )
}
