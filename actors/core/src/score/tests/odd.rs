//! Odd but genuine sessions, and the value of each field that the contract requires for them.

use porchlight_schema::insight::ReasonCode::{self, *};
use porchlight_schema::insight::Score;
use serde_json::json;

use super::errands::{come, door_at, flat, floor, go, house, lobby};
use super::phone::{Error, Phone};
use super::{about, assert_sound, spans};

/// The expectations on one session: the possible outcomes, the additional codes, and the codes that
/// must be absent.
struct Odd {
    name: &'static str,
    act: fn(Phone) -> Phone,
    outcomes: &'static [ReasonCode],
    said: &'static [ReasonCode],
    unsaid: &'static [ReasonCode],
    /// The number of visits to the door.
    visits: u32,
    /// Whether the time at the door is reported.
    door: bool,
}

/// A claimed drop-off far away, or at speed, counts against the claim (contract 5).
const CLAIMS: [&str; 2] = ["dropped off 2.5 km away", "photographed before the arrival"];
const FULL: &[ReasonCode] = &[FullAttempt];
const RIGHT: &[ReasonCode] = &[DeliveredToRightDoorstep];
const WRONG: &[ReasonCode] = &[PossibleWrongAddress];
const NONE: &[ReasonCode] = &[NoAttempt];
const PLAIN: &[ReasonCode] = &[
    PossibleWrongAddress,
    PossibleLobbyHandoff,
    TelemetryStreamInterrupted,
    SessionTimeout,
];

/// Goes to a place, stays there on foot, and leaves again.
fn errand(phone: Phone, east: f64, seconds: u32) -> Phone {
    phone
        .drive(east, -30.0)
        .stay(10)
        .walk(east + 30.0, -30.0)
        .stay(seconds)
        .walk(east, -30.0)
        .stay(10)
        .drive(east - 500.0, -30.0)
}

/// Puts the address's point the given metres west of its door.
fn off(phone: Phone, metres: f64, accuracy_m: Option<f64>) -> Phone {
    let point = Phone::point(-metres, 0.0);
    let phone = phone
        .address("lat", point["lat"].clone())
        .address("lng", point["lng"].clone());
    match accuracy_m {
        Some(accuracy_m) => phone.address("accuracyM", json!(accuracy_m)),
        None => phone,
    }
}

/// Returns a case, with the fields in the order of [`Odd`].
const fn case(
    name: &'static str,
    act: fn(Phone) -> Phone,
    outcomes: &'static [ReasonCode],
    said: &'static [ReasonCode],
    unsaid: &'static [ReasonCode],
    visits: u32,
    door: bool,
) -> Odd {
    Odd {
        name,
        act,
        outcomes,
        said,
        unsaid,
        visits,
        door,
    }
}

