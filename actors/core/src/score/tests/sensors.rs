//! Tests phones that lack sensors: the remaining sensors must still yield correct results.

use porchlight_schema::insight::ReasonCode::{DeliveredToRightDoorstep, FullAttempt};
use porchlight_schema::insight::Score;

use super::errands::{come, flat, floor, go, house, lobby};
use super::phone::{Error, Phone};
use super::{assert_sound, spans};

/// A delivery, with the facts that a phone with every sensor knows about it.
struct Errand {
    name: &'static str,
    act: fn(Phone) -> Phone,
    floors: i16,
    elevator: bool,
}

const ERRANDS: [Errand; 6] = [
    Errand {
        name: "two floors of stairs",
        act: |phone| flat(floor(phone, 2), 6.0, false),
        floors: 2,
        elevator: false,
    },
    Errand {
        name: "three floors of stairs",
        act: |phone| flat(floor(phone, 3), 9.0, false),
        floors: 3,
        elevator: false,
    },
    Errand {
        name: "two floors by elevator",
        act: |phone| flat(floor(phone, 2), 6.0, true),
        floors: 2,
        elevator: true,
    },
    Errand {
        name: "five floors by elevator",
        act: |phone| flat(floor(phone, 5), 15.0, true),
        floors: 5,
        elevator: true,
    },
    Errand {
        name: "a house",
        act: house,
        floors: 0,
        elevator: false,
    },
    Errand {
        name: "a lobby",
        act: |phone| lobby(floor(phone, 4)),
        floors: 0,
        elevator: false,
    },
];

/// The stay at every door in seconds; [`STAY_OFF_SEC`] is the permitted error.
const STAY_SEC: f64 = 35.0;
const STAY_OFF_SEC: f64 = 2.0;

