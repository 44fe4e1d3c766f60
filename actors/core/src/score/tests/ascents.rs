//! Tests the ground that floors are counted from: slow stairs, steep streets and garages.

use porchlight_schema::insight::{ReasonCode, Score};
use serde_json::json;

use super::contract::ERRORS;
use super::errands::{come, floor, go};
use super::phone::{Error, Phone};

/// Climbs nine metres with a heavy parcel: two storeys with a rest on each step, and one at a usual
/// pace. Then goes down in the same way.
fn heavy(phone: Phone) -> Score {
    let pace = |mut phone: Phone, stairs_mps, stairs_hz| {
        (phone.stairs_mps, phone.stairs_hz) = (stairs_mps, stairs_hz);
        phone
    };
    let phone = come(phone).walk(0.0, -30.0).walk(0.0, -8.0).go_in();
    let phone = pace(phone.walk(0.0, 2.0), 0.11, 0.9).climb(6.0, false);
    let phone = pace(phone, 0.25, 1.5).climb(3.0, false).walk(4.0, 2.0);
    let phone = phone.stay(35).mark("handed_over").stay(5).walk(0.0, 2.0);
    let phone = phone.climb(-9.0, false).walk(0.0, -8.0).come_out();
    go(phone.walk(0.0, -30.0)).score()
}

#[test]
fn stairs_too_slow_to_be_detected_are_counted() {
    for error in ERRORS {
        let score = heavy(floor(Phone::new(error, 5), 3));
        assert_eq!(
            score.summary.floors_climbed,
            Some(3),
            "{error:?}: {:#?} {:#?}",
            score.events,
            score.evidence
        );
        assert!(score.summary.right_doorstep, "{:#?}", score.evidence);
        assert!(score.reason_codes.contains(&ReasonCode::FullAttempt));
    }
}

/// Stairs that were detected only in part refuse no floor near the one that they led to.
#[test]
fn stairs_that_were_detected_only_in_part_refuse_no_floor() {
    for (wanted, is_refused) in [(2, false), (4, false), (6, true)] {
        let score = heavy(floor(Phone::new(Error::Wander, 5), wanted));
        assert!(!score.summary.right_doorstep, "{wanted}");
        let is_full = score.reason_codes.contains(&ReasonCode::FullAttempt);
        assert_eq!(is_full, !is_refused, "{wanted}: {:#?}", score.evidence);
    }
}

/// A street of one in ten leads up to the house, so that the courier climbs five metres outside and
/// three inside, behind a hall or directly behind the entrance.
#[test]
fn a_steep_street_is_not_a_floor() {
    for (walk_mps, hall_m) in [(0.8, 2.0), (1.3, 2.0), (1.3, 12.0)] {
        let mut phone = come(floor(Phone::new(Error::Wander, 5), 1));
        (phone.walk_mps, phone.grade) = (walk_mps, 0.1);
        let mut phone = phone.walk(0.0, -30.0).walk(0.0, -20.0);
        phone.grade = 0.0;
        let phone = phone.go_in().walk(0.0, hall_m - 20.0).climb(3.0, false);
        let phone = phone.walk(4.0, 2.0).stay(35).mark("handed_over").stay(5);
        let mut phone = phone.walk(0.0, hall_m - 20.0).climb(-3.0, false);
        phone = phone.walk(0.0, -20.0).come_out();
        phone.grade = -0.1;
        let score = go(phone.walk(0.0, -30.0)).score();
        assert_eq!(
            score.summary.floors_climbed,
            Some(1),
            "{walk_mps}, {hall_m}: {:#?}",
            score.evidence
        );
        assert!(score.reason_codes.contains(&ReasonCode::FullAttempt));
    }
}

