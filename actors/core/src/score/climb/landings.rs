//! Counts the flights of stairs of a climb by the landings between them.
//!
//! On a flight the height changes at a steady rate, and on a landing it stays constant for two or
//! three steps. A barometer with little noise shows both, and their count does not depend on the
//! height of the storeys.

use porchlight_schema::event::{Event, EventType};

use crate::score::height::Level;
use crate::score::parameters::door::landings::{
    BEND_VARIANCES, CHANGE_COST, COST_MAX, FLIGHT_M_MAX, FLIGHT_M_MIN, MARGIN_MS, MEDIAN_SIGMAS,
    NOISE_M_MAX, RATE_MPS_MIN, RATE_SHARE, SECONDS_MIN, STRIDE_SIGMA_MPS,
};
use crate::score::scoring_context::ScoringContext;
use crate::window::WINDOW_MS;

/// Returns the number of flights of these climbs. Returns `None` if one of them is a ride, if the
/// barometer is too noisy to show landings, or if it was silent on the way.
pub(super) fn flights(ctx: &ScoringContext<'_>, climbs: &[&Event]) -> Option<u16> {
    let counts = climbs.iter().map(|climb| {
        let from_ms = climb.t_start_ms.saturating_sub(MARGIN_MS);
        let to_ms = ctx.end_of(climb).saturating_add(MARGIN_MS);
        let is_on_stairs = climb.event_type == EventType::Stairs;
        is_on_stairs.then(|| count(ctx.height.levels(from_ms, to_ms)))?
    });
    let sum = counts.sum::<Option<u16>>()?;
    (sum > 0).then_some(sum)
}

/// Counts the flights of one climb from its levels, one a second.
fn count(levels: &[Level]) -> Option<u16> {
    let heights_m = every_second(levels)?;
    let (first_m, last_m) = (heights_m.first()?, heights_m.last()?);
    let rise_m = (last_m - first_m).abs();
    let noise_m = noise_m(&heights_m)?;
    if heights_m.len() < SECONDS_MIN || noise_m > NOISE_M_MAX {
        return None;
    }
    let sign = if last_m > first_m { 1.0 } else { -1.0 };
    let slopes_mps: Vec<f32> = slopes_mps(&heights_m).map(|slope| sign * slope).collect();
    let rate_mps = quantile(slopes_mps.clone(), RATE_SHARE)?;
    if rate_mps < RATE_MPS_MIN {
        return None;
    }
    // The difference of two heights has twice the variance of one, and is divided by two seconds.
    let sigma_mps = (noise_m * noise_m / 2.0 + STRIDE_SIGMA_MPS * STRIDE_SIGMA_MPS).sqrt();
    let is_flight = decode(&slopes_mps, rate_mps, sigma_mps);
    let starts = core::iter::once(false)
        .chain(is_flight.iter().copied())
        .zip(is_flight.iter().copied())
        .filter(|&(before, now)| now && !before);
    let count = u16::try_from(starts.count()).ok()?;
    let flight_m = rise_m / f32::from(count.max(1));
    (count > 0 && (FLIGHT_M_MIN..=FLIGHT_M_MAX).contains(&flight_m)).then_some(count)
}

/// Returns one height per second. A single missing second gets the mean of its neighbours; a longer
/// silence gives `None`.
fn every_second(levels: &[Level]) -> Option<Vec<f32>> {
    let mut heights_m: Vec<f32> = Vec::with_capacity(levels.len());
    let mut before: Option<&Level> = None;
    for level in levels {
        if let Some(before) = before {
            match level.t_ms.saturating_sub(before.t_ms) / WINDOW_MS {
                1 => {}
                2 => heights_m.push(f32::midpoint(before.height_m, level.height_m)),
                _ => return None,
            }
        }
        heights_m.push(level.height_m);
        before = Some(level);
    }
    Some(heights_m)
}

fn pairs(values: &[f32]) -> impl Iterator<Item = (f32, f32)> {
    values.iter().copied().zip(values.iter().copied().skip(1))
}

/// Returns the value below which `share` of the values lie.
fn quantile(mut values: Vec<f32>, share: f32) -> Option<f32> {
    values.sort_by(f32::total_cmp);
    let place = (share * values.len() as f32) as usize;
    values.get(place.min(values.len().checked_sub(1)?)).copied()
}

/// Returns the standard deviation of the noise of one height. Second differences cancel a steady
/// rate, and their median ignores the few at the ends of flights.
fn noise_m(heights_m: &[f32]) -> Option<f32> {
    let gains: Vec<f32> = pairs(heights_m).map(|(a, b)| b - a).collect();
    let bends = pairs(&gains).map(|(a, b)| (b - a).abs()).collect();
    Some(quantile(bends, 0.5)? / (MEDIAN_SIGMAS * BEND_VARIANCES.sqrt()))
}