fn check(errand: &Errand, without: &[&'static str], assert_result: impl Fn(&str, &Score)) {
    for (error, seed) in [(Error::Dice, 1), (Error::Wander, 2), (Error::Wander, 3)] {
        let name = format!("{} without {without:?}, {error:?} {seed}", errand.name);
        let score = (errand.act)(Phone::new(error, seed).without(without)).score();
        assert_sound(&name, &score);
        assert_result(&name, &score);
    }
}

#[test]
fn any_body_sensor_finds_a_stay_at_the_door() {
    for errand in &ERRANDS {
        for without in [
            &[][..],
            &["motion"],
            &["steps"],
            &["pressure"],
            &["motion", "pressure"],
            &["steps", "pressure"],
        ] {
            // Steps alone show three stays near an elevator, but not that two of them are waits for
            // it.
            if errand.elevator && without == ["motion", "pressure"] {
                continue;
            }
            check(errand, without, |name, score| {
                let door_sec = score.metrics.time_at_door_sec.unwrap_or(0.0);
                assert!(
                    (door_sec - STAY_SEC).abs() <= STAY_OFF_SEC,
                    "{name}: {door_sec} s, {:?}",
                    spans(score)
                );
                assert_eq!(score.summary.attempt_cycles, 1, "{name}");
            });
        }
    }
}

#[test]
fn any_height_sensor_finds_floors_and_rides() {
    for errand in &ERRANDS {
        // The phone has pressure and at least one body sensor.
        for without in [&[][..], &["motion"], &["steps"]] {
            check(errand, without, |name, score| {
                assert_eq!(score.summary.floors_climbed, Some(errand.floors), "{name}");
                assert_eq!(score.summary.elevator_used, Some(errand.elevator), "{name}");
            });
        }
        // The acceleration shows the push of a cabin, but not the number of floors.
        for without in [&["pressure"][..], &["steps", "pressure"]] {
            check(errand, without, |name, score| {
                assert_eq!(score.summary.floors_climbed, None, "{name}");
                assert_eq!(
                    score.summary.elevator_used,
                    Some(errand.elevator),
                    "{name}: {:?}",
                    spans(score)
                );
            });
        }
        check(errand, &["motion", "pressure"], |name, score| {
            assert_eq!(score.summary.floors_climbed, None, "{name}");
            assert_eq!(score.summary.elevator_used, None, "{name}");
        });
    }
}

/// Without a barometer a ride may go undetected. Hardly any courier climbs to the tenth floor on
/// foot, so no ride does not mean that there was none.
#[test]
fn without_pressure_a_high_floor_leaves_the_elevator_unknown() {
    let by_ride = Errand {
        name: "ten floors by elevator",
        act: |phone| flat(floor(phone, 10), 30.0, true),
        floors: 10,
        elevator: true,
    };
    check(&by_ride, &["pressure"], |name, score| {
        assert_eq!(score.summary.elevator_used, Some(true), "{name}");
    });
    // The push of the cabin is not measured: the courier seems to stand still in the hall.
    let unseen = Errand {
        act: |phone| {
            let phone = come(floor(phone, 10)).walk(0.0, -30.0).walk(0.0, -8.0);
            let phone = phone.go_in().walk(0.0, 2.0).stay(42).walk(8.0, 2.0);
            let phone = phone.stay(35).walk(0.0, 2.0).stay(42).walk(0.0, -8.0);
            go(phone.come_out().walk(0.0, -30.0))
        },
        ..by_ride
    };
    check(&unseen, &["pressure"], |name, score| {
        assert_eq!(score.summary.elevator_used, None, "{name}");
    });
}

/// Without positions the door is unknown, but the climb to it is visible.
#[test]
fn without_positions_the_stay_upstairs_counts() {
    for errand in ERRANDS.iter().filter(|errand| errand.floors > 0) {
        for without in [
            &["location"][..],
            &["location", "motion"],
            &["location", "steps"],
        ] {
            check(errand, without, |name, score| {
                assert_eq!(
                    score.summary.floors_climbed,
                    Some(errand.floors),
                    "{name}: {:?}",
                    spans(score)
                );
                assert_eq!(score.summary.elevator_used, Some(errand.elevator), "{name}");
                assert!(!score.summary.right_doorstep, "{name}");
            });
        }
    }
}

/// The seconds from fix to fix, and the metres by which each fix is less exact.
const POSITIONS: [(f64, f64); 6] = [
    (2.0, 0.0),
    (5.0, 0.0),
    (10.0, 0.0),
    (1.0, 10.0),
    (1.0, 25.0),
    (5.0, 15.0),
];

fn with_positions(mut phone: Phone, (fix_every, vaguer_m): (f64, f64)) -> Phone {
    (phone.fix_every, phone.vaguer_m) = (fix_every, vaguer_m);
    phone
}

#[test]
fn sparse_vague_positions_do_not_change_the_result() {
    for errand in &ERRANDS {
        for without in [&[][..], &["motion"], &["pressure"]] {
            let phone = || Phone::new(Error::Wander, 5).without(without);
            let usual = (errand.act)(phone()).score();
            for positions in POSITIONS {
                let name = format!("{} without {without:?}, {positions:?}", errand.name);
                let score = (errand.act)(with_positions(phone(), positions)).score();
                assert_sound(&name, &score);
                assert_eq!(score.reason_codes, usual.reason_codes, "{name}");
                assert_eq!(
                    (score.summary.floors_climbed, score.summary.elevator_used),
                    (usual.summary.floors_climbed, usual.summary.elevator_used),
                    "{name}"
                );
                assert_eq!(
                    score.metrics.time_at_door_sec, usual.metrics.time_at_door_sec,
                    "{name}"
                );
            }
        }
    }
}

#[test]
fn sparse_rough_pressure_changes_neither_floors_nor_rides() {
    for errand in &ERRANDS {
        for without in [&[][..], &["motion"], &["steps"]] {
            for (pressure_every, rough_hpa) in [(1.0, 0.03), (1.0, 0.1), (2.0, 0.01)] {
                let name = format!(
                    "{} without {without:?}, each {pressure_every} s, {rough_hpa} hPa",
                    errand.name
                );
                let mut phone = Phone::new(Error::Wander, 5).without(without);
                (phone.pressure_every, phone.rough_hpa) = (pressure_every, rough_hpa);
                let score = (errand.act)(phone).score();
                assert_sound(&name, &score);
                assert_eq!(score.summary.floors_climbed, Some(errand.floors), "{name}");
                assert_eq!(
                    score.summary.elevator_used,
                    Some(errand.elevator),
                    "{name}: {:?}",
                    spans(&score)
                );
            }
        }
    }
}

/// No body sensor sends data, but the height changed for some time: the courier was at a door on an
/// upper floor. The time at that door is unknown.
#[test]
fn the_height_alone_shows_a_visit_upstairs() {
    for errand in ERRANDS.iter().filter(|errand| errand.floors > 0) {
        for positions in POSITIONS {
            let name = format!("{}, {positions:?}", errand.name);
            let phone = Phone::new(Error::Wander, 5).without(&["motion", "steps"]);
            let score = (errand.act)(with_positions(phone, positions)).score();
            assert_sound(&name, &score);
            assert_eq!(
                score.reason_codes,
                [FullAttempt, DeliveredToRightDoorstep],
                "{name}"
            );
            assert_eq!(score.summary.floors_climbed, Some(errand.floors), "{name}");
            // Stairs and a slow elevator look alike, so neither is reported.
            assert_ne!(
                score.summary.elevator_used,
                Some(!errand.elevator),
                "{name}"
            );
            assert_eq!(score.metrics.time_at_door_sec, None, "{name}");
        }
    }
}

/// Checks the results of a climb at any speed: floors if pressure was sent, the way up, and the
/// stay at the door.
fn assert_climb(name: &str, score: &Score, floors: Option<i16>, elevator: bool) {
    assert_sound(name, score);
    let summary = &score.summary;
    assert_eq!(
        (summary.floors_climbed, summary.elevator_used),
        (floors, Some(elevator)),
        "{name}: {:?}",
        spans(score)
    );
    let door_sec = score.metrics.time_at_door_sec.unwrap_or(0.0);
    assert!(
        (door_sec - STAY_SEC).abs() <= STAY_OFF_SEC,
        "{name}: {door_sec} s, {:?}",
        spans(score)
    );
}

#[test]
fn elevators_of_any_speed_are_found() {
    for floors in [1_i16, 2, 5, 12, 20] {
        let metres = 3.0 * f64::from(floors);
        for lift_mps in [0.4, 0.63, 1.0, 1.6, 2.5, 4.0] {
            for without in [&[][..], &["motion"], &["steps"], &["pressure"]] {
                let is_measured = !without.contains(&"pressure");
                // The phone hardly measures a cabin this slow, or a ride of four seconds.
                if !is_measured && (floors == 1 || lift_mps < 0.5) {
                    continue;
                }
                let name = format!("{floors} floors at {lift_mps} m/s without {without:?}");
                let mut phone = Phone::new(Error::Wander, 7).without(without);
                phone.lift_mps = lift_mps;
                let score = flat(floor(phone, floors), metres, true).score();
                assert_climb(&name, &score, is_measured.then_some(floors), true);
            }
        }
    }
}

#[test]
fn stairs_of_any_speed_are_found() {
    for floors in [-1_i16, 1, 2, 6] {
        let metres = 3.0 * f64::from(floors);
        for stairs_mps in [0.15, 0.3, 0.45, 0.6] {
            for without in [&[][..], &["motion"], &["steps"], &["pressure"]] {
                let is_measured = !without.contains(&"pressure");
                let name = format!("{floors} floors at {stairs_mps} m/s without {without:?}");
                let mut phone = Phone::new(Error::Wander, 7).without(without);
                phone.stairs_mps = stairs_mps;
                let score = flat(floor(phone, floors), metres, false).score();
                assert_climb(&name, &score, is_measured.then_some(floors), false);
            }
        }
    }
}

#[test]
fn the_house_is_reached_at_any_driving_and_walking_speed() {
    for (drive_mps, walk_mps) in [
        (4.0, 1.3),
        (6.0, 1.3),
        (15.0, 1.3),
        (25.0, 1.3),
        (9.0, 0.7),
        (9.0, 1.0),
        (9.0, 1.8),
        (9.0, 2.6),
    ] {
        for without in [&[][..], &["motion"], &["steps"], &["pressure"]] {
            let name = format!("{drive_mps} and {walk_mps} m/s without {without:?}");
            let mut phone = Phone::new(Error::Wander, 7).without(without);
            (phone.drive_mps, phone.walk_mps) = (drive_mps, walk_mps);
            let score = house(phone).score();
            let floors = (!without.contains(&"pressure")).then_some(0);
            assert_climb(&name, &score, floors, false);
            assert_eq!(
                score.reason_codes,
                [FullAttempt, DeliveredToRightDoorstep],
                "{name}"
            );
        }
    }
}
