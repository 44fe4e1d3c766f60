//! Counts the floors of one climb between any two floors, from its height alone.
//!
//! The building model compares several hundred buildings for each floor, about 0.25 ms for a climb.
//! Without other evidence its answer depends only on the kind of building and the height, and never
//! falls as the height rises. So this file holds the heights at which the answer rises, and asks
//! the model only about climbs above them. A test compares the heights with the model.

use super::estimate::{Estimate, Measured};
use super::model::{Building, PlaceKind, STOREY_M};

/// The heights, millimetres, from which a climb counts two, three and more floors. The last is
/// between 43 and 59 m.
type Heights = [u32; 14];

const DWELLING_MM: Heights = [
    4_915, 7_795, 10_685, 13_597, 16_563, 19_569, 22_579, 25_584, 28_607, 31_620, 34_635, 37_616,
    40_644, 43_755,
];
const UNITS_MM: Heights = [
    5_003, 7_888, 10_782, 13_720, 16_713, 19_744, 22_795, 25_854, 28_887, 31_951, 34_969, 38_204,
    41_237, 44_254,
];
const OFFICE_MM: Heights = [
    6_707, 10_472, 14_182, 17_827, 21_470, 25_166, 28_891, 32_636, 36_404, 40_193, 43_990, 47_793,
    51_663, 55_487,
];
const UNKNOWN_WALKED_MM: Heights = [
    5_087, 7_996, 10_901, 13_874, 16_907, 19_978, 23_075, 26_166, 29_307, 32_412, 35_537, 38_573,
    41_738, 45_101,
];
const UNKNOWN_RIDDEN_MM: Heights = [
    6_168, 9_754, 13_409, 17_009, 20_596, 24_220, 27_878, 31_556, 35_233, 38_933, 42_682, 46_420,
    50_190, 53_877,
];

/// Returns the number of floors of one climb of `height_m` metres, at least one. With a known
/// storey height this is a division: the climb's own height lacks its first and last steps, which
/// is about the extra height of a ground storey.
pub(crate) fn floors_of_climb(
    kind: PlaceKind,
    storey_m: Option<f32>,
    height_m: f32,
    is_ride: bool,
) -> u16 {
    let height_m = height_m.abs();
    if let Some(storey_m) = storey_m.filter(|metres| STOREY_M.contains(metres)) {
        return (height_m / storey_m).round().max(1.0) as u16;
    }
    let heights_mm = heights_mm(kind, is_ride);
    let is_below = |&least_mm: &u32| height_m < metres(least_mm);
    match heights_mm.iter().position(is_below) {
        Some(place) => place as u16 + 1,
        None => floors_by_model(kind, height_m, is_ride),
    }
}

fn heights_mm(kind: PlaceKind, is_ride: bool) -> &'static Heights {
    match (kind, is_ride) {
        (PlaceKind::Dwelling, _) => &DWELLING_MM,
        (PlaceKind::Units, _) => &UNITS_MM,
        (PlaceKind::Office, _) => &OFFICE_MM,
        (PlaceKind::Unknown, false) => &UNKNOWN_WALKED_MM,
        (PlaceKind::Unknown, true) => &UNKNOWN_RIDDEN_MM,
    }
}

fn metres(millimetres: u32) -> f32 {
    millimetres as f32 / 1000.0
}