/// Parks the given metres below the street, with or without a ceiling, and rides 14 m up.
fn from_below(phone: Phone, depth_m: f64, is_covered: bool) -> Score {
    let ramp = |mut phone: Phone, grade: f64| {
        (phone.drive_mps, phone.grade) = (3.0, grade);
        phone
    };
    let level = |mut phone: Phone, vaguer_m: f64| {
        (phone.drive_mps, phone.grade, phone.vaguer_m) = (9.0, 0.0, vaguer_m);
        phone
    };
    // Under the ceiling of the ramp the accuracy falls from 5 to 13 m.
    let ceiling_m = if is_covered { 8.0 } else { 0.0 };
    let grade = depth_m / 55.0;
    let phone = phone.address("storeyHeightM", json!(2.8)).drive(-67.0, 0.0);
    let phone = ramp(level(phone, ceiling_m), -grade).drive(-12.0, 0.0);
    let phone = level(phone.stay(12), ceiling_m);
    let phone = if is_covered {
        phone.go_in().walk(-4.0, 0.0)
    } else {
        phone.walk(-4.0, 0.0).go_in()
    };
    let phone = phone.walk(0.0, 0.0).stay(20);
    let phone = phone.climb(14.0, true).walk(4.0, 2.0);
    let phone = phone.stay(30).mark("handed_over").stay(5).walk(0.0, 0.0);
    let phone = phone.stay(12).climb(-14.0, true).walk(-12.0, 0.0);
    let phone = ramp(phone.stay(10), grade).drive(-67.0, 0.0).come_out();
    level(phone, 0.0).drive(-500.0, 0.0).score()
}

/// As below, on a phone that locates itself by stations in the garage: reception is degraded, and
/// not lost.
#[test]
fn stations_in_a_garage_do_not_hide_its_depth() {
    for error in ERRORS {
        let mut phone = Phone::new(error, 5).address("floor", json!(4));
        phone.by_stations = true;
        let score = from_below(phone, 2.8, true);
        assert!(
            score.summary.right_doorstep,
            "{error:?}: {:#?}",
            score.evidence
        );
    }
}

/// From a garage one storey below the street, five storeys lead to the fourth floor. The address's
/// neighbours are not confirmed, although one of them is the fifth storey above the garage.
#[test]
fn a_floor_above_a_garage_is_counted_from_the_street() {
    for error in ERRORS {
        let cases = [
            (1, false, false),
            (3, false, true),
            (4, true, true),
            (5, false, true),
        ];
        for (wanted, is_right, is_full) in cases {
            let phone = Phone::new(error, 5).address("floor", json!(wanted));
            let score = from_below(phone, 2.8, true);
            let summary = &score.summary;
            assert_eq!(summary.floors_climbed, Some(5), "{error:?}, {wanted}");
            assert_eq!(
                summary.right_doorstep, is_right,
                "{error:?}, {wanted}: {:#?}",
                score.evidence
            );
            let codes = &score.reason_codes;
            assert_eq!(
                codes.contains(&ReasonCode::FullAttempt),
                is_full,
                "{error:?}, {wanted}: {codes:?}"
            );
        }
    }
}

/// A road that leads down under the open sky is the street of the house.
#[test]
fn a_floor_below_a_hill_is_counted_from_where_the_vehicle_stands() {
    for (wanted, is_right) in [(4, false), (5, true)] {
        let phone = Phone::new(Error::Wander, 5).address("floor", json!(wanted));
        let score = from_below(phone, 2.8, false);
        assert_eq!(score.summary.floors_climbed, Some(5), "{wanted}");
        assert_eq!(
            score.summary.right_doorstep, is_right,
            "{wanted}: {:#?}",
            score.evidence
        );
    }
}

