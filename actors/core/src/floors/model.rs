//! The possible buildings, and the knowledge about the current one.

use porchlight_schema::session::Address;
use serde::{Deserialize, Serialize};

use super::parameters::{air, count, ground, learned, storey};
use super::unit_word::{introduces_unit, parts};

/// The range of plausible storey heights, metres.
pub(crate) const STOREY_M: core::ops::RangeInclusive<f32> =
    storey::HEIGHT_M_MIN..=storey::HEIGHT_M_MAX;

/// The kind of place that an address indicates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum PlaceKind {
    /// The address gives no indication.
    #[default]
    Unknown,
    /// The address names a unit of an unspecified kind.
    Units,
    /// A dwelling: the address names an apartment.
    Dwelling,
    /// An office: the address names a suite.
    Office,
}

/// The words that denote a dwelling, in the languages of most addresses; compared whole and in
/// lower case.
const DWELLING_WORDS: [&str; 11] = [
    "apt",
    "apartment",
    "appartement",
    "appt",
    "flat",
    "wohnung",
    "whg",
    "piso",
    "penthouse",
    "studio",
    "maisonette",
];
/// The words that denote an office.
const OFFICE_WORDS: [&str; 7] = [
    "suite", "ste", "office", "büro", "buero", "bureau", "oficina",
];

impl PlaceKind {
    /// Returns the kind of place of `address`, from the words for a dwelling or an office in its
    /// street line and its unit. In the street line such a word counts only beside the designation
    /// of a unit, because street names contain these words too. The number of the unit is not read:
    /// it is as much a claim about the floor as `floor` itself.
    #[must_use]
    pub fn of_address(address: &Address) -> Self {
        let unit = address.unit.as_deref().unwrap_or_default().to_lowercase();
        let has = |words: &[&str]| {
            let in_line = parts(&address.line1)
                .any(|part| (0..part.len()).any(|at| introduces_unit(&part, at, words)));
            let mut unit = unit.split(|letter: char| !letter.is_alphabetic());
            in_line || unit.any(|word| words.contains(&word))
        };
        if has(&OFFICE_WORDS) {
            Self::Office
        } else if has(&DWELLING_WORDS) {
            Self::Dwelling
        } else if unit.trim().is_empty() {
            Self::Unknown
        } else {
            Self::Units
        }
    }
}

/// The height of a floor above the entrance, measured in earlier sessions.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct LearnedFloor {
    pub(crate) floor: i16,
    pub(crate) height_m: f32,
    /// The weight of the height, in fresh sessions.
    pub(crate) weight: f32,
}

/// The knowledge about a building before its height is measured.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Building {
    pub(crate) kind: PlaceKind,
    /// The storey height according to the address, metres.
    pub(crate) storey_m: Option<f32>,
    pub(crate) learned: Vec<LearnedFloor>,
    /// Whether the courier used an elevator in the building.
    pub(crate) has_elevator: bool,
    /// Whether a parcel went there, and no ride at the speed of a tower, which makes a home more
    /// likely.
    pub(crate) is_parcels_goal: bool,
}

/// A possible building: its storey height and extra ground storey height as the barometer measures
/// them, and its probability.
#[derive(Debug, Clone, Copy)]
pub(super) struct Candidate {
    pub(super) storey_m: f64,
    /// The standard deviation of the storey heights that the candidate represents, metres.
    pub(super) storey_sigma_m: f64,
    pub(super) ground_extra_m: f64,
    pub(super) weight: f64,
}

impl Candidate {
    /// Returns the height of a floor above the entrance and its standard deviation between
    /// buildings, metres.
    pub(super) fn floor_m(&self, floor: i16) -> (f64, f64) {
        let storeys_m = f64::from(floor) * self.storey_m;
        match floor {
            0 => (0.0, ground::STEPS_SIGMA_M),
            1.. => (
                storeys_m + self.ground_extra_m,
                f64::from(floor) * self.storey_sigma_m,
            ),
            _ => (storeys_m, ground::CELLAR_SIGMA_M),
        }
    }
}

/// Returns the normal density up to a constant factor.
pub(super) fn normal(off: f64, sigma: f64) -> f64 {
    let off = off / sigma;
    libm::exp(-0.5 * off * off) / sigma
}

impl Building {
    /// Returns all possible buildings except nearly impossible ones; the weights add up to 1.
    pub(super) fn candidates(&self) -> Vec<Candidate> {
        let dwelling = self.dwelling_share();
        let storeys = self.storeys(dwelling);
        // The standard deviation of a uniform distribution over one step between the heights.
        let step_m = storeys
            .windows(2)
            .next()
            .map_or(0.0, |two| two[1].0 - two[0].0);
        let storey_sigma_m = step_m / libm::sqrt(12.0);
        let mut all = Vec::new();
        let tall_share = match self.kind {
            PlaceKind::Office => 1.0,
            _ => ground::TOWER_TALL_SHARE,
        };
        for (storey_m, as_dwelling, as_other) in storeys {
            for (ground_extra_m, level, tall) in ground_storeys() {
                let other = tall_share * tall + (1.0 - tall_share) * level;
                let weight = as_dwelling * level + as_other * other;
                all.push(Candidate {
                    storey_m,
                    storey_sigma_m,
                    ground_extra_m,
                    weight,
                });
            }
        }
        for floor in &self.learned {
            for candidate in &mut all {
                candidate.weight *= agrees_with(candidate, floor);
            }
        }
        let most = all.iter().fold(0.0, |most: f64, one| most.max(one.weight));
        all.retain(|candidate| candidate.weight > most * storey::CANDIDATE_SHARE_MIN);
        let sum: f64 = all.iter().map(|candidate| candidate.weight).sum();
        for candidate in &mut all {
            candidate.weight /= sum;
        }
        all
    }

