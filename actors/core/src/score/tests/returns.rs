//! Tests couriers who turn round upstairs: their second attempts, and short rests at a door.

use porchlight_schema::insight::ReasonCode;
use serde_json::json;

use super::acts::{arrive, leave};
use super::errands::{come, floor, go};
use super::phone::{Error, Phone};
use super::script::Script;
use crate::geo::Place;
use crate::score::MarkName;
use crate::window::Fix;

/// Nobody opens on the third floor. The courier comes down, stands in the street for a minute, and
/// goes up again: the entrance is that of the second way in.
#[test]
fn a_second_attempt_upstairs_has_its_own_entrance() {
    for elevator in [false, true] {
        let wait = |phone: Phone| if elevator { phone.stay(12) } else { phone };
        let mut phone = come(floor(Phone::new(Error::None, 5), 3)).walk(0.0, -30.0);
        let mut entrance_sec = 0.0;
        for is_there in [false, true] {
            phone = phone.walk(0.0, -8.0);
            entrance_sec = phone.now_sec();
            phone = wait(phone.go_in().walk(0.0, 2.0)).climb(9.0, elevator);
            phone = phone.walk(8.0, 2.0).stay(30);
            if is_there {
                phone = phone.mark("handed_over");
            }
            phone = phone.walk(0.0, 2.0);
            phone = wait(phone).climb(-9.0, elevator).walk(0.0, -8.0);
            phone = phone.come_out().walk(0.0, -30.0).walk(10.0, -30.0).stay(60);
        }
        let scored = go(phone).scored();
        let found_sec = scored.entrance_ms.map(|at_ms| f64::from(at_ms) / 1000.0);
        assert!(
            found_sec.is_some_and(|found_sec| (found_sec - entrance_sec).abs() <= 6.0),
            "{elevator}: {found_sec:?} instead of {entrance_sec} {:#?}",
            scored.score.events
        );
    }
}

/// As before, but the phone sees the sky through the windows of the stairwell before the courier is
/// down: only the rest of the good reception is that of the street.
#[test]
fn reception_that_comes_back_on_the_way_down_does_not_hide_the_second_entrance() {
    let mut phone = come(floor(Phone::new(Error::None, 5), 3)).walk(0.0, -30.0);
    let mut entrance_sec = 0.0;
    for is_there in [false, true] {
        phone = phone.walk(0.0, -8.0);
        entrance_sec = phone.now_sec();
        phone = phone.go_in().walk(0.0, 2.0).climb(9.0, false);
        phone = phone.walk(8.0, 2.0).stay(30);
        if is_there {
            phone = phone.mark("handed_over");
        }
        phone = phone.walk(0.0, 2.0).climb(-3.0, false).come_out();
        phone = phone.climb(-6.0, false).walk(0.0, -8.0);
        phone = phone.walk(0.0, -30.0).walk(10.0, -30.0).stay(60);
    }
    let scored = go(phone).scored();
    let found_sec = scored.entrance_ms.map(|at_ms| f64::from(at_ms) / 1000.0);
    assert!(
        found_sec.is_some_and(|found_sec| (found_sec - entrance_sec).abs() <= 6.0),
        "{found_sec:?} instead of {entrance_sec} {:#?}",
        scored.score.events
    );
}

/// Nobody opens on the third floor, and the courier comes back after a minute in the street. During
/// the first visit, positions indoors claim to be at the vehicle, which stands before the house.
/// The height shows that the courier was not there.
#[test]
fn a_visit_upstairs_is_not_at_the_vehicle_whatever_positions_claim() {
    let mut script = Script::new(22).floor(3).drive_to(8.0, -5.0).stay(10);
    for (claimed_north_m, is_there) in [(-12.0, false), (12.0, true)] {
        script = script.walk_to(12.0, -5.0).walk_to(2.0, -1.0).go_in();
        script = script.walk_to(2.0, 6.0).climb(9.6, false).walk_to(0.0, 6.0);
        let reached = script.windows.len();
        script = script.stay(30);
        for window in &mut script.windows[reached..] {
            window.fixes[0] = Some(Fix {
                t_ms: window.t_ms,
                place: Place {
                    east_m: 0.0,
                    north_m: claimed_north_m,
                },
                accuracy_m: 5.0,
                accuracy_known: true,
                speed_mps: None,
                bearing_deg: None,
                altitude_m: None,
                mock: false,
                provider: None,
            });
        }
        if is_there {
            script = script.mark(MarkName::HandedOver);
        }
        script = script.walk_to(2.0, 6.0).climb(-9.6, false);
        script = script.walk_to(2.0, -1.0).come_out().walk_to(12.0, -5.0);
        script = script.stay(60);
    }
    let score = script.walk_to(8.0, -5.0).drive_to(-300.0, -5.0).score();
    assert_eq!(score.summary.attempt_cycles, 2, "{:#?}", score.evidence);
}