/// Returns the number of floors that the building model gives for a height, at least one.
fn floors_by_model(kind: PlaceKind, height_m: f32, is_ride: bool) -> u16 {
    let building = Building {
        kind,
        has_elevator: is_ride,
        ..Building::default()
    };
    let measured = Measured {
        rise_m: height_m,
        sigma_m: 0.0,
        ..Measured::default()
    };
    let best = Estimate::new(&building, &measured).map_or(1, |estimate| estimate.best());
    best.max(1).unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    const KINDS: [PlaceKind; 4] = [
        PlaceKind::Unknown,
        PlaceKind::Units,
        PlaceKind::Dwelling,
        PlaceKind::Office,
    ];

    /// Returns the least whole millimetres for which the model counts at least `floors`.
    fn least_mm(kind: PlaceKind, is_ride: bool, floors: u16) -> u32 {
        let (mut below_mm, mut least_mm) = (0, u32::from(floors) * 6_500 + 5_000);
        while least_mm - below_mm > 1 {
            let middle_mm = u32::midpoint(below_mm, least_mm);
            if floors_by_model(kind, metres(middle_mm), is_ride) < floors {
                below_mm = middle_mm;
            } else {
                least_mm = middle_mm;
            }
        }
        least_mm
    }

    #[test]
    fn the_heights_are_those_of_the_model() {
        for kind in KINDS {
            for is_ride in [false, true] {
                let heights_mm = heights_mm(kind, is_ride);
                let by_model: Vec<u32> = (2..)
                    .take(heights_mm.len())
                    .map(|floors| least_mm(kind, is_ride, floors))
                    .collect();
                assert_eq!(
                    heights_mm.as_slice(),
                    by_model,
                    "{kind:?}, by elevator: {is_ride}"
                );
            }
        }
    }

    #[test]
    fn a_higher_climb_never_counts_fewer_floors() {
        for (kind, is_ride) in KINDS.into_iter().zip([true, false].into_iter().cycle()) {
            let counted: Vec<u16> = (0..580)
                .map(|decimetres| floors_by_model(kind, decimetres as f32 / 10.0, is_ride))
                .collect();
            assert!(counted.is_sorted(), "{kind:?}: {counted:?}");
        }
    }

    #[test]
    fn a_climb_above_the_heights_is_counted_by_the_model() {
        for kind in KINDS {
            let heights_mm = heights_mm(kind, true);
            let floors = heights_mm.len() as u16;
            let last_m = metres(heights_mm[heights_mm.len() - 1]);
            let counted = |height_m| floors_of_climb(kind, None, height_m, true);
            assert_eq!(counted(last_m - 0.01), floors);
            assert_eq!(counted(last_m + 0.01), floors + 1);
            assert_eq!(
                counted(2.0 * last_m),
                floors_by_model(kind, 2.0 * last_m, true)
            );
        }
    }

    #[test]
    fn a_known_storey_height_divides_the_height() {
        let counted = |height_m| floors_of_climb(PlaceKind::Unknown, Some(3.0), height_m, false);
        assert_eq!([counted(-9.2), counted(1.0), counted(16.4)], [3, 1, 5]);
    }

    #[test]
    fn a_climb_without_a_height_in_the_building_counts_one_floor() {
        let counted = |height_m| floors_of_climb(PlaceKind::Office, None, height_m, true);
        assert_eq!(
            [counted(0.0), counted(2_000.0), counted(f32::NAN)],
            [1, 1, 1]
        );
    }

    #[test]
    fn a_parcel_above_an_elevator_goes_to_a_home_as_often_as_to_a_tower() {
        // The height of the sixth floor of a home with storeys of 2.9 to 3.2 m is that of the fifth
        // in a tower with storeys of 3.6 m.
        let best = |is_parcels_goal, rise_m| {
            let building = Building {
                has_elevator: true,
                is_parcels_goal,
                ..Building::default()
            };
            let measured = Measured {
                rise_m,
                sigma_m: 0.4,
                ..Measured::default()
            };
            Estimate::new(&building, &measured).map(|estimate| estimate.best())
        };
        let floors = (170..200).map(|decimetres| {
            let rise_m = decimetres as f32 / 10.0;
            (best(false, rise_m), best(true, rise_m))
        });
        let floors: Vec<_> = floors.collect();
        assert!(
            floors.iter().all(|(plain, goal)| goal >= plain),
            "{floors:?}"
        );
        assert!(floors.contains(&(Some(5), Some(6))), "{floors:?}");
    }
}