const ODD: &[Odd] = &[
    case(
        "a break 2.5 km away",
        |phone| errand(phone, -2_500.0, 40),
        NONE,
        &[],
        &[PossibleWrongAddress, DeliveredToRightDoorstep],
        0,
        false,
    ),
    case(
        "dropped off 2.5 km away",
        |phone| {
            phone
                .drive(-2_500.0, -30.0)
                .stay(10)
                .walk(-2_470.0, -30.0)
                .stay(30)
                .mark("handed_over")
                .stay(10)
                .walk(-2_500.0, -30.0)
                .stay(10)
                .drive(-3_000.0, -30.0)
        },
        NONE,
        WRONG,
        RIGHT,
        0,
        false,
    ),
    case(
        "a neighbour's door, 120 m away",
        |phone| door_at(phone, 120.0),
        &[NoAttempt, PartialAttempt],
        WRONG,
        RIGHT,
        0,
        false,
    ),
    case(
        "begins at the door",
        |phone| {
            go(phone
                .leap(0.0, -2.0)
                .stay(40)
                .mark("handed_over")
                .stay(5)
                .walk(0.0, -30.0))
        },
        FULL,
        RIGHT,
        PLAIN,
        1,
        true,
    ),
    case(
        "ends at the door",
        |phone| {
            come(phone)
                .walk(0.0, -30.0)
                .walk(0.0, -2.0)
                .stay(40)
                .mark("handed_over")
                .stay(5)
        },
        FULL,
        RIGHT,
        PLAIN,
        1,
        true,
    ),
    case(
        "the address is 60 m off and says 100",
        |phone| house(off(phone, 60.0, Some(100.0))),
        FULL,
        RIGHT,
        PLAIN,
        1,
        true,
    ),
    case(
        "the address is 90 m off and says 20",
        |phone| house(off(phone, 90.0, None)),
        &[PartialAttempt],
        WRONG,
        RIGHT,
        0,
        false,
    ),
    case(
        "the entrance is given",
        |phone| {
            flat(
                floor(phone, 3).address("entrance", Phone::point(0.0, -8.0)),
                9.0,
                false,
            )
        },
        FULL,
        RIGHT,
        PLAIN,
        1,
        true,
    ),
    case(
        "a unit and a cellar",
        |phone| flat(floor(phone, -1).address("unit", json!("K 3")), -3.0, false),
        FULL,
        RIGHT,
        PLAIN,
        1,
        true,
    ),
    case(
        "a unit and no floor",
        |phone| flat(phone.address("unit", json!("12b")), 9.0, false),
        FULL,
        RIGHT,
        PLAIN,
        1,
        true,
    ),
    case(
        "two visits with a drive between",
        |phone| house(house(phone)),
        FULL,
        RIGHT,
        PLAIN,
        2,
        true,
    ),
    case(
        "photographed before the arrival",
        |phone| {
            house(
                phone
                    .drive(-600.0, -30.0)
                    .mark("pod_captured")
                    .drive(-300.0, -30.0),
            )
        },
        FULL,
        &[],
        PLAIN,
        1,
        true,
    ),
    case(
        "photographed in the vehicle before walking",
        |phone| {
            let phone = come(phone).mark("pod_captured").stay(4);
            go(phone
                .walk(0.0, -30.0)
                .walk(0.0, -2.0)
                .stay(35)
                .walk(0.0, -30.0))
        },
        FULL,
        RIGHT,
        PLAIN,
        1,
        true,
    ),
    case(
        "left at the door without a proof",
        |phone| {
            let phone = come(phone).walk(0.0, -30.0).walk(0.0, -2.0);
            go(phone.stay(15).mark("left_at_door").stay(5).walk(0.0, -30.0))
        },
        FULL,
        RIGHT,
        PLAIN,
        1,
        true,
    ),
    case(
        "left in the vehicle",
        |phone| {
            let phone = come(phone).stay(110).mark("handed_over").stay(5);
            phone.drive(600.0, -30.0)
        },
        &[PossibleNoAttempt],
        &[],
        &[DeliveredToRightDoorstep, PossibleWrongAddress],
        0,
        false,
    ),
    case(
        "no position from start to end",
        |phone| house(phone.without(&["location"])),
        &[InsufficientData],
        &[],
        &[
            DeliveredToRightDoorstep,
            PossibleWrongAddress,
            PossibleLobbyHandoff,
        ],
        0,
        false,
    ),
    case(
        "dropped off in the lobby",
        |phone| lobby(floor(phone, 4)),
        &[PartialAttempt],
        &[PossibleLobbyHandoff],
        RIGHT,
        1,
        true,
    ),
];

fn summary_text(score: &Score) -> String {
    let events = spans(score);
    let horizontal: Vec<_> = about(score, "rightDoorstep")
        .map(|entry| entry.text.as_str())
        .collect();
    format!(
        "{:?} {} visits, {:?}, fraud {}; {horizontal:?} {events:?}",
        score.reason_codes, score.summary.attempt_cycles, score.metrics, score.summary.fraud_score
    )
}

#[test]
fn odd_sessions_get_the_expected_codes() {
    let mut wrong = Vec::new();
    for case in ODD {
        for error in [Error::None, Error::Dice, Error::Wander] {
            let score = (case.act)(Phone::new(error, 31)).score();
            assert_sound(case.name, &score);
            let codes = &score.reason_codes;
            let summary = &score.summary;
            let holds = case.outcomes.contains(&codes[0])
                && case.said.iter().all(|code| codes.contains(code))
                && !case.unsaid.iter().any(|code| codes.contains(code))
                && summary.attempt_cycles == case.visits
                && score.metrics.time_at_door_sec.is_some() == case.door
                && (CLAIMS.contains(&case.name)
                    || (summary.fraud_score < 0.5 && !summary.suspicious_behavior));
            if !holds {
                wrong.push(format!(
                    "{} ({error:?}): {}",
                    case.name,
                    summary_text(&score)
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
