//! Compares the course of the positions with the gyroscope: a courier who turns a corner turns the
//! phone too, however it is carried and wherever it lies. A gyroscope fails independently of
//! accelerometer and step counter, so this comparison is independent evidence.

use super::{Group, Signal, body};
use crate::score::evidence_log::EvidenceText;
use crate::score::parameters::fraud::path_turns::{
    ACCURACY_M, ALIVE_RAD, CORNER_RAD, CORNERS, CORNERS_MANY, FELT_RAD, HEARD_SHARE, LATE_MS,
    LEG_M_MIN, LEG_MPS, LEG_MS, LEG_SIGMAS, LEG_SIGMAS_NO_SPEED, PIECE_MS, STREET_M, STREET_SIGMAS,
    TURNED_SHARE, WAYS_MIN,
};
use crate::score::parameters::weights::fraud as weights;
use crate::score::scoring_context::{ScoringContext, median};
use crate::window::Fix;

/// Returns the signal of positions that turn corners while the phone does not turn.
pub(super) fn signal(ctx: &ScoringContext<'_>) -> Option<Signal> {
    if !is_alive(ctx) {
        return None;
    }
    let missed = missed_corners(ctx);
    let (first, last) = (missed.first()?, missed.last()?);
    let (felt, ways) = turns_felt(ctx);
    // A phone that turns on the path is carried on it: corners at which it did not turn are a fault
    // of the positions. One corner is enough if it is a street corner and the phone never turned on
    // a path of minutes.
    let is_frequent = missed.len() >= CORNERS && felt * 2 <= missed.len();
    let is_certain = felt == 0 && ways >= WAYS_MIN && missed.iter().any(|corner| corner.of_street);
    if !(is_frequent || is_certain) {
        return None;
    }
    let points = if missed.len() >= CORNERS_MANY {
        weights::TURNS_UNFELT_MANY
    } else {
        weights::TURNS_UNFELT
    };
    // A bearer who walks in step with the positions carries the phone: a failed gyroscope is then
    // more likely.
    let points = if body::is_independent(ctx) {
        points
    } else {
        points.min(weights::TURNS_UNFELT_CARRIED)
    };
    let text = match missed.len() {
        1 => "The position turned a corner, but the phone did not turn.".to_owned(),
        more => format!("The position turned {more} corners, but the phone did not turn."),
    };
    Some(Signal {
        group: Group::Turns,
        name: "position_turns_phone_does_not",
        points,
        span: Some((first.span.0, last.span.1)),
        text: EvidenceText::new(text, "The phone's gyroscope may be broken."),
    })
}

/// Returns whether the readings of the gyroscope change at all.
fn is_alive(ctx: &ScoringContext<'_>) -> bool {
    let yaw = ctx
        .input
        .windows
        .iter()
        .filter_map(|window| window.motion?.yaw_rad);
    let (low, high) = yaw.fold((f32::INFINITY, f32::NEG_INFINITY), |(low, high), yaw| {
        (low.min(yaw), high.max(yaw))
    });
    high - low > ALIVE_RAD
}

/// Returns the number of pieces of the path, on foot or in a vehicle, in which the phone turned,
/// and the number of pieces with data.
fn turns_felt(ctx: &ScoringContext<'_>) -> (usize, usize) {
    let (Some(first), Some(last)) = (ctx.fixes.first(), ctx.fixes.last()) else {
        return (0, 0);
    };
    let (mut felt, mut ways) = (0, 0);
    for from_ms in (first.t_ms..last.t_ms).step_by(PIECE_MS as usize) {
        let span = (from_ms, from_ms.saturating_add(PIECE_MS));
        if is_way(ctx.fixes(span.0, span.1))
            && let Some(turned_rad) = turned_rad(ctx, span)
        {
            ways += 1;
            felt += usize::from(turned_rad >= FELT_RAD);
        }
    }
    (felt, ways)
}

/// Returns whether fixes show a path, by their speed or by the distance covered.
fn is_way(fixes: &[Fix]) -> bool {
    way(fixes).is_some()
}

/// A corner at which the phone did not turn.
struct Corner {
    /// The start and end of the time in which the turns of the phone were examined.
    span: (u32, u32),
    /// Whether both legs are far longer than the position error.
    of_street: bool,
}

