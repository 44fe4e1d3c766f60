//! Positions that no receiver gives: jumps beyond the accuracy, paths without noise.

use porchlight_schema::event::EventType;

use super::{Group, Signal};
use crate::score::ledger::words;
use crate::score::scene::{Scene, end_of};
use crate::score::weights::fraud as weights;
use crate::window::Fix;

/// Stale fixes at the start jump: nothing counts before (40 false alarms over 63 honest traces without it).
const SETTLING_MS: u32 = 20_000;
/// Uncertainties (68 % radius, both fixes) that a jump must exceed.
const JUMP_SIGMAS: f32 = 2.5;
/// No vehicle that delivers is faster.
const JUMP_MPS: f32 = 50.0;
/// Fixes after a jump that must stay where it led, and how long.
const STAYS_FIXES: usize = 3;
const STAYS_MS: u32 = 15_000;
/// A fix whose accuracy the phone does not tell may be anywhere in a street.
const UNKNOWN_ACCURACY_M: f32 = 60.0;
/// Fixes that a path without noise must have, and their speed.
const SMOOTH_FIXES: usize = 30;
const SMOOTH_MPS: core::ops::RangeInclusive<f32> = 0.4..=3.0;
/// Second differences of a receiver's positions, filtered ones too, are above this (metres).
const SMOOTH_NOISE_M: f32 = 0.04;
/// Spread of walking speed, of its mean: people vary by 5 % and more.
const SMOOTH_SPEED_SPREAD: f32 = 0.03;
/// Fixes of constant altitude and accuracy, and the way between them.
const CONSTANT_FIXES: usize = 60;
const CONSTANT_WAY_M: f32 = 100.0;

pub(super) fn signals(scene: &Scene<'_>) -> Vec<Signal> {
    let fixes = distinct(&scene.fixes);
    [
        jumps(&fixes),
        smooth_path(scene, &fixes),
        constant_fixes(&fixes),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Fixes of new places only: a phone that repeats its last one has not stood still until then, and the time of the
/// first of them is the one that counts.
fn distinct(fixes: &[Fix]) -> Vec<Fix> {
    let mut distinct: Vec<Fix> = Vec::new();
    for fix in fixes {
        if distinct.last().is_none_or(|last| last.place != fix.place) {
            distinct.push(*fix);
        }
    }
    distinct
}

fn accuracy_m(fix: &Fix) -> f32 {
    if fix.accuracy_known {
        fix.accuracy_m.max(5.0)
    } else {
        fix.accuracy_m.max(UNKNOWN_ACCURACY_M)
    }
}

/// Whether two fixes are farther apart than their accuracies and any vehicle explain.
fn is_jump(from: &Fix, to: &Fix) -> bool {
    let (a, b) = (accuracy_m(from), accuracy_m(to));
    let distance_m = from.place.distance_m(to.place);
    let seconds = (to.t_ms.saturating_sub(from.t_ms) as f32 / 1000.0).max(1.0);
    distance_m > JUMP_SIGMAS * (a * a + b * b).sqrt() && distance_m / seconds > JUMP_MPS
}

fn jumps(fixes: &[Fix]) -> Option<Signal> {
    let settled_ms = fixes.first()?.t_ms.saturating_add(SETTLING_MS);
    let (mut staying, mut returning) = (Vec::new(), Vec::new());
    for (index, pair) in fixes.windows(2).enumerate() {
        let [from, to] = pair else { continue };
        if from.t_ms < settled_ms || !is_jump(from, to) {
            continue;
        }
        let until_ms = to.t_ms.saturating_add(STAYS_MS);
        let next = fixes
            .iter()
            .skip(index + 2)
            .take(STAYS_FIXES)
            .take_while(|fix| fix.t_ms <= until_ms);
        let stays = next
            .filter(|fix| {
                !is_jump(to, fix)
                    && is_jump(
                        from,
                        &Fix {
                            t_ms: to.t_ms,
                            ..**fix
                        },
                    )
            })
            .count();
        if stays + 1 >= STAYS_FIXES {
            staying.push(to.t_ms)
        } else {
            returning.push(to.t_ms)
        }
    }
    let (name, points, times) = match staying.len() {
        0 => ("single_outlier", weights::OUTLIER, returning),
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
    let mut run: Vec<&Fix> = Vec::new();
    let mut longest: Vec<&Fix> = Vec::new();
    for triple in fixes.windows(3) {
        let [a, b, c] = triple else { continue };
        if is_even_step(a, b, c) && !on_road(b.t_ms) {
            run.push(b);
            if run.len() > longest.len() {
                longest.clone_from(&run);
            }
        } else {
            run.clear();
        }
        if longest.len() >= SMOOTH_FIXES * 10 {
            break;
        }
    }
    let (first, last) = (longest.first()?, longest.last()?);
    if longest.len() < SMOOTH_FIXES {
        return None;
    }
    let text = format!(
        "{} positions on foot lie on a line without noise, at a constant speed.",
        longest.len()
    );
    let words = words(text, "A receiver that smooths its positions very strongly.");
    let span = Some((first.t_ms, last.t_ms));
    Some(Signal {
        group: Group::Kinematics,
        name: "smooth_path",
        points: weights::SMOOTH_PATH,
        span,
        words,
    })
}

/// Whether three fixes on foot continue each other without noise.
fn is_even_step(a: &Fix, b: &Fix, c: &Fix) -> bool {
    let (first_sec, second_sec) = (
        b.t_ms.saturating_sub(a.t_ms) as f32 / 1000.0,
        c.t_ms.saturating_sub(b.t_ms) as f32 / 1000.0,
    );
    if !(0.5..=5.0).contains(&first_sec) || !(0.5..=5.0).contains(&second_sec) {
        return false;
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
    SMOOTH_MPS.contains(&speed_mps)
        && change_mps * second_sec < SMOOTH_NOISE_M
        && change_mps < speed_mps * SMOOTH_SPEED_SPREAD
}

fn constant_fixes(fixes: &[Fix]) -> Option<Signal> {
    let mut start = 0;
    let mut way_m = 0.0;
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
        if index + 1 - start >= CONSTANT_FIXES && way_m >= CONSTANT_WAY_M {
            let first = fixes.get(start)?;
            let text = "Altitude and accuracy stayed exactly the same over a long way.";
            let words = words(text, "Some receivers repeat what they do not measure.");
            let span = Some((first.t_ms, to.t_ms));
            return Some(Signal {
                group: Group::Kinematics,
                name: "constant_fixes",
                points: weights::CONSTANT_FIX,
                span,
                words,
            });
        }
    }
    None
}
