//! Tests couriers who make their rounds on foot, rest on the way up or miss a floor, and buildings
//! whose air pressure differs from that of the street.

use porchlight_schema::insight::{ReasonCode, Score};

use super::contract::ERRORS;
use super::errands::{come, floor, go};
use super::phone::Phone;

/// Asserts that the courier was at the door of the address, on its floor.
fn assert_at_door(name: &str, score: &Score, floor: i16) {
    let summary = &score.summary;
    assert_eq!(
        (summary.floors_climbed, summary.right_doorstep),
        (Some(floor), true),
        "{name}: {:#?} {:#?}",
        super::spans(score),
        score.evidence
    );
    assert!(
        score.reason_codes.contains(&ReasonCode::FullAttempt),
        "{name}"
    );
}

/// Goes up from the street to a stay at a door and back: `way` leads to the floor.
fn upstairs(phone: Phone, way: impl Fn(Phone) -> Phone, metres: f64, elevator: bool) -> Score {
    let phone = come(phone).walk(0.0, -30.0).walk(0.0, -8.0).go_in();
    let phone = way(phone.walk(0.0, 2.0)).walk(8.0, 2.0).stay(40);
    let phone = phone.walk(0.0, 2.0).stay(12).climb(-metres, elevator);
    let phone = phone.walk(0.0, -8.0).come_out().walk(0.0, -30.0);
    go(phone).score()
}

/// A courier on foot starts the session at the last customer's door, on the third floor of a house
/// 70 m away. The floors of that house are not those of the address.
#[test]
fn the_building_of_the_previous_customer_is_not_that_of_the_address() {
    for error in ERRORS {
        for storeys in [1, 2, 4] {
            let phone = floor(Phone::new(error, 7), storeys).leap(-70.0, -20.0);
            let phone = phone.go_in().stay(12).climb(-9.0, false);
            let phone = phone.walk(-70.0, -28.0).come_out().walk(0.0, -28.0);
            let phone = phone.walk(0.0, -8.0).go_in().walk(0.0, 2.0);
            let metres = 3.0 * f64::from(storeys);
            let phone = phone.climb(metres, false).walk(5.0, 2.0);
            let phone = phone.stay(30).mark("handed_over").stay(5);
            let phone = phone.walk(0.0, 2.0).climb(-metres, false).walk(0.0, -8.0);
            let score = phone.come_out().walk(60.0, -28.0).stay(10).score();
            assert_at_door(&format!("{error:?}, {storeys}"), &score, storeys);
        }
    }
}

/// A courier on foot starts the session in the house next door, or in a depot below the street.
/// Neither the stairs down there nor those up to the street are floors of the address.
#[test]
fn the_way_out_of_another_building_counts_no_floors() {
    for error in ERRORS {
        for (start_m, east) in [(-9.0, -15.0), (-15.0, -45.0), (6.0, -70.0)] {
            let mut phone = floor(Phone::new(error, 7), 2).leap(east, 2.0);
            phone.vaguer_m = 60.0;
            let mut phone = phone.go_in().stay(12).climb(start_m, false);
            phone.vaguer_m = 0.0;
            let phone = phone.walk(east, -8.0).come_out().walk(0.0, -8.0);
            let phone = phone.go_in().walk(0.0, 2.0).climb(6.0, false);
            let phone = phone.walk(5.0, 2.0).stay(30).mark("handed_over").stay(5);
            let phone = phone.walk(0.0, 2.0).climb(-6.0, false).walk(0.0, -8.0);
            let score = phone.come_out().walk(60.0, -8.0).stay(10).score();
            assert_at_door(&format!("{error:?}, {start_m} m, {east} m"), &score, 2);
        }
    }
}

/// Nothing marks the drop-off. The courier rests on the landings of the first and second floor, on
/// the way up and down, and stays longest at the door on the third.
#[test]
fn a_rest_on_a_landing_is_not_at_the_door() {
    for error in ERRORS {
        let way = |phone: Phone| {
            let phone = phone.climb(3.0, false).stay(20).climb(3.0, false);
            phone.stay(15).climb(3.0, false)
        };
        let phone = floor(Phone::new(error, 7), 3);
        let phone = come(phone).walk(0.0, -30.0).walk(0.0, -8.0).go_in();
        let phone = way(phone.walk(0.0, 2.0)).walk(8.0, 2.0).stay(40);
        let phone = phone.walk(0.0, 2.0).climb(-6.0, false).stay(20);
        let phone = phone.climb(-3.0, false).walk(0.0, -8.0).come_out();
        let score = go(phone.walk(0.0, -30.0)).score();
        assert_at_door(&format!("{error:?}"), &score, 3);
        assert_eq!(score.summary.attempt_cycles, 1, "{:#?}", score.evidence);
    }
}

/// The courier misses the second floor, waits in the cabin while others get out on the fourth, and
/// rides back. Nothing marks the drop-off.
#[test]
fn a_missed_floor_is_not_that_of_the_door() {
    for error in ERRORS {
        let way = |phone: Phone| {
            let phone = phone.stay(12).walk(0.0, 4.0).stay(4);
            phone.climb(12.0, true).stay(12).climb(-6.0, true)
        };
        let phone = floor(Phone::new(error, 7), 2);
        assert_at_door(&format!("{error:?}"), &upstairs(phone, way, 6.0, true), 2);
    }
}

/// The ventilation of a house holds it 0.2 hPa (1.7 m) above or below the street. The stairs begin
/// four steps behind the door, so that the leap of the pressure seems to belong to them.
#[test]
fn a_door_before_the_stairs_is_not_a_part_of_them() {
    for error in ERRORS {
        for house_hpa in [0.2, -0.2, 0.3] {
            let mut phone = floor(Phone::new(error, 7), 3);
            phone.house_hpa = house_hpa;
            let phone = come(phone).walk(0.0, -30.0).walk(0.0, -4.0).go_in();
            let phone = phone.walk(0.0, 2.0).climb(9.0, false).walk(4.0, 2.0);
            let phone = phone.stay(30).mark("handed_over").stay(5).walk(0.0, 2.0);
            let phone = phone.climb(-9.0, false).walk(0.0, -4.0).come_out();
            let score = go(phone.walk(0.0, -30.0)).score();
            assert_at_door(&format!("{error:?}, {house_hpa} hPa"), &score, 3);
        }
    }
}
