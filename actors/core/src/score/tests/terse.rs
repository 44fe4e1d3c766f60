//! Phones with sparse samples: optional fields are absent, or 0.

use porchlight_schema::event::EventType;
use porchlight_schema::insight::ReasonCode::{
    DeliveredToRightDoorstep, FullAttempt, PossibleLobbyHandoff, PossibleNoAttempt,
};
use porchlight_schema::insight::Score;
use serde_json::json;

use super::errands::{come, flat, floor, go, house};
use super::phone::{Error, Phone};
use super::{about, assert_sound, spans};

const PHONES: [(Error, u64); 3] = [(Error::None, 1), (Error::Dice, 2), (Error::Wander, 3)];

fn count(score: &Score, event_type: EventType) -> usize {
    let events = score.events.iter();
    events
        .filter(|event| event.event_type == event_type)
        .count()
}

fn assert_delivered(name: &str, score: &Score) {
    assert_sound(name, score);
    assert_eq!(
        score.reason_codes,
        [FullAttempt, DeliveredToRightDoorstep],
        "{name}: {:?}",
        spans(score)
    );
    assert_eq!(score.summary.attempt_cycles, 1, "{name}");
    assert!(score.summary.fraud_score < 0.1, "{name}");
}

#[test]
fn a_walk_is_found_from_the_spread_alone() {
    for (error, seed) in PHONES {
        let mut phone = Phone::new(error, seed).without(&["steps"]);
        phone.terse = true;
        let score = house(phone).score();
        assert_delivered("spread alone", &score);
        // The drive to the address ended, and the drive away is another one.
        assert_eq!(count(&score, EventType::Driving), 2, "{:?}", spans(&score));
        assert_eq!(count(&score, EventType::Walking), 2, "{:?}", spans(&score));
    }
}

/// An app sends the acceleration in multiples of gravity, or the accelerometer repeats one reading.
/// A body at rest at 1 or at 9.81 m/s² would accuse the courier.
#[test]
fn an_accelerometer_that_does_not_measure_accuses_nobody() {
    for (error, seed) in PHONES {
        for (accel_unit, is_stuck) in [(9.81, false), (1.0, true)] {
            let mut phone = Phone::new(error, seed);
            (phone.terse, phone.accel_unit, phone.is_stuck) = (true, accel_unit, is_stuck);
            let name = format!("unit {accel_unit}, stuck: {is_stuck}");
            assert_delivered(&name, &house(phone).score());
        }
    }
}

#[test]
fn a_speed_that_is_always_0_is_ignored() {
    for without in [&[][..], &["motion"], &["pressure"], &["steps", "pressure"]] {
        for (error, seed) in PHONES {
            for vaguer_m in [0.0, 10.0] {
                let mut phone = Phone::new(error, seed).without(without);
                (phone.mute, phone.vaguer_m) = (true, vaguer_m);
                let score = house(phone).score();
                let name = format!("without {without:?}, {error:?}, {vaguer_m} m vaguer");
                assert_delivered(&name, &score);
                assert_eq!(
                    count(&score, EventType::Driving),
                    2,
                    "{name}: {:?}",
                    spans(&score)
                );
            }
        }
    }
}

#[test]
fn a_barometer_of_whole_hectopascals_measures_no_floors() {
    for (error, seed) in PHONES {
        let mut phone = floor(Phone::new(error, seed), 2);
        phone.round_hpa = Some(1.0);
        let score = flat(phone, 6.0, false).score();
        assert_sound("whole hectopascals", &score);
        assert_eq!(score.summary.floors_climbed, None);
        assert!(score.reason_codes.contains(&FullAttempt));
        assert!(!score.reason_codes.contains(&PossibleLobbyHandoff));
    }
}

#[test]
fn the_claimed_floor_does_not_influence_the_result() {
    // In an unknown tower of 28 m the count is the same regardless of the floor that the address
    // names, and high floors cannot be distinguished from their neighbours.
    let scored = |floor: i16| {
        let phone = Phone::new(Error::Wander, 4).address("floor", json!(floor));
        flat(phone, 28.0, true).score()
    };
    let counted = scored(10).summary.floors_climbed;
    assert!(
        counted.is_some_and(|floors| (6..=9).contains(&floors)),
        "{counted:?}"
    );
    for floor in [7, 8, 10, 12, 20] {
        let score = scored(floor);
        assert_eq!(score.summary.floors_climbed, counted);
        assert!(!score.summary.right_doorstep, "{floor}");
    }
}

