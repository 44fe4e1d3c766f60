//! Tests the contract's statements on interrupted streams, and on too little data.

use porchlight_schema::event::EventType;
use porchlight_schema::insight::ReasonCode::*;

use super::contract::{Case, ERRORS, case, check};
use super::errands::{at_the_door, flat, floor, house, on_the_way};
use super::phone::Phone;

const BROKEN: &[Case] = &[
    case(
        "30 s on the way",
        |phone| on_the_way(phone.without(&["motion"]), 29),
        &[TelemetryStreamInterrupted],
        &[],
    ),
    case(
        "29 s on the way",
        |phone| on_the_way(phone.without(&["motion"]), 28),
        &[],
        &[TelemetryStreamInterrupted, SessionTimeout],
    ),
    case(
        "an incident every 10 s on the way",
        |phone| {
            let phone = phone.without(&["motion"]).drive(-500.0, -30.0);
            let heard = |phone: Phone, _| {
                phone
                    .without_data(|phone| phone.stay(10))
                    .system("foreground")
            };
            house((0..5).fold(phone, heard))
        },
        &[],
        &[TelemetryStreamInterrupted, SessionTimeout],
    ),
    case(
        "10 s at the door",
        |phone| at_the_door(phone.without(&["motion"]), 10),
        &[TelemetryStreamInterrupted],
        &[],
    ),
    case(
        "9 s at the door",
        |phone| at_the_door(phone, 9),
        &[],
        &[TelemetryStreamInterrupted, SessionTimeout],
    ),
    case(
        "a phone without a kind is not silent",
        |phone| house(phone.without(&["pressure", "motion"])),
        &[],
        &[TelemetryStreamInterrupted, SessionTimeout],
    ),
    case(
        "the end was not received",
        |phone| {
            let mut phone = house(phone);
            phone.ends_after = 60.0;
            phone
        },
        &[TelemetryStreamInterrupted],
        &[SessionTimeout],
    ),
    case(
        "timed out",
        |phone| {
            let mut phone = house(phone);
            phone.timed_out = true;
            phone
        },
        &[SessionTimeout, FullAttempt],
        &[TelemetryStreamInterrupted],
    ),
];

#[test]
fn a_gap_of_30_s_or_10_s_near_the_drop_off_is_an_interruption() {
    check(BROKEN);
}

/// Delivers at a house. The proof arrives while the courier is at the door.
fn proved(phone: Phone, clock_ahead_ms: u32) -> Phone {
    let mut phone = house(phone);
    (phone.pod, phone.pod_at, phone.clock_ahead_ms) = (true, Some(165.0), clock_ahead_ms);
    phone
}

const CLOCKS: &[Case] = &[
    case(
        "equal clocks",
        |phone| proved(phone, 0),
        &[FullAttempt],
        &[PartialAttempt],
    ),
    case(
        "a phone's clock that is 45 s ahead",
        |phone| proved(phone, 45_000),
        &[FullAttempt],
        &[PartialAttempt],
    ),
    case(
        "a phone's clock that is 5 min ahead",
        |phone| proved(phone, 300_000),
        &[FullAttempt],
        &[PartialAttempt],
    ),
];

#[test]
fn a_clock_that_is_ahead_does_not_move_the_proof() {
    check(CLOCKS);
}

const LITTLE: &[Case] = &[
    case(
        "no telemetry",
        |mut phone| {
            phone.ends_after = 300.0;
            phone
        },
        &[InsufficientData],
        &[FullAttempt, PartialAttempt, NoAttempt, PossibleNoAttempt],
    ),
    case(
        "no position",
        |phone| house(phone.without(&["location"])),
        &[InsufficientData],
        &[FullAttempt, NoAttempt],
    ),
    case(
        "no barometer is enough data",
        |phone| house(phone.without(&["pressure"])),
        &[FullAttempt],
        &[InsufficientData],
    ),
    case(
        "no steps is enough data",
        |phone| house(phone.without(&["steps"])),
        &[FullAttempt],
        &[InsufficientData],
    ),
    case(
        "steps and positions are enough data",
        |phone| house(phone.without(&["pressure", "motion"])),
        &[FullAttempt],
        &[InsufficientData],
    ),
];

#[test]
fn insufficient_data_replaces_the_outcome() {
    check(LITTLE);
}

#[test]
fn events_match_the_simulated_delivery() {
    for error in ERRORS {
        let score = flat(floor(Phone::new(error, 3), 5), 15.0, true).score();
        let count = |event_type| {
            score
                .events
                .iter()
                .filter(|event| event.event_type == event_type)
                .count()
        };
        assert_eq!(
            (
                count(EventType::Elevator),
                count(EventType::Stairs),
                count(EventType::Driving)
            ),
            (2, 0, 2),
            "{error:?}: {:?}",
            score.events
        );
    }
}
