//! Adds the stay at a mark of the drop-off, if no stop was detected there.

use porchlight_schema::event::EventType;

use super::{FIDGET_MS, MARKED_MS_MIN, MARKED_SPAN_MS, Stay, nearest, stay};
use crate::score::place::foot_period_at;
use crate::score::scoring_context::{BodyState, ScoringContext, body_state, overlap_ms};
use crate::window::{WINDOW_MS, Window};

/// The types of events in which the courier does not stand still.
const MOVEMENTS: [EventType; 4] = [
    EventType::Walking,
    EventType::Stairs,
    EventType::Elevator,
    EventType::Driving,
];

/// Adds a stay for a drop-off mark without a detected stop: the stop may have been shorter than the
/// minimum length. The seconds around the mark in which the courier stood still are the stay.
pub(crate) fn add_marked(ctx: &ScoringContext<'_>, stays: &mut Vec<Stay>, at_ms: u32) {
    let Some(foot) = foot_period_at(ctx, at_ms) else {
        return;
    };
    if nearest(ctx, stays, at_ms, 0).is_some() {
        return;
    }
    let still = |from_ms: u32, to_ms: u32| {
        let windows = ctx.windows(from_ms, to_ms);
        windows
            .iter()
            .map(|window| (window.t_ms, is_still(ctx, window)))
            .collect::<Vec<_>>()
    };
    let mut from_ms = at_ms;
    for (t_ms, is_still) in still(at_ms.saturating_sub(MARKED_SPAN_MS), at_ms)
        .into_iter()
        .rev()
    {
        if is_still {
            from_ms = t_ms;
        } else if from_ms.saturating_sub(t_ms) > FIDGET_MS {
            break;
        }
    }
    let mut to_ms = at_ms;
    for (t_ms, is_still) in still(at_ms, at_ms.saturating_add(MARKED_SPAN_MS)) {
        if is_still {
            to_ms = t_ms.saturating_add(WINDOW_MS);
        } else if t_ms.saturating_sub(to_ms) > FIDGET_MS {
            break;
        }
    }
    // The stay must not extend into the vehicle, where the body is still, too.
    (from_ms, to_ms) = (from_ms.max(foot.from_ms), to_ms.min(foot.to_ms));
    let is_known = stays
        .iter()
        .any(|stay| overlap_ms((stay.from_ms, stay.to_ms), (from_ms, to_ms)) > 0);
    if !is_known && to_ms.saturating_sub(from_ms) >= MARKED_MS_MIN {
        stays.push(stay(ctx, from_ms, to_ms));
        stays.sort_by_key(|stay| (stay.from_ms, stay.to_ms));
    }
}

/// Returns whether the courier stood still in a window. Without a body sensor, the courier stood in
/// the seconds that belong to no movement.
fn is_still(ctx: &ScoringContext<'_>, window: &Window) -> bool {
    match body_state(window) {
        BodyState::Still => true,
        BodyState::Moving => false,
        BodyState::Unknown => {
            let span = (window.t_ms, window.end_ms());
            !window.has_body_data() && !ctx.is_in_event(&MOVEMENTS, span, 0)
        }
    }
}
