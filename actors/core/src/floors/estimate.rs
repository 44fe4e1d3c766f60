//! Computes the probability of each floor for a measured height.

use super::model::{Building, Candidate, normal, usual};
use super::parameters::{air, count, decision};
use super::staircase::{by_flights, by_turns};

/// The measurements on the way from the entrance to the drop-off.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Measured {
    /// The rise from entrance to drop-off by the standard atmosphere, metres.
    pub(crate) rise_m: f32,
    /// The standard deviation of the rise, metres.
    pub(crate) sigma_m: f32,
    /// The heights above the entrance, metres, at which a ride stopped or the path continued
    /// between two climbs.
    pub(crate) stops_m: Vec<f32>,
    /// The number of full turns, once for each way over the whole height that the courier took on
    /// stairs while the gyroscope sent data.
    pub(crate) turns: Vec<f32>,
    /// The number of flights between landings, once for each way over the whole height that the
    /// courier took on stairs while the barometer was quiet enough to show landings.
    pub(crate) flights: Vec<u16>,
}

/// The probability of each floor; the probabilities add up to 1.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Estimate {
    /// The floors in order, each with its likelihood and its probability with the prior.
    floors: Vec<FloorChance>,
    /// The floors as a parcel's goal, if that says more about the building.
    as_goal: Option<Vec<FloorChance>>,
    /// Whether a parcel went there, so that its goal is counted.
    is_parcels_goal: bool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct FloorChance {
    floor: i16,
    /// The likelihood of the measurement on that floor, as a share of all floors.
    likelihood: f64,
    /// The likelihood weighted with the prior of the floor.
    probability: f64,
}

/// The result of comparing a claimed floor with the measurement.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum FloorMatch {
    /// The claimed floor is clearly more likely than all others.
    Right,
    /// Another floor is clearly more likely.
    Wrong,
    /// Neither floor is clearly more likely.
    Unclear,
}

impl Estimate {
    /// Computes the floors for a rise from the entrance. Returns `None` if no building has a floor
    /// at that height.
    pub(crate) fn new(building: &Building, measured: &Measured) -> Option<Self> {
        let floors = chances(&building.of_any_use(), measured)?;
        let as_goal = building
            .as_parcels_goal()
            .and_then(|goal| chances(&goal, measured));
        Some(Self {
            floors,
            as_goal,
            is_parcels_goal: building.is_parcels_goal,
        })
    }

    /// Returns the chances to count floors with: as a parcel's goal if a parcel went there.
    fn counted(&self) -> &[FloorChance] {
        match &self.as_goal {
            Some(as_goal) if self.is_parcels_goal => as_goal,
            _ => &self.floors,
        }
    }

    /// Returns the median: it is equally likely to be too high and too low, so it is rarely far off
    /// and never falls as the height rises.
    pub(crate) fn best(&self) -> i16 {
        let mut below = 0.0;
        for chance in self.counted() {
            below += chance.probability;
            if below >= 0.5 {
                return chance.floor;
            }
        }
        self.counted().last().map_or(0, |chance| chance.floor)
    }

    /// Returns the probability of a floor.
    pub(crate) fn probability(&self, floor: i16) -> f64 {
        chance_of(self.counted(), floor).map_or(0.0, |chance| chance.probability)
    }

    /// Returns the other possible floors with their probabilities, most likely first.
    pub(crate) fn runners_up(&self, most: usize) -> Vec<(i16, f64)> {
        let best = self.best();
        let mut others: Vec<(i16, f64)> = self
            .counted()
            .iter()
            .filter(|chance| chance.floor != best && chance.probability >= decision::NAMED)
            .map(|chance| (chance.floor, chance.probability))
            .collect();
        others.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        others.truncate(most);
        others
    }

