//! False telemetry, and genuine phones that resemble it, as an outsider would make them.

use super::errands::{come, flat, floor, go, house};
use super::phone::{Error, Phone};
use super::{about, assert_sound};

type Act = fn(Phone) -> Phone;

fn mocked(phone: Phone, act: impl FnOnce(Phone) -> Phone) -> Phone {
    let mut phone = phone;
    phone.mock = true;
    let mut phone = act(phone);
    phone.mock = false;
    phone
}

/// The courier sits at home while the positions go to the door.
fn lies_still(phone: Phone) -> Phone {
    let mut phone = phone;
    phone.lies = true;
    house(phone)
}

/// Acts, the minimum score of each, and whether it is suspicious.
const UNTRUE: &[(&str, Act, f64, bool)] = &[
    (
        "all fixes are simulated",
        |phone| mocked(phone, house),
        0.5,
        true,
    ),
    (
        "simulated at the door",
        |phone| {
            let phone = phone.drive(-900.0, 400.0).stay(120);
            mocked(phone.leap(-10.0, -30.0), |phone| {
                phone.walk(0.0, -2.0).stay(60)
            })
            .leap(-900.0, 400.0)
            .stay(120)
        },
        0.5,
        true,
    ),
    (
        "a jump to the door and back",
        |phone| {
            phone
                .drive(-1_500.0, 0.0)
                .stay(40)
                .leap(0.0, -3.0)
                .stay(40)
                .mark("handed_over")
                .stay(20)
                .leap(-1_500.0, 0.0)
                .stay(40)
        },
        0.5,
        true,
    ),
    ("positions walk, the body lies", lies_still, 0.3, false),
    (
        "dropped off 2 km away",
        |phone| {
            go(phone
                .drive(-2_000.0, 0.0)
                .stay(10)
                .walk(-1_980.0, 10.0)
                .stay(20)
                .mark("handed_over")
                .stay(10))
        },
        0.2,
        false,
    ),
];

#[test]
fn fraud_is_found_at_any_position_error() {
    for (name, act, least, suspicious) in UNTRUE {
        for error in [Error::None, Error::Dice, Error::Wander] {
            let score = act(Phone::new(error, 21)).score();
            assert_sound(name, &score);
            let summary = &score.summary;
            assert!(
                summary.fraud_score >= *least,
                "{name} ({error:?}): {} {:#?}",
                summary.fraud_score,
                about(&score, "fraudScore").collect::<Vec<_>>()
            );
            assert!(
                !*suspicious || summary.suspicious_behavior,
                "{name} ({error:?}): {:#?}",
                about(&score, "fraudScore").collect::<Vec<_>>()
            );
            assert!(
                !summary.right_doorstep || *name == "positions walk, the body lies",
                "{name} ({error:?}) is not flagged"
            );
        }
    }
}

#[test]
fn honest_phones_are_not_suspicious() {
    let cases: [(&str, Act); 11] = [
        ("two fixes marked once", |phone| {
            house(mocked(phone, |phone| phone.stay(2)))
        }),
        ("the clock was set", |phone| {
            house(
                phone
                    .system("clock_changed")
                    .stay(5)
                    .system("clock_changed"),
            )
        }),
        ("a battery that ends", |mut phone| {
            phone = come(phone).walk(0.0, -30.0);
            phone.ends_after = 900.0;
            phone
        }),
        ("nothing but positions", |phone| {
            house(phone.without(&["pressure", "motion", "steps"]))
        }),
        ("a car parked in a garage", |phone| {
            house(phone.drive(-500.0, -30.0).go_in().stay(120).come_out())
        }),
        ("an elevator that comes out elsewhere", |phone| {
            flat(floor(phone, 12), 36.0, true)
        }),
        ("a street between towers", |phone| {
            house(phone.go_in().drive(-200.0, -30.0).come_out())
        }),
        ("a phone that was left in the vehicle", |phone| {
            phone
                .drive(-10.0, -20.0)
                .stay(120)
                .mark("handed_over")
                .drive(900.0, -20.0)
                .stay(20)
        }),
        ("a late tap, at speed", |phone| {
            house(phone)
                .drive(-700.0, -30.0)
                .mark("handed_over")
                .drive(-1_500.0, -30.0)
        }),
        ("silence on the way", |phone| {
            house(
                phone
                    .drive(-700.0, -30.0)
                    .without_data(|phone| phone.drive(-100.0, -30.0)),
            )
        }),
        ("location switched off in the building", |phone| {
            flat(floor(phone, 3).system("location_on"), 9.0, false)
        }),
    ];
    for (name, act) in cases {
        for error in [Error::None, Error::Dice, Error::Wander] {
            let score = act(Phone::new(error, 22)).score();
            assert_sound(name, &score);
            assert!(
                score.summary.fraud_score < if error != Error::Wander { 0.5 } else { 0.2 }
                    && !score.summary.suspicious_behavior,
                "{name} ({error:?}): {:#?}",
                about(&score, "fraudScore").collect::<Vec<_>>()
            );
        }
    }
}

#[test]
fn a_soft_car_does_not_make_a_matching_walk_suspicious() {
    for error in [Error::None, Error::Dice, Error::Wander] {
        let mut phone = Phone::new(error, 23);
        phone.soft = true;
        for score in [
            house(phone.clone()).score(),
            flat(floor(phone, 4), 12.0, true).score(),
        ] {
            assert!(
                score.summary.fraud_score < 0.2 && !score.summary.suspicious_behavior,
                "{error:?}: {:#?}",
                about(&score, "fraudScore").collect::<Vec<_>>()
            );
        }
    }
}

/// The phone lies still and has a fix each second, or only every 30 s. Its positions jump to a door
/// 2 km away, and back.
#[test]
fn a_jump_to_the_door_is_found_however_rare_the_fixes_are() {
    for fix_every in [1.0, 5.0, 8.0, 10.0, 15.0, 30.0] {
        let mut phone = Phone::new(Error::Wander, 24);
        phone.fix_every = fix_every;
        let phone = phone.drive(-2_000.0, 0.0).stay(150).leap(0.0, -3.0);
        let phone = phone.stay(60).mark("handed_over").stay(60);
        let score = phone.leap(-2_000.0, 0.0).stay(150).score();
        let name = format!("every {fix_every} s");
        assert_sound(&name, &score);
        let summary = &score.summary;
        assert!(
            summary.fraud_score >= 0.5 && summary.suspicious_behavior && !summary.right_doorstep,
            "{name}: {summary:?} {:#?}",
            about(&score, "fraudScore").collect::<Vec<_>>()
        );
        let mut honest = Phone::new(Error::Wander, 25);
        honest.fix_every = fix_every;
        let fraud_score = house(honest).score().summary.fraud_score;
        assert!(fraud_score < 0.1, "{name}: {fraud_score}");
    }
}