/// Returns the corners at which the phone did not turn.
fn missed_corners(ctx: &ScoringContext<'_>) -> Vec<Corner> {
    let mut missed = Vec::new();
    let good: Vec<Fix> = ctx
        .fixes
        .iter()
        .filter(|fix| fix.accuracy_known && fix.accuracy_m <= ACCURACY_M)
        .copied()
        .collect();
    let mut next_ms = 0;
    for fix in &good {
        if fix.t_ms < next_ms {
            continue;
        }
        let Some((turn_rad, of_street)) = corner_at(&good, fix) else {
            continue;
        };
        let span = (
            fix.t_ms.saturating_sub(LEG_MS + LATE_MS),
            fix.t_ms.saturating_add(LEG_MS + LATE_MS),
        );
        let Some(turned_rad) = turned_rad(ctx, span) else {
            continue;
        };
        if turned_rad < TURNED_SHARE * turn_rad {
            missed.push(Corner { span, of_street });
        }
        next_ms = fix.t_ms.saturating_add(2 * LEG_MS);
    }
    missed
}

/// Returns the turn of the course at a fix, in radians, if it is a corner, and whether that is a
/// street corner.
fn corner_at(good: &[Fix], fix: &Fix) -> Option<(f32, bool)> {
    let first = good.partition_point(|other| other.t_ms < fix.t_ms.saturating_sub(LEG_MS));
    let last = good.partition_point(|other| other.t_ms <= fix.t_ms.saturating_add(LEG_MS));
    let here = good.partition_point(|other| other.t_ms < fix.t_ms);
    let before = way(good.get(first..=here)?)?;
    let after = way(good.get(here..last)?)?;
    let cross = before.0 * after.1 - before.1 * after.0;
    let dot = before.0 * after.0 + before.1 * after.1;
    let turn_rad = libm::atan2f(cross, dot).abs();
    let least_m = STREET_M.max(STREET_SIGMAS * fix.accuracy_m);
    let is_long = |(east, north): (f32, f32)| (east * east + north * north).sqrt() >= least_m;
    let of_street = is_long(before) && is_long(after);
    CORNER_RAD
        .contains(&turn_rad)
        .then_some((turn_rad, of_street))
}

/// Returns the metres east and north from the first of these fixes to the last, if they form a path
/// and do not only wander.
fn way(fixes: &[Fix]) -> Option<(f32, f32)> {
    let (from, to) = (fixes.first()?, fixes.last()?);
    // The leg is whole: no silence and no end of the session cuts it short.
    if to.t_ms.saturating_sub(from.t_ms) < LEG_MS / 2 {
        return None;
    }
    let mut reported_mps: Vec<f32> = fixes.iter().filter_map(|fix| fix.speed_mps).collect();
    let sigmas = match median(&mut reported_mps) {
        Some(mps) if mps >= LEG_MPS => LEG_SIGMAS,
        Some(_) => return None,
        None => LEG_SIGMAS_NO_SPEED,
    };
    let least_m = LEG_M_MIN.max(sigmas * from.accuracy_m.max(to.accuracy_m));
    (from.place.distance_m(to.place) >= least_m).then_some((
        to.place.east_m - from.place.east_m,
        to.place.north_m - from.place.north_m,
    ))
}

/// Returns the largest turn of the phone within the span, in radians. Returns `None` if the
/// gyroscope sent too little data.
fn turned_rad(ctx: &ScoringContext<'_>, (from_ms, to_ms): (u32, u32)) -> Option<f32> {
    let windows = ctx.windows(from_ms, to_ms);
    let (mut sum, mut low, mut high, mut heard) = (0.0_f32, 0.0_f32, 0.0_f32, 0_usize);
    for window in windows {
        let Some(yaw_rad) = window.motion.and_then(|motion| motion.yaw_rad) else {
            continue;
        };
        heard += 1;
        sum += yaw_rad;
        (low, high) = (low.min(sum), high.max(sum));
    }
    let seconds = to_ms.saturating_sub(from_ms) as f32 / 1000.0;
    (heard as f32 >= HEARD_SHARE * seconds).then_some(high - low)
}
