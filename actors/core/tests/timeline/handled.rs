//! Tests a courier who stands and uses the phone: the phone moves, but the courier does not walk.
//! Tests also the walks that are most like it: gentle ones, and those of which a phone measures
//! little.

#![expect(
    clippy::unwrap_used,
    reason = "a test stops where its own samples are wrong"
)]
#![expect(
    clippy::disallowed_methods,
    reason = "test signals need no bit-for-bit determinism across platforms"
)]

use porchlight_core::timeline::Timeline;
use porchlight_schema::event::{Event, EventType};
use porchlight_schema::sample::packed::BatchBuilder;
use porchlight_schema::sample::{Imu, Motion, Sample};

use super::signals::{IMU_HZ, Noise, Owned, context_at, events_of, of_type};

/// The acceleration along the phone's axes at a given time, m/s².
type Signal = fn(f64, &mut Noise) -> [f64; 3];

/// Simulates a walk with the phone in the hand: 1.9 steps per second.
fn walk(t: f64, noise: &mut Noise) -> [f64; 3] {
    let phase = std::f64::consts::TAU * 1.9 * t;
    let norm = 9.81 + 1.6 * phase.sin() + 0.6 * (2.0 * phase + 0.7).sin() + 0.2 * noise.next();
    [0.2 * noise.next(), 0.6 * norm, 0.8 * norm]
}

/// Simulates a walk of uneven steps with the phone held in front of the body by an arm that damps
/// them.
fn gentle_walk(t: f64, noise: &mut Noise) -> [f64; 3] {
    let phase = std::f64::consts::TAU * (1.7 * t + 0.08 * (1.9 * t).sin());
    let norm = 9.81 + 0.4 * phase.sin() + 0.3 * (2.0 * phase + 0.7).sin() + 0.4 * noise.next();
    let side = 0.3 * (phase / 2.0).sin() + 0.2 * noise.next();
    [side, 0.6 * norm, 0.8 * norm]
}

/// Simulates a phone that a standing courier only holds.
fn hold(_: f64, noise: &mut Noise) -> [f64; 3] {
    [0.0, 5.9, 7.85].map(|axis| axis + 0.15 * noise.next())
}

/// Simulates a scan: every three seconds the phone is turned by 50 degrees to a label 6 cm nearer
/// and back, and a finger taps.
fn scan(t: f64, noise: &mut Noise) -> [f64; 3] {
    let place = t.rem_euclid(3.0);
    let turned = |from: f64| {
        let share = ((place - from) / 0.7).clamp(0.0, 1.0);
        share * share * (3.0 - 2.0 * share)
    };
    let angle = 0.65 + 0.87 * (turned(0.0) - turned(1.8));
    let push = |from: f64| {
        let share = (place - from) / 0.7;
        if (0.0..1.0).contains(&share) {
            0.7 * (std::f64::consts::TAU * share).sin()
        } else {
            0.0
        }
    };
    let tap = if (1.3..1.36).contains(&place) {
        1.5
    } else {
        0.0
    };
    let norm = 9.81 + push(0.0) - push(1.8);
    [
        0.1 * noise.next(),
        norm * angle.sin() + 0.1 * noise.next(),
        norm * angle.cos() + tap + 0.1 * noise.next(),
    ]
}

fn imu(parts: &[(Signal, u32)], seed: u64) -> Vec<Owned> {
    let mut noise = Noise::new(seed);
    let mut out = Vec::new();
    let mut second = 0;
    for &(signal, seconds) in parts {
        for _ in 0..seconds {
            let mut accel: [Vec<f32>; 3] = Default::default();
            for place in 0..IMU_HZ {
                let t = f64::from(second) + place as f64 / IMU_HZ as f64;
                let value = signal(t, &mut noise);
                for (axis, value) in accel.iter_mut().zip(value) {
                    axis.push(value as f32);
                }
            }
            out.push(Owned::Imu {
                t_ms: second * 1_000,
                accel,
            });
            second += 1;
        }
    }
    out
}

/// Returns the samples of a phone that reduces its motion: spread, cadence and seconds of each
/// part.
fn motion(parts: &[(f32, Option<f32>, u32)]) -> Vec<Owned> {
    let mut out = Vec::new();
    for &(accel_std, cadence_hz, seconds) in parts {
        for _ in 0..seconds {
            let second = out.len() as u32;
            // Hands and walks vary from second to second.
            let uneven = 1.0 + 0.15 * ((second % 3) as f32 - 1.0);
            out.push(Owned::Plain(Sample::Motion(Motion {
                t_ms: second * 1_000,
                accel_mean: 9.81 + 0.05 * ((second % 2) as f32),
                accel_std: accel_std * uneven,
                vertical_mean: None,
                cadence_hz,
                yaw_rad: None,
            })));
        }
    }
    out
}

