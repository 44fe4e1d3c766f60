//! Tests couriers who run, climb steep streets, or carry a phone whose step counter waits.

#![expect(
    clippy::disallowed_methods,
    reason = "test signals need no bit-for-bit determinism across platforms"
)]

use porchlight_schema::event::{Event, EventType};
use porchlight_schema::sample::Sample;

use super::signals::{Act, IMU_HZ, Noise, Owned, Phone, context_at, events_of, of_type, samples};

const NORTH: Act = Act::Walk { heading_deg: 0.0 };
const SOUTH: Act = Act::Walk { heading_deg: 180.0 };

/// Asserts that the events of one type are these, up to `off_sec`.
fn assert_found(events: &[Event], event_type: EventType, spans_sec: &[(u32, u32)], off_sec: u32) {
    let found = of_type(events, event_type);
    let are_near = found.iter().zip(spans_sec).all(|(event, span)| {
        let end_ms = event.t_end_ms.unwrap_or(u32::MAX);
        event.t_start_ms.abs_diff(span.0 * 1_000) <= off_sec * 1_000
            && end_ms.abs_diff(span.1 * 1_000) <= off_sec * 1_000
    });
    assert!(
        found.len() == spans_sec.len() && are_near,
        "{event_type:?} {spans_sec:?}: {events:?}"
    );
}

/// The acceleration of a run along gravity: a push of the ground, then a flight without weight.
fn run_mps2(t: f64, noise: &mut Noise) -> f32 {
    let share = (2.8 * t).rem_euclid(1.0);
    let push = if share < 0.6 {
        24.0 * (std::f64::consts::PI * share / 0.6).sin()
    } else {
        0.0
    };
    (push + noise.next()) as f32
}

/// A courier gets off an electric scooter, runs to the door at 3.3 m/s, waits there and runs back.
/// The phone is shaken harder than on any walk, and its counter counts the steps 3 s late.
#[test]
fn a_run_to_the_door_is_not_a_drive() {
    let ride = Act::Drive {
        mps: 5.5,
        climb_mps: 0.0,
    };
    let script = [
        (ride, 60),
        (Act::Stay, 20),
        (NORTH, 12),
        (Act::Stay, 40),
        (SOUTH, 12),
        (Act::Stay, 15),
        (ride, 60),
    ];
    let mut all = samples(&script, Phone::ALL, 5);
    let mut noise = Noise::new(9);
    let run_sec = |t_ms: u32, late_ms: u32| {
        let since = |from_ms: u32| t_ms.saturating_sub(from_ms + late_ms).min(12_000) as f32 / 1e3;
        (since(80_000), since(132_000))
    };
    for owned in &mut all {
        match owned {
            Owned::Plain(Sample::Location(fix)) => {
                let (there_sec, back_sec) = run_sec(fix.t_ms, 0);
                fix.lat += 2.0 * f64::from(there_sec - back_sec) / 111_195.0;
                if fix.speed_mps.is_some_and(|mps| (1.0..2.0).contains(&mps)) {
                    fix.speed_mps = Some(3.3);
                }
            }
            Owned::Plain(Sample::Steps(steps)) => {
                let (there_sec, back_sec) = run_sec(steps.t_ms, 3_000);
                steps.count = 1_000 + (2.8 * (there_sec + back_sec)) as u32;
            }
            Owned::Imu { t_ms, accel } if matches!(*t_ms / 1_000, 80..=91 | 132..=143) => {
                for (place, value) in accel[2].iter_mut().enumerate() {
                    let t = f64::from(*t_ms) / 1e3 + place as f64 / IMU_HZ as f64;
                    *value = run_mps2(t, &mut noise);
                }
            }
            _ => {}
        }
    }
    let events = events_of(&context_at(330.0, 40.0), &all, 60);
    assert_found(&events, EventType::Driving, &[(0, 60), (159, 219)], 5);
    assert_found(&events, EventType::Walking, &[(80, 92), (132, 144)], 5);
}

/// The step counter waits 3 to 8 s before each report, and nothing else measures the body. Its
/// silence between two reports is not rest, so the staircase is not an elevator.
#[test]
fn the_silence_of_a_counter_that_waits_is_not_rest_on_the_stairs() {
    let stairs = Act::Stairs {
        mps: 0.26,
        heading_deg: 0.0,
    };
    for waits_sec in [[6, 3, 7, 4], [8, 6, 3, 5], [3, 8, 7, 6]] {
        let script = [(NORTH, 40), (stairs, 36), (NORTH, 6), (Act::Stay, 30)];
        let phone = Phone {
            imu: false,
            ..Phone::ALL
        };
        let mut all = samples(&script, phone, 4);
        // Indoors there are no fixes.
        all.retain(
            |owned| !matches!(owned, Owned::Plain(Sample::Location(fix)) if fix.t_ms > 40_000),
        );
        let mut next_sec = 0;
        let mut waits = waits_sec.into_iter().cycle();
        let mut newest = 0;
        all.retain(|owned| {
            let Owned::Plain(Sample::Steps(steps)) = owned else {
                return true;
            };
            let is_due = steps.t_ms / 1_000 >= next_sec && steps.count > newest;
            if is_due {
                newest = steps.count;
                next_sec = steps.t_ms / 1_000 + waits.next().unwrap_or(5);
            }
            is_due
        });
        let events = events_of(&context_at(0.0, 60.0), &all, 60);
        assert_found(&events, EventType::Elevator, &[], 0);
        assert_found(&events, EventType::Stairs, &[(40, 76)], 4);
    }
}

/// A street climbs by 0.22 m/s for 200 m, as fast as slow stairs. Nobody walks that fast over
/// ground on stairs.
#[test]
fn a_steep_street_is_not_a_staircase() {
    for seed in 1..=6 {
        let script = [(Act::Stay, 15), (NORTH, 150), (Act::Stay, 20)];
        let mut all = samples(&script, Phone::ALL, seed);
        let mut noise = Noise::new(seed + 40);
        let mut gust_m = 0.0;
        for owned in &mut all {
            if let Owned::Plain(Sample::Pressure(pressure)) = owned {
                gust_m = 0.8 * gust_m + 0.1 * noise.next();
                let climbed_ms = pressure.t_ms.clamp(15_000, 165_000) - 15_000;
                let height_m = 0.22 * f64::from(climbed_ms) / 1e3 + gust_m;
                pressure.hpa *= (-height_m / 8_434.0).exp() as f32;
            }
        }
        let events = events_of(&context_at(0.0, 195.0), &all, 60);
        assert_found(&events, EventType::Stairs, &[], 0);
        assert_found(&events, EventType::Walking, &[(15, 165)], 3);
    }
}