    /// Returns the building as the goal of a parcel, if that says more about it: the address alone
    /// does not distinguish homes from offices, and an elevator does not either.
    pub(super) fn as_parcels_goal(&self) -> Option<Self> {
        let says_more =
            self.kind == PlaceKind::Unknown && self.has_elevator && self.storey_m.is_none();
        says_more.then(|| Self {
            is_parcels_goal: true,
            ..self.clone()
        })
    }

    /// Returns the building without the knowledge that a parcel went there.
    pub(super) fn of_any_use(&self) -> Self {
        Self {
            is_parcels_goal: false,
            ..self.clone()
        }
    }

    /// Returns the probability that the building is a dwelling.
    fn dwelling_share(&self) -> f64 {
        match (self.kind, self.has_elevator) {
            (PlaceKind::Dwelling, _) => storey::NAMED_DWELLING_SHARE,
            (PlaceKind::Units, _) => storey::UNIT_DWELLING_SHARE,
            (PlaceKind::Office, _) => 1.0 - storey::NAMED_DWELLING_SHARE,
            (PlaceKind::Unknown, true) if self.is_parcels_goal => storey::RIDDEN_DWELLING_SHARE,
            // The measured towers include dwellings, hotels and offices.
            (PlaceKind::Unknown, true) => 0.0,
            (PlaceKind::Unknown, false) => storey::WALKED_DWELLING_SHARE,
        }
    }

    /// Returns the storey heights as the barometer measures them, each with the probabilities of a
    /// dwelling and of another building with that height.
    fn storeys(&self, dwelling: f64) -> Vec<(f64, f64, f64)> {
        let (least_m, most_m) = (
            f64::from(storey::HEIGHT_M_MIN),
            f64::from(storey::HEIGHT_M_MAX),
        );
        let count = ((most_m - least_m) / storey::STEP_M) as u32;
        let heights = (0..=count).map(|step| least_m + f64::from(step) * storey::STEP_M);
        let given = self.storey_m.filter(|metres| STOREY_M.contains(metres));
        if let Some(given_m) = given.map(f64::from) {
            let air_m = air::SIGMA * given_m;
            let sigma_m = libm::sqrt(air_m * air_m + storey::GIVEN_SIGMA_M * storey::GIVEN_SIGMA_M);
            let all: Vec<(f64, f64)> = given_heights(given_m * air::USUAL, sigma_m);
            return all
                .into_iter()
                .map(|(height_m, share)| (height_m, dwelling * share, (1.0 - dwelling) * share))
                .collect();
        }
        let home = |metres: f64| {
            let new = normal(metres - storey::DWELLING_M, storey::DWELLING_SIGMA_M);
            let old = normal(
                metres - storey::OLD_DWELLING_M,
                storey::OLD_DWELLING_SIGMA_M,
            );
            (1.0 - storey::OLD_DWELLING_SHARE) * new + storey::OLD_DWELLING_SHARE * old
        };
        let other = |metres: f64| match self.kind {
            PlaceKind::Office => normal(metres - storey::OFFICE_M, storey::OFFICE_SIGMA_M),
            _ => normal(metres - storey::TOWER_M, storey::TOWER_SIGMA_M),
        };
        heights
            .map(|metres| {
                (
                    metres,
                    dwelling * home(metres),
                    (1.0 - dwelling) * other(metres),
                )
            })
            .collect()
    }
}

/// Returns storey heights around a given one, evenly over [`storey::GIVEN_SIGMAS`], each
/// with its share.
fn given_heights(middle_m: f64, sigma_m: f64) -> Vec<(f64, f64)> {
    let all = (-storey::GIVEN_STEPS..=storey::GIVEN_STEPS).map(|step| {
        let off = storey::GIVEN_SIGMAS * f64::from(step) / f64::from(storey::GIVEN_STEPS);
        (middle_m + off * sigma_m, normal(off, 1.0))
    });
    all.collect()
}

