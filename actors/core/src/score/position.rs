//! Estimates a position from several sources that may contradict each other.

use crate::geo::Place;
pub(crate) use crate::score::parameters::place::position::SIGMA_M_MIN;
use crate::score::parameters::place::position::{CONTRADICT_SIGMAS, FUSED_MIN};
use crate::window::Fix;

/// An estimated position with its accuracy (68 % radius).
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Estimate {
    pub(crate) place: Place,
    pub(crate) sigma_m: f32,
}

/// Returns the mean of fixes, weighted by accuracy. Neighbouring fixes share the same error, so
/// many fixes are no more exact than a single fix.
pub(crate) fn mean_of(fixes: &[Fix]) -> Option<Estimate> {
    mean_of_each(fixes.iter().copied())
}

/// Returns the mean of fixes, as [`mean_of`] does.
pub(crate) fn mean_of_each(fixes: impl Iterator<Item = Fix>) -> Option<Estimate> {
    let (mut weights, mut east, mut north, mut count) = (0.0_f64, 0.0_f64, 0.0_f64, 0.0_f64);
    for fix in fixes {
        let accuracy_m = f64::from(fix.accuracy_m.max(SIGMA_M_MIN));
        let weight = 1.0 / (accuracy_m * accuracy_m);
        weights += weight;
        count += 1.0;
        east += weight * f64::from(fix.place.east_m);
        north += weight * f64::from(fix.place.north_m);
    }
    if weights <= 0.0 {
        return None;
    }
    let place = Place {
        east_m: (east / weights) as f32,
        north_m: (north / weights) as f32,
    };
    Some(Estimate {
        place,
        sigma_m: (count / weights).sqrt() as f32,
    })
}

/// Combines several estimates of one place, weighted by accuracy. Fixes inside a building may be
/// far off and claim to be exact. They are left out if they contradict the estimates from outdoor
/// fixes and the distance walked since.
pub(crate) fn fused(inside: Option<Estimate>, outside: [Option<Estimate>; 2]) -> Option<Estimate> {
    let [before, after] = outside;
    let anchored = match (before, after) {
        (Some(before), Some(after)) if contradict(before, after) => match inside {
            // The outdoor source that agrees with the indoor source is right.
            Some(inside) if !contradict(inside, before) => mean_estimate(&[inside, before]),
            Some(inside) if !contradict(inside, after) => mean_estimate(&[inside, after]),
            _ => return covering_both(before, after),
        },
        (Some(before), Some(after)) => mean_estimate(&[before, after]),
        (one, other) => one.or(other),
    };
    match (anchored, inside) {
        (Some(anchored), Some(inside)) if contradict(anchored, inside) => Some(anchored),
        (Some(anchored), Some(inside)) => mean_estimate(&[anchored, inside]),
        (anchored, inside) => anchored.or(inside),
    }
}

/// Returns whether two sources cannot both be right.
fn contradict(a: Estimate, b: Estimate) -> bool {
    let sigma_m = (a.sigma_m * a.sigma_m + b.sigma_m * b.sigma_m).sqrt();
    a.place.distance_m(b.place) > CONTRADICT_SIGMAS * sigma_m
}

/// Returns an estimate between two sources of which one is wrong. Its accuracy covers both.
fn covering_both(a: Estimate, b: Estimate) -> Option<Estimate> {
    let middle = mean_estimate(&[a, b])?;
    Some(Estimate {
        sigma_m: middle.sigma_m.max(a.place.distance_m(b.place) / 2.0),
        ..middle
    })
}

/// Returns the mean of estimates, weighted by accuracy. Their errors are partly correlated, so the
/// mean is at most a little more exact than the best of them.
fn mean_estimate(sources: &[Estimate]) -> Option<Estimate> {
    let (mut weights, mut east, mut north, mut best_m) = (0.0_f32, 0.0_f32, 0.0_f32, f32::INFINITY);
    for source in sources {
        let weight = 1.0 / (source.sigma_m * source.sigma_m);
        weights += weight;
        east += weight * source.place.east_m;
        north += weight * source.place.north_m;
        best_m = best_m.min(source.sigma_m);
    }
    if weights <= 0.0 {
        return None;
    }
    let place = Place {
        east_m: east / weights,
        north_m: north / weights,
    };
    Some(Estimate {
        place,
        sigma_m: (1.0 / weights.sqrt()).max(FUSED_MIN * best_m),
    })
}