#[test]
fn stairs_without_body_sensors_are_not_a_ride() {
    for (error, seed) in PHONES {
        let phone = floor(Phone::new(error, seed), 3).without(&["motion", "steps"]);
        let score = flat(phone, 9.0, false).score();
        assert_sound("stairs without a body", &score);
        assert_eq!(count(&score, EventType::Elevator), 0, "{:?}", spans(&score));
    }
}

#[test]
fn a_drop_off_from_the_window_does_not_prove_absence() {
    // Without a body sensor a walk of some steps is not seen, and the vehicle stood there for half
    // a minute.
    for (error, seed) in PHONES {
        let phone = Phone::new(error, seed).without(&["motion", "steps"]);
        let phone = phone.drive(-8.0, -10.0).stay(30).mark("left_at_door");
        let score = phone.stay(8).drive(-500.0, -30.0).score();
        assert_sound("at the kerb", &score);
        assert_eq!(score.reason_codes, [PossibleNoAttempt], "{error:?}");
    }
}

#[test]
fn the_turning_point_is_the_door_if_the_session_ends_in_a_car() {
    for (error, seed) in PHONES {
        for stay_sec in [9, 16, 40] {
            let phone = come(Phone::new(error, seed))
                .walk(0.0, -30.0)
                .walk(0.0, -2.0)
                .stay(stay_sec);
            let score = phone.walk(0.0, -8.0).walk(-40.0, -30.0).stay(45).score();
            let name = format!("{error:?}, {stay_sec} s");
            assert_delivered(&name, &score);
            let reported = score.metrics.time_at_door_sec.unwrap_or(0.0);
            assert!(
                (reported - f64::from(stay_sec)).abs() <= 3.0,
                "{name}: {reported}"
            );
        }
    }
}

#[test]
fn moving_positions_of_a_resting_phone_are_doubted_at_any_rate() {
    for every in [1.0, 2.0, 5.0] {
        let mut phone = Phone::new(Error::Wander, 5);
        (phone.lies, phone.soft, phone.fix_every) = (true, true, every);
        phone.pressure_every = 1.0;
        let score = go(come(phone)
            .walk(0.0, -30.0)
            .walk(0.0, 250.0)
            .stay(40)
            .walk(0.0, -30.0))
        .score();
        let grounds: Vec<&str> = about(&score, "fraudScore")
            .map(|entry| entry.signal.as_ref())
            .collect();
        assert!(
            score.summary.fraud_score >= 0.5,
            "a fix each {every} s: {grounds:?}, {:?}",
            spans(&score)
        );
    }
}

#[test]
fn a_drop_off_between_two_jumps_was_made_elsewhere() {
    for (error, seed) in PHONES {
        let phone = Phone::new(error, seed).leap(-4_000.0, 900.0);
        let phone = phone.drive(-3_000.0, 500.0).stay(20).leap(0.0, -5.0);
        let phone = phone.stay(25).mark("left_at_door").stay(10);
        let phone = phone.leap(-3_000.0, 500.0).stay(20);
        let score = phone.drive(-3_600.0, 900.0).score();
        assert_sound("there and back", &score);
        assert!(!score.summary.right_doorstep);
        assert!(score.summary.fraud_score >= 0.5, "{error:?}");
        assert!(score.summary.suspicious_behavior, "{error:?}");
        // A receiver that was wrong at first, and then finds its place, is not evidence of fraud.
        let phone = Phone::new(error, seed).leap(-4_000.0, 900.0).stay(60);
        let phone = phone.leap(-800.0, -30.0);
        let score = house(phone).score();
        assert!(score.summary.fraud_score < 0.5, "{error:?}");
    }
}

#[test]
fn a_pause_cut_short_by_the_end_or_a_ride_is_not_a_stay() {
    let assert_long = |name: &str, score: &Score| {
        let stays = score.events.iter();
        for stay in stays.filter(|event| event.event_type == EventType::Stopped) {
            let end_ms = stay.t_end_ms.unwrap_or(u32::MAX);
            assert!(end_ms >= stay.t_start_ms + 8_000, "{name}: {stay:?}");
        }
    };
    for (error, seed) in PHONES {
        for seconds in 5..=11 {
            let ends = house(Phone::new(error, seed)).stay(seconds).score();
            assert_long("at the end", &ends);
            // Without a barometer a ride is known only after its end, and its start lies in the
            // wait before it.
            let waits = come(Phone::new(error, seed).without(&["pressure"]))
                .walk(0.0, -8.0)
                .go_in()
                .walk(0.0, 2.0)
                .stay(seconds)
                .climb(9.0, true);
            let score = waits.stay(seconds).climb(6.0, true).walk(8.0, 2.0).score();
            assert_long("before a ride", &score);
        }
    }
}
