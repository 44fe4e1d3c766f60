//! Compares the reported speed with the positions. A receiver measures its speed by the Doppler
//! shift, independently of its position, and both have separate errors; a route generator computes
//! both from one line.

use super::{Group, Signal};
use crate::score::evidence_log::EvidenceText;
use crate::score::parameters::fraud::doppler::{
    ACCURACY_M, CHANGES_MIN, FOOT_MPS, SAME_MPS, SAME_SHARE, STEP_SEC,
};
use crate::score::parameters::weights::fraud as weights;
use crate::window::Fix;

/// Returns the signal of speeds that were computed from the positions. `fixes` are those of new
/// places only, in order.
pub(super) fn signal(fixes: &[Fix]) -> Option<Signal> {
    let (mut changes, mut same, mut span) = (0_u32, 0_u32, None);
    for pair in fixes.windows(2) {
        let [from, to] = pair else { continue };
        let exact = |fix: &Fix| fix.accuracy_known && fix.accuracy_m <= ACCURACY_M;
        let seconds = to.t_ms.saturating_sub(from.t_ms) as f32 / 1000.0;
        let Some((before, after)) = from.speed_mps.zip(to.speed_mps) else {
            continue;
        };
        let reported_mps = before / 2.0 + after / 2.0;
        let is_step = STEP_SEC.contains(&seconds) && FOOT_MPS.contains(&reported_mps);
        if !(is_step && exact(from) && exact(to)) {
            continue;
        }
        changes += 1;
        if (from.place.distance_m(to.place) / seconds - reported_mps).abs() < SAME_MPS {
            same += 1;
            span = Some((span.map_or(from.t_ms, |span: (u32, u32)| span.0), to.t_ms));
        }
    }
    if changes < CHANGES_MIN || (same as f32) < SAME_SHARE * changes as f32 {
        return None;
    }
    let text = format!(
        "In {same} of {changes} intervals on foot, the reported speed equals the distance between two positions to within 5 cm/s."
    );
    Some(Signal {
        group: Group::Kinematics,
        name: "speed_reckoned_from_route",
        points: weights::SPEED_FROM_ROUTE,
        span,
        text: EvidenceText::new(text, "A GPS that smooths its positions strongly."),
    })
}
