//! Tests elevator rides that hardly differ from rest, and drives that look like a ride.

use porchlight_schema::event::{Direction, Event, EventType, Metadata};
use porchlight_schema::sample::{Motion, Sample};

use super::signals::{Act, Noise, Owned, Phone, context_at, events_of, of_type, samples};

/// A phone that measures nothing about the body.
const NO_BODY: Phone = Phone {
    imu: false,
    steps: false,
    ..Phone::ALL
};

const WALK: Act = Act::Walk { heading_deg: 0.0 };

/// Removes the fixes in these seconds.
fn without_fixes(all: &mut Vec<Owned>, seconds: std::ops::Range<u32>) {
    all.retain(|owned| {
        let sample = owned.sample();
        !matches!(sample, Sample::Location(_)) || !seconds.contains(&(sample.t_ms() / 1_000))
    });
}

/// Returns the only ride, with its direction and height in metres.
fn only_ride(events: &[Event]) -> (Event, Direction, f32) {
    let [ride] = of_type(events, EventType::Elevator)[..] else {
        unreachable!("one ride: {events:?}")
    };
    let Metadata::Climb {
        direction,
        height_cm: Some(height_cm),
        ..
    } = ride.metadata
    else {
        unreachable!("with a height: {ride:?}")
    };
    (ride, direction, height_cm as f32 / 100.0)
}

/// The courier walks straight into a waiting cabin and rides up 14 m at 1 m/s. The phone sends only
/// fixes and pressure. Its last fix before the cabin shows the speed of the walk, and the next one
/// comes after the way back from it. No vehicle climbs 1 m per second at the speed of a walk.
#[test]
fn a_ride_behind_the_last_fix_of_a_walk_is_a_ride() {
    let script = [
        (WALK, 60),
        (Act::Stay, 4),
        (Act::Ride { mps: 1.0 }, 14),
        (Act::Stay, 30),
        (WALK, 40),
    ];
    for seed in 1..6 {
        let mut all = samples(&script, NO_BODY, seed);
        without_fixes(&mut all, 60..98);
        let events = events_of(&context_at(0.0, 80.0), &all, 60);
        let (ride, direction, height_m) = only_ride(&events);
        assert!(ride.t_start_ms.abs_diff(64_000) <= 3_000, "{events:?}");
        assert!(
            direction == Direction::Up && (height_m - 14.0).abs() < 1.0,
            "{events:?}"
        );
    }
}

/// An elevator takes the courier up by one floor: 0.5 m/s² up to 0.63 m/s, and 3 m in 6 s. The
/// phone has every sensor. It is a ride, not a part of the wait before it, and the wait is not a
/// gate.
#[test]
fn a_ride_by_one_floor_is_a_ride() {
    let ride = [
        (Act::Ride { mps: 0.25 }, 1),
        (Act::Ride { mps: 0.63 }, 4),
        (Act::Ride { mps: 0.25 }, 1),
    ];
    let mut script = vec![(Act::Stay, 20), (WALK, 40), (Act::Stay, 20)];
    script.extend(ride);
    script.extend([(Act::Stay, 3), (WALK, 15), (Act::Stay, 30)]);
    for seed in 1..11 {
        let mut all = samples(&script, Phone::ALL, seed);
        // A barometer with 0.2 m of noise.
        let mut noise = Noise::new(seed);
        for owned in &mut all {
            if let Owned::Plain(Sample::Pressure(pressure)) = owned {
                pressure.hpa += 0.04 * noise.next() as f32;
            }
        }
        let events = events_of(&context_at(0.0, 75.0), &all, 60);
        let (ride, direction, height_m) = only_ride(&events);
        assert!(ride.t_start_ms.abs_diff(80_000) <= 3_000, "{events:?}");
        assert!(
            direction == Direction::Up && (height_m - 3.0).abs() < 0.6,
            "{events:?}"
        );
        assert!(of_type(&events, EventType::Gate).is_empty(), "{events:?}");
    }
}

/// An express elevator takes the courier up 140 m at 6 m/s. No second is a leap of a restarted
/// sensor.
#[test]
fn an_express_elevator_keeps_its_height() {
    let mut script = vec![(WALK, 40), (Act::Stay, 15)];
    script.extend([1.0, 2.2, 3.3, 4.4, 5.5].map(|mps| (Act::Ride { mps }, 1)));
    script.push((Act::Ride { mps: 6.1 }, 18));
    script.extend([5.5, 4.4, 3.3, 2.2, 1.0].map(|mps| (Act::Ride { mps }, 1)));
    script.extend([(Act::Stay, 10), (WALK, 20)]);
    for seed in 1..6 {
        let all = samples(&script, Phone::ALL, seed);
        let events = events_of(&context_at(0.0, 50.0), &all, 60);
        let (_, _, height_m) = only_ride(&events);
        assert!((height_m - 142.6).abs() < 3.0, "{events:?}");
    }
}