/// Nobody opens. The courier goes away sideways or onward, not the way in, and returns: the short
/// first stay at the door is a visit, not a gate on the way.
#[test]
fn a_short_stay_at_the_door_is_a_visit_whatever_the_way_back() {
    for error in [Error::None, Error::Dice] {
        for (east_m, north_m) in [(60.0, -1.0), (-60.0, -1.0), (0.0, 59.0), (30.0, -1.0)] {
            let phone = come(Phone::new(error, 5).address("accuracyM", json!(5)));
            let phone = phone.walk(0.0, -30.0).walk(0.0, -1.0).stay(30);
            let phone = phone.walk(east_m, north_m).stay(12).walk(0.0, -1.0);
            let phone = phone.stay(20).mark("left_at_door").stay(10);
            let score = go(phone.walk(0.0, -30.0)).score();
            assert_eq!(
                score.summary.attempt_cycles, 2,
                "{error:?}, {east_m} m, {north_m} m: {:#?}",
                score.events
            );
        }
    }
}

/// The courier rides up, and comes down six flights of stairs. Each flight lacks its first and last
/// steps, half a metre, so that the climbs do not add up to 0; the level of the street shows that
/// the courier is back. The courier then goes in a second time.
#[test]
fn lost_steps_of_many_flights_do_not_change_the_floor() {
    let up = |script: Script| {
        let script = script.walk_to(0.0, -1.0).go_in().walk_to(2.0, 9.0).stay(20);
        script.climb(15.0, true).walk_to(10.0, 10.0).stay(45)
    };
    let mut script = up(arrive(21).floor(5).walk_to(0.0, -25.0)).walk_to(2.0, 9.0);
    for _ in 0..6 {
        script = script
            .climb(-2.5, false)
            .walk_to(4.0, 9.0)
            .walk_to(2.0, 9.0);
    }
    for event in &mut script.events {
        if let porchlight_schema::event::Metadata::Climb {
            direction: porchlight_schema::event::Direction::Down,
            height_cm: Some(height_cm),
            ..
        } = &mut event.metadata
        {
            *height_cm -= 50;
        }
    }
    script = script
        .walk_to(0.0, -1.0)
        .come_out()
        .walk_to(0.0, -25.0)
        .stay(60);
    let second_ms = script.duration_ms();
    let script = up(script)
        .mark(MarkName::LeftAtDoor)
        .walk_to(2.0, 9.0)
        .stay(20);
    let script = script.climb(-15.0, true).walk_to(0.0, -1.0).come_out();
    let scored = leave(script).scored();
    assert!(
        scored.entrance_ms.is_some_and(|at_ms| at_ms >= second_ms),
        "{:?} instead of {second_ms} and more {:#?}",
        scored.entrance_ms,
        scored.score.events
    );
}

/// A phone is usually exact to 2 m. Between the houses of a narrow street it claims 6 m, which is
/// degraded, but no wall: the entrance is where the positions decay further.
#[test]
fn a_narrow_street_is_not_an_entrance() {
    for error in [Error::None, Error::Wander] {
        let mut phone = floor(Phone::new(error, 5), 0);
        phone.vaguer_m = -3.0;
        let mut phone = come(phone).walk(-25.0, -30.0);
        phone.vaguer_m = 1.0;
        let phone = phone.walk(0.0, -30.0).walk(0.0, -8.0).go_in();
        let entrance_sec = phone.now_sec();
        let phone = phone.walk(0.0, 14.0).stay(30).mark("handed_over").stay(5);
        let phone = phone.walk(0.0, -8.0).come_out().walk(0.0, -30.0);
        let scored = go(phone).scored();
        let found_sec = scored.entrance_ms.map(|at_ms| f64::from(at_ms) / 1000.0);
        assert!(
            found_sec.is_some_and(|found_sec| (found_sec - entrance_sec).abs() <= 6.0),
            "{error:?}: {found_sec:?} instead of {entrance_sec} {:#?}",
            scored.score.events
        );
    }
}

/// The courier puts a parcel down before a flat on the third floor within five seconds, which is no
/// stop, and goes. The courier was at the door.
#[test]
fn a_parcel_put_down_in_a_moment_is_a_visit_to_the_door() {
    let phone = come(floor(Phone::new(Error::None, 5), 3));
    let phone = phone
        .walk(0.0, -30.0)
        .walk(0.0, -8.0)
        .go_in()
        .walk(0.0, 2.0);
    let phone = phone
        .climb(9.0, false)
        .walk(8.0, 2.0)
        .stay(5)
        .walk(0.0, 2.0);
    let phone = phone.climb(-9.0, false).walk(0.0, -8.0).come_out();
    let score = go(phone.walk(0.0, -30.0)).score();
    assert!(
        score.reason_codes.contains(&ReasonCode::FullAttempt) && score.summary.attempt_cycles == 1,
        "{:?} {:#?}",
        score.reason_codes,
        score.evidence
    );
}
