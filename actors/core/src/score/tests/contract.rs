//! Tests the contract's statements on the insight one by one: for each, a case in which it must
//! appear, and the closest one in which it must not.

use porchlight_schema::insight::ReasonCode::{self, *};
use serde_json::json;

use super::errands::{come, door_at, flat, floor, go, house, lobby};
use super::phone::{Error, Phone};
use super::{assert_sound, spans};

pub(super) const ERRORS: [Error; 3] = [Error::None, Error::Dice, Error::Wander];

/// A case: the act, the codes that must appear, and the codes that must not.
pub(super) struct Case {
    name: &'static str,
    act: fn(Phone) -> Phone,
    said: &'static [ReasonCode],
    unsaid: &'static [ReasonCode],
}

pub(super) const fn case(
    name: &'static str,
    act: fn(Phone) -> Phone,
    said: &'static [ReasonCode],
    unsaid: &'static [ReasonCode],
) -> Case {
    Case {
        name,
        act,
        said,
        unsaid,
    }
}

/// Checks every case with every kind of position error: a correct result must not depend on the
/// noise.
pub(super) fn check(cases: &[Case]) {
    let mut wrong = Vec::new();
    for case in cases {
        for error in ERRORS {
            let score = (case.act)(Phone::new(error, 7)).score();
            assert_sound(case.name, &score);
            let missed = case
                .said
                .iter()
                .filter(|code| !score.reason_codes.contains(code));
            let added = case
                .unsaid
                .iter()
                .filter(|code| score.reason_codes.contains(code));
            if missed.count() + added.count() > 0 {
                let events = spans(&score);
                wrong.push(format!(
                    "{} ({error:?}): {:?}\n    {events:?}\n    {:?}",
                    case.name, score.reason_codes, score.summary
                ));
            }
            // All cases are genuine.
            if score.summary.fraud_score >= 0.5 || score.summary.suspicious_behavior {
                wrong.push(format!(
                    "{} ({error:?}): accused, {} {:#?}",
                    case.name, score.summary.fraud_score, score.evidence
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

const FULL: &[Case] = &[
    case(
        "house",
        house,
        &[FullAttempt, DeliveredToRightDoorstep],
        &[
            PossibleLobbyHandoff,
            PossibleWrongAddress,
            TelemetryStreamInterrupted,
            SessionTimeout,
        ],
    ),
    case(
        "a stay of 12 s",
        |phone| {
            go(come(phone)
                .walk(0.0, -30.0)
                .walk(0.0, -2.0)
                .stay(12)
                .walk(0.0, -30.0))
        },
        &[FullAttempt, DeliveredToRightDoorstep],
        &[],
    ),
    case(
        "marked",
        |phone| {
            go(come(phone)
                .walk(0.0, -30.0)
                .walk(0.0, -2.0)
                .stay(20)
                .mark("left_at_door")
                .stay(5)
                .walk(0.0, -30.0))
        },
        &[FullAttempt, DeliveredToRightDoorstep],
        &[],
    ),
    case(
        "marked late, at speed",
        |phone| {
            house(phone)
                .drive(-700.0, -30.0)
                .mark("handed_over")
                .drive(-1_500.0, -30.0)
        },
        &[FullAttempt, DeliveredToRightDoorstep],
        &[PossibleWrongAddress],
    ),
    case(
        "stairs",
        |phone| flat(floor(phone, 3), 9.0, false),
        &[FullAttempt, DeliveredToRightDoorstep],
        &[PossibleLobbyHandoff],
    ),
    case(
        "elevator",
        |phone| flat(floor(phone, 5), 15.0, true),
        &[FullAttempt, DeliveredToRightDoorstep],
        &[PossibleLobbyHandoff],
    ),
    case(
        "basement",
        |phone| flat(floor(phone, -1), -3.0, false),
        &[FullAttempt, DeliveredToRightDoorstep],
        &[PossibleLobbyHandoff],
    ),
    case(
        "no stay",
        |phone| {
            go(come(phone)
                .walk(0.0, -30.0)
                .walk(0.0, -2.0)
                .stay(1)
                .walk(0.0, -30.0))
        },
        &[PartialAttempt],
        &[FullAttempt, DeliveredToRightDoorstep],
    ),
    case(
        "not up to the floor",
        |phone| flat(floor(phone, 5), 6.0, false),
        &[PartialAttempt],
        &[FullAttempt, DeliveredToRightDoorstep],
    ),
    case(
        "on foot, passing at 40 m",
        |phone| {
            phone
                .drive(-100.0, -40.0)
                .stay(10)
                .walk(60.0, -40.0)
                .walk(-100.0, -40.0)
                .stay(10)
                .drive(-500.0, -30.0)
        },
        &[PartialAttempt],
        &[FullAttempt, DeliveredToRightDoorstep],
    ),
];

#[test]
fn a_full_attempt_needs_a_walk_to_the_door_and_a_stay() {
    check(FULL);
}

const NONE: &[Case] = &[
    case(
        "drove past",
        |phone| {
            phone
                .drive(0.0, -20.0)
                .drive(900.0, -20.0)
                .stay(20)
                .drive(1_500.0, 0.0)
        },
        &[NoAttempt],
        &[PossibleWrongAddress],
    ),
    case(
        "on foot at 200 m",
        |phone| {
            phone
                .drive(-260.0, -30.0)
                .stay(10)
                .walk(-200.0, -30.0)
                .walk(-260.0, -30.0)
                .stay(10)
                .drive(-800.0, -30.0)
        },
        &[NoAttempt],
        &[PartialAttempt],
    ),
    case(
        "on foot at 130 m",
        |phone| {
            phone
                .drive(-190.0, -30.0)
                .stay(10)
                .walk(-130.0, -30.0)
                .walk(-190.0, -30.0)
                .stay(10)
                .drive(-800.0, -30.0)
        },
        &[NoAttempt],
        &[PartialAttempt],
    ),
    case(
        "on foot at 60 m",
        |phone| {
            phone
                .drive(-160.0, -10.0)
                .stay(10)
                .walk(-60.0, -10.0)
                .walk(-160.0, -10.0)
                .stay(10)
                .drive(-800.0, -30.0)
        },
        &[PartialAttempt],
        &[NoAttempt, PossibleNoAttempt],
    ),
    case(
        "the vehicle stood at the address for 90 s",
        |phone| {
            phone
                .drive(-10.0, -20.0)
                .stay(90)
                .drive(900.0, -20.0)
                .stay(20)
        },
        &[PossibleNoAttempt],
        &[NoAttempt],
    ),
    case(
        "half of the session unheard",
        |phone| {
            phone
                .drive(-300.0, -30.0)
                .without_data(|phone| phone.drive(900.0, -30.0).drive(300.0, -30.0))
                .drive(1_500.0, -30.0)
        },
        &[PossibleNoAttempt, TelemetryStreamInterrupted],
        &[NoAttempt],
    ),
];

#[test]
fn no_attempt_means_never_on_foot_within_75_m_and_uncertainty() {
    check(NONE);
}

const LOBBY: &[Case] = &[
    case(
        "lobby of a fourth floor",
        |phone| lobby(floor(phone, 4)),
        &[PossibleLobbyHandoff, PartialAttempt],
        &[DeliveredToRightDoorstep],
    ),
    case(
        "the marked trace",
        |phone| {
            let phone = come(floor(phone, 4))
                .walk(0.0, -30.0)
                .walk(0.0, -8.0)
                .go_in()
                .walk(0.0, 1.0)
                .stay(35)
                .mark("handed_over");
            go(phone.stay(4).walk(0.0, -8.0).come_out().walk(0.0, -30.0))
        },
        &[PossibleLobbyHandoff, PartialAttempt],
        &[DeliveredToRightDoorstep],
    ),
    case(
        "at the main door of a fourth floor",
        |phone| house(floor(phone, 4)),
        &[PossibleLobbyHandoff],
        &[DeliveredToRightDoorstep],
    ),
    case(
        "height not measured",
        |phone| lobby(floor(phone.without(&["pressure"]), 4)),
        &[],
        &[PossibleLobbyHandoff],
    ),
    case(
        "ground floor",
        |phone| lobby(floor(phone, 0)),
        &[FullAttempt],
        &[PossibleLobbyHandoff],
    ),
    case(
        "no floor given",
        lobby,
        &[FullAttempt],
        &[PossibleLobbyHandoff],
    ),
    case(
        "height gained",
        |phone| flat(floor(phone, 4), 12.0, true),
        &[FullAttempt],
        &[PossibleLobbyHandoff],
    ),
    case(
        "a floor gained, of four",
        |phone| flat(floor(phone, 4), 3.0, false),
        &[PartialAttempt],
        &[PossibleLobbyHandoff],
    ),
];

#[test]
fn a_lobby_hand_off_has_no_height_gain() {
    check(LOBBY);
}

const WRONG: &[Case] = &[
    case(
        "a door at 150 m",
        |phone| door_at(phone, -150.0),
        &[PossibleWrongAddress, NoAttempt],
        &[DeliveredToRightDoorstep],
    ),
    case(
        "a door at 85 m",
        |phone| door_at(phone, 85.0),
        &[PossibleWrongAddress],
        &[DeliveredToRightDoorstep, FullAttempt],
    ),
    case(
        "a door at 300 m",
        |phone| door_at(phone, -300.0),
        &[PossibleWrongAddress],
        &[DeliveredToRightDoorstep],
    ),
    case(
        "a door at 40 m",
        |phone| door_at(phone, 40.0),
        &[],
        &[PossibleWrongAddress],
    ),
    case(
        "a door at 55 m of an exact address",
        |phone| door_at(phone.address("accuracyM", json!(5.0)), 55.0),
        &[PossibleWrongAddress],
        &[DeliveredToRightDoorstep],
    ),
    case(
        "a door at 150 m of an address known to 60 m",
        |phone| door_at(phone.address("accuracyM", json!(60.0)), -150.0),
        &[],
        &[PossibleWrongAddress],
    ),
    case(
        "the vehicle at 150 m, the door right",
        |phone| {
            phone
                .drive(-150.0, -30.0)
                .stay(25)
                .walk(0.0, -30.0)
                .walk(0.0, -2.0)
                .stay(35)
                .walk(0.0, -30.0)
                .walk(-150.0, -30.0)
                .stay(10)
                .drive(-600.0, -30.0)
        },
        &[FullAttempt],
        &[PossibleWrongAddress],
    ),
    case(
        "no stay at 150 m",
        |phone| {
            phone
                .drive(-190.0, -30.0)
                .stay(10)
                .walk(-150.0, -30.0)
                .walk(-150.0, -2.0)
                .walk(-190.0, -30.0)
                .stay(10)
                .drive(-700.0, -30.0)
        },
        &[NoAttempt],
        &[PossibleWrongAddress],
    ),
];

#[test]
fn a_stay_beyond_three_uncertainties_is_a_wrong_address() {
    check(WRONG);
}
