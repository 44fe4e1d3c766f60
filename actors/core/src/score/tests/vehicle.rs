//! Tests that scoring distinguishes the courier's own vehicle from doors and elevators.

use porchlight_schema::event::{Confidence, Event, EventType, Metadata};
use porchlight_schema::insight::ReasonCode;
use serde_json::json;

use super::acts::{arrive, house, leave};
use super::contract::ERRORS;
use super::phone::Phone;
use crate::score::MarkName;

/// The courier parks 80 m away, walks half of the way, returns, and sits in the vehicle for a
/// minute. That is not a stay at another door.
#[test]
fn the_parked_vehicle_is_not_a_wrong_address() {
    for error in ERRORS {
        let phone = Phone::new(error, 5).address("accuracyM", json!(5));
        let phone = phone.drive(-75.0, -30.0).stay(12).walk(-35.0, -30.0);
        let score = phone.walk(-75.0, -30.0).stay(50).score();
        assert!(
            !score
                .reason_codes
                .contains(&ReasonCode::PossibleWrongAddress),
            "{error:?}: {:?} {:#?}",
            score.reason_codes,
            score.events
        );
    }
}

/// After the delivery the vehicle moves a few metres under trees, where positions are poor, and
/// halts in front of the address: that is not another visit.
#[test]
fn a_halt_of_the_vehicle_before_the_address_is_not_a_visit() {
    let script = arrive(21).walk_to(0.0, -25.0).walk_to(0.0, -1.0).stay(30);
    let script = script.mark(MarkName::HandedOver).walk_to(0.0, -25.0);
    let script = script.walk_to(-30.0, -25.0).stay(10);
    let from_ms = script.duration_ms();
    let mut script = script.drive_to(0.0, -10.0);
    script.events.push(Event {
        event_type: EventType::GpsDegraded,
        t_start_ms: from_ms,
        t_end_ms: Some(script.duration_ms()),
        confidence: Confidence::from_probability(0.9),
        metadata: Metadata::None,
    });
    let score = script.stay(40).score();
    assert_eq!(
        score.summary.attempt_cycles, 1,
        "{:#?} {:#?}",
        score.events, score.evidence
    );
}

/// The courier gets into the vehicle, and the pressure swings by two metres as it starts.
#[test]
fn a_ride_from_which_the_vehicle_drives_off_is_not_an_elevator() {
    let script = arrive(21).walk_to(0.0, -25.0).walk_to(0.0, -1.0).stay(30);
    let script = script.mark(MarkName::HandedOver).walk_to(0.0, -25.0);
    let script = script.walk_to(-30.0, -25.0).stay(8);
    let score = script.climb(2.5, true).drive_to(-300.0, -25.0).score();
    assert_eq!(score.summary.elevator_used, Some(false));
}

/// Fixes under the roof jump for some seconds as if the courier drove off, between the ride to the
/// third floor and the stay at its door. The courier takes the stairs down.
#[test]
fn fixes_that_jump_after_a_ride_do_not_hide_it() {
    let script = arrive(21).walk_to(0.0, -25.0).walk_to(0.0, -1.0);
    let script = script
        .climb(9.0, true)
        .walk_to(12.0, -1.0)
        .walk_to(0.0, -1.0);
    let script = script.drive_to(0.0, -160.0).drive_to(0.0, -1.0);
    let script = script
        .walk_to(6.0, -1.0)
        .stay(30)
        .mark(MarkName::HandedOver);
    let script = script.walk_to(0.0, -1.0).climb(-9.0, false);
    let score = leave(script).score();
    assert_eq!(
        score.summary.elevator_used,
        Some(true),
        "{:#?}",
        score.events
    );
}

/// The pressure in the vehicle swings by less than a floor for a minute.
#[test]
fn a_ride_without_a_height_of_a_floor_is_not_an_elevator() {
    let script = arrive(21).walk_to(0.0, -25.0).walk_to(0.0, -1.0).stay(30);
    let script = script.mark(MarkName::HandedOver).climb(0.4, true);
    let score = leave(script.walk_to(0.0, -25.0)).score();
    assert_eq!(score.summary.elevator_used, Some(false));
}

/// A phone in a trouser pocket at a house: one reading of the barometer in four is half a
/// hectopascal off. Nobody rode an elevator, which the other readings show.
#[test]
fn a_pressure_that_swings_in_a_pocket_hides_no_elevator() {
    let mut script = house(21);
    for (index, window) in script.windows.iter_mut().enumerate() {
        if let Some(motion) = &mut window.motion {
            motion.vertical_mean = None;
        }
        if index % 4 == 0 {
            window.pressure_hpa = window.pressure_hpa.map(|hpa| hpa + 0.5);
        }
    }
    assert_eq!(script.score().summary.elevator_used, Some(false));
}

