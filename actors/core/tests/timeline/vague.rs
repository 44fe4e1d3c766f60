//! Tests fixes whose accuracy is poor or unknown: between high houses, and fixes of networks.

#![expect(
    clippy::disallowed_methods,
    reason = "test signals need no bit-for-bit determinism across platforms"
)]

use porchlight_schema::event::{Event, EventType};
use porchlight_schema::sample::{Location, Sample};

use super::signals::{Act, Noise, Owned, Phone, context_at, events_of, of_type, samples};

const WALK: Act = Act::Walk { heading_deg: 0.0 };
const DRIVE: Act = Act::Drive {
    mps: 8.0,
    climb_mps: 0.0,
};
const LOCATION_ALONE: Phone = Phone {
    pressure: false,
    imu: false,
    steps: false,
    ..Phone::ALL
};
const METRES_PER_DEGREE: f64 = 111_195.0;

fn change_fixes(all: &mut [Owned], mut change: impl FnMut(&mut Location)) {
    for owned in all {
        if let Owned::Plain(Sample::Location(fix)) = owned {
            change(fix);
        }
    }
}

/// Makes the fixes vague, without a speed. Their error wanders within the claimed accuracy, which
/// is a radius for 68 % of the fixes, and is another one after some 20 s.
fn make_vague(all: &mut [Owned], accuracy_m: f32, seed: u64) {
    let mut noise = Noise::new(seed);
    let kept = (-1.0_f64 / 20.0).exp();
    // The sum of three even numbers between -1 and 1 has a spread of 1.
    let spread_m = f64::from(accuracy_m) / 1.5;
    let (mut north_m, mut east_m) = (0.0, 0.0);
    change_fixes(all, |fix| {
        let mut moved = |error_m: f64| {
            let normal = noise.next() + noise.next() + noise.next();
            kept * error_m + (1.0 - kept * kept).sqrt() * spread_m * normal
        };
        (north_m, east_m) = (moved(north_m), moved(east_m));
        fix.lat += north_m / METRES_PER_DEGREE;
        fix.lng += east_m / METRES_PER_DEGREE / fix.lat.to_radians().cos();
        (fix.accuracy_m, fix.speed_mps) = (Some(accuracy_m), None);
    });
}

/// Returns the seconds of a type of events within a span.
fn seconds_of(events: &[Event], event_type: EventType, (from_ms, to_ms): (u32, u32)) -> u32 {
    let within = of_type(events, event_type).into_iter().map(|event| {
        let end_ms = event.t_end_ms.unwrap_or(event.t_start_ms).min(to_ms);
        end_ms.saturating_sub(event.t_start_ms.max(from_ms))
    });
    within.sum::<u32>() / 1_000
}

/// Android gives the accuracy 0 for a fix that has none.
#[test]
fn an_accuracy_of_zero_is_an_unknown_one() {
    let script = [(Act::Stay, 30), (WALK, 60), (DRIVE, 60), (Act::Stay, 40)];
    for phone in [Phone::ALL, LOCATION_ALONE] {
        let events_with = |accuracy_m: Option<f32>| {
            let mut all = samples(&script, phone, 5);
            change_fixes(&mut all, |fix| fix.accuracy_m = accuracy_m);
            events_of(&context_at(0.0, 80.0), &all, 60)
        };
        assert_eq!(events_with(Some(0.0)), events_with(None));
    }
}

/// Every third fix is one of a network, up to 40 m off and without an accuracy and a speed. The
/// courier walks and stands.
#[test]
fn fixes_without_an_accuracy_among_exact_ones_show_no_vehicle() {
    let script = [(Act::Stay, 40), (WALK, 60), (Act::Stay, 40), (WALK, 40)];
    for accuracy_m in [None, Some(0.0)] {
        for seed in 1..6 {
            let mut all = samples(&script, LOCATION_ALONE, seed);
            let mut noise = Noise::new(seed);
            change_fixes(&mut all, |fix| {
                fix.speed_mps = None;
                if fix.t_ms / 1_000 % 3 == 0 {
                    fix.accuracy_m = accuracy_m;
                    fix.lng += 40.0 * noise.next() / METRES_PER_DEGREE / 0.6;
                }
            });
            let events = events_of(&context_at(0.0, 80.0), &all, 60);
            assert_eq!(of_type(&events, EventType::Driving), [], "{events:?}");
        }
    }
}

/// A courier walks 300 m between high houses with steps that the counter or the acceleration shows.
/// Positions that are good to some tens of metres show no stay and no vehicle.
#[test]
fn a_walk_with_vague_fixes_is_a_walk() {
    let script = [(Act::Stay, 30), (WALK, 220), (Act::Stay, 40)];
    for (imu, steps) in [(true, true), (true, false), (false, true)] {
        let phone = Phone {
            imu,
            steps,
            ..Phone::ALL
        };
        for (accuracy_m, seed) in [(25.0, 1), (30.0, 2), (40.0, 3), (50.0, 4), (50.0, 5)] {
            let mut all = samples(&script, phone, seed);
            make_vague(&mut all, accuracy_m, seed);
            let events = events_of(&context_at(0.0, 320.0), &all, 60);
            let walk = (30_000, 250_000);
            assert!(
                seconds_of(&events, EventType::Walking, walk) >= 200,
                "{imu} {steps} {accuracy_m} m: {events:?}"
            );
            assert_eq!(seconds_of(&events, EventType::Driving, (0, 290_000)), 0);
            assert_eq!(seconds_of(&events, EventType::Stopped, walk) / 8, 0);
        }
    }
}

/// The phone sends nothing but such fixes. They distinguish no walk from a stay, but a walk of 300
/// m is not a series of stays.
#[test]
fn vague_fixes_alone_show_no_stay_on_a_walk() {
    let script = [(Act::Stay, 30), (WALK, 220), (Act::Stay, 40)];
    for (accuracy_m, seed) in [(25.0, 1), (30.0, 2), (40.0, 3), (50.0, 4), (50.0, 5)] {
        let mut all = samples(&script, LOCATION_ALONE, seed);
        make_vague(&mut all, accuracy_m, seed);
        let events = events_of(&context_at(0.0, 320.0), &all, 60);
        let stood_sec = seconds_of(&events, EventType::Stopped, (40_000, 240_000));
        assert!(stood_sec <= 60, "{accuracy_m} m: {stood_sec} {events:?}");
    }
}

/// A van drives 1.4 km between high houses.
#[test]
fn a_drive_with_vague_fixes_is_a_drive() {
    let script = [
        (Act::Stay, 30),
        (WALK, 20),
        (DRIVE, 180),
        (Act::Stay, 20),
        (WALK, 40),
    ];
    for phone in [Phone::ALL, LOCATION_ALONE] {
        for (accuracy_m, seed) in [(25.0, 1), (30.0, 2), (40.0, 3), (50.0, 4), (50.0, 5)] {
            let mut all = samples(&script, phone, seed);
            make_vague(&mut all, accuracy_m, seed);
            let events = events_of(&context_at(0.0, 0.0), &all, 60);
            let drove_sec = seconds_of(&events, EventType::Driving, (50_000, 230_000));
            assert!(drove_sec >= 150, "{accuracy_m} m: {drove_sec} {events:?}");
        }
    }
}