/// Returns the extra heights of ground storeys, metres, each with its share among dwellings and
/// among other buildings; the shares of each add up to 1.
fn ground_storeys() -> Vec<(f64, f64, f64)> {
    let count = (ground::EXTRA_M_MAX / ground::EXTRA_STEP_M) as u32;
    let extras = (0..=count).map(|step| f64::from(step) * ground::EXTRA_STEP_M);
    let all: Vec<(f64, f64, f64, f64)> = extras
        .map(|extra_m| {
            let level = normal(extra_m, ground::DWELLING_LEVEL_SIGMA_M);
            let taller = libm::exp(-extra_m / ground::DWELLING_EXTRA_M);
            let office = normal(
                extra_m - ground::OFFICE_EXTRA_M,
                ground::OFFICE_EXTRA_SIGMA_M,
            );
            (extra_m, level, taller, office)
        })
        .collect();
    let sum = |of: fn(&(f64, f64, f64, f64)) -> f64| all.iter().map(of).sum::<f64>();
    let (levels, tallers, offices) = (sum(|one| one.1), sum(|one| one.2), sum(|one| one.3));
    all.iter()
        .map(|&(extra_m, level, taller, office)| {
            let home = ground::DWELLING_LEVEL_SHARE * level / levels
                + (1.0 - ground::DWELLING_LEVEL_SHARE) * taller / tallers;
            (extra_m, home, office / offices)
        })
        .collect()
}

/// Returns the likelihood of the measurements of earlier sessions if the building is `candidate`.
/// The air of both days counts.
fn agrees_with(candidate: &Candidate, floor: &LearnedFloor) -> f64 {
    let (height_m, spread_m) = candidate.floor_m(floor.floor);
    let weight = f64::from(floor.weight.max(learned::WEIGHT_MIN));
    let air_m = air::SIGMA * height_m;
    let air_m2 = air_m * air_m * (1.0 + 1.0 / weight.max(1.0));
    let sigma_m = libm::sqrt(learned::SIGMA_M * learned::SIGMA_M + spread_m * spread_m + air_m2);
    let off_m = f64::from(floor.height_m) - height_m;
    let elsewhere = learned::ELSEWHERE_SHARE / weight.max(1.0);
    let likelihood = (1.0 - elsewhere) * normal(off_m, sigma_m)
        + elsewhere * normal(off_m, learned::ELSEWHERE_SIGMA_M)
        // A height that no building has is not evidence.
        + f64::MIN_POSITIVE.sqrt();
    // A height with a weight below one fresh session is weaker evidence.
    libm::pow(likelihood, weight.min(1.0))
}

/// Returns the prior probability of a floor up to a constant factor.
pub(super) fn usual(floor: i16) -> f64 {
    let high = libm::exp(-f64::from(floor.unsigned_abs()) / count::FEWER_SCALE);
    if floor < 0 {
        high * count::BELOW_FACTOR
    } else {
        high
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use porchlight_schema::session::Point;

    fn address(line1: &str, unit: Option<&str>) -> Address {
        Address {
            line1: line1.to_owned(),
            city: "Town".to_owned(),
            country: "US".to_owned(),
            unit: unit.map(str::to_owned),
            ..Address::at(Point { lat: 1.0, lng: 2.0 })
        }
    }

    #[test]
    fn the_address_distinguishes_dwellings_from_offices() {
        let kind = |line1, unit| PlaceKind::of_address(&address(line1, unit));
        assert_eq!(kind("12 High St", Some("Apt 4B")), PlaceKind::Dwelling);
        assert_eq!(kind("12 High St, Flat 3", None), PlaceKind::Dwelling);
        assert_eq!(kind("12 High St Ste 400", None), PlaceKind::Office);
        assert_eq!(kind("12 High St", Some("12-07")), PlaceKind::Units);
        assert_eq!(kind("12 High St", None), PlaceKind::Unknown);
        // Words inside other words do not match: Steward Street is not a suite.
        assert_eq!(kind("12 Steward St", None), PlaceKind::Unknown);
        // The words are parts of street names too.
        for street in [
            "12 Rue Ste-Anne",
            "7 Post Office Road",
            "5 Flat Rock Drive",
            "Bureau Street 12",
            "3 Studio Lane, 2nd entrance",
        ] {
            assert_eq!(kind(street, None), PlaceKind::Unknown, "{street}");
        }
        for dwelling in [
            "Flat 3, 12 High St",
            "12 High St Apt4B",
            "12 High St, flat b",
            "Calle Mayor 5, 3º piso",
            "3º piso, Calle Mayor 5",
            "12 Rue Ste-Anne, appt 4",
        ] {
            assert_eq!(kind(dwelling, None), PlaceKind::Dwelling, "{dwelling}");
        }
        // In the unit a word counts alone.
        assert_eq!(kind("12 High St", Some("Penthouse")), PlaceKind::Dwelling);
        assert_eq!(kind("12 High St", Some("Bureau")), PlaceKind::Office);
    }

    #[test]
    fn candidates_always_form_a_distribution() {
        let learned = |floor, height_m| LearnedFloor {
            floor,
            height_m,
            weight: 1.0,
        };
        for building in [
            Building::default(),
            Building {
                storey_m: Some(3.1),
                ..Building::default()
            },
            // A height that no building has is rejected without side effects.
            Building {
                storey_m: Some(900.0),
                learned: vec![learned(3, -4_000.0), learned(-2, 1.0e9)],
                ..Building::default()
            },
        ] {
            let all = building.candidates();
            let sum: f64 = all.iter().map(|candidate| candidate.weight).sum();
            assert!((sum - 1.0).abs() < 1e-9, "{sum} of {building:?}");
        }
    }
}
