//! Tests how a mode appears on a phone without the sensor that would show it best, and other motion
//! that appears the same.

#![expect(
    clippy::disallowed_methods,
    reason = "test signals need no bit-for-bit determinism across platforms"
)]

use porchlight_schema::event::{Direction, Event, EventType, Metadata};
use porchlight_schema::sample::Sample;

use super::signals::{Act, IMU_HZ, Noise, Owned, Phone, context_at, events_of, of_type, samples};

const WALK: Act = Act::Walk { heading_deg: 0.0 };

const BODY_ALONE: Phone = Phone {
    location: false,
    pressure: false,
    steps: false,
    ..Phone::ALL
};

fn events(samples: &[Owned]) -> Vec<Event> {
    events_of(&context_at(0.0, 0.0), samples, 60)
}

fn count(events: &[Event], event_type: EventType) -> usize {
    of_type(events, event_type).len()
}

/// Simulates a walk with the phone in the trouser pocket: each step is a sharp impact, and the
/// thigh swings the phone by `swing_mps2` once per stride. In the hand no impact is sharp.
fn gait(seconds: u32, swing_mps2: f64, is_in_pocket: bool) -> Vec<Owned> {
    let mut noise = Noise::new(3);
    let mut out = Vec::new();
    let cadence_hz = 1.8;
    for second in 0..seconds {
        let mut accel: [Vec<f32>; 3] = Default::default();
        for place in 0..IMU_HZ {
            let t = f64::from(second) + place as f64 / IMU_HZ as f64;
            let phase = std::f64::consts::TAU * cadence_hz * t;
            let after = |share: f64| (-15.0 * (cadence_hz * t - share).rem_euclid(1.0)).exp();
            let impact = if is_in_pocket {
                20.0 * after(0.0) - 10.0 * after(0.15)
            } else {
                0.0
            };
            let swing = swing_mps2 * (phase / 2.0).sin();
            let norm = 9.81 + 2.5 * phase.sin() + impact + swing + 0.3 * noise.next();
            accel[0].push((norm * 0.6) as f32);
            accel[1].push((0.4 * noise.next()) as f32);
            accel[2].push((norm * 0.8) as f32);
        }
        out.push(Owned::Imu {
            t_ms: second * 1_000,
            accel,
        });
    }
    out
}

#[test]
fn a_thigh_that_swings_high_climbs_stairs() {
    let climb = events(&gait(60, 3.0, true));
    let stairs = of_type(&climb, EventType::Stairs);
    assert_eq!(stairs.len(), 1, "{climb:?}");
    let Metadata::Climb {
        floors,
        direction,
        height_cm,
    } = stairs[0].metadata
    else {
        unreachable!("stairs have a direction");
    };
    assert_eq!(
        (floors, direction, height_cm),
        (None, Direction::Up, None),
        "the height is unknown"
    );
    assert!(
        stairs[0].confidence.as_probability() < 0.7,
        "the confidence is low"
    );
}

#[test]
fn a_level_walk_in_pocket_or_swinging_hand_is_not_stairs() {
    for (swing_mps2, is_in_pocket) in [(0.5, true), (0.0, true), (2.2, false), (0.0, false)] {
        let events = events(&gait(60, swing_mps2, is_in_pocket));
        assert_eq!(
            count(&events, EventType::Stairs),
            0,
            "{swing_mps2} {events:?}"
        );
        assert_eq!(
            count(&events, EventType::Walking),
            1,
            "{swing_mps2} {events:?}"
        );
    }
}

#[test]
fn sitting_in_a_vehicle_before_the_first_fix_is_not_a_stop() {
    let drive = Act::Drive {
        mps: 9.0,
        climb_mps: 0.0,
    };
    for first_fix_sec in [1, 10, 20, 25] {
        let mut samples = samples(&[(drive, 90), (Act::Stay, 20), (WALK, 30)], Phone::ALL, 7);
        samples.retain(|owned| match owned.sample() {
            Sample::Location(location) => location.t_ms >= first_fix_sec * 1_000,
            _ => true,
        });
        let events = events(&samples);
        let driving = of_type(&events, EventType::Driving);
        assert_eq!(driving.len(), 1, "{events:?}");
        assert_eq!(driving[0].t_start_ms, 0, "{first_fix_sec} {events:?}");
    }
}

