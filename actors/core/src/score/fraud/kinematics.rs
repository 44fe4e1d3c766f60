//! Detects positions that no receiver produces: jumps beyond the accuracy, and values that never
//! change.

use super::{Group, Signal, body, doppler, noise};
use crate::plural::counted;
use crate::score::evidence_log::EvidenceText;
use crate::score::jumps::{Jump, arrivals};
use crate::score::parameters::fraud::kinematics::{
    CONSTANT_FIXES, CONSTANT_LONG_FIXES, CONSTANT_LONG_WAY_M, CONSTANT_WAY_M, ONE_MOVE_MS,
    OUTLIERS, OUTLIERS_PER_FIXES,
};
use crate::score::parameters::weights::fraud as weights;
use crate::score::scoring_context::ScoringContext;
use crate::window::Fix;

pub(super) fn signals(ctx: &ScoringContext<'_>) -> Vec<Signal> {
    let fixes = arrivals(&ctx.fixes);
    let is_body_independent = body::is_independent(ctx);
    [
        jump_signal(ctx),
        noise::signal(ctx, &fixes),
        noise::rest_signal(&fixes).filter(|_| is_body_independent),
        doppler::signal(&fixes).filter(|_| is_body_independent),
        constant_signal(&fixes, is_body_independent),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The name of the signal of positions that stay far away. It may exceed the cap of its group.
pub(super) const FAR_TELEPORT: &str = "far_teleport";
/// The name of the signal of many positions far away, of which none stays. It may exceed the cap of
/// its group.
pub(super) const FAR_OUTLIERS: &str = "far_outliers";

/// Returns the signal of the jumps in the positions.
fn jump_signal(ctx: &ScoringContext<'_>) -> Option<Signal> {
    let counting = |jump: &&Jump| jump.is_far || !jump.is_by_network;
    let (staying, outliers): (Vec<&Jump>, Vec<&Jump>) = ctx
        .jumps
        .iter()
        .filter(counting)
        .partition(|jump| jump.is_lasting);
    let are_many = |count| count >= OUTLIERS && count * OUTLIERS_PER_FIXES >= ctx.received_ms.len();
    let far_outliers = outliers.iter().filter(|jump| jump.is_far).count();
    let (name, points, jumps) = match staying.len() {
        _ if far_teleports(&ctx.jumps) >= 2 => (FAR_TELEPORT, weights::FAR_TELEPORTS, staying),
        _ if are_many(far_outliers) => (FAR_OUTLIERS, weights::FAR_TELEPORTS, outliers),
        0..=2 if are_many(outliers.len()) => ("outliers", weights::TELEPORTS, outliers),
        // The name also stands for a few outliers: clients store it, so it does not change.
        0 => ("single_outlier", weights::OUTLIER, outliers),
        1 | 2 => ("teleport", weights::TELEPORT, staying),
        _ => ("teleports", weights::TELEPORTS, staying),
    };
    let (first, last) = (jumps.first()?.t_ms, jumps.last()?.t_ms);
    let text = format!(
        "The position jumped {} farther than its accuracy or any vehicle can explain.",
        counted(jumps.len() as u64, "time")
    );
    let text = EvidenceText::new(text, "A GPS that misjudged its own accuracy.");
    Some(Signal {
        group: Group::Kinematics,
        name,
        points,
        span: Some((first, last)),
        text,
    })
}

/// Counts the far jumps after which the position stays. A smoothed position reaches its goal in
/// several jumps.
fn far_teleports(jumps: &[Jump]) -> usize {
    let is_one_move = |a: &Jump, b: &Jump| b.t_ms.saturating_sub(a.t_ms) <= ONE_MOVE_MS;
    let is_teleport = |moved: &&[Jump]| {
        moved.iter().any(|jump| jump.is_far) && moved.iter().any(|jump| jump.is_lasting)
    };
    jumps.chunk_by(is_one_move).filter(is_teleport).count()
}

/// A stretch of fixes with a common property.
#[derive(Debug, Clone, Copy)]
struct Stretch {
    span: (u32, u32),
    fixes: usize,
    way_m: f32,
}

/// Returns the longest stretch over which `same` holds from fix to fix, if it is long enough to be
/// meaningful.
fn longest(fixes: &[Fix], same: impl Fn(&Fix, &Fix) -> bool) -> Option<Stretch> {
    let (mut start, mut way_m) = (0, 0.0);
    let mut longest: Option<Stretch> = None;
    for (index, pair) in fixes.windows(2).enumerate() {
        let [from, to] = pair else { continue };
        if !same(from, to) {
            (start, way_m) = (index + 1, 0.0);
            continue;
        }
        way_m += from.place.distance_m(to.place);
        // The fixes of the stretch: one more than the pairs.
        let count = index + 2 - start;
        let first = fixes.get(start)?;
        if count >= CONSTANT_FIXES
            && way_m >= CONSTANT_WAY_M
            && longest.is_none_or(|longest| count > longest.fixes)
        {
            longest = Some(Stretch {
                span: (first.t_ms, to.t_ms),
                fixes: count,
                way_m,
            });
        }
    }
    longest
}

/// Returns whether an altitude is reported and unchanged. Some platforms report 0 for an unknown
/// one.
fn is_same_altitude(from: &Fix, to: &Fix) -> bool {
    from.altitude_m.is_some_and(|altitude_m| altitude_m != 0.0) && from.altitude_m == to.altitude_m
}

fn is_same_claim(from: &Fix, to: &Fix) -> bool {
    from.altitude_m.is_some()
        && from.altitude_m == to.altitude_m
        && from.accuracy_known
        && from.accuracy_m == to.accuracy_m
}

/// Returns the signal of fixes whose altitude, or altitude and accuracy, never change. The altitude
/// alone counts only if `is_body_independent` (see [`body::is_independent`]).
fn constant_signal(fixes: &[Fix], is_body_independent: bool) -> Option<Signal> {
    let (name, points, what, stretch) = if let Some(stretch) = longest(fixes, is_same_claim) {
        let long = stretch.fixes >= CONSTANT_LONG_FIXES && stretch.way_m >= CONSTANT_LONG_WAY_M;
        let points = if long {
            weights::CONSTANT_FIX_LONG
        } else {
            weights::CONSTANT_FIX
        };
        ("constant_fixes", points, "Altitude and accuracy", stretch)
    } else {
        let stretch = longest(fixes, is_same_altitude).filter(|_| is_body_independent)?;
        (
            "constant_altitude",
            weights::CONSTANT_ALTITUDE,
            "The altitude",
            stretch,
        )
    };
    let text = format!(
        "{what} stayed exactly the same over {:.0} m.",
        stretch.way_m
    );
    Some(Signal {
        group: Group::Kinematics,
        name,
        points,
        span: Some(stretch.span),
        text: EvidenceText::new(
            text,
            "Some GPS receivers repeat values that they do not measure.",
        ),
    })
}