/// The phone stays in the holder of a scooter, which stands three metres from the door for 24 s. The
/// app sends the proof of delivery then, and no mark. The courier may have been at the door.
#[test]
fn a_proof_from_a_halt_at_the_door_is_a_possible_attempt() {
    for error in ERRORS {
        let mut phone = Phone::new(error, 5).drive(0.0, -3.0);
        phone = phone.stay(20);
        (phone.pod, phone.pod_at) = (true, Some(phone.now_sec()));
        let score = phone.stay(4).drive(500.0, -30.0).score();
        assert_eq!(
            score.reason_codes[0],
            ReasonCode::PossibleNoAttempt,
            "{error:?}: {:#?} {:#?}",
            score.events,
            score.evidence
        );
    }
}

/// A slow platform lift raises the courier by six metres in half a minute, and no detector finds
/// it. Nobody knows then whether an elevator was used, wherever the ride lies in the session.
#[test]
fn a_rise_without_an_event_leaves_the_elevator_unknown() {
    for wait_sec in (0..60).step_by(5) {
        let mut script = arrive(21).walk_to(0.0, -25.0).walk_to(0.0, -1.0);
        script = script.stay(wait_sec);
        for _ in 0..30 {
            script = script.climb(0.2, true);
            script.events.pop();
        }
        script = script.stay(40).mark(MarkName::HandedOver);
        for window in &mut script.windows {
            if let Some(motion) = &mut window.motion {
                motion.vertical_mean = None;
            }
        }
        let score = script.score();
        assert_eq!(score.summary.elevator_used, None, "{wait_sec}");
    }
}

/// The courier rides to the third floor and stays at the door, where the positions jump about as if
/// the phone drove for a quarter of a minute. The vehicle is in the street, so nothing drove.
#[test]
fn a_drive_upstairs_is_none() {
    for leap_sec in [12, 16, 22] {
        let script = arrive(22).floor(3).walk_to(0.0, -25.0).walk_to(0.0, -1.0);
        let script = script.stay(12).climb(9.6, true).walk_to(6.0, 4.0).stay(15);
        let from_ms = script.duration_ms();
        // Parts of a stay that are too short for an event of their own.
        let mut script = (0..leap_sec).fold(script, |script, _| script.stay(1));
        script.events.push(Event {
            event_type: EventType::Driving,
            t_start_ms: from_ms,
            t_end_ms: Some(script.duration_ms()),
            confidence: Confidence::from_probability(0.8),
            metadata: Metadata::None,
        });
        let script = script
            .mark(MarkName::HandedOver)
            .stay(20)
            .walk_to(0.0, -1.0);
        let script = script.stay(12).climb(-9.6, true);
        let score = leave(script).score();
        assert_eq!(
            score.reason_codes,
            [
                ReasonCode::FullAttempt,
                ReasonCode::DeliveredToRightDoorstep
            ],
            "{leap_sec} s: {:#?}",
            score.evidence
        );
        assert_eq!(score.summary.floors_climbed, Some(3), "{leap_sec} s");
        assert_eq!(score.summary.attempt_cycles, 1, "{leap_sec} s");
    }
}

/// The courier comes down, and the vehicle goes on by 100 m to the next door. This drive is as short
/// and is one.
#[test]
fn a_short_drive_after_the_way_down_remains() {
    let script = arrive(23).walk_to(0.0, -25.0).walk_to(0.0, -1.0).stay(12);
    let script = script.climb(9.6, true).walk_to(6.0, 4.0).stay(30);
    let script = script
        .mark(MarkName::HandedOver)
        .walk_to(0.0, -1.0)
        .stay(12);
    let script = script.climb(-9.6, true).walk_to(-30.0, -25.0).stay(10);
    let script = script
        .drive_to(70.0, -25.0)
        .stay(10)
        .walk_to(90.0, -5.0)
        .stay(30);
    let script = script.walk_to(70.0, -25.0).stay(10).drive_to(400.0, -25.0);
    let score = script.score();
    assert_eq!(score.summary.attempt_cycles, 1, "{:#?}", score.evidence);
    assert_eq!(
        score.summary.floors_climbed,
        Some(3),
        "{:#?}",
        score.evidence
    );
}
