//! Tests claims (marks and proofs of delivery) that are made elsewhere than at the door: before and
//! after it, on foot and in the vehicle.

use porchlight_schema::insight::{ReasonCode, Score};
use serde_json::json;

use super::errands::{come, floor, go};
use super::phone::{Error, Phone};

/// The seconds at the door of [`house`].
const AT_DOOR_SEC: u32 = 60;

fn proved(mut phone: Phone) -> Phone {
    phone.pod = true;
    phone
}

/// Walks from the vehicle to the door of a house, and stays there.
fn at_door(phone: Phone) -> Phone {
    phone.walk(0.0, -30.0).walk(0.0, -2.0).stay(AT_DOOR_SEC)
}

fn back(phone: Phone) -> Phone {
    phone.walk(0.0, -30.0).walk(30.0, -30.0)
}

fn assert_visited(name: &str, score: &Score) {
    assert!(
        score.reason_codes.contains(&ReasonCode::FullAttempt)
            && score.summary.attempt_cycles == 1
            && score.summary.right_doorstep,
        "{name}: {:?} {:#?}",
        score.reason_codes,
        score.evidence
    );
}

/// The courier stands at the door of a house, and takes the photograph or taps elsewhere. The visit
/// remains a visit.
#[test]
fn a_claim_before_or_after_the_door_keeps_the_visit() {
    for seed in [6, 7] {
        let arrived = || come(Phone::new(Error::None, seed));
        let mark = |phone: Phone| phone.mark("handed_over");
        let cases = [
            ("no claim", back(at_door(arrived()))),
            ("a proof on the way back", proved(back(at_door(arrived())))),
            (
                "a proof long after",
                proved(back(at_door(arrived())).walk(120.0, -30.0)),
            ),
            (
                "a mark on the way back",
                mark(back(at_door(arrived()))).walk(40.0, -30.0),
            ),
            (
                "a silent phone",
                proved(at_door(arrived()).without_data(|phone| phone.stay(120))),
            ),
            (
                "a mark on the way to the door",
                go(at_door(mark(arrived().walk(-20.0, -30.0)))),
            ),
            (
                "a mark in the vehicle before getting out",
                go(at_door(
                    mark(Phone::new(Error::None, seed).drive(-40.0, -30.0).stay(9)).stay(2),
                )),
            ),
            (
                "a mark in the parked vehicle after the return",
                mark(at_door(arrived()).walk(-40.0, -30.0).stay(8))
                    .stay(4)
                    .drive(-500.0, -30.0),
            ),
        ];
        for (name, phone) in cases {
            let score = phone.score();
            assert_visited(&format!("{name}, {seed}"), &score);
        }
    }
}

/// The courier delivers on the third floor, and taps after the way down.
#[test]
fn a_claim_after_the_climb_down_keeps_the_visit_upstairs() {
    for elevator in [false, true] {
        let wait = |phone: Phone| if elevator { phone.stay(12) } else { phone };
        let phone = come(floor(Phone::new(Error::None, 8), 3)).walk(0.0, -30.0);
        let phone = wait(phone.walk(0.0, -8.0).go_in().walk(0.0, 2.0)).climb(9.0, elevator);
        let phone = wait(phone.walk(8.0, 2.0).stay(35).walk(0.0, 2.0)).climb(-9.0, elevator);
        let phone = phone.walk(0.0, -8.0).come_out().walk(0.0, -20.0);
        let score = go(phone.mark("handed_over").walk(0.0, -30.0)).score();
        assert_visited(if elevator { "elevator" } else { "stairs" }, &score);
        assert_eq!(score.summary.floors_climbed, Some(3), "{elevator}");
    }
}

/// A tap in the vehicle makes no stay of the time in the vehicle.
#[test]
fn a_stay_at_a_mark_does_not_reach_into_the_vehicle() {
    let phone = Phone::new(Error::None, 9).drive(-15.0, -5.0).stay(60);
    let score = phone
        .mark("handed_over")
        .stay(2)
        .walk(-60.0, -30.0)
        .stay(2)
        .score();
    let visits = score
        .evidence
        .iter()
        .filter(|entry| entry.signal == "door_visit");
    assert_eq!(visits.count(), 0, "{:#?}", score.evidence);
}

/// A proof from a vehicle that was never near the address is a false claim. A proof from the
/// vehicle after a visit is only late.
#[test]
fn a_proof_from_a_vehicle_that_was_never_near_is_noticed() {
    for seed in [10, 11] {
        let away = Phone::new(Error::None, seed).leap(3_000.0, 0.0);
        let away = away.drive(3_600.0, 0.0).stay(40);
        let fraud = proved(away).score().summary.fraud_score;
        assert!(fraud >= 0.3, "{seed}: {fraud}");
        let late = go(at_door(come(Phone::new(Error::None, seed))));
        let fraud = proved(late.drive(3_600.0, 0.0)).score().summary.fraud_score;
        assert!(fraud < 0.2, "{seed}: {fraud}");
    }
}

/// Nobody opens, and the courier hands the parcel over 40 m farther, in less time than a stop needs
/// to be detected without body sensors. The drop-off is where the courier marked it.
#[test]
fn a_mark_during_a_short_stop_at_the_next_house_is_the_drop_off() {
    for (error, seed) in [(Error::None, 1), (Error::Dice, 2), (Error::Wander, 3)] {
        for without in [&["motion", "steps"][..], &["motion", "steps", "pressure"]] {
            let phone = Phone::new(error, seed).without(without);
            let phone = come(phone.address("accuracyM", json!(8)));
            let rung = phone.walk(0.0, -30.0).walk(0.0, -2.0).stay(33);
            let next_door = rung.walk(0.0, -30.0).walk(40.0, -30.0).walk(40.0, -2.0);
            let handed = next_door.stay(9).mark("handed_over").stay(7);
            let score = go(handed.walk(40.0, -30.0)).score();
            let name = format!("without {without:?}, {error:?}");
            assert!(!score.summary.right_doorstep, "{name}: {score:#?}");
            assert_eq!(score.summary.attempt_cycles, 1, "{name}");
        }
    }
}
