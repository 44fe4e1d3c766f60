//! Tests sessions in which a part of the way to the door or back was not recorded.

use porchlight_schema::insight::{ReasonCode, Score};

use super::contract::ERRORS;
use super::errands::{come, floor, go};
use super::phone::{Error, Phone};
use super::script::Script;
use crate::score::MarkName;
use crate::window::Fix;

/// Asserts that the courier delivered at the door of the address.
fn assert_delivered(score: &Score, case: &str) {
    let codes = &score.reason_codes;
    assert!(
        codes.contains(&ReasonCode::FullAttempt)
            && !codes.contains(&ReasonCode::PossibleLobbyHandoff)
            && score.summary.right_doorstep
            && score.summary.attempt_cycles == 1,
        "{case}: {codes:?} {:#?} {:#?}",
        score.events,
        score.evidence
    );
}

/// The phone sends nothing from the tap at the door of a house until the courier is back in the
/// vehicle: the recorded stay at the door counts.
#[test]
fn a_stay_counts_although_the_whole_way_back_is_missing() {
    for error in ERRORS {
        let phone = come(Phone::new(error, 5))
            .walk(0.0, -30.0)
            .walk(0.0, -2.0)
            .stay(30)
            .mark("handed_over")
            .stay(3);
        let phone = phone.without_data(|phone| phone.walk(0.0, -30.0).walk(-40.0, -30.0));
        let score = phone.stay(10).drive(-500.0, -30.0).score();
        assert_delivered(&score, &format!("{error:?}"));
    }
}

/// The phone sends nothing from the vehicle to the door of a house.
#[test]
fn a_stay_counts_although_the_whole_way_there_is_missing() {
    for error in ERRORS {
        let phone = come(Phone::new(error, 5))
            .without_data(|phone| phone.walk(0.0, -30.0).walk(0.0, -2.0))
            .stay(30)
            .mark("handed_over")
            .stay(3);
        let score = go(phone.walk(0.0, -30.0)).score();
        assert_delivered(&score, &format!("{error:?}"));
    }
}

/// The phone sends nothing while the courier sits in the parked vehicle and taps there, after a
/// walk round the vehicle: that is not a delivery.
#[test]
fn a_silence_in_the_parked_vehicle_is_not_a_way_to_a_door() {
    let phone = come(Phone::new(Error::None, 5));
    let phone = phone.walk(-52.0, -30.0).walk(-40.0, -30.0).stay(20);
    let phone = phone.mark("handed_over").stay(3);
    let phone = phone.without_data(|phone| phone.stay(40)).stay(10);
    let score = phone.drive(-500.0, -30.0).score();
    assert!(
        !score.summary.right_doorstep && score.summary.attempt_cycles == 0,
        "{:#?} {:#?}",
        score.events,
        score.evidence
    );
}

/// Delivers upstairs, and comes back.
fn delivered_upstairs(phone: Phone, metres: f64, elevator: bool) -> Score {
    let phone = phone.walk(8.0, 2.0).stay(30).mark("handed_over").stay(5);
    let phone = phone.walk(0.0, 2.0).stay(if elevator { 12 } else { 0 });
    let phone = phone.climb(-metres, elevator).walk(0.0, -8.0).come_out();
    go(phone.walk(0.0, -30.0)).score()
}

/// Nothing is recorded on the way up to the third floor, or to a basement. The way back is, and
/// shows how far the street is below or above.
#[test]
fn a_climb_that_is_missing_is_measured_on_the_way_back() {
    for (metres, wanted, elevator) in [(9.0, 3, false), (9.0, 3, true), (-3.0, -1, false)] {
        let phone = come(floor(Phone::new(Error::Wander, 5), wanted)).walk(0.0, -30.0);
        let phone = phone.walk(0.0, -8.0).without_data(|phone| {
            let phone = phone.go_in().walk(0.0, 2.0).climb(metres, elevator);
            phone.walk(3.0, 2.0).stay(8)
        });
        let score = delivered_upstairs(phone, metres, elevator);
        assert_eq!(
            score.summary.floors_climbed,
            Some(wanted),
            "{elevator}: {:#?} {:#?}",
            score.events,
            score.evidence
        );
        assert_delivered(&score, &format!("{metres} m"));
    }
}