#[test]
fn standing_still_before_the_first_fix_is_a_stop() {
    let mut samples = samples(&[(Act::Stay, 60), (WALK, 30)], Phone::ALL, 7);
    samples.retain(|owned| match owned.sample() {
        Sample::Location(location) => location.t_ms >= 20_000,
        _ => true,
    });
    let events = events(&samples);
    assert_eq!(count(&events, EventType::Driving), 0, "{events:?}");
    assert_eq!(of_type(&events, EventType::Stopped)[0].t_start_ms, 0);
}

/// Simulates a courier who stands, puts the phone into the trouser pocket with a few knocks, and
/// goes on standing.
fn pocketed(from_sec: u32, knocks_sec: u32, seconds: u32) -> Vec<Owned> {
    let mut noise = Noise::new(5);
    let mut out = gait(from_sec + knocks_sec, 3.0, true);
    for second in (0..from_sec).chain(from_sec + knocks_sec..seconds) {
        let mut accel: [Vec<f32>; 3] = Default::default();
        for _ in 0..IMU_HZ {
            let norm = 9.81 + 0.02 * noise.next();
            accel[0].push((norm * 0.6) as f32);
            accel[1].push(0.0);
            accel[2].push((norm * 0.8) as f32);
        }
        let rest = Owned::Imu {
            t_ms: second * 1_000,
            accel,
        };
        match out.get_mut(second as usize) {
            Some(gait) => *gait = rest,
            None => out.push(rest),
        }
    }
    out
}

/// Without a fix and a barometer, the knocks look like a stride on stairs, which neither a standing
/// nor a driven courier takes.
#[test]
fn a_phone_that_is_put_into_a_pocket_before_the_first_fix_hides_no_stay() {
    for knocks_sec in [2, 3] {
        for from_sec in [0, 4, 8] {
            let events = events(&pocketed(from_sec, knocks_sec, 60));
            let stays = of_type(&events, EventType::Stopped);
            assert!(
                stays
                    .last()
                    .is_some_and(|stay| { stay.t_start_ms <= (from_sec + knocks_sec + 1) * 1_000 }),
                "{from_sec} {knocks_sec} {events:?}"
            );
        }
    }
}

#[test]
fn a_cabin_that_starts_immediately_is_detected() {
    // One storey: three seconds up at 1.1 m/s, with an immediate push and no second to settle in.
    for wait_sec in [2, 3, 6, 20] {
        let script = [
            (WALK, 40),
            (Act::Stay, wait_sec),
            (Act::Ride { mps: 1.1 }, 3),
            (Act::Stay, 12),
            (WALK, 20),
        ];
        let events = events(&samples(&script, BODY_ALONE, 7));
        let rides = of_type(&events, EventType::Elevator);
        assert_eq!(rides.len(), 1, "{wait_sec} {events:?}");
        assert!(
            matches!(
                rides[0].metadata,
                Metadata::Climb {
                    direction: Direction::Up,
                    ..
                }
            ),
            "{events:?}"
        );
    }
}

#[test]
fn a_wait_cut_short_by_the_ride_is_not_a_stop() {
    let script = [
        (WALK, 40),
        (Act::Stay, 4),
        (Act::Ride { mps: 1.0 }, 20),
        (Act::Stay, 2),
        (WALK, 20),
    ];
    let events = events(&samples(&script, BODY_ALONE, 7));
    assert_eq!(count(&events, EventType::Elevator), 1, "{events:?}");
    assert_eq!(count(&events, EventType::Stopped), 0, "{events:?}");
}

