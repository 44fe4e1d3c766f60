//! Tests that scoring distinguishes waits on the way to a door and back from the stay at it.

use porchlight_schema::insight::ReasonCode;

use super::acts::{arrive, leave};
use super::contract::ERRORS;
use super::errands::{come, floor, go, house};
use super::phone::{Error, Phone};
use super::script::{FULL, Kit, Script};
use super::spans;
use crate::score::MarkName;

/// The courier gives the parcel in half a minute, walks twelve metres along the corridor to the
/// elevator, and waits there for a minute. The stay before the walk is the one at the door,
/// although it is shorter.
#[test]
fn a_long_wait_for_the_elevator_down_is_not_the_stay_at_the_door() {
    for error in ERRORS {
        let phone = floor(Phone::new(error, 5), 5);
        let phone = come(phone).walk(0.0, -30.0).walk(0.0, -8.0).go_in();
        let phone = phone.walk(0.0, 2.0).stay(20).climb(15.0, true);
        let phone = phone.walk(12.0, 2.0).stay(30).walk(0.0, 2.0).stay(60);
        let score = go(phone
            .climb(-15.0, true)
            .walk(0.0, -8.0)
            .come_out()
            .walk(0.0, -30.0))
        .score();
        let door = score.metrics.time_at_door_sec;
        assert!(
            door.is_some_and(|door| (door - 30.0_f64).abs() <= 5.0),
            "{error:?}: {door:?} {:#?}",
            score.events
        );
    }
}

/// The courier waits in the hall right at the address's point, then climbs five floors to a flat at
/// the far end of the house, stays there, and comes back. The flat is the door, because nobody
/// climbs past it.
#[test]
fn a_wait_in_the_hall_before_a_climb_is_not_the_drop_off() {
    for error in ERRORS {
        for elevator in [false, true] {
            let phone = floor(Phone::new(error, 5), 5);
            let phone = come(phone).walk(0.0, -30.0).walk(0.0, -8.0).go_in();
            let phone = phone.walk(0.0, 0.0).stay(45).walk(12.0, 0.0);
            let phone = phone.climb(15.0, elevator).walk(38.0, 0.0).stay(150);
            let phone = phone.walk(12.0, 0.0).climb(-15.0, elevator);
            let score = go(phone.walk(0.0, -8.0).come_out().walk(0.0, -30.0)).score();
            let codes = &score.reason_codes;
            assert!(
                codes.contains(&ReasonCode::FullAttempt)
                    && !codes.contains(&ReasonCode::PossibleLobbyHandoff),
                "{error:?}, {elevator}: {codes:?} {:#?}",
                score.evidence
            );
            assert_eq!(score.summary.floors_climbed, Some(5));
        }
    }
}

/// The courier waits half a minute at the main door and then walks in. The wall takes half of the
/// sky, so that the accuracy falls from 5 to 14 m after eleven seconds. The courier passes the
/// entrance at the end of the wait, so the wait is not a gate, even if the courier reports the
/// arrival there.
#[test]
fn a_wait_at_the_main_door_is_not_time_inside() {
    for reports in [false, true] {
        let mut phone = come(floor(Phone::new(Error::None, 5), 3)).walk(0.0, -30.0);
        phone = phone.walk(0.0, -8.0);
        phone = phone.stay(11);
        if reports {
            phone = phone.mark("arrived");
        }
        phone.vaguer_m = 9.0;
        phone = phone.stay(19);
        let entrance_sec = phone.now_sec();
        phone = phone.go_in().walk(0.0, 2.0).climb(9.0, false);
        phone = phone.walk(8.0, 2.0).stay(35).walk(0.0, 2.0);
        phone.vaguer_m = 0.0;
        let scored = go(phone
            .climb(-9.0, false)
            .walk(0.0, -8.0)
            .come_out()
            .walk(0.0, -30.0))
        .scored();
        let found_sec = scored.entrance_ms.map(|at_ms| f64::from(at_ms) / 1000.0);
        assert!(
            found_sec.is_some_and(|found_sec| (found_sec - entrance_sec).abs() <= 5.0),
            "{reports}: {found_sec:?} instead of {entrance_sec} {:#?}",
            scored.score.events
        );
    }
}

