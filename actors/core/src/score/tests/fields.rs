//! Tests the contract's statements on the insight's fields against the acts of a plain phone and
//! their times.

use serde_json::json;

use super::contract::ERRORS;
use super::errands::{come, flat, floor, go, house};
use super::phone::{Error, Phone};
use super::{about, assert_sound};
use crate::score::Scored;

type Act = fn(Phone) -> Phone;

fn each(name: &str, act: impl Fn(Phone) -> Phone, see: impl Fn(&str, &Phone, &Scored)) {
    for error in ERRORS {
        let phone = act(Phone::new(error, 5));
        let scored = phone.scored();
        let name = format!("{name} ({error:?})");
        assert_sound(&name, &scored.score);
        see(&name, &phone, &scored);
    }
}

#[test]
fn the_total_duration_runs_from_start_to_end() {
    each(
        "a session that continues for 20.5 s",
        |phone| {
            let mut phone = house(phone);
            phone.ends_after = 20.5;
            phone
        },
        |name, phone, scored| {
            assert_eq!(
                scored.score.summary.total_duration_sec,
                phone.now_sec() + 20.5,
                "{name}"
            );
        },
    );
}

/// Acts, with the floors and elevator use that must be reported.
const FLOORS: &[(&str, Act, Option<i16>, Option<bool>)] = &[
    ("house", house, Some(0), Some(false)),
    (
        "three up",
        |phone| flat(floor(phone, 3), 9.0, false),
        Some(3),
        Some(false),
    ),
    (
        "one up",
        |phone| flat(floor(phone, 1), 3.0, false),
        Some(1),
        Some(false),
    ),
    (
        "one down",
        |phone| flat(floor(phone, -1), -3.0, false),
        Some(-1),
        Some(false),
    ),
    (
        "five up by elevator",
        |phone| flat(floor(phone, 5), 15.0, true),
        Some(5),
        Some(true),
    ),
    (
        "two down by elevator",
        |phone| flat(floor(phone, -2), -6.0, true),
        Some(-2),
        Some(true),
    ),
    (
        "storeys of 4 m",
        |phone| flat(phone.address("storeyHeightM", json!(4.0)), 12.0, true),
        Some(3),
        Some(true),
    ),
    (
        "no floor given",
        |phone| flat(phone.address("storeyHeightM", json!(3.0)), 9.0, false),
        Some(3),
        Some(false),
    ),
    (
        "twelve up in warm air, which makes 36 m 34: one less",
        |phone| flat(floor(phone, 12), 34.0, true),
        Some(11),
        Some(true),
    ),
    (
        "two up where the fifth was asked for",
        |phone| flat(floor(phone, 5), 6.0, false),
        Some(2),
        Some(false),
    ),
    (
        "two up where the third was asked for",
        |phone| flat(floor(phone, 3), 6.0, false),
        Some(2),
        Some(false),
    ),
    (
        "two floors up for an address on the fifth, with unknown storeys",
        |phone| flat(phone.address("floor", json!(5)), 7.5, false),
        Some(2),
        Some(false),
    ),
    (
        "10 m up for an address on the fourth, with unknown storeys",
        |phone| flat(phone.address("floor", json!(4)), 10.0, false),
        Some(3),
        Some(false),
    ),
    (
        "no barometer, and no reported rise",
        |phone| house(phone.without(&["pressure"])),
        None,
        Some(false),
    ),
    (
        "no barometer, no motion",
        |phone| flat(floor(phone.without(&["pressure", "motion"]), 5), 15.0, true),
        None,
        None,
    ),
    (
        "positions alone",
        |phone| {
            flat(
                floor(phone.without(&["pressure", "motion", "steps"]), 5),
                15.0,
                true,
            )
        },
        None,
        None,
    ),
];

#[test]
fn floors_count_from_the_entrance_or_are_null_without_height() {
    for (name, act, floors, elevator) in FLOORS {
        each(name, *act, |name, _, scored| {
            let summary = &scored.score.summary;
            assert_eq!(
                (summary.floors_climbed, summary.elevator_used),
                (*floors, *elevator),
                "{name}: {:?} {:#?}",
                scored.score.events,
                scored.score.evidence
            );
        });
    }
}

/// Goes to the third floor, down by `floor_m`, up again, and back.
fn floor_between(phone: Phone, floor_m: f64) -> Phone {
    let phone = come(phone)
        .walk(0.0, -30.0)
        .walk(0.0, -8.0)
        .go_in()
        .walk(0.0, 2.0)
        .climb(9.0, false)
        .walk(5.0, 2.0)
        .stay(30);
    let phone = phone
        .walk(0.0, 2.0)
        .climb(-floor_m, false)
        .stay(2)
        .climb(floor_m, false)
        .walk(5.0, 2.0)
        .stay(30);
    go(phone
        .walk(0.0, 2.0)
        .climb(-9.0, false)
        .walk(0.0, -8.0)
        .come_out()
        .walk(0.0, -30.0))
}