#[test]
fn two_pushes_without_a_walk_are_a_road() {
    let script = [
        (Act::Stay, 30),
        (Act::Ride { mps: 1.0 }, 10),
        (Act::Stay, 60),
    ];
    let events = events(&samples(&script, BODY_ALONE, 7));
    assert_eq!(count(&events, EventType::Elevator), 0, "{events:?}");
}

#[test]
fn a_jumping_fix_is_not_a_drive() {
    let script = [(Act::Stay, 30), (WALK, 120), (Act::Stay, 30)];
    let mut samples = samples(&script, Phone::ALL, 7);
    for owned in &mut samples {
        if let Owned::Plain(Sample::Location(location)) = owned {
            location.speed_mps = None;
            // 900 m away for two seconds, like the position of a wrongly mapped station.
            if (80_000..82_000).contains(&location.t_ms) {
                location.lat += 0.008;
            }
        }
    }
    let events = events(&samples);
    assert_eq!(count(&events, EventType::Driving), 0, "{events:?}");
    assert_eq!(count(&events, EventType::Walking), 1, "{events:?}");
}

#[test]
fn a_late_step_counter_does_not_hide_a_pause() {
    let script = [(WALK, 40), (Act::Stay, 9), (WALK, 40)];
    let mut samples = samples(&script, Phone::ALL, 7);
    for owned in &mut samples {
        if let Owned::Plain(Sample::Steps(steps)) = owned {
            // The phone reports the last steps one by one for 8 s after they were made.
            if (40_000..48_000).contains(&steps.t_ms) {
                steps.count -= (48_000 - steps.t_ms) / 1_000;
            }
        }
    }
    let events = events(&samples);
    assert_eq!(count(&events, EventType::Stopped), 1, "{events:?}");
    assert_eq!(count(&events, EventType::Walking), 2, "{events:?}");
}

const SKY: Phone = Phone {
    imu: false,
    steps: false,
    ..Phone::ALL
};

#[test]
fn wind_outdoors_is_not_an_elevator() {
    let script = [
        (Act::Stay, 60),
        (Act::Ride { mps: 0.6 }, 8),
        (Act::Stay, 60),
    ];
    let under_sky = events(&samples(&script, SKY, 7));
    assert_eq!(count(&under_sky, EventType::Elevator), 0, "{under_sky:?}");
    let inside = Phone {
        accuracy_m: 80.0,
        ..SKY
    };
    let events = events(&samples(&script, inside, 7));
    assert_eq!(count(&events, EventType::Elevator), 1, "{events:?}");
}

#[test]
fn a_ride_that_halts_and_creeps_on_is_one_ride() {
    let ride = |mps| Act::Ride { mps };
    let script = [
        (Act::Stay, 60),
        (ride(1.2), 8),
        (Act::Stay, 9),
        (ride(0.5), 6),
        (Act::Stay, 8),
        (ride(1.5), 9),
        (Act::Stay, 60),
    ];
    let phone = Phone {
        accuracy_m: 120.0,
        ..SKY
    };
    let events = events(&samples(&script, phone, 7));
    assert_eq!(count(&events, EventType::Elevator), 1, "{events:?}");
}

#[test]
fn a_ride_that_begins_while_the_barometer_is_silent_has_its_height() {
    let script = [
        (Act::Stay, 60),
        (Act::Ride { mps: 1.2 }, 10),
        (Act::Stay, 40),
    ];
    let phone = Phone {
        accuracy_m: 120.0,
        ..SKY
    };
    let mut samples = samples(&script, phone, 7);
    samples.retain(|owned| match owned.sample() {
        Sample::Pressure(pressure) => !(56_000..62_000).contains(&pressure.t_ms),
        _ => true,
    });
    let events = events(&samples);
    assert_eq!(count(&events, EventType::Elevator), 1, "{events:?}");
}