/// The courier gives a parcel at a door on the ground floor. The courier's hands move the phone,
/// which has no barometer, so that it seems to ride twice for some seconds; the courier reports the
/// drop-off meanwhile. It is one stay. A courier who reports it only in the elevator on the way
/// down rode up before.
#[test]
fn hands_that_move_the_phone_at_the_door_are_not_a_ride() {
    let kit = Kit {
        pressure: false,
        ..FULL
    };
    let script = arrive(5).with(kit).walk_to(0.0, -25.0).walk_to(0.0, -1.0);
    let script = script.stay(8).climb(6.0, true).climb(-6.0, true);
    let score = leave(script.mark(MarkName::HandedOver).stay(10)).score();
    assert!(score.summary.right_doorstep, "{:#?}", score.evidence);
    assert_eq!(score.summary.elevator_used, Some(false));
    assert_eq!(score.summary.attempt_cycles, 1);
    assert_eq!(score.metrics.time_at_door_sec, Some(30.0));

    let script = arrive(5).with(kit).walk_to(0.0, -25.0).walk_to(0.0, -1.0);
    let script = script.stay(20).climb(12.0, true).walk_to(8.0, -1.0);
    let script = script.stay(20).walk_to(0.0, -1.0).stay(12);
    let score = leave(script.climb(-12.0, true).mark(MarkName::HandedOver)).score();
    assert_eq!(score.summary.elevator_used, Some(true));
}

/// The phone has no barometer. The courier waits at the main door in the open until somebody opens,
/// and goes up two floors within the house: only the stay behind the entrance is a visit.
#[test]
fn a_wait_outside_the_entrance_is_not_a_visit_to_a_flat() {
    let kit = Kit {
        pressure: false,
        ..FULL
    };
    let mut script = arrive(23).with(kit).floor(2).walk_to(0.0, -25.0);
    script = script.walk_to(0.0, -1.0).stay(20).walk_to(0.0, 0.0);
    script = script.go_in().walk_to(2.0, 9.0);
    for east_m in [8.0, 2.0, 8.0, 2.0] {
        script = script.walk_to(east_m, 9.0);
    }
    script = script.stay(45).mark(MarkName::HandedOver);
    let score = leave(script.walk_to(2.0, 0.0).come_out()).score();
    assert_eq!(score.summary.attempt_cycles, 1, "{:#?}", score.evidence);
}

/// Gusts of wind at the door of a house move the pressure by more than a storey. The courier rings,
/// waits and gives the parcel: this is one stay, and no ride.
#[test]
fn gusts_at_the_door_are_not_a_ride() {
    for seed in 1..7 {
        let mut phone = Phone::new(Error::Wander, seed);
        (phone.gust_hpa, phone.vaguer_m) = (0.12, 10.0);
        let score = house(phone).score();
        let door = score.metrics.time_at_door_sec;
        assert!(
            door.is_some_and(|door| (door - 35.0_f64).abs() <= 4.0),
            "seed {seed}: {door:?} {:?}",
            spans(&score)
        );
        assert_ne!(score.summary.elevator_used, Some(true), "seed {seed}");
    }
}

/// The courier paces before the door during a call to the customer, and does not leave the door.
#[test]
fn a_courier_who_paces_before_the_door_stays_there() {
    for seed in 1..4 {
        for pause in [3, 5, 10] {
            let phone = come(Phone::new(Error::Wander, seed)).walk(0.0, -30.0);
            let mut phone = phone.walk(0.0, -2.0);
            let came_sec = phone.now_sec();
            phone = phone.stay(12);
            phone.walk_mps = 0.8;
            for _ in 0..4 {
                phone = phone.walk(2.4, -2.5).stay(pause).walk(0.0, -2.0).stay(4);
            }
            phone = phone.stay(10).mark("handed_over").stay(3);
            let at_door_sec = phone.now_sec() - came_sec;
            phone.walk_mps = 1.3;
            let score = go(phone.walk(0.0, -30.0)).score();
            let door = score.metrics.time_at_door_sec;
            assert!(
                door.is_some_and(|door| (door - at_door_sec).abs() <= 0.2 * at_door_sec),
                "seed {seed}, pauses of {pause} s: {door:?} of {at_door_sec} {:?}",
                spans(&score)
            );
            assert_eq!(score.summary.attempt_cycles, 1, "seed {seed}");
        }
    }
}

