//! Tests stairs in real conditions: effects that hide them, and motion that only looks like them.

use porchlight_schema::event::{Direction, Event, EventType, Metadata};
use porchlight_schema::sample::{Location, Sample};

use super::signals::{Act, Noise, Owned, Phone, context_at, events_of, of_type, samples};

const WALK: Act = Act::Walk { heading_deg: 0.0 };

/// Returns the start of each staircase in seconds, its floors, and its direction.
fn staircases(events: &[Event]) -> Vec<(u32, Option<u16>, Option<Direction>)> {
    let stairs = of_type(events, EventType::Stairs);
    let described = |one: &Event| match one.metadata {
        Metadata::Climb {
            floors, direction, ..
        } => (one.t_start_ms / 1_000, floors, Some(direction)),
        _ => (one.t_start_ms / 1_000, None, None),
    };
    stairs.iter().map(described).collect()
}

/// Makes the platform mistake stations for satellites from `from_ms` on: no speed, a small
/// accuracy, and another place every few seconds.
fn behind_a_door(samples: &mut [Owned], from_ms: u32) {
    for owned in samples {
        let Owned::Plain(Sample::Location(fix)) = owned else {
            continue;
        };
        if fix.t_ms >= from_ms {
            let place = f64::from(fix.t_ms / 4_000 % 3);
            *fix = Location {
                lat: fix.lat + place * 0.000_15,
                lng: fix.lng - place * 0.000_2,
                accuracy_m: Some(4.0),
                speed_mps: None,
                ..*fix
            };
        }
    }
}

#[test]
fn jumping_fixes_behind_a_door_do_not_hide_a_staircase() {
    let mut script = vec![(Act::Stay, 20), (WALK, 40)];
    for _ in 0..4 {
        script.push((
            Act::Stairs {
                mps: 0.26,
                heading_deg: 0.0,
            },
            6,
        ));
        script.push((Act::Walk { heading_deg: 90.0 }, 2));
    }
    script.extend([(WALK, 10), (Act::Stay, 20)]);
    let mut all = samples(&script, Phone::ALL, 11);
    behind_a_door(&mut all, 56_000);
    let events = events_of(&context_at(0.0, 0.0), &all, 60);
    let [(begun_sec, floors, direction)] = staircases(&events)[..] else {
        unreachable!("one staircase: {events:?}")
    };
    assert_eq!((floors, direction), (Some(2), Some(Direction::Up)));
    assert!(begun_sec.abs_diff(60) <= 3, "{events:?}");
    assert_eq!(of_type(&events, EventType::Backtracking), [], "{events:?}");
    let drives = of_type(&events, EventType::Driving);
    assert!(
        drives.iter().all(|drive| drive.t_start_ms >= 100_000),
        "a gait excludes a vehicle: {events:?}"
    );
}

/// The courier climbs three floors, lays the parcel down in two seconds, and goes back down.
#[test]
fn stairs_up_end_where_the_courier_turns_and_goes_down() {
    let stairs = |mps| Act::Stairs {
        mps,
        heading_deg: 0.0,
    };
    for pause_sec in [0, 2, 4] {
        let script = [
            (Act::Stay, 20),
            (WALK, 20),
            (stairs(0.3), 30),
            (Act::Stay, pause_sec),
            (stairs(-0.3), 30),
            (WALK, 20),
            (Act::Stay, 20),
        ];
        for seed in 1..=8 {
            let all = samples(&script, Phone::ALL, seed);
            let events = events_of(&context_at(0.0, 0.0), &all, 60);
            let [up, down] = staircases(&events)[..] else {
                unreachable!("{pause_sec} s, seed {seed}: {events:?}")
            };
            assert_eq!((up.1, up.2), (Some(3), Some(Direction::Up)), "{events:?}");
            assert_eq!(
                (down.1, down.2),
                (Some(3), Some(Direction::Down)),
                "{events:?}"
            );
            let turn_sec = 70 + pause_sec;
            assert!(down.0.abs_diff(turn_sec) <= 4, "seed {seed}: {events:?}");
        }
    }
}

#[test]
fn a_steep_street_with_known_speed_is_not_a_staircase() {
    // 1.3 m/s at 0.2 m/s up: a street of 15 %.
    let script = [(Act::Stay, 20), (WALK, 20), (WALK, 40), (WALK, 20)];
    let mut all = samples(&script, Phone::ALL, 12);
    for owned in &mut all {
        if let Owned::Plain(Sample::Pressure(pressure)) = owned {
            let climbed_ms = pressure.t_ms.clamp(40_000, 80_000) - 40_000;
            pressure.hpa *= libm::expf(-0.2 * climbed_ms as f32 / 1_000.0 / 8_434.0);
        }
    }
    let events = events_of(&context_at(0.0, 0.0), &all, 60);
    assert_eq!(of_type(&events, EventType::Stairs), [], "{events:?}");
    assert_eq!(of_type(&events, EventType::Elevator), [], "{events:?}");
}