/// The courier starts the app on the third floor: it may have been anywhere before.
#[test]
fn a_session_that_begins_upstairs_has_no_floor_0() {
    for is_back_recorded in [true, false] {
        let phone = floor(Phone::new(Error::Wander, 5), 3).leap(-8.0, 2.0);
        let phone = phone.go_in().without_data(|phone| phone.stay(12));
        let score = if is_back_recorded {
            delivered_upstairs(phone, 9.0, true)
        } else {
            let phone = phone.walk(8.0, 2.0).stay(30).mark("handed_over");
            phone.stay(5).score()
        };
        let floors = score.summary.floors_climbed;
        assert_eq!(
            floors,
            is_back_recorded.then_some(3),
            "{:#?} {:#?}",
            score.events,
            score.evidence
        );
        let codes = &score.reason_codes;
        assert!(
            !codes.contains(&ReasonCode::PossibleLobbyHandoff),
            "{codes:?}"
        );
    }
}

/// The barometer stops halfway up to the fourth floor: the first two floors are not the climb.
#[test]
fn a_barometer_that_stops_on_the_stairs_shows_no_floor() {
    for error in ERRORS {
        let phone = come(floor(Phone::new(error, 5), 4)).walk(0.0, -30.0);
        let phone = phone.walk(0.0, -8.0).go_in().walk(0.0, 2.0);
        let phone = phone.climb(6.0, false).without(&["pressure"]);
        let score = delivered_upstairs(phone.climb(6.0, false), 12.0, false);
        assert_eq!(
            score.summary.floors_climbed, None,
            "{error:?}: {:#?}",
            score.evidence
        );
        assert!(score.reason_codes.contains(&ReasonCode::FullAttempt));
    }
}

/// The courier walks straight past the address. For up to 28 s around it the phone sends nothing,
/// or nothing but pressure: nobody stayed at the door.
#[test]
fn a_silence_on_a_walk_past_the_address_is_not_a_stay() {
    let everything = ["location", "steps", "motion", "pressure"];
    let positions_and_body = ["location", "steps", "motion"];
    for error in ERRORS {
        for kinds in [&everything[..], &positions_and_body] {
            for half_m in [8.0, 14.0, 17.0, 19.0] {
                for without in [&["motion"][..], &[]] {
                    let phone = come(Phone::new(error, 5).without(without))
                        .walk(-40.0, -1.0)
                        .walk(-half_m, -1.0)
                        .without_during(kinds, |phone| phone.walk(half_m, -1.0))
                        .walk(60.0, -1.0)
                        .walk(60.0, -30.0);
                    let score = go(phone).score();
                    let name = format!("{error:?}, {kinds:?}, {half_m} m, without {without:?}");
                    assert!(
                        !score.summary.right_doorstep
                            && !score.reason_codes.contains(&ReasonCode::FullAttempt),
                        "{name}: {:?} {:#?}",
                        score.reason_codes,
                        score.events
                    );
                }
            }
        }
    }
}

/// The phone saves power and repeats the place of the vehicle, which it claims to know to 5 m, while
/// the courier walks 114 m to the door and stays there. The steps show that the place is an old one: it
/// proves no other address.
#[test]
fn a_place_that_the_phone_repeats_is_not_that_of_the_door() {
    let script = Script::new(6).drive_to(-90.0, -25.0).stay(10);
    let parked_ms = script.duration_ms();
    let script = script.walk_to(0.0, -25.0).walk_to(0.0, -1.0).stay(40);
    let script = script.mark(MarkName::HandedOver).walk_to(0.0, -25.0);
    let mut script = script.walk_to(-90.0, -25.0).stay(12);
    let parked = script
        .windows
        .iter()
        .filter(|window| window.t_ms < parked_ms)
        .filter_map(|window| window.fixes[0])
        .next_back()
        .unwrap();
    for window in &mut script.windows {
        if window.t_ms >= parked_ms
            && let Some(fix) = &mut window.fixes[0]
        {
            *fix = Fix {
                t_ms: fix.t_ms,
                ..parked
            };
        }
    }
    let score = script.score();
    let codes = &score.reason_codes;
    assert!(
        !codes.contains(&ReasonCode::NoAttempt)
            && !codes.contains(&ReasonCode::PossibleWrongAddress)
            && score.summary.fraud_score < 0.2,
        "{codes:?} {:#?}",
        score.evidence
    );
}