/// Returns the slopes over two seconds: a landing lasts at least that long, and a longer span
/// lessens the noise.
fn slopes_mps(heights_m: &[f32]) -> impl Iterator<Item = f32> {
    let later = heights_m.iter().skip(2);
    heights_m.iter().zip(later).map(|(a, b)| (b - a) / 2.0)
}

/// Returns for each second whether it is on a flight: the most likely sequence of flights and
/// landings.
fn decode(slopes_mps: &[f32], rate_mps: f32, sigma_mps: f32) -> Vec<bool> {
    let cost = |off_mps: f32| {
        let off = off_mps / sigma_mps;
        (0.5 * off * off).min(COST_MAX)
    };
    let (mut landing, mut flight) = (0.0_f32, 0.0_f32);
    let mut back: Vec<(bool, bool)> = Vec::with_capacity(slopes_mps.len());
    for &slope_mps in slopes_mps {
        // Whether the cheaper way to each state is through the other.
        let from_flight = flight + CHANGE_COST < landing;
        let from_landing = landing + CHANGE_COST < flight;
        back.push((from_flight, from_landing));
        let landing_before = if from_flight {
            flight + CHANGE_COST
        } else {
            landing
        };
        let flight_before = if from_landing {
            landing + CHANGE_COST
        } else {
            flight
        };
        landing = landing_before + cost(slope_mps);
        flight = flight_before + cost(slope_mps - rate_mps);
    }
    let mut is_flight = flight <= landing;
    let mut decoded = vec![false; slopes_mps.len()];
    for (state, (from_flight, from_landing)) in decoded.iter_mut().zip(back).rev() {
        *state = is_flight;
        is_flight = if is_flight {
            !from_landing
        } else {
            from_flight
        };
    }
    decoded
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the levels of a climb at 0.3 m/s with `flights` flights of `flight_m`, landings of
    /// 2.5 s between them, and errors with a standard deviation of `noise_m`.
    fn stairs(flights: u16, flight_m: f32, noise_m: f32) -> Vec<Level> {
        let flight_sec = flight_m / 0.3;
        let height_at = |t_sec: f32| {
            let (mut height_m, mut left_sec) = (0.0, t_sec);
            for _ in 0..flights {
                height_m += 0.3 * left_sec.clamp(0.0, flight_sec);
                left_sec -= flight_sec + 2.5;
            }
            height_m
        };
        let end_sec = (f32::from(flights) * (flight_sec + 2.5)) as u32;
        (0..=end_sec)
            .map(|sec| {
                // A fixed sequence of errors with the given spread.
                let mixed = (sec.wrapping_mul(2_654_435_761) >> 16) % 11;
                let error = f32::from(mixed as u16) / 3.16 - 1.58;
                Level {
                    t_ms: sec * WINDOW_MS,
                    height_m: height_at(sec as f32) + noise_m * error,
                }
            })
            .collect()
    }

    #[test]
    fn landings_separate_flights() {
        for (flights, flight_m) in [(2, 1.45), (6, 1.45), (8, 1.6), (5, 1.9), (3, 2.9)] {
            let levels = stairs(flights, flight_m, 0.02);
            assert_eq!(count(&levels), Some(flights), "{flights} of {flight_m} m");
            // The way down shows the same.
            let down: Vec<Level> = levels
                .iter()
                .map(|level| Level {
                    height_m: -level.height_m,
                    ..*level
                })
                .collect();
            assert_eq!(count(&down), Some(flights));
        }
    }

    #[test]
    fn a_straight_flight_is_one() {
        assert_eq!(count(&stairs(1, 3.6, 0.02)), Some(1));
    }

    #[test]
    fn a_rough_barometer_counts_no_landings() {
        assert_eq!(count(&stairs(6, 1.45, 0.15)), None);
    }

    #[test]
    fn one_missing_second_is_filled_and_a_silence_is_not() {
        let mut levels = stairs(6, 1.45, 0.02);
        levels.remove(9);
        assert_eq!(count(&levels), Some(6));
        levels.drain(14..17);
        assert_eq!(count(&levels), None);
    }

    #[test]
    fn a_ramp_without_flights_of_a_staircase_is_not_counted() {
        // 12 m without a landing: no staircase has a flight like that.
        assert_eq!(count(&stairs(1, 12.0, 0.02)), None);
        assert_eq!(count(&[]), None);
    }
}