/// Drives up two decks, walks down 6 m of stairs to the street, and 60 m along it to a house. Comes
/// back in the same way.
fn from_deck(phone: Phone, is_covered: bool, floor_m: f64) -> Score {
    let ramp = |mut phone: Phone, grade: f64| {
        (phone.drive_mps, phone.grade) = (3.0, grade);
        phone
    };
    let level = |mut phone: Phone| {
        (phone.drive_mps, phone.grade) = (9.0, 0.0);
        phone
    };
    let cover = |phone: Phone| if is_covered { phone.go_in() } else { phone };
    let phone = cover(phone.drive(-120.0, -30.0));
    let phone = level(ramp(phone, 0.1).drive(-60.0, -30.0)).stay(15);
    let phone = phone.walk(-64.0, -24.0).climb(-6.0, false).come_out();
    let phone = phone.walk(0.0, -26.0).walk(0.0, -2.0);
    let phone = if floor_m > 0.0 {
        phone
            .go_in()
            .walk(0.0, 2.0)
            .climb(floor_m, false)
            .walk(4.0, 2.0)
    } else {
        phone
    };
    let phone = phone.stay(30).mark("handed_over").stay(5);
    let phone = if floor_m > 0.0 {
        phone
            .walk(0.0, 2.0)
            .climb(-floor_m, false)
            .walk(0.0, -2.0)
            .come_out()
    } else {
        phone
    };
    let phone = cover(phone.walk(0.0, -26.0).walk(-64.0, -24.0)).climb(6.0, false);
    let phone = ramp(phone.walk(-60.0, -30.0).stay(10), -0.1).drive(-120.0, -30.0);
    level(phone.come_out()).drive(-600.0, -30.0).score()
}

/// The floors of a parking deck are not those of the house.
#[test]
fn the_way_down_from_a_parking_deck_counts_no_floors_of_the_building() {
    for error in ERRORS {
        for (is_covered, floor_m, floors) in [(true, 0.0, 0), (false, 0.0, 0), (true, 6.0, 2)] {
            let phone = floor(Phone::new(error, 5), floors);
            let score = from_deck(phone, is_covered, floor_m);
            assert_eq!(
                score.summary.floors_climbed,
                Some(floors),
                "{error:?}, {is_covered}: {:#?} {:#?}",
                score.events,
                score.evidence
            );
            assert!(score.reason_codes.contains(&ReasonCode::FullAttempt));
            assert!(score.summary.right_doorstep, "{:#?}", score.evidence);
        }
    }
}

/// Goes up to a door on the fourth floor. The barometer is silent on a part of the stairs that
/// begins `before_m` above the ground and is `hole_m` high. After that part the courier walks to
/// and fro along a corridor of `corridor_m`, and climbs on.
fn up_with_hole(phone: Phone, (before_m, hole_m): (f64, f64), corridor_m: f64) -> Phone {
    let phone = come(floor(phone, 4)).walk(0.0, -30.0).walk(0.0, -8.0);
    let phone = phone.go_in().walk(0.0, -3.0).climb(before_m, false);
    let phone = phone.without_during(&["pressure"], |phone| phone.climb(hole_m, false));
    let phone = phone.walk(corridor_m, -3.0).walk(0.0, -3.0);
    let phone = phone.climb(12.0 - before_m - hole_m, false).walk(8.0, 2.0);
    phone.stay(35).mark("handed_over").stay(5)
}

/// The floors follow from the levels before and after the time without pressure, even if the
/// session ends at the door, so that no way back confirms them.
#[test]
fn pressure_that_is_missing_on_the_stairs_changes_no_floor() {
    let holes = [(0.0, 3.0), (0.0, 6.0), (0.0, 9.0), (3.0, 3.0), (3.0, 9.0)];
    let ways = holes.map(|hole| [0.0, 6.0, 15.0].map(|corridor_m| (hole, corridor_m)));
    for error in ERRORS {
        for (hole, corridor_m) in ways.into_iter().flatten() {
            let up = up_with_hole(Phone::new(error, 5), hole, corridor_m);
            let back = up.clone().walk(0.0, -3.0).climb(-12.0, false);
            let back = go(back.walk(0.0, -8.0).come_out().walk(0.0, -30.0));
            for (name, phone) in [("ends at the door", up), ("comes back", back)] {
                let score = phone.score();
                assert_eq!(
                    score.summary.floors_climbed,
                    Some(4),
                    "{error:?}, {hole:?}, {corridor_m}, {name}: {:#?} {:#?}",
                    score.events,
                    score.evidence
                );
            }
        }
    }
}