fn visits(name: &str, errand: impl Fn(Phone) -> Phone, attempt_cycles: u32) {
    each(name, errand, |name, _, scored| {
        assert_eq!(
            scored.score.summary.attempt_cycles, attempt_cycles,
            "{name}: {:?}",
            scored.score.events
        )
    });
}

#[test]
fn a_visit_ends_by_leaving_15_m_or_a_floor() {
    let again = |phone: Phone, away_m: f64| {
        let phone = come(phone).walk(0.0, -30.0).walk(0.0, -2.0).stay(30);
        go(phone
            .walk(0.0, -2.0 - away_m)
            .walk(0.0, -2.0)
            .stay(30)
            .walk(0.0, -30.0))
    };
    visits("house", house, 1);
    visits("left by 28 m", |phone| again(phone, 28.0), 2);
    visits("left by 5 m", |phone| again(phone, 5.0), 1);
    visits(
        "left by a floor",
        |phone| floor_between(floor(phone, 3), 3.0),
        2,
    );
    visits(
        "never there",
        |phone| phone.drive(0.0, -20.0).drive(900.0, -20.0),
        0,
    );
}

#[test]
fn times_at_the_building_match_the_path() {
    let reported = |scored: &Scored| {
        (
            scored.score.metrics.time_from_entrance_to_door_sec,
            scored.score.metrics.time_at_door_sec,
        )
    };
    // The way in takes 8 s of hall, the time for stairs or elevator, and 6 s of corridor.
    for (name, metres, elevator, way_sec) in [
        ("stairs", 9.0, false, 8.0 + 30.0 + 7.0),
        ("elevator", 15.0, true, 8.0 + 12.0 + 13.0 + 7.0),
    ] {
        for entrance in [false, true] {
            each(
                name,
                |phone| {
                    let phone = floor(phone, (metres / 3.0) as i16);
                    let phone = if entrance {
                        phone.address("entrance", Phone::point(0.0, -8.0))
                    } else {
                        phone
                    };
                    flat(phone, metres, elevator)
                },
                |name, _, scored| {
                    let (way, door) = reported(scored);
                    assert!(
                        way.is_some_and(|way| (way - way_sec).abs() <= 6.0),
                        "{name}, entrance given {entrance}: {way:?} for {way_sec}"
                    );
                    assert!(
                        door.is_some_and(|door| (door - 35.0_f64).abs() <= 3.0),
                        "{name}: {door:?}"
                    );
                },
            );
        }
    }
    each("a house has no entrance", house, |name, _, scored| {
        let (way, door) = reported(scored);
        assert!(
            way.is_none() && door.is_some_and(|door| (door - 35.0_f64).abs() <= 3.0),
            "{name}: {way:?} {door:?}"
        );
    });
    each(
        "no door",
        |phone| phone.drive(0.0, -20.0).drive(900.0, -20.0),
        |name, _, scored| {
            assert!(
                scored.score.metrics.is_empty(),
                "{name}: metrics are left out"
            );
        },
    );
}

/// A phone that sends nothing while it stands still has not gone in.
#[test]
fn standing_outside_a_building_is_not_an_entry() {
    let stands = |mut phone: Phone| {
        phone.frugal = true;
        let phone = come(floor(phone, 3))
            .walk(0.0, -30.0)
            .walk(0.0, -15.0)
            .stay(25);
        let phone = phone
            .walk(0.0, -8.0)
            .go_in()
            .walk(0.0, 2.0)
            .climb(9.0, false);
        let phone = phone
            .walk(8.0, 2.0)
            .stay(35)
            .walk(0.0, 2.0)
            .climb(-9.0, false);
        go(phone.walk(0.0, -8.0).come_out().walk(0.0, -30.0))
    };
    each("stands", stands, |name, _, scored| {
        let way = scored.score.metrics.time_from_entrance_to_door_sec;
        assert!(
            way.is_some_and(|way| (way - 45.0).abs() <= 6.0),
            "{name}: {way:?} {:?}",
            scored.score.events
        );
    });
}

#[test]
fn a_wait_for_the_elevator_is_not_time_at_the_door() {
    let waits = |phone: Phone| {
        let phone = come(floor(phone, 5))
            .walk(0.0, -30.0)
            .walk(0.0, -8.0)
            .go_in()
            .walk(0.0, 2.0)
            .stay(12)
            .climb(15.0, true);
        let phone = phone.walk(4.0, 2.0).stay(20).mark("handed_over").stay(1);
        go(phone
            .walk(0.0, 2.0)
            .stay(40)
            .climb(-15.0, true)
            .walk(0.0, -8.0)
            .come_out()
            .walk(0.0, -30.0))
    };
    each("elevator", waits, |name, _, scored| {
        let door = scored.score.metrics.time_at_door_sec;
        assert!(
            door.is_some_and(|door| (door - 21.0_f64).abs() <= 4.0),
            "{name}: {door:?} {:?}",
            scored.score.events
        );
    });
}

