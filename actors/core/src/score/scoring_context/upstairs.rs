//! Removes the drives that seem to happen on another floor than that of the vehicle.

use porchlight_schema::event::{Event, EventType};

use super::{event_end_ms, movements_of};
use crate::score::height::HeightTrack;
use crate::score::parameters::place::scene::DOUBTFUL_DRIVE_MS;
use crate::score::parameters::place::stays::BEFORE_MS;

/// Removes each short drive on another floor than that on which the courier left the vehicle. The
/// courier climbed there, so the vehicle is elsewhere, and positions behind walls jump.
pub(super) fn remove_drives(timeline: &mut Vec<&Event>, height: &HeightTrack, end_ms: u32) {
    let mut parked_ms: Option<u32> = None;
    let mut has_climbed = false;
    let mut removed: Vec<u32> = Vec::new();
    for event in movements_of(timeline) {
        let span = (event.t_start_ms, event_end_ms(event, end_ms));
        match event.event_type {
            EventType::Stairs | EventType::Elevator => has_climbed = true,
            EventType::Driving => {
                let is_upstairs = has_climbed
                    && span.1 - span.0 < DOUBTFUL_DRIVE_MS
                    && parked_ms.is_some_and(|parked_ms| is_off_floor(height, span, parked_ms));
                if is_upstairs {
                    removed.push(span.0);
                } else {
                    (parked_ms, has_climbed) = (Some(span.1), false);
                }
            }
            _ => {}
        }
    }
    timeline.retain(|event| {
        event.event_type != EventType::Driving || removed.binary_search(&event.t_start_ms).is_err()
    });
}

/// Returns whether a drive begins and ends on other floors than that on which the vehicle was left. It
/// may seem to begin while an elevator still rides.
fn is_off_floor(height: &HeightTrack, span: (u32, u32), parked_ms: u32) -> bool {
    let parked = (parked_ms, parked_ms.saturating_add(BEFORE_MS));
    let begun = (span.0.saturating_sub(BEFORE_MS), span.0);
    let ended = (span.1, span.1.saturating_add(BEFORE_MS));
    height.differ_in_floor(parked, begun) && height.differ_in_floor(parked, ended)
}