/// The courier waits a minute at a garden gate until somebody opens, walks a few steps to the door
/// of the house, and hands the parcel over there, with a tap some seconds after the gate. Only the
/// time at the door counts.
#[test]
fn a_wait_at_a_garden_gate_is_not_a_part_of_the_time_at_the_door() {
    for steps_m in [2.6, 8.0] {
        let script = Script::new(7)
            .drive_to(0.0, -25.0)
            .walk_to(0.0, -steps_m)
            .wait_at_gate(60)
            .walk_to(0.0, 0.0)
            .stay(8)
            .mark(MarkName::HandedOver)
            .stay(12)
            .walk_to(0.0, -25.0)
            .drive_to(300.0, -25.0);
        let scored = script.scored();
        let door_sec = scored.at_door_ms.map(|ms| ms / 1_000);
        assert!(
            door_sec.is_some_and(|sec| sec.abs_diff(20) <= 3),
            "{steps_m} m: {door_sec:?} {:#?}",
            scored.score.evidence
        );
    }
}

/// The courier gives the parcel, taps the mark at the door or on the first steps, walks six metres
/// along the corridor, and waits there for the elevator down. The phone has no barometer, so no ride
/// is detected. The mark lies in the stay at the door or nearest to it, so the wait is not time at
/// the door, although it begins soon after the mark.
#[test]
fn a_mark_at_the_door_does_not_make_the_wait_behind_it_time_at_the_door() {
    for is_late in [false, true] {
        check_wait_behind_the_mark(is_late);
    }
}

fn check_wait_behind_the_mark(is_late: bool) {
    let at_door = Script::new(7)
        .with(Kit {
            pressure: false,
            ..FULL
        })
        .drive_to(0.0, -30.0)
        .walk_to(0.0, -8.0)
        .go_in()
        .walk_to(6.0, 0.0)
        .stay(20);
    let leaving = if is_late {
        let steps = at_door.stay(2).walk_to(4.0, 0.0);
        steps.mark(MarkName::HandedOver)
    } else {
        at_door.mark(MarkName::HandedOver).stay(2)
    };
    let script = leaving
        .walk_to(0.0, 0.0)
        .stay(60)
        .walk_to(0.0, -8.0)
        .come_out()
        .walk_to(0.0, -30.0)
        .drive_to(300.0, -30.0);
    let scored = script.scored();
    let door_sec = scored.at_door_ms.map(|ms| ms / 1_000);
    assert!(
        door_sec.is_some_and(|sec| sec.abs_diff(22) <= 3),
        "{door_sec:?} {:#?}",
        scored.score.evidence
    );
}

/// The courier waits in the hall, rides up, and stays at the door. The phone has no barometer, so
/// only the detected ride shows that the hall is on another floor: the wait there is no visit, and
/// no time at the door.
#[test]
fn a_wait_in_the_hall_is_not_time_at_the_door_of_a_phone_without_a_barometer() {
    let script = Script::new(7)
        .with(Kit {
            pressure: false,
            ..FULL
        })
        .floor(5)
        .drive_to(0.0, -30.0)
        .walk_to(0.0, -8.0)
        .go_in()
        .walk_to(0.0, 0.0)
        .stay(30)
        .walk_to(0.0, 3.0)
        .stay(20)
        .climb(15.0, true)
        .walk_to(2.0, 3.0)
        .mark(MarkName::Arrived)
        .stay(20)
        .mark(MarkName::HandedOver)
        .stay(2)
        .walk_to(0.0, 3.0)
        .climb(-15.0, true)
        .walk_to(0.0, -8.0)
        .come_out()
        .walk_to(0.0, -30.0)
        .drive_to(300.0, -30.0);
    let scored = script.scored();
    let door_sec = scored.at_door_ms.map(|ms| ms / 1_000);
    assert!(
        door_sec.is_some_and(|sec| sec.abs_diff(22) <= 3),
        "{door_sec:?} {:#?}",
        scored.score.evidence
    );
    assert_eq!(scored.score.summary.attempt_cycles, 1);
}
