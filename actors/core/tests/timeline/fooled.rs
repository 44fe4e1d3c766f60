//! Tests each way in which a detector could be fooled: required events and forbidden events.

use porchlight_schema::event::{Direction, Event, EventType, Metadata};
use porchlight_schema::sample::{Location, Sample, Steps};

use super::signals::{Act, Owned, Phone, context_at, events_of, of_type, samples};

const WALK: Act = Act::Walk { heading_deg: 0.0 };

fn events(script: &[(Act, u32)], phone: Phone) -> Vec<Event> {
    events_of(&context_at(0.0, 0.0), &samples(script, phone, 7), 60)
}

fn count(events: &[Event], event_type: EventType) -> usize {
    of_type(events, event_type).len()
}

#[test]
fn a_hill_is_neither_an_elevator_nor_stairs() {
    let script = [
        (Act::Stay, 30),
        (
            Act::Drive {
                mps: 12.0,
                climb_mps: 0.6,
            },
            60,
        ),
        (
            Act::Drive {
                mps: 8.0,
                climb_mps: -0.3,
            },
            60,
        ),
        (Act::Stay, 20),
        (
            Act::Drive {
                mps: 10.0,
                climb_mps: 0.5,
            },
            60,
        ),
    ];
    for phone in [
        Phone::ALL,
        Phone {
            imu: false,
            steps: false,
            ..Phone::ALL
        },
    ] {
        let events = events(&script, phone);
        assert_eq!(
            count(&events, EventType::Elevator) + count(&events, EventType::Stairs),
            0,
            "{events:?}"
        );
        assert_eq!(
            count(&events, EventType::Driving),
            1,
            "the halt belongs to the drive: {events:?}"
        );
    }
}

#[test]
fn a_tunnel_neither_ends_a_drive_nor_is_an_elevator() {
    let script = [
        (Act::Stay, 30),
        (
            Act::Drive {
                mps: 15.0,
                climb_mps: 0.0,
            },
            60,
        ),
        (
            Act::Drive {
                mps: 15.0,
                climb_mps: -0.6,
            },
            60,
        ),
        (
            Act::Drive {
                mps: 15.0,
                climb_mps: 0.0,
            },
            60,
        ),
    ];
    let mut all = samples(&script, Phone::ALL, 3);
    all.retain(|owned| {
        let sample = owned.sample();
        !matches!(sample, Sample::Location(_)) || !(90_000..150_000).contains(&sample.t_ms())
    });
    let events = events_of(&context_at(0.0, 0.0), &all, 60);
    assert_eq!(count(&events, EventType::Elevator), 0, "{events:?}");
    assert_eq!(count(&events, EventType::Driving), 1, "{events:?}");
    assert_eq!(count(&events, EventType::GpsLost), 1, "{events:?}");
    assert_eq!(count(&events, EventType::GpsRestored), 1, "{events:?}");
    let lost = of_type(&events, EventType::GpsLost)[0];
    assert!(
        lost.t_start_ms.abs_diff(89_100) <= 1_000,
        "it begins at the last fix: {lost:?}"
    );
}

#[test]
fn switchback_stairs_are_stairs_and_not_backtracking() {
    let mut script = vec![(Act::Stay, 20), (WALK, 20)];
    for flight in 0..6 {
        let heading_deg = if flight % 2 == 0 { 0.0 } else { 180.0 };
        script.push((
            Act::Stairs {
                mps: 0.3,
                heading_deg,
            },
            6,
        ));
        script.push((Act::Walk { heading_deg: 90.0 }, 2));
    }
    script.push((Act::Stay, 15));
    let events = events(&script, Phone::ALL);
    let stairs = of_type(&events, EventType::Stairs);
    assert_eq!(stairs.len(), 1, "landings belong to it: {events:?}");
    let Metadata::Climb {
        floors, direction, ..
    } = stairs[0].metadata
    else {
        panic!("{stairs:?}")
    };
    assert_eq!(
        (floors, direction),
        (Some(4), Direction::Up),
        "10.8 m of 3 m storeys"
    );
    assert_eq!(count(&events, EventType::Backtracking), 0, "{events:?}");
}

#[test]
fn a_pedometer_that_counts_in_a_car_is_not_a_walk() {
    let script = [
        (Act::Stay, 30),
        (
            Act::Drive {
                mps: 9.0,
                climb_mps: 0.0,
            },
            120,
        ),
    ];
    let mut all = samples(
        &script,
        Phone {
            steps: false,
            ..Phone::ALL
        },
        5,
    );
    for second in 0..150 {
        let count = 500 + 2 * second;
        all.push(Owned::Plain(Sample::Steps(Steps {
            t_ms: second * 1_000 + 900,
            count,
        })));
    }
    all.sort_by_key(|owned| owned.sample().t_ms());
    let events = events_of(&context_at(0.0, 0.0), &all, 60);
    let walked_ms: u32 = of_type(&events, EventType::Walking)
        .iter()
        .map(|walk| {
            walk.t_end_ms
                .unwrap()
                .saturating_sub(walk.t_start_ms.max(30_000))
        })
        .sum();
    assert!(walked_ms <= 5_000, "{events:?}");
    assert_eq!(count(&events, EventType::Driving), 1, "{events:?}");
}

