//! Tests several doors in one session: a neighbour's, a wrong one, and the door at which the
//! session begins.

use porchlight_schema::event::EventType;
use porchlight_schema::insight::{ReasonCode, Score};
use serde_json::json;

use super::errands::{come, go};
use super::phone::{Error, Phone};
use super::{about, assert_sound};

const PHONES: [(Error, u64); 3] = [(Error::None, 1), (Error::Dice, 2), (Error::Wander, 3)];

fn has(score: &Score, code: ReasonCode) -> bool {
    score.reason_codes.contains(&code)
}

/// Sets an address with an exact point.
fn exact(phone: Phone) -> Phone {
    phone.address("accuracyM", json!(5))
}

/// The recipient does not open, and a neighbour takes the parcel.
#[test]
fn an_attempt_counts_if_the_parcel_goes_to_a_neighbour() {
    for (error, seed) in PHONES {
        for east_m in [45.0, -45.0, 60.0] {
            let phone = come(exact(Phone::new(error, seed)));
            let phone = phone.walk(0.0, -30.0).walk(0.0, -1.0).stay(45);
            let phone = phone
                .walk(0.0, -12.0)
                .walk(east_m, -12.0)
                .walk(east_m, -1.0);
            let phone = phone.stay(15).mark("handed_over").stay(15);
            let score = go(phone.walk(east_m, -30.0)).score();
            let name = format!("{error:?}, {east_m} m: {:?}", score.reason_codes);
            assert_sound(&name, &score);
            assert!(has(&score, ReasonCode::FullAttempt), "{name}");
            assert!(!score.summary.right_doorstep, "{name}");
            assert_eq!(score.summary.attempt_cycles, 1, "{name}");
            let at_door_sec = score.metrics.time_at_door_sec.unwrap();
            assert!((at_door_sec - 45.0).abs() <= 6.0, "{name}: {at_door_sec} s");
        }
    }
}

/// The courier never stays at the address, but at a house nearby.
#[test]
fn a_stay_at_another_door_nearby_is_not_a_visit() {
    for (error, seed) in PHONES {
        let phone = come(exact(Phone::new(error, seed)));
        let phone = phone.walk(42.0, -30.0).walk(42.0, -1.0).stay(20);
        let score = go(phone.mark("handed_over").stay(20).walk(42.0, -30.0)).score();
        assert!(has(&score, ReasonCode::PartialAttempt), "{error:?}");
        assert_eq!(score.summary.attempt_cycles, 0, "{error:?}");
        assert_eq!(score.metrics.time_at_door_sec, None, "{error:?}");
    }
}

/// The app is started at the door, on the third floor; the way up is not recorded.
#[test]
fn a_session_that_begins_at_the_door_has_a_visit_and_no_floors() {
    for (error, seed) in PHONES {
        for first_step_m in [0.0, 2.0] {
            let phone = Phone::new(error, seed).address("floor", json!(3));
            let phone = phone.leap(0.0, -1.0).go_in().walk(first_step_m, -1.0);
            let phone = phone.stay(30).mark("handed_over").stay(5);
            let phone = phone.climb(-9.0, false).come_out().walk(0.0, -30.0);
            let score = go(phone).score();
            let name = format!("{error:?}, {first_step_m} m: {:?}", score.reason_codes);
            assert_sound(&name, &score);
            assert!(has(&score, ReasonCode::FullAttempt), "{name}");
            assert!(!has(&score, ReasonCode::PossibleLobbyHandoff), "{name}");
            assert_eq!(score.summary.floors_climbed, None, "{name}");
            assert_eq!(score.summary.attempt_cycles, 1, "{name}");
        }
    }
}

/// The courier rings at a wrong entrance, waits, and goes back to the right one.
#[test]
fn the_way_back_from_a_wrong_entrance_is_backtracking() {
    let tracked = |phone: Phone, east_m: f64| {
        let phone = come(phone).walk(0.0, -12.0).walk(east_m, -12.0).stay(20);
        let score = go(phone.walk(0.0, -12.0).walk(0.0, -1.0).stay(40)).score();
        let events = score.events.into_iter();
        let mut found = events.filter(|event| event.event_type == EventType::Backtracking);
        (found.next(), found.count())
    };
    for (error, seed) in PHONES {
        let (event, more) = tracked(Phone::new(error, seed), 60.0);
        assert!(event.is_some() && more == 0, "{error:?}: {event:?}");
        // A stay near the address may be the drop-off, and the path after it the way to the
        // vehicle.
        let (event, _) = tracked(Phone::new(error, seed), 20.0);
        assert_eq!(event, None, "{error:?}");
    }
}

/// The app is stopped hours after a complete delivery.
#[test]
fn a_late_stop_keeps_the_outcome() {
    for (error, seed) in PHONES {
        let phone = Phone::new(error, seed).without(&["motion", "steps", "pressure"]);
        let mut phone = come(phone).walk(0.0, -30.0).walk(0.0, -1.0).stay(45);
        phone = go(phone);
        let in_time = phone.score();
        phone.ends_after = 3.0 * 3_600.0;
        let late = phone.score();
        assert!(has(&in_time, ReasonCode::FullAttempt), "{error:?}");
        assert!(has(&late, ReasonCode::FullAttempt), "{error:?}");
        assert!(late.summary.visibility_score < in_time.summary.visibility_score);
        assert!(has(&late, ReasonCode::TelemetryStreamInterrupted));
    }
}

/// The vehicle waits at a red light before it is parked.
#[test]
fn a_halt_in_traffic_does_not_mean_that_the_phone_stayed_in_the_vehicle() {
    for (error, seed) in PHONES {
        let phone = Phone::new(error, seed).without(&["motion", "steps", "pressure"]);
        let phone = come(phone.drive(-150.0, -30.0).stay(45));
        let score = go(phone.walk(0.0, -30.0).walk(0.0, -1.0).stay(45)).score();
        assert!(has(&score, ReasonCode::FullAttempt), "{error:?}");
        let mut signals = about(&score, "visibilityScore");
        let is_left = signals.any(|entry| entry.signal == "phone_not_carried");
        assert!(!is_left, "{error:?}");
    }
}

/// The position jumps to the address and back, kilometres at a time, while the phone is elsewhere.
#[test]
fn far_jumps_there_and_back_are_likely_untrue() {
    // Positions without noise look like one fix that is repeated.
    for (error, seed) in PHONES.into_iter().skip(1) {
        for without in [&[][..], &["motion", "steps", "pressure"]] {
            let phone = Phone::new(error, seed).without(without);
            let phone = phone.leap(-5_000.0, 900.0).drive(-4_000.0, 500.0).stay(20);
            let phone = phone.leap(0.0, -5.0).stay(60);
            let phone = phone.leap(-4_000.0, 500.0).stay(20);
            let score = phone.drive(-4_600.0, 900.0).score();
            let fraud_score = score.summary.fraud_score;
            assert!(fraud_score >= 0.5, "{error:?} {without:?}: {fraud_score}");
        }
    }
}