#[test]
fn friction_measures_only_effort() {
    let friction = |act: &dyn Fn(Phone) -> Phone| {
        act(Phone::new(Error::Wander, 9))
            .score()
            .summary
            .friction_score
    };
    let plain = friction(&house);
    let harder: [(&str, Act); 5] = [
        ("a long wait", |phone| {
            go(come(phone)
                .walk(0.0, -30.0)
                .walk(0.0, -2.0)
                .stay(240)
                .walk(0.0, -30.0))
        }),
        ("stairs", |phone| flat(floor(phone, 4), 12.0, false)),
        ("an elevator", |phone| flat(floor(phone, 5), 15.0, true)),
        ("twice", |phone| {
            let phone = come(phone)
                .walk(0.0, -30.0)
                .walk(0.0, -2.0)
                .stay(30)
                .walk(0.0, -40.0);
            go(phone.walk(0.0, -2.0).stay(30).walk(0.0, -30.0))
        }),
        ("a gate", |phone| {
            go(
                come(phone.address("gates", json!([Phone::point(0.0, -30.0)])))
                    .walk(0.0, -30.0)
                    .stay(30)
                    .walk(0.0, -2.0)
                    .stay(35)
                    .walk(0.0, -30.0),
            )
        }),
    ];
    for (name, act) in harder {
        let score = friction(&act);
        assert!(
            score > plain + 0.02 && score < 0.9,
            "{name}: {score} against {plain}"
        );
    }
    let highest = friction(&|phone| flat(floor(phone, 2), 6.0, false));
    assert!(friction(&|phone| flat(floor(phone, 8), 24.0, false)) > highest);
    assert!(plain < 0.2, "{plain}");
}

#[test]
fn visibility_counts_only_the_sensors_of_the_device() {
    let seen = |act: &dyn Fn(Phone) -> Phone| {
        act(Phone::new(Error::Wander, 9))
            .score()
            .summary
            .visibility_score
    };
    let full = seen(&house);
    assert!(full > 0.95, "{full}");
    let inside = seen(&|phone| flat(floor(phone, 5), 15.0, true));
    assert!(
        inside > full - 0.05,
        "a building does not count as a loss: {inside} {full}"
    );
    let mut last = full;
    for seconds in [20, 60, 200] {
        let lost = seen(&|phone| {
            go(come(phone)
                .walk(0.0, -30.0)
                .walk(0.0, -2.0)
                .stay(20)
                .without_data(|phone| phone.stay(seconds))
                .stay(10)
                .walk(0.0, -30.0))
        });
        assert!(lost < last, "{seconds}: {lost} {last}");
        last = lost;
    }
    // The same loss has the most weight around the drop-off.
    let early = seen(&|phone| house(phone.without_data(|phone| phone.stay(60)).stay(240)));
    let late = seen(&|phone| {
        go(come(phone.stay(240))
            .walk(0.0, -30.0)
            .walk(0.0, -2.0)
            .without_data(|phone| phone.stay(60))
            .stay(35)
            .walk(0.0, -30.0))
    });
    assert!(late < early, "{late} {early}");
}

#[test]
fn evidence_sentences_are_well_formed() {
    for act in [house as fn(Phone) -> Phone, |phone| {
        flat(floor(phone, 3), 9.0, false)
    }] {
        let score = act(Phone::new(Error::Wander, 4)).score();
        for entry in &score.evidence {
            assert!(
                !entry.text.contains("-0 ")
                    && !entry.text.contains("-0.0")
                    && entry.text.ends_with('.'),
                "{entry:?}"
            );
        }
        for field in [
            "floorsClimbed",
            "elevatorUsed",
            "attemptCycles",
            "timeAtDoorSec",
        ] {
            assert!(about(&score, field).next().is_some(), "{field}");
        }
    }
}

/// A street gate some seconds before the door is not the door: the pause at the door, and the hall
/// behind it, decide.
#[test]
fn a_gate_before_the_door_is_not_the_door() {
    let gated = |phone: Phone| {
        let phone = come(floor(phone, 3))
            .walk(0.0, -30.0)
            .walk(0.0, -16.0)
            .stay(20);
        let phone = phone.walk(0.0, -8.0).stay(2).go_in().walk(0.0, 2.0);
        let phone = phone.climb(9.0, false).walk(8.0, 2.0).stay(35);
        let phone = phone.walk(0.0, 2.0).climb(-9.0, false);
        go(phone.walk(0.0, -8.0).come_out().walk(0.0, -30.0))
    };
    let way_sec = 8.0 + 30.0 + 7.0;
    each("gated", gated, |name, _, scored| {
        let way = scored.score.metrics.time_from_entrance_to_door_sec;
        assert!(
            way.is_some_and(|way| (way - way_sec).abs() <= 3.0),
            "{name}: {way:?} for {way_sec}"
        );
    });
}