#[test]
fn a_fix_repeated_every_second_is_a_loss() {
    let mut all = samples(
        &[(WALK, 40), (Act::Stay, 60)],
        Phone {
            location: false,
            ..Phone::ALL
        },
        9,
    );
    for second in 0_u32..100 {
        // From second 40 on the phone repeats the fix of second 39, with its time.
        let t_ms = second.min(39) * 1_000 + 100;
        let location = Location {
            t_ms,
            lat: 52.0,
            lng: 13.0,
            accuracy_m: Some(8.0),
            altitude_m: None,
            speed_mps: None,
            bearing_deg: None,
            mock: false,
            provider: None,
        };
        let place = all.partition_point(|owned| owned.sample().t_ms() <= second * 1_000);
        all.insert(place, Owned::Plain(Sample::Location(location)));
    }
    // A repeated fix lags ever more, and does not show that the position is known.
    let events = events_of(&context_at(0.0, 0.0), &all, 60);
    assert_eq!(count(&events, EventType::GpsLost), 1, "{events:?}");
}

#[test]
fn a_ride_is_found_despite_a_gps_accuracy_of_four_metres() {
    let script = [
        (WALK, 30),
        (Act::Stay, 12),
        (Act::Ride { mps: -1.0 }, 12),
        (Act::Stay, 12),
        (WALK, 20),
    ];
    let events = events(
        &script,
        Phone {
            accuracy_m: 4.0,
            ..Phone::ALL
        },
    );
    let rides = of_type(&events, EventType::Elevator);
    assert_eq!(rides.len(), 1, "{events:?}");
    let Metadata::Climb {
        floors, direction, ..
    } = rides[0].metadata
    else {
        panic!("{rides:?}")
    };
    assert_eq!((floors, direction), (Some(4), Direction::Down));
    assert_eq!(
        count(&events, EventType::GpsLost) + count(&events, EventType::GpsDegraded),
        0,
        "{events:?}"
    );
}

#[test]
fn short_slow_hops_between_stops_are_drives() {
    let mut script = vec![(Act::Stay, 30)];
    for _ in 0..3 {
        script.extend([
            (
                Act::Drive {
                    mps: 4.5,
                    climb_mps: 0.0,
                },
                30,
            ),
            (Act::Stay, 10),
            (WALK, 40),
            (Act::Stay, 15),
        ]);
    }
    let events = events(&script, Phone::ALL);
    assert_eq!(count(&events, EventType::Driving), 3, "{events:?}");
}

#[test]
fn a_ride_with_four_halts_is_one_ride() {
    let mut script = vec![(WALK, 30), (Act::Stay, 15)];
    for _ in 0..5 {
        script.extend([(Act::Ride { mps: 1.2 }, 6), (Act::Stay, 12)]);
    }
    script.extend([(Act::Stay, 5), (WALK, 20)]);
    let events = events(&script, Phone::ALL);
    let rides = of_type(&events, EventType::Elevator);
    assert_eq!(rides.len(), 1, "{events:?}");
    let Metadata::Climb { floors, .. } = rides[0].metadata else {
        panic!("{rides:?}")
    };
    assert_eq!(floors, Some(12), "36 m of 3 m storeys");
}

#[test]
fn a_slow_elevator_is_not_a_staircase() {
    let script = [
        (WALK, 30),
        (Act::Stay, 15),
        (Act::Ride { mps: 0.25 }, 30),
        (Act::Stay, 10),
        (WALK, 20),
    ];
    let events = events(&script, Phone::ALL);
    assert_eq!(count(&events, EventType::Stairs), 0, "{events:?}");
    assert_eq!(count(&events, EventType::Elevator), 1, "{events:?}");
}

#[test]
fn a_biased_accelerometer_shows_a_ride_without_a_barometer() {
    let script = [
        (WALK, 30),
        (Act::Stay, 15),
        (Act::Ride { mps: 1.2 }, 20),
        (Act::Stay, 12),
        (WALK, 20),
    ];
    for bias in [-0.3, 0.0, 0.3] {
        let events = events(
            &script,
            // In a cabin the phone does not see the sky.
            Phone {
                location: false,
                pressure: false,
                bias,
                ..Phone::ALL
            },
        );
        let rides = of_type(&events, EventType::Elevator);
        assert_eq!(rides.len(), 1, "bias {bias}: {events:?}");
        let Metadata::Climb {
            floors,
            direction,
            height_cm,
        } = rides[0].metadata
        else {
            panic!("{rides:?}")
        };
        assert_eq!(
            (floors, direction, height_cm),
            (None, Direction::Up, None),
            "the height cannot be measured"
        );
    }
}

