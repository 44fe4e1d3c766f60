//! Positions that no receiver gives: jumps beyond the accuracy, paths without noise.

use porchlight_schema::event::EventType;

use super::{Group, Signal};
use crate::score::jumps::distinct;
use crate::score::ledger::words;
use crate::score::scene::{Scene, end_of};
use crate::score::weights::fraud as weights;
use crate::window::Fix;

/// Fixes that a path without noise must have, and their speed.
const SMOOTH_FIXES: usize = 30;
const SMOOTH_MPS: core::ops::RangeInclusive<f32> = 0.4..=3.0;
/// Second differences of a receiver's positions, filtered ones too, are above this (metres) most of the time.
const SMOOTH_CHANGE: f32 = 0.05;
/// Share of fixes that must be that even; corners are not.
const SMOOTH_SHARE: f32 = 0.8;
/// Fixes of constant altitude and accuracy, and the way between them.
const CONSTANT_FIXES: usize = 60;
const CONSTANT_WAY_M: f32 = 100.0;
const CONSTANT_LONG_FIXES: usize = 180;
const CONSTANT_LONG_WAY_M: f32 = 300.0;

pub(super) fn signals(scene: &Scene<'_>) -> Vec<Signal> {
    let fixes = distinct(&scene.fixes);
    [
        jumps(scene),
        smooth_path(scene, &fixes),
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

/// A path on foot that is straighter and steadier than any receiver sees one.
fn smooth_path(scene: &Scene<'_>, fixes: &[Fix]) -> Option<Signal> {
    let driving: Vec<(u32, u32)> = scene
        .events(EventType::Driving)
        .map(|event| (event.t_start_ms, end_of(event, scene.end_ms)))
        .collect();
    let on_road = |t_ms: u32| {
        let next = driving.partition_point(|span| span.0 <= t_ms);
        next.checked_sub(1)
            .and_then(|index| driving.get(index))
            .is_some_and(|span| t_ms <= span.1)
    };
    let mut run: Vec<(&Fix, bool)> = Vec::new();
    let mut longest: Option<(u32, u32, usize)> = None;
    for triple in fixes.windows(3) {
        let [a, b, c] = triple else { continue };
        match change_on_foot(a, b, c).filter(|_| !on_road(b.t_ms)) {
            Some(change) => run.push((b, change < SMOOTH_CHANGE)),
            None => run.clear(),
        }
        if run.len() > SMOOTH_FIXES {
            run.remove(0);
        }
        let even = run.iter().filter(|(_, is_even)| *is_even).count() as f32;
        if run.len() == SMOOTH_FIXES && even >= SMOOTH_SHARE * SMOOTH_FIXES as f32 {
            let from_ms = longest.map_or_else(
                || run.first().map_or(b.t_ms, |(fix, _)| fix.t_ms),
                |longest| longest.0,
            );
            longest = Some((
                from_ms,
                b.t_ms,
                longest.map_or(SMOOTH_FIXES, |longest| longest.2 + 1),
            ));
        }
    }
    let (from_ms, to_ms, count) = longest?;
    let text = format!(
        "{} positions on foot lie on a line without noise, at a constant speed.",
        count
    );
    let words = words(text, "A receiver that smooths its positions very strongly.");
    let span = Some((from_ms, to_ms));
    Some(Signal {
        group: Group::Kinematics,
        name: "smooth_path",
        points: weights::SMOOTH_PATH,
        span,
        words,
    })
}

/// How much, on foot, the way from one fix to the next differs from the one before it, in metres; none off foot.
fn change_on_foot(a: &Fix, b: &Fix, c: &Fix) -> Option<f32> {
    let (first_sec, second_sec) = (
        b.t_ms.saturating_sub(a.t_ms) as f32 / 1000.0,
        c.t_ms.saturating_sub(b.t_ms) as f32 / 1000.0,
    );
    if !(0.5..=5.0).contains(&first_sec) || !(0.5..=5.0).contains(&second_sec) {
        return None;
    }
    let first = (
        (b.place.east_m - a.place.east_m) / first_sec,
        (b.place.north_m - a.place.north_m) / first_sec,
    );
    let second = (
        (c.place.east_m - b.place.east_m) / second_sec,
        (c.place.north_m - b.place.north_m) / second_sec,
    );
    let speed_mps = (first.0 * first.0 + first.1 * first.1).sqrt();
    let change_mps = ((second.0 - first.0) * (second.0 - first.0)
        + (second.1 - first.1) * (second.1 - first.1))
        .sqrt();
    SMOOTH_MPS
        .contains(&speed_mps)
        .then_some(change_mps * second_sec)
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
