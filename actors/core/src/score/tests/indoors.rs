//! Tests the effects of a building on pressure and positions, and the results that must appear
//! nevertheless.

use porchlight_schema::insight::ReasonCode;
use serde_json::json;

use super::contract::ERRORS;
use super::errands::{come, flat, floor, go, lobby};
use super::phone::{Error, Phone};

/// Ventilation holds a house above or below the street by more than half a storey.
#[test]
fn indoor_air_pressure_is_not_a_floor() {
    for error in ERRORS {
        for house_hpa in [-0.2, 0.2] {
            let mut phone = Phone::new(error, 5).address("storeyHeightM", json!(3.0));
            phone.house_hpa = house_hpa;
            let score = flat(phone, 9.0, false).score();
            assert_eq!(
                score.summary.floors_climbed,
                Some(3),
                "{error:?}, {house_hpa} hPa: {:#?}",
                score.evidence
            );
        }
    }
}

/// The drop-off is some way from the address, as with a position behind walls. On the address's
/// floor it counts as an attempt, and the door is not reported. On another floor, or at street
/// level, it does not count.
#[test]
fn a_drop_off_near_the_address_counts_on_its_floor() {
    for (wanted, outcome) in [
        (3, ReasonCode::FullAttempt),
        (1, ReasonCode::PartialAttempt),
    ] {
        let phone = floor(Phone::new(Error::None, 5), wanted);
        let phone = phone.address("accuracyM", json!(8));
        let phone = come(phone).walk(0.0, -30.0).walk(0.0, -8.0).go_in();
        let phone = phone.walk(0.0, 2.0).climb(9.0, false).walk(26.0, 2.0);
        let phone = phone.stay(30).mark("handed_over").stay(5);
        let score = go(phone
            .walk(0.0, 2.0)
            .climb(-9.0, false)
            .walk(0.0, -8.0)
            .come_out()
            .walk(0.0, -30.0))
        .score();
        assert!(
            score.reason_codes.contains(&outcome),
            "{wanted}: {:?} {:#?}",
            score.reason_codes,
            score.evidence
        );
    }
}

/// The courier rings at a flat, waits for the elevator a few steps beside that door, walks into the
/// cabin, and its doors close slowly: only the time at the flat counts.
#[test]
fn the_wait_for_a_slow_elevator_is_not_time_at_the_door() {
    for error in ERRORS {
        let phone = floor(Phone::new(error, 5), 5);
        let phone = come(phone).walk(0.0, -30.0).walk(0.0, -8.0).go_in();
        let phone = phone.walk(0.0, 2.0).stay(12).climb(15.0, true);
        let phone = phone.walk(4.0, 2.0).stay(30).mark("handed_over").stay(1);
        let phone = phone.walk(0.0, 2.0).stay(25).walk(0.0, 7.0).stay(7);
        let score = go(phone
            .climb(-15.0, true)
            .walk(0.0, -8.0)
            .come_out()
            .walk(0.0, -30.0))
        .score();
        let door = score.metrics.time_at_door_sec;
        assert!(
            door.is_some_and(|door| (door - 31.0_f64).abs() <= 5.0),
            "{error:?}: {door:?} {:#?}",
            score.events
        );
    }
}

/// Air conditioning and warm air hold a hall 0.35 hPa above or below the street, as 3 m of height
/// would. The courier walks through the entrance to a door on the ground floor.
#[test]
fn the_leap_of_the_pressure_at_an_entrance_is_not_a_floor() {
    for error in ERRORS {
        for house_hpa in [-0.35, 0.35] {
            let mut phone = floor(Phone::new(error, 5), 0);
            phone.house_hpa = house_hpa;
            let score = lobby(phone).score();
            let summary = &score.summary;
            assert_eq!(summary.floors_climbed, Some(0), "{:#?}", score.evidence);
            assert!(summary.right_doorstep, "{error:?}: {:#?}", score.evidence);
            assert!(score.reason_codes.contains(&ReasonCode::FullAttempt));
        }
    }
}

/// An entrance with a leap of the pressure leads to the first floor: the address on the ground
/// floor is not confirmed.
#[test]
fn a_climb_behind_a_leap_of_the_pressure_is_a_floor() {
    for (wanted, is_right) in [(0, false), (1, true), (2, false)] {
        let mut phone = floor(Phone::new(Error::Wander, 5), wanted);
        phone.house_hpa = 0.35;
        let score = flat(phone, 3.0, false).score();
        assert_eq!(score.summary.floors_climbed, Some(1), "{wanted}");
        assert_eq!(score.summary.right_doorstep, is_right, "{wanted}");
    }
}

/// The phone claims 5 m in the street. The courier walks through the main door without a wait, and
/// along six metres of corridor to a flat on the ground floor. There the phone claims 13 m, and the
/// fixes go on. The entrance is found, and so is the time from it to the door. At a house, whose
/// address names no floor, a front that takes as much of the sky is not an entrance.
#[test]
fn the_main_door_before_a_flat_on_the_ground_floor_is_an_entrance() {
    for (is_flat, exact_m) in [(true, 0.0), (true, -2.2), (false, -2.2)] {
        let mut phone = Phone::new(Error::Wander, 5);
        if is_flat {
            phone = floor(phone, 0);
        }
        phone.vaguer_m = exact_m;
        phone = come(phone).walk(0.0, -30.0).walk(0.0, -8.0);
        let entrance_sec = phone.now_sec();
        let worse_m = (5.0 + exact_m) / 4.0;
        for north_m in [-6.5, -5.0, -3.5, -2.0] {
            phone.vaguer_m += worse_m;
            phone = phone.walk(0.0, north_m);
        }
        phone.vaguer_m += 2.5 * worse_m;
        phone = phone.stay(35).walk(0.0, -8.0);
        phone.vaguer_m = exact_m;
        let scored = go(phone.walk(0.0, -30.0)).scored();
        let found_sec = scored.entrance_ms.map(|at_ms| f64::from(at_ms) / 1000.0);
        assert_eq!(
            found_sec.is_some_and(|found_sec| (found_sec - entrance_sec).abs() <= 5.0),
            is_flat,
            "{is_flat}, {exact_m} m: {found_sec:?} instead of {entrance_sec} {:#?}",
            scored.score.events
        );
        assert!(is_flat || found_sec.is_none(), "{found_sec:?}");
    }
}

/// Between the houses of the street the phone claims 37 m, on other phones a sign of walls. The courier
/// walks there for a minute, and behind the main door, on the way to the elevator, the claims get
/// worse: that door is the entrance, and no place in the street.
#[test]
fn the_entrance_is_known_to_a_phone_that_is_vague_in_the_street() {
    for street_m in [25.0, 37.0] {
        let mut phone = Phone::new(Error::Wander, 5);
        phone.vaguer_m = 20.0;
        phone = phone.drive(-80.0, -30.0).stay(10);
        phone.vaguer_m = street_m - 5.0;
        phone = phone.walk(0.0, -30.0).walk(0.0, -8.0);
        let entrance_sec = phone.now_sec();
        phone = phone.go_in().walk(0.0, 2.0).stay(12).climb(12.0, true);
        let scored = phone.walk(8.0, 2.0).stay(35).scored();
        let found_sec = scored.entrance_ms.map(|at_ms| f64::from(at_ms) / 1000.0);
        assert!(
            found_sec.is_some_and(|found_sec| (found_sec - entrance_sec).abs() <= 5.0),
            "{street_m} m: {found_sec:?} instead of {entrance_sec} {:#?}",
            scored.score.events
        );
    }
}