/// A phone without a barometer loses two seconds of acceleration while the cabin coasts, far from
/// its two pushes. The cabin keeps its speed.
#[test]
fn a_ride_continues_through_a_gap_in_the_acceleration() {
    let phone = Phone {
        pressure: false,
        location: false,
        steps: false,
        ..Phone::ALL
    };
    let mut script = vec![(WALK, 40), (Act::Stay, 15)];
    script.extend([(Act::Ride { mps: 0.5 }, 1), (Act::Ride { mps: 1.0 }, 12)]);
    script.extend([(Act::Ride { mps: 0.5 }, 1), (Act::Stay, 20), (WALK, 20)]);
    for seed in 1..6 {
        let mut all = samples(&script, phone, seed);
        all.retain(|owned| !(60_000..62_000).contains(&owned.sample().t_ms()));
        let events = events_of(&context_at(0.0, 50.0), &all, 60);
        let [ride] = of_type(&events, EventType::Elevator)[..] else {
            unreachable!("one ride: {events:?}")
        };
        let end_ms = ride.t_end_ms.unwrap_or(ride.t_start_ms);
        assert!(
            ride.t_start_ms.abs_diff(55_000) <= 2_000 && end_ms.abs_diff(69_000) <= 3_000,
            "{events:?}"
        );
    }
}

/// The receiver reports neither accuracy nor speed, and its fixes stray by 16 m within the building
/// while the courier rides up at 2 m/s. No vehicle climbs that fast at 4 m/s.
#[test]
fn fixes_that_stray_without_an_accuracy_hide_no_ride() {
    let script = [
        (WALK, 60),
        (Act::Stay, 15),
        (Act::Ride { mps: 2.0 }, 15),
        (Act::Stay, 30),
    ];
    for seed in 1..6 {
        let mut all = samples(&script, NO_BODY, seed);
        for owned in &mut all {
            if let Owned::Plain(Sample::Location(fix)) = owned {
                (fix.accuracy_m, fix.speed_mps) = (None, None);
                let second = fix.t_ms / 1_000;
                if (75..90).contains(&second) && second / 5 % 2 == 0 {
                    fix.lat += 16.0 / 111_195.0;
                }
            }
        }
        let events = events_of(&context_at(0.0, 80.0), &all, 60);
        let (ride, direction, height_m) = only_ride(&events);
        assert!(ride.t_start_ms.abs_diff(75_000) <= 4_000, "{events:?}");
        assert!(
            direction == Direction::Up && (height_m - 30.0).abs() < 3.0,
            "{events:?}"
        );
    }
}

/// Returns the samples of a phone that reports only its mean acceleration: a walk, a rest with
/// these accelerations up or down in its seconds, m/s², another rest and a walk.
fn walk_and_rest(pushes: &[f32]) -> Vec<Owned> {
    let walk = std::iter::repeat_n((0.0, 2.0, 1.8), 30);
    let rest = |seconds: usize| std::iter::repeat_n((0.0, 0.05, 0.0), seconds);
    let pushed = pushes
        .iter()
        .map(|&push| (push, 0.05 + push.abs() / 3.0, 0.0));
    let seconds = walk
        .clone()
        .chain(rest(15))
        .chain(pushed)
        .chain(rest(15))
        .chain(walk);
    (0..)
        .zip(seconds)
        .map(|(second, (push, accel_std, cadence_hz))| {
            Owned::Plain(Sample::Motion(Motion {
                t_ms: second * 1_000,
                accel_mean: 9.81 + push,
                accel_std,
                vertical_mean: None,
                cadence_hz: Some(cadence_hz),
                yaw_rad: None,
            }))
        })
        .collect()
}

/// A courier without a barometer raises the phone to type, and takes another grip later, which
/// shows another acceleration at rest. An elevator starts and brakes with pushes of the same
/// strength.
#[test]
fn a_phone_that_is_raised_and_gripped_anew_rides_no_elevator() {
    let coast = [0.0; 14];
    let rides = |first: &[f32], last: &[f32]| {
        let samples = walk_and_rest(&[first, &coast, last].concat());
        let events = events_of(&context_at(0.0, 50.0), &samples, 60);
        of_type(&events, EventType::Elevator).len()
    };
    assert_eq!(rides(&[0.25, 0.45], &[-0.12; 6]), 0, "a grip");
    assert_eq!(rides(&[0.1; 6], &[-0.6]), 0, "a grip that is released");
    // The two pushes of a cabin at 0.7 m/s, wherever the seconds begin, and one that brakes softly.
    for (first, last) in [
        (&[0.25, 0.45][..], &[-0.45, -0.25][..]),
        (&[0.05, 0.6, 0.05], &[-0.35, -0.35]),
        (&[0.35, 0.35], &[-0.05, -0.6, -0.05]),
        (&[0.35, 0.35], &[-0.2, -0.25, -0.2]),
    ] {
        assert_eq!(rides(first, last), 1, "{first:?}, {last:?}");
    }
}