#[test]
fn slowly_climbed_flights_are_a_staircase() {
    let flight = |mps| Act::Stairs {
        mps,
        heading_deg: 0.0,
    };
    let script = [
        (Act::Stay, 20),
        (WALK, 15),
        (flight(-0.21), 8),
        (Act::Walk { heading_deg: 90.0 }, 6),
        (flight(-0.21), 8),
        (WALK, 15),
        (Act::Stay, 15),
    ];
    let phone = Phone {
        location: false,
        steps: false,
        ..Phone::ALL
    };
    let events = events_of(&context_at(0.0, 0.0), &samples(&script, phone, 13), 60);
    let [(begun_sec, floors, direction)] = staircases(&events)[..] else {
        unreachable!("one staircase: {events:?}")
    };
    assert_eq!((floors, direction), (Some(1), Some(Direction::Down)));
    assert!(begun_sec.abs_diff(35) <= 3, "{events:?}");
}

/// A phone without a barometer is carried up stairs. Behind the wall its fixes claim 18 m, three
/// times as much as in the street, and wander forth and back by more: no way was retraced.
#[test]
fn fixes_that_wander_behind_a_wall_retrace_no_path() {
    let script = [
        (Act::Stay, 120),
        (WALK, 50),
        (Act::Walk { heading_deg: 180.0 }, 40),
        (Act::Walk { heading_deg: 90.0 }, 40),
        (Act::Stay, 20),
    ];
    let phone = Phone {
        pressure: false,
        ..Phone::ALL
    };
    let found = |is_indoors: bool| {
        let mut all = samples(&script, phone, 2);
        for owned in &mut all {
            if let Owned::Plain(Sample::Location(fix)) = owned
                && is_indoors
                && fix.t_ms >= 140_000
            {
                fix.accuracy_m = Some(18.0);
            }
        }
        let events = events_of(&context_at(60.0, 10.0), &all, 60);
        of_type(&events, EventType::Backtracking).len()
    };
    assert_eq!((found(false), found(true)), (1, 0));
}

/// Removes the speeds of all fixes, and makes the places wander from `wander_ms` on as behind
/// walls. They wander slowly, by 14 m in each axis with a memory of 25 s, while the platform claims
/// an accuracy of 4 m.
fn wander_without_a_speed(samples: &mut [Owned], wander_ms: std::ops::Range<u32>, seed: u64) {
    const METRE_DEG: f64 = 1.0 / 111_195.0;
    let keep = libm::exp(-1.0 / 25.0);
    // The noise is even between -1 and 1, with a deviation of 0.58.
    let step_m = 14.0 * (1.0 - keep * keep).sqrt() / 0.58;
    let mut noise = Noise::new(seed);
    let (mut east_m, mut north_m) = (0.0, 0.0);
    for owned in samples {
        let Owned::Plain(Sample::Location(fix)) = owned else {
            continue;
        };
        (fix.speed_mps, fix.accuracy_m) = (None, Some(4.0));
        if wander_ms.contains(&fix.t_ms) {
            east_m = keep * east_m + step_m * noise.next();
            north_m = keep * north_m + step_m * noise.next();
            fix.lat += north_m * METRE_DEG;
            fix.lng += east_m * METRE_DEG * 1.62;
        }
    }
}

/// The phone reports no speed. The courier rings and waits at the entrance. On the stairs the fixes
/// wander within seconds as fast as a walk, and come back, while each storey takes two flights and
/// two turns.
#[test]
fn fixes_without_a_speed_that_wander_behind_walls_do_not_hide_a_staircase() {
    let mut script = vec![(Act::Stay, 20), (WALK, 40), (Act::Stay, 20)];
    for _ in 0..4 {
        for heading_deg in [0.0, 180.0] {
            script.push((
                Act::Stairs {
                    mps: 0.28,
                    heading_deg,
                },
                6,
            ));
            script.push((Act::Walk { heading_deg: 90.0 }, 1));
        }
    }
    script.extend([(WALK, 20), (Act::Stay, 20)]);
    // Some places wander in one direction for as long as a walk would.
    let is_whole = |seed: &u64| {
        let mut all = samples(&script, Phone::ALL, *seed);
        wander_without_a_speed(&mut all, 80_000..156_000, *seed);
        let events = events_of(&context_at(0.0, 0.0), &all, 60);
        matches!(
            staircases(&events)[..],
            [(76..=84, Some(4..), Some(Direction::Up))]
        )
    };
    let whole = (1..=40).filter(is_whole).count();
    assert!(whole >= 28, "{whole} of 40 staircases are whole");
}

/// The phone reports no speed. The courier walks along a street of 12 % at 1.3 m/s, and the way
/// between its fixes leads on.
#[test]
fn a_steep_street_without_a_speed_is_not_a_staircase() {
    let script = [(Act::Stay, 20), (WALK, 100), (Act::Stay, 20)];
    for seed in 1..=12 {
        let mut all = samples(&script, Phone::ALL, seed);
        wander_without_a_speed(&mut all, 0..0, seed);
        for owned in &mut all {
            if let Owned::Plain(Sample::Pressure(pressure)) = owned {
                let climbed_ms = pressure.t_ms.clamp(50_000, 100_000) - 50_000;
                pressure.hpa *= libm::expf(-0.156 * climbed_ms as f32 / 1_000.0 / 8_434.0);
            }
        }
        let events = events_of(&context_at(0.0, 0.0), &all, 60);
        assert_eq!(of_type(&events, EventType::Stairs), [], "seed {seed}");
    }
}
