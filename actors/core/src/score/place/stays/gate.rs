//! Separates the pause at a gate a few steps before the door from the stay at the door.

use porchlight_schema::event::{Event, EventType};

use super::{MARK_NEAR_MS, Stay};
use crate::score::MarkName;
use crate::score::parameters::place::stays::{GATE_CONFIDENCE_MIN, MERGED_MS};
use crate::score::scoring_context::ScoringContext;

/// Returns the gates of which the pause is likely not a stay at the door.
pub(super) fn likely<'a>(ctx: &ScoringContext<'a>) -> impl Iterator<Item = &'a Event> {
    ctx.events(EventType::Gate)
        .filter(|gate| gate.confidence.as_probability() >= GATE_CONFIDENCE_MIN)
}

/// Returns whether a gate ended a few steps before a stop. The courier went on through the gate, so
/// the stop is at another place.
pub(super) fn is_behind(ctx: &ScoringContext<'_>, from_ms: u32) -> bool {
    likely(ctx)
        .map(|gate| ctx.end_of(gate))
        .any(|end_ms| end_ms <= from_ms && from_ms - end_ms <= MERGED_MS)
}

/// Returns whether a wanted mark lies in a stay, or next to it and nearer to it in time than to any
/// other stay.
pub(super) fn has_own_mark(
    ctx: &ScoringContext<'_>,
    stay: &Stay,
    all: &[Stay],
    wanted: impl Fn(MarkName) -> bool,
) -> bool {
    let from_ms = stay.from_ms.saturating_sub(MARK_NEAR_MS);
    let to_ms = stay.to_ms.saturating_add(MARK_NEAR_MS);
    let away_ms = |stay: &Stay, t_ms: u32| {
        let early_ms = stay.from_ms.saturating_sub(t_ms);
        early_ms.max(t_ms.saturating_sub(stay.to_ms))
    };
    let is_elsewhere = |t_ms: u32| {
        all.iter().any(|other| {
            other.from_ms != stay.from_ms && away_ms(other, t_ms) < away_ms(stay, t_ms)
        })
    };
    ctx.input.marks.iter().any(|&(t_ms, name)| {
        wanted(name) && (from_ms..=to_ms).contains(&t_ms) && !is_elsewhere(t_ms)
    })
}
