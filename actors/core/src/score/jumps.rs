//! Finds jumps: positions farther apart than their accuracies and any vehicle explain.

use porchlight_schema::sample::Provider;

use crate::geo::Place;
use crate::score::parameters::place::jumps::{
    ACCURACY_M_MIN, FAR_ACCURACY_M, FAR_M, JUMP_MPS, JUMP_SIGMAS, REST_ACCEL_STD, REST_HEARD_SHARE,
    REST_SEC_MIN, REST_SHARE, RETURN_M, RETURN_MPS, SETTLING_MS, STAYS_FIXES, STAYS_MS,
    UNKNOWN_ACCURACY_M,
};
use crate::window::{ClockStep, Fix, WINDOW_MS, Window, windows_between};

/// A jump between two positions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Jump {
    /// The time of the first fix after the jump.
    pub(crate) t_ms: u32,
    /// Whether the positions stayed at the jump's destination; otherwise it was a single outlier.
    pub(crate) is_lasting: bool,
    /// Whether the jump is so far, between positions that claim to be accurate, that no receiver
    /// misjudges it.
    pub(crate) is_far: bool,
    /// Whether one of the two positions was computed from the network, which may know a Wi-Fi
    /// access point at a wrong place.
    pub(crate) is_by_network: bool,
}

/// Returns the first fix of each new place. A phone that repeats its last fix has not necessarily
/// stood still, so the time of the first one counts.
pub(crate) fn arrivals(fixes: &[Fix]) -> Vec<Fix> {
    let mut arrivals: Vec<Fix> = Vec::new();
    for fix in fixes {
        if arrivals.last().is_none_or(|last| last.place != fix.place) {
            arrivals.push(*fix);
        }
    }
    arrivals
}

/// Returns the accuracy of a fix by which a jump is judged, metres.
fn accuracy_m(fix: &Fix) -> f32 {
    if fix.accuracy_known {
        fix.accuracy_m.max(ACCURACY_M_MIN)
    } else {
        fix.accuracy_m.max(UNKNOWN_ACCURACY_M)
    }
}

/// Returns whether two fixes are farther apart than their accuracies and any vehicle explain. The
/// way that the reported speed explains is not an error of the positions.
fn is_jump(from: &Fix, to: &Fix) -> bool {
    let (a, b) = (accuracy_m(from), accuracy_m(to));
    let distance_m = from.place.distance_m(to.place);
    let seconds = to.t_ms.saturating_sub(from.t_ms) as f32 / 1000.0;
    let way_m = reported_mps(from).max(reported_mps(to)) * seconds;
    distance_m - way_m > JUMP_SIGMAS * (a * a + b * b).sqrt()
        && distance_m / seconds.max(1.0) > JUMP_MPS
}

/// Returns the speed that a fix reports, as far as a vehicle can reach it; 0 without one.
fn reported_mps(fix: &Fix) -> f32 {
    fix.speed_mps.unwrap_or(0.0).clamp(0.0, JUMP_MPS)
}

/// Returns whether a jump is far beyond any error of a receiver that claims such accuracies.
fn is_far(from: &Fix, to: &Fix) -> bool {
    from.accuracy_known
        && to.accuracy_known
        && from.accuracy_m.max(to.accuracy_m) <= FAR_ACCURACY_M
        && from.place.distance_m(to.place) >= FAR_M
}

fn is_by_network(fix: &Fix) -> bool {
    matches!(fix.provider, Some(Provider::Wifi | Provider::Cell))
}

/// Returns the time within which the positions must stay at the target of a jump. On a phone that
/// sends positions rarely, [`STAYS_FIXES`] of them arrive in that time.
fn stays_ms(arrivals: &[Fix]) -> u32 {
    let mut intervals_ms: Vec<u32> = arrivals
        .iter()
        .zip(arrivals.iter().skip(1))
        .map(|(one, next)| next.t_ms.saturating_sub(one.t_ms))
        .collect();
    intervals_ms.sort_unstable();
    let usual_ms = intervals_ms
        .get(intervals_ms.len() / 2)
        .copied()
        .unwrap_or(0);
    STAYS_MS.max(usual_ms.saturating_mul(STAYS_FIXES as u32))
}

/// Returns the time by which the clock was set back between two times, in milliseconds.
fn set_back_ms(from_ms: u32, to_ms: u32, steps: &[ClockStep]) -> u32 {
    let between = steps
        .iter()
        .filter(|step| (from_ms..to_ms).contains(&step.t_ms));
    between.map(|step| step.by_ms).fold(0, u32::saturating_add)
}