#[test]
fn a_ride_up_and_a_ride_down_are_two_rides() {
    let stairs = |mps| Act::Stairs {
        mps,
        heading_deg: 0.0,
    };
    let script = [
        (WALK, 40),
        (stairs(0.3), 30),
        (WALK, 4),
        (Act::Stay, 7),
        (WALK, 4),
        (stairs(-0.3), 30),
        (WALK, 30),
    ];
    let events = events(&samples(&script, Phone::ALL, 7));
    assert_eq!(count(&events, EventType::Stairs), 2, "{events:?}");
}

#[test]
fn a_traffic_queue_is_a_halt_of_the_drive() {
    // No motion sensors and one fix per second: creeping, sometimes faster than walking, sometimes
    // hardly moving.
    let drive = |mps| {
        (
            Act::Drive {
                mps,
                climb_mps: 0.0,
            },
            4,
        )
    };
    let mut script = vec![
        (Act::Stay, 20),
        drive(12.0),
        drive(12.0),
        drive(12.0),
        drive(12.0),
    ];
    for _ in 0..6 {
        script.extend([
            drive(1.9),
            drive(0.5),
            drive(3.2),
            drive(1.8),
            (Act::Stay, 6),
        ]);
    }
    script.extend([drive(12.0), drive(12.0), drive(12.0)]);
    let events = events(&samples(&script, SKY, 7));
    assert_eq!(count(&events, EventType::Driving), 1, "{events:?}");
}

/// Behind a door fixes drift away at a vehicle's speed for ten seconds, while the body continues to
/// walk.
#[test]
fn a_short_drive_during_a_gait_is_a_position_jump() {
    let mut all = samples(&[(Act::Stay, 20), (WALK, 100)], Phone::ALL, 9);
    for owned in &mut all {
        if let Owned::Plain(Sample::Location(location)) = owned
            && (60_000..72_000).contains(&location.t_ms)
        {
            location.lat += f64::from(location.t_ms - 60_000) * 6.0 / 1_000.0 / 111_195.0;
            location.speed_mps = Some(6.0);
        }
    }
    let found = events_of(&context_at(0.0, 100.0), &all, 60);
    assert_eq!(of_type(&found, EventType::Driving), [], "{found:?}");
    assert!(!of_type(&found, EventType::Walking).is_empty(), "{found:?}");
}

/// Between high buildings the position is off by 90 m, but the receiver still measures its speed.
#[test]
fn a_drive_with_poor_positions_shows_in_the_speed() {
    let phone = Phone {
        accuracy_m: 90.0,
        pressure: false,
        imu: false,
        steps: false,
        ..Phone::ALL
    };
    let drive = Act::Drive {
        mps: 11.0,
        climb_mps: 0.0,
    };
    let script = [(Act::Stay, 30), (drive, 60), (Act::Stay, 30)];
    let events = events_of(&context_at(660.0, 0.0), &samples(&script, phone, 3), 60);
    let drives = of_type(&events, EventType::Driving);
    assert_eq!(drives.len(), 1, "{events:?}");
    assert!(drives[0].t_start_ms.abs_diff(30_000) <= 4_000, "{drives:?}");
}

/// The vehicle creeps through a traffic jam: every 15 s it moves up for 8 s at 2.4 m/s, which is
/// slower than a drive usually is, but faster than a walk. It is one drive, however long the jam
/// lasts.
#[test]
fn a_traffic_jam_belongs_to_the_drive() {
    let drive = |mps| Act::Drive {
        mps,
        climb_mps: 0.0,
    };
    let mut script = vec![(drive(9.0), 40)];
    for _ in 0..12 {
        script.extend([(Act::Stay, 15), (drive(2.4), 8)]);
    }
    script.extend([(drive(9.0), 40), (Act::Stay, 12), (WALK, 30)]);
    let events = events(&samples(&script, Phone::ALL, 5));
    let drives = of_type(&events, EventType::Driving);
    assert_eq!(drives.len(), 1, "{events:?}");
    assert!(
        drives[0].t_end_ms.unwrap().abs_diff(356_000) <= 3_000,
        "{events:?}"
    );
}
