//! Tests the ground that floors are counted from: slow stairs and steep streets.

use porchlight_schema::insight::{ReasonCode, Score};

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
fn a_floor_is_not_refused_by_stairs_that_were_lost() {
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
