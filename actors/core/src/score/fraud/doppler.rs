//! The told speed against the places. A receiver measures its speed by the Doppler shift, apart from its position, and
//! both err on their own; whoever makes a route reckons both from one line.

use super::{Group, Signal};
use crate::score::ledger::words;
use crate::score::weights::fraud as weights;
use crate::window::Fix;

/// Exact enough not to be a coasting phone's.
const ACCURACY_M: f32 = 20.0;
/// Changes of place that are compared, seconds.
const STEP_SEC: core::ops::RangeInclusive<f32> = 0.5..=2.5;
/// The mean of the two told speeds, on foot: faster, filters bring both together (up to 94 % within 2 %, recorded).
const FOOT_MPS: core::ops::RangeInclusive<f32> = 0.5..=3.0;
/// They are the same within this, m/s.
const SAME_MPS: f32 = 0.05;
/// In so many of so many changes. Of 38 recordings with 20 changes and more the highest share is 0.35 of 31, 0.30 of 37,
/// 0.22 of 58, 0.19 of 159; one phone that coasts has 0.76 of 21.
const SAME_SHARE: f32 = 0.5;
const CHANGES_LEAST: u32 = 30;

/// `fixes`: of new places only, in order.
pub(super) fn signal(fixes: &[Fix]) -> Option<Signal> {
    let (mut changes, mut same, mut span) = (0_u32, 0_u32, None);
    for pair in fixes.windows(2) {
        let [from, to] = pair else { continue };
        let exact = |fix: &Fix| fix.accuracy_known && fix.accuracy_m <= ACCURACY_M;
        let seconds = to.t_ms.saturating_sub(from.t_ms) as f32 / 1000.0;
        let Some((before, after)) = from.speed_mps.zip(to.speed_mps) else {
            continue;
        };
        let told_mps = before / 2.0 + after / 2.0;
        let is_step = STEP_SEC.contains(&seconds) && FOOT_MPS.contains(&told_mps);
        if !(is_step && exact(from) && exact(to)) {
            continue;
        }
        changes += 1;
        if (from.place.distance_m(to.place) / seconds - told_mps).abs() < SAME_MPS {
            same += 1;
            span = Some((span.map_or(from.t_ms, |span: (u32, u32)| span.0), to.t_ms));
        }
    }
    if changes < CHANGES_LEAST || (same as f32) < SAME_SHARE * changes as f32 {
        return None;
    }
    let text = format!(
        "In {same} of {changes} steps on foot the told speed and the way between two positions are the same to 5 cm/s."
    );
    Some(Signal {
        group: Group::Kinematics,
        name: "speed_reckoned_from_route",
        points: weights::SPEED_FROM_ROUTE,
        span,
        words: words(text, "A receiver that smooths its positions very strongly."),
    })
}