    /// Compares a claimed floor with its neighbours by the measurement. The claim itself is no
    /// evidence; if the measurement fits two floors equally, neither is confirmed. Returns the
    /// verdict and the probability of the claimed floor against its neighbours.
    pub(crate) fn compare(&self, claimed: i16) -> (FloorMatch, f64) {
        let floors = self.as_goal.as_ref().unwrap_or(&self.floors);
        let of = |floor: i16| chance_of(floors, floor).map_or(0.0, |chance| chance.likelihood);
        let likelihood = of(claimed);
        let neighbours = of(claimed.saturating_sub(1)) + of(claimed.saturating_add(1));
        let probability =
            likelihood / (likelihood + neighbours * decision::BESIDE).max(f64::MIN_POSITIVE);
        // A floor is wrong only if no view of the building makes it likely.
        let is_beaten = |floors: &[FloorChance]| {
            let likelihood = chance_of(floors, claimed).map_or(0.0, |chance| chance.likelihood);
            floors
                .iter()
                .any(|chance| likelihood * decision::WRONG_TIMES < chance.likelihood)
        };
        let verdict = if is_beaten(floors) && is_beaten(&self.floors) {
            FloorMatch::Wrong
        } else if probability >= decision::RIGHT {
            FloorMatch::Right
        } else {
            FloorMatch::Unclear
        };
        (verdict, probability)
    }
}

fn chance_of(floors: &[FloorChance], floor: i16) -> Option<&FloorChance> {
    floors.iter().find(|chance| chance.floor == floor)
}

/// Computes the chance of each floor in a building. Returns `None` if no building has a floor at
/// that height.
fn chances(building: &Building, measured: &Measured) -> Option<Vec<FloorChance>> {
    let rise_m = f64::from(measured.rise_m);
    let candidates = with_stops(building.candidates(), measured);
    let lowest_m = candidates
        .iter()
        .fold(f64::INFINITY, |least, one| least.min(one.storey_m));
    // One floor more than the lowest storeys imply, and one on the other side of the ground.
    let reach = ((rise_m.abs() / lowest_m.max(1.0)) as i32).saturating_add(2);
    let reach = i16::try_from(reach)
        .ok()
        .filter(|&reach| reach <= count::FLOORS_MAX + 2)?;
    let range = if rise_m < 0.0 { -reach..=1 } else { -1..=reach };
    let likelihoods: Vec<(i16, f64)> = range
        .map(|floor| (floor, likelihood(&candidates, measured, floor)))
        .collect();
    let sum: f64 = likelihoods.iter().map(|(_, likelihood)| likelihood).sum();
    let least = normal(decision::IMPLAUSIBLE_SIGMAS, 1.0) * air::WILD_SHARE;
    if !(sum.is_finite() && sum > least) {
        return None;
    }
    let usually: f64 = likelihoods
        .iter()
        .map(|&(floor, likelihood)| likelihood * usual(floor))
        .sum();
    let chances = likelihoods
        .into_iter()
        .map(|(floor, likelihood)| FloorChance {
            floor,
            likelihood: likelihood / sum,
            probability: likelihood * usual(floor) / usually,
        })
        .collect();
    Some(chances)
}

/// Weights the candidates by how well their floors match the intermediate stops.
fn with_stops(mut candidates: Vec<Candidate>, measured: &Measured) -> Vec<Candidate> {
    for &stop_m in &measured.stops_m {
        let stop_m = f64::from(stop_m);
        for candidate in &mut candidates {
            let above_m = stop_m - candidate.ground_extra_m;
            let nearest = if stop_m < candidate.storey_m / 2.0 {
                stop_m / candidate.storey_m
            } else {
                (above_m / candidate.storey_m).max(1.0)
            };
            let (floor_m, spread_m) = candidate.floor_m(
                nearest
                    .round()
                    .clamp(-count::STOP_FLOORS_MAX, count::STOP_FLOORS_MAX) as i16,
            );
            let sigma_m = libm::hypot(air::STOP_SIGMA_M, spread_m);
            let off = (stop_m - floor_m) / sigma_m;
            candidate.weight *= air::STOP_ELSEWHERE_SHARE
                + (1.0 - air::STOP_ELSEWHERE_SHARE) * libm::exp(-0.5 * off * off);
        }
    }
    let sum: f64 = candidates.iter().map(|candidate| candidate.weight).sum();
    for candidate in &mut candidates {
        candidate.weight /= sum;
    }
    candidates
}

