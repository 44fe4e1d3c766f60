//! Positions that no receiver gives: jumps beyond the accuracy, values that never change.

use super::{Group, Signal, body, doppler, noise};
use crate::score::jumps::distinct;
use crate::score::ledger::words;
use crate::score::scene::Scene;
use crate::score::weights::fraud as weights;
use crate::window::Fix;

/// Fixes of constant altitude and accuracy, and the way between them.
const CONSTANT_FIXES: usize = 60;
const CONSTANT_WAY_M: f32 = 100.0;
const CONSTANT_LONG_FIXES: usize = 180;
const CONSTANT_LONG_WAY_M: f32 = 300.0;

pub(super) fn signals(scene: &Scene<'_>) -> Vec<Signal> {
    let fixes = distinct(&scene.fixes);
    let apart = body::is_apart(scene);
    [
        jumps(scene),
        noise::signal(scene, &fixes),
        noise::at_rest(&fixes).filter(|_| apart),
        doppler::signal(&fixes).filter(|_| apart),
        constant_fixes(&fixes),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn jumps(scene: &Scene<'_>) -> Option<Signal> {
    let times = |stays: bool| -> Vec<u32> {
        scene
            .jumps
            .iter()
            .filter(|jump| jump.stays == stays)
            .map(|jump| jump.t_ms)
            .collect()
    };
    let staying = times(true);
    let (name, points, times) = match staying.len() {
        0 => ("single_outlier", weights::OUTLIER, times(false)),
        1 | 2 => ("teleport", weights::TELEPORT, staying),
        _ => ("teleports", weights::TELEPORTS, staying),
    };
    let (first, last) = (*times.first()?, *times.last()?);
    let text = format!(
        "The position jumped {} times farther than its accuracy and any vehicle explain.",
        times.len()
    );
    let words = words(text, "A receiver that was wrong about its own accuracy.");
    Some(Signal {
        group: Group::Kinematics,
        name,
        points,
        span: Some((first, last)),
        words,
    })
}

fn constant_fixes(fixes: &[Fix]) -> Option<Signal> {
    let (mut start, mut way_m) = (0, 0.0);
    let mut longest: Option<(u32, u32, usize, f32)> = None;
    for (index, pair) in fixes.windows(2).enumerate() {
        let [from, to] = pair else { continue };
        let constant = from.altitude_m.is_some()
            && from.altitude_m == to.altitude_m
            && from.accuracy_known
            && from.accuracy_m == to.accuracy_m;
        if !constant {
            (start, way_m) = (index + 1, 0.0);
            continue;
        }
        way_m += from.place.distance_m(to.place);
        let count = index + 1 - start;
        let first = fixes.get(start)?;
        if count >= CONSTANT_FIXES
            && way_m >= CONSTANT_WAY_M
            && longest.is_none_or(|longest| count > longest.2)
        {
            longest = Some((first.t_ms, to.t_ms, count, way_m));
        }
    }
    let (from_ms, to_ms, count, way_m) = longest?;
    let long = count >= CONSTANT_LONG_FIXES && way_m >= CONSTANT_LONG_WAY_M;
    let points = if long {
        weights::CONSTANT_FIX_LONG
    } else {
        weights::CONSTANT_FIX
    };
    let text = format!("Altitude and accuracy stayed exactly the same over {way_m:.0} m.");
    let words = words(text, "Some receivers repeat what they do not measure.");
    Some(Signal {
        group: Group::Kinematics,
        name: "constant_fixes",
        points,
        span: Some((from_ms, to_ms)),
        words,
    })
}