/// Finds all jumps, in order.
pub(crate) fn find(all: &[Fix], windows: &[Window], steps: &[ClockStep]) -> Vec<Jump> {
    let fixes = arrivals(all);
    let settled_ms = fixes
        .first()
        .map_or(0, |fix| fix.t_ms.saturating_add(SETTLING_MS));
    let stays_ms = stays_ms(&fixes);
    let mut jumps = Vec::new();
    for (index, pair) in fixes.windows(2).enumerate() {
        let [from, to] = pair else { continue };
        // More time passed than the times show if the clock was set back between the two.
        let back_ms = set_back_ms(from.t_ms, to.t_ms, steps);
        let from = &Fix {
            t_ms: from.t_ms.saturating_sub(back_ms),
            ..*from
        };
        // The time of the place's last repetition.
        let next = all.partition_point(|fix| fix.t_ms < to.t_ms);
        let held_ms = next
            .checked_sub(1)
            .and_then(|last| all.get(last))
            .map_or(from.t_ms, |fix| fix.t_ms.saturating_sub(back_ms));
        let from_rest = is_jump_from_rest(from, held_ms, to, windows);
        if from.t_ms < settled_ms || !(from_rest || is_jump(from, to)) {
            continue;
        }
        let until_ms = to.t_ms.saturating_add(stays_ms);
        // A repeated place adds nothing, unless the body lies still and the phone has nothing new
        // to report.
        let repeated = all
            .iter()
            .skip(next)
            .take_while(|fix| fix.place == to.place && fix.t_ms <= until_ms)
            .count();
        let repeated = if from_rest { repeated } else { 1 };
        let after = fixes
            .iter()
            .skip(index + 2)
            .take(STAYS_FIXES)
            .take_while(|fix| fix.t_ms <= until_ms);
        let there = after.filter(|fix| {
            !is_jump(to, fix)
                && is_jump(
                    &Fix {
                        t_ms: if from_rest { held_ms } else { from.t_ms },
                        ..*from
                    },
                    &Fix {
                        t_ms: to.t_ms,
                        ..**fix
                    },
                )
        });
        jumps.push(Jump {
            t_ms: to.t_ms,
            is_lasting: there.count() + repeated >= STAYS_FIXES,
            is_far: is_far(from, to),
            is_by_network: is_by_network(from) || is_by_network(to),
        });
    }
    jumps
}

/// Returns whether a jump starts at rest. A fix that is repeated while the body lies at rest is not
/// a stale one of a moving phone. The last time of the fix then counts, and the distance must only
/// exceed any walk in the whole time.
fn is_jump_from_rest(from: &Fix, held_ms: u32, to: &Fix, windows: &[Window]) -> bool {
    let seconds = to.t_ms.saturating_sub(from.t_ms) as f32 / 1000.0;
    let held = Fix {
        t_ms: held_ms,
        ..*from
    };
    held_ms > from.t_ms
        && from.place.distance_m(to.place) > RETURN_M + RETURN_MPS * seconds
        && is_jump(&held, to)
        && is_at_rest(windows, (from.t_ms, to.t_ms))
}

/// Returns whether the body was recorded nearly continuously, and lay or sat still.
fn is_at_rest(windows: &[Window], (from_ms, to_ms): (u32, u32)) -> bool {
    let mut spreads: Vec<f32> = windows_between(windows, from_ms, to_ms)
        .iter()
        .filter(|window| window.steps.is_none_or(|steps| steps == 0))
        .filter_map(|window| window.motion.map(|motion| motion.accel_std))
        .collect();
    spreads.sort_by(f32::total_cmp);
    let seconds = (to_ms.saturating_sub(from_ms) / WINDOW_MS) as usize;
    spreads.len() >= REST_SEC_MIN
        && spreads.len() * REST_HEARD_SHARE.1 >= seconds * REST_HEARD_SHARE.0
        && spreads
            .get(spreads.len() * REST_SHARE.0 / REST_SHARE.1)
            .is_some_and(|&spread| spread < REST_ACCEL_STD)
}

/// Removes the fixes that a jump reached, because they do not show that the phone was there. After
/// a lasting jump these are all fixes until a later lasting jump leads back to within a walk of the
/// place before; after any other jump it is a single fix. A slow way back proves nothing: given
/// time, any place lies within a walk.
pub(crate) fn remove_jumped_fixes(fixes: &mut Vec<Fix>, jumps: &[Jump]) {
    let outliers: Vec<u32> = jumps
        .iter()
        .filter(|jump| !jump.is_lasting)
        .map(|jump| jump.t_ms)
        .collect();
    let mut outlier: Option<Place> = None;
    fixes.retain(|fix| {
        if outliers.binary_search(&fix.t_ms).is_ok() {
            outlier = Some(fix.place);
        }
        // Repetitions of the outlier are not evidence either.
        outlier = outlier.filter(|place| *place == fix.place);
        outlier.is_none()
    });
    let mut jumps = jumps
        .iter()
        .filter(|jump| jump.is_lasting)
        .map(|jump| jump.t_ms)
        .peekable();
    let mut last_trusted: Option<Fix> = None;
    let mut is_trusted = true;
    fixes.retain(|fix| {
        while jumps.next_if(|&t_ms| t_ms <= fix.t_ms).is_some() {
            is_trusted = last_trusted.is_none_or(|last| {
                let seconds = fix.t_ms.saturating_sub(last.t_ms) as f32 / 1000.0;
                last.place.distance_m(fix.place) <= RETURN_M + RETURN_MPS * seconds
            });
        }
        if is_trusted {
            last_trusted = Some(*fix);
        }
        is_trusted
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fix(t_ms: u32, east_m: f32, accuracy_m: f32, speed_mps: f32) -> Fix {
        Fix {
            t_ms,
            place: Place {
                east_m,
                ..Place::default()
            },
            accuracy_m,
            accuracy_known: true,
            speed_mps: Some(speed_mps),
            bearing_deg: None,
            altitude_m: None,
            mock: false,
            provider: None,
        }
    }

    /// A train runs at 38 m/s behind trees. When it leaves them, the accuracy improves and the
    /// position catches up by 50 m. The same distance is a jump of a phone that stands.
    #[test]
    fn a_position_that_catches_up_on_a_fast_vehicle_does_not_jump() {
        let second = |mps: f32| [fix(0, 0.0, 22.2, mps), fix(1_000, 87.9, 14.9, mps)];
        let [from, to] = second(38.2);
        assert!(!is_jump(&from, &to));
        let [from, to] = second(0.0);
        assert!(is_jump(&from, &to));
    }

    #[test]
    fn a_false_position_with_any_reported_speed_jumps() {
        let (from, to) = (fix(0, 0.0, 5.0, 0.0), fix(1_000, 1_500.0, 5.0, 200.0));
        assert!(is_jump(&from, &to));
    }
}