#[test]
fn multi_second_arrays_give_the_same_result_as_single_seconds() {
    let script = [(Act::Stay, 20), (WALK, 30), (Act::Stay, 20), (WALK, 20)];
    let single = events(&script, Phone::ALL);
    let in_bursts = events(
        &script,
        Phone {
            imu_sec: 10,
            ..Phone::ALL
        },
    );
    assert_eq!(single, in_bursts);
    assert_eq!(count(&single, EventType::Walking), 2, "{single:?}");
}

#[test]
fn each_kind_alone_finds_its_events() {
    let script = [(Act::Stay, 30), (WALK, 40), (Act::Stay, 40), (WALK, 40)];
    let none = Phone {
        location: false,
        pressure: false,
        imu: false,
        steps: false,
        ..Phone::ALL
    };
    for phone in [
        Phone { imu: true, ..none },
        Phone {
            steps: true,
            ..none
        },
        Phone {
            location: true,
            ..none
        },
    ] {
        let events = events(&script, phone);
        assert_eq!(
            count(&events, EventType::Walking),
            2,
            "{phone:?} {events:?}"
        );
        assert!(
            count(&events, EventType::Stopped) >= 1,
            "{phone:?} {events:?}"
        );
    }
    let events = events(
        &script,
        Phone {
            pressure: true,
            ..none
        },
    );
    assert!(
        events.is_empty(),
        "pressure alone shows neither walking nor staying: {events:?}"
    );
}

#[test]
fn a_silence_ends_open_events_and_is_not_gps_lost() {
    let mut all = samples(&[(WALK, 200)], Phone::ALL, 4);
    all.retain(|owned| !(60_000..120_000).contains(&owned.sample().t_ms()));
    let events = events_of(&context_at(0.0, 0.0), &all, 60);
    let walks = of_type(&events, EventType::Walking);
    assert_eq!(walks.len(), 2, "{events:?}");
    assert!(
        walks[0].t_end_ms.unwrap().abs_diff(60_000) <= 1_000,
        "{walks:?}"
    );
    assert!(walks[1].t_start_ms.abs_diff(120_000) <= 2_000, "{walks:?}");
    assert_eq!(count(&events, EventType::GpsLost), 0, "{events:?}");
}

#[test]
fn retracing_a_path_except_to_the_vehicle_is_backtracking() {
    let out = Act::Walk { heading_deg: 0.0 };
    let back = Act::Walk { heading_deg: 180.0 };
    let wrong_way = [
        (Act::Stay, 20),
        (out, 50),
        (back, 40),
        (Act::Walk { heading_deg: 90.0 }, 40),
        (Act::Stay, 20),
    ];
    let found = events_of(
        &context_at(60.0, 10.0),
        &samples(&wrong_way, Phone::ALL, 2),
        60,
    );
    let backs = of_type(&found, EventType::Backtracking);
    assert_eq!(backs.len(), 1, "{found:?}");
    let Metadata::Backtracking { retraced_m } = backs[0].metadata else {
        panic!("{backs:?}")
    };
    assert!(
        (35..=60).contains(&retraced_m),
        "52 m were retraced: {retraced_m}"
    );

    let delivery = [
        (Act::Stay, 20),
        (out, 50),
        (Act::Stay, 30),
        (back, 50),
        (Act::Stay, 20),
    ];
    let found = events_of(
        &context_at(0.0, 65.0),
        &samples(&delivery, Phone::ALL, 2),
        60,
    );
    assert_eq!(count(&found, EventType::Backtracking), 0, "{found:?}");
}

#[test]
fn a_known_gate_is_found_and_a_turn_at_the_door_is_not_a_gate() {
    let mut context = context_at(0.0, 90.0);
    context.gates.push(porchlight_core::geo::Place {
        east_m: 0.0,
        north_m: -38.0,
    });
    let out = Act::Walk { heading_deg: 0.0 };
    let script = [
        (Act::Stay, 20),
        (out, 40),
        (Act::Stay, 12),
        (out, 30),
        (Act::Stay, 25),
        (Act::Walk { heading_deg: 180.0 }, 60),
    ];
    let events = events_of(&context, &samples(&script, Phone::ALL, 6), 60);
    let gates = of_type(&events, EventType::Gate);
    assert_eq!(gates.len(), 1, "{events:?}");
    assert!(gates[0].t_start_ms.abs_diff(60_000) <= 2_000, "{gates:?}");
    let Metadata::Gate { wait_sec } = gates[0].metadata else {
        panic!("{gates:?}")
    };
    assert!((10..=14).contains(&wait_sec), "{wait_sec}");
}