/// Returns the events of a phone that takes about `rate_hz` samples a second at uneven times, some
/// in bursts and some after a gap, and reports an array of each second with their number.
fn uneven_events(parts: &[(Signal, u32)], rate_hz: f64, seed: u64) -> Vec<Event> {
    let (mut noise, mut uneven) = (Noise::new(11), Noise::new(seed));
    let mut builder = BatchBuilder::default();
    let (mut t, mut second, mut end_sec) = (0.0, 0, 0);
    for &(signal, seconds) in parts {
        end_sec += seconds;
        while second < end_sec {
            let from_t = t;
            let mut accel: [Vec<f32>; 3] = Default::default();
            while t < f64::from(second + 1) {
                for (axis, value) in accel.iter_mut().zip(signal(t, &mut noise)) {
                    axis.push(value as f32);
                }
                let gap = match uneven.next() {
                    share if share < -0.9 => 0.01,
                    share if share > 0.95 => 0.3,
                    share => (1.0 + 0.7 * share) / rate_hz,
                };
                t += gap;
            }
            let [x, y, z] = &accel;
            let imu = Imu {
                t_ms: (from_t * 1_000.0) as u32,
                hz: x.len() as f32 / (f64::from(second + 1) - from_t) as f32,
                accel: [x, y, z],
                gyro: None,
            };
            builder.push(&Sample::Imu(imu)).unwrap();
            second += 1;
        }
    }
    let context = context_at(0.0, 0.0);
    let mut timeline = Timeline::default();
    timeline.push_batch(&context, &builder.pack()).unwrap();
    timeline.finish(&context);
    timeline.events().to_vec()
}

fn seconds_of(samples: &[Owned], event_type: EventType) -> u32 {
    let events = events_of(&context_at(0.0, 0.0), samples, 60);
    seconds_in(&events, event_type)
}

fn seconds_in(events: &[Event], event_type: EventType) -> u32 {
    let lengths = of_type(events, event_type)
        .into_iter()
        .filter_map(|event| Some(event.t_end_ms? - event.t_start_ms));
    lengths.sum::<u32>() / 1_000
}

#[test]
fn scanning_while_standing_is_not_a_walk() {
    // The spread of the scan, 0.3 to 0.6 m/s², is that of a quiet walk.
    let samples = imu(&[(walk, 30), (scan, 45), (walk, 20)], 11);
    let (walked, stood) = (
        seconds_of(&samples, EventType::Walking),
        seconds_of(&samples, EventType::Stopped),
    );
    assert!(
        walked.abs_diff(50) <= 4 && stood.abs_diff(45) <= 4,
        "{walked} {stood}"
    );
}

#[test]
fn a_missing_cadence_is_not_a_walk_if_the_phone_has_reported_one() {
    let (walk, handled) = ((1.3, Some(1.9), 30), (0.6, Some(0.0), 30));
    let stood = |parts: &[_]| seconds_of(&motion(parts), EventType::Stopped);
    assert!(stood(&[walk, handled, walk]) >= 26);
    // A phone that omits the cadence of a stationary courier gives the same result.
    assert!(stood(&[walk, (0.6, None, 30), walk]) >= 26);
}

/// A courier stands before an elevator and walks seven seconds into it, the phone held in front of
/// the body.
#[test]
fn a_short_walk_with_a_phone_held_gently_is_a_walk() {
    for seed in 11..15 {
        let samples = imu(&[(hold, 20), (gentle_walk, 7), (hold, 20)], seed);
        let walked = seconds_of(&samples, EventType::Walking);
        assert!((5..=9).contains(&walked), "{seed}: {walked}");
    }
}

/// Irregular sampling distorts the times within a second, but not those of the seconds.
#[test]
fn a_phone_that_samples_slowly_and_unevenly_shows_walks() {
    for (seed, rate_hz) in [(1, 11.0), (2, 12.5), (3, 14.0), (4, 16.0), (5, 25.0)] {
        let events = uneven_events(&[(hold, 20), (walk, 40), (hold, 20)], rate_hz, seed);
        let (walked, stood) = (
            seconds_in(&events, EventType::Walking),
            seconds_in(&events, EventType::Stopped),
        );
        assert!(
            walked.abs_diff(40) <= 4 && stood.abs_diff(40) <= 4,
            "{rate_hz} Hz: {events:?}"
        );
    }
}

#[test]
fn a_phone_that_samples_slowly_and_unevenly_shows_no_walk_if_it_is_used() {
    for (seed, rate_hz) in [(1, 11.0), (2, 12.5), (3, 14.0), (4, 16.0), (5, 25.0)] {
        let events = uneven_events(&[(walk, 30), (scan, 45), (walk, 20)], rate_hz, seed);
        let (walked, stood) = (
            seconds_in(&events, EventType::Walking),
            seconds_in(&events, EventType::Stopped),
        );
        assert!(
            walked.abs_diff(50) <= 6 && stood.abs_diff(45) <= 6,
            "{rate_hz} Hz: {events:?}"
        );
    }
}