/// Returns the likelihood of the measurement on a floor.
fn likelihood(candidates: &[Candidate], measured: &Measured, floor: i16) -> f64 {
    let rise_m = f64::from(measured.rise_m);
    let own_m = libm::hypot(f64::from(measured.sigma_m), air::RISE_SIGMA_M);
    let by_height: f64 = candidates
        .iter()
        .map(|candidate| {
            let (floor_m, spread_m) = candidate.floor_m(floor);
            let sigma_m = libm::sqrt(own_m * own_m + spread_m * spread_m);
            let off_m = rise_m - floor_m;
            if off_m.abs() > air::IGNORED_SIGMAS * air::WILD_SIGMAS * sigma_m {
                return 0.0;
            }
            let wild = air::WILD_SHARE * normal(off_m, air::WILD_SIGMAS * sigma_m);
            candidate.weight * ((1.0 - air::WILD_SHARE) * normal(off_m, sigma_m) + wild)
        })
        .sum();
    by_height * by_flights(&measured.flights, floor) * by_turns(&measured.turns, floor)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::floors::LearnedFloor;
    use proptest::prelude::*;

    fn estimate(building: &Building, rise_m: f32) -> Estimate {
        let measured = Measured {
            rise_m,
            sigma_m: 0.4,
            ..Measured::default()
        };
        Estimate::new(building, &measured).expect("a height of a building")
    }

    fn storeys_of(metres: f32) -> Building {
        Building {
            storey_m: Some(metres),
            ..Building::default()
        }
    }

    fn with_elevator() -> Building {
        Building {
            has_elevator: true,
            ..Building::default()
        }
    }

    #[test]
    fn flats_and_offices_have_different_storey_heights() {
        // The fourth floor of a house with storeys of 2.8 m, climbed on foot.
        assert_eq!(estimate(&Building::default(), 11.3).best(), 4);
        // The third floor of an office building with a hall of 5.4 m and storeys of 3.7 m.
        assert_eq!(estimate(&with_elevator(), 12.8).best(), 3);
    }

    #[test]
    fn a_known_storey_height_confirms_the_floor() {
        for floor in [1_i16, 2, 3, 4, 5] {
            let there = estimate(&storeys_of(3.0), 3.0 * f32::from(floor));
            assert_eq!(there.best(), floor);
            assert_eq!(
                there.compare(floor).0,
                FloorMatch::Right,
                "{floor}: {there:?}"
            );
            assert_ne!(there.compare(floor + 1).0, FloorMatch::Right);
            assert_ne!(there.compare(floor - 1).0, FloorMatch::Right);
        }
        let fourth = estimate(&storeys_of(3.0), 12.0);
        assert_eq!(fourth.compare(2).0, FloorMatch::Wrong);
        assert_eq!(fourth.compare(-4).0, FloorMatch::Wrong);
    }

    #[test]
    fn high_floors_of_an_unknown_building_are_unclear() {
        let high = estimate(&with_elevator(), 37.0);
        for claimed in 9..=11 {
            assert_eq!(
                high.compare(claimed).0,
                FloorMatch::Unclear,
                "{claimed}: {high:?}"
            );
        }
        assert!(high.probability(high.best()) < 0.5);
        assert_eq!(high.runners_up(3).len(), 3);
    }

    #[test]
    fn a_flat_above_an_elevator_is_confirmed_and_its_neighbours_are_not() {
        // The sixth floor of a house with an elevator and storeys of 2.9 m: in the usual tower this
        // is the height of the fifth.
        let sixth = estimate(&with_elevator(), 17.5);
        assert_eq!(sixth.best(), 5);
        assert_eq!(sixth.compare(6).0, FloorMatch::Right, "{sixth:?}");
        for claimed in [5, 7] {
            assert_ne!(
                sixth.compare(claimed).0,
                FloorMatch::Right,
                "{claimed}: {sixth:?}"
            );
        }
        // The tenth floor of a tower with storeys of 3.9 m and a hall of 5.4 m is not refused,
        // although a home at this height would be on the thirteenth.
        assert_ne!(
            estimate(&with_elevator(), 40.6).compare(10).0,
            FloorMatch::Wrong
        );
    }

    #[test]
    fn one_earlier_session_identifies_its_floor_and_neighbours() {
        let learned = Building {
            learned: vec![LearnedFloor {
                floor: 6,
                height_m: 18.6,
                weight: 1.0,
            }],
            ..with_elevator()
        };
        let before = estimate(&with_elevator(), 18.4).compare(6);
        let after = estimate(&learned, 18.4).compare(6);
        assert_eq!(before.0, FloorMatch::Unclear, "{before:?}");
        assert_eq!(after.0, FloorMatch::Right, "{after:?}");
        assert_eq!(estimate(&learned, 12.4).best(), 4);
        assert_eq!(estimate(&learned, 21.6).best(), 7);
    }

    #[test]
    fn intermediate_stops_of_a_ride_show_the_storey_height() {
        // At 3 m per storey, 18 m are six storeys; in an office building, five. The ride stopped at
        // 6, 9 and 15 m.
        let plain = Measured {
            rise_m: 18.0,
            sigma_m: 0.3,
            ..Measured::default()
        };
        let stops = Measured {
            stops_m: vec![6.0, 9.0, 15.0],
            ..plain.clone()
        };
        let chance = |measured| {
            Estimate::new(&with_elevator(), measured)
                .expect("a height of a building")
                .probability(6)
        };
        assert!(chance(&stops) > 1.5 * chance(&plain));
    }

    #[test]
    fn cellars_are_distinguished_from_upper_floors() {
        assert_eq!(estimate(&storeys_of(3.0), -3.1).best(), -1);
        assert_eq!(estimate(&Building::default(), -5.8).best(), -2);
        assert_eq!(estimate(&Building::default(), 0.4).best(), 0);
    }

    #[test]
    fn an_impossible_height_gives_no_floor() {
        for rise_m in [2_000.0, -2_000.0, f32::NAN, f32::INFINITY] {
            let measured = Measured {
                rise_m,
                sigma_m: 0.4,
                ..Measured::default()
            };
            assert_eq!(Estimate::new(&Building::default(), &measured), None);
        }
    }

    proptest! {
        /// A greater height never gives fewer floors, and the probabilities form a distribution.
        #[test]
        fn a_greater_height_never_gives_fewer_floors(
            low_m in -12.0_f32..60.0,
            more_m in 0.0_f32..12.0,
            storey_m in proptest::option::of(2.3_f32..5.0),
            has_elevator: bool,
        ) {
            let building = Building { storey_m, has_elevator, ..Building::default() };
            let (low, high) = (estimate(&building, low_m), estimate(&building, low_m + more_m));
            prop_assert!(low.best() <= high.best(), "{} {}", low.best(), high.best());
            let sum: f64 = low.floors.iter().map(|chance| chance.probability).sum();
            prop_assert!((sum - 1.0).abs() < 1e-9);
        }

        /// The claimed floor does not influence the count: only the height does.
        #[test]
        fn at_most_one_floor_is_confirmed(rise_m in -12.0_f32..80.0, storey_m in 2.3_f32..5.0) {
            let found = estimate(&storeys_of(storey_m), rise_m);
            let right: Vec<i16> = (-6..40)
                .filter(|&claimed| found.compare(claimed).0 == FloorMatch::Right)
                .collect();
            prop_assert!(right.windows(2).all(|two| two[1] - two[0] > 1) && right.len() <= 2, "{:?}", right);
        }
    }
}
