//! Tests accelerometers that do not measure the body: in a wrong unit, without gravity, or stuck.

use porchlight_schema::event::{Event, EventType};

use super::signals::{Act, Owned, Phone, context_at, events_of, of_type, samples};

const NORTH: Act = Act::Walk { heading_deg: 0.0 };

/// A courier comes on foot, waits 20 s at a gate, waits 30 s at the door, and goes on.
const DELIVERY: [(Act, u32); 6] = [
    (Act::Stay, 12),
    (NORTH, 30),
    (Act::Stay, 20),
    (NORTH, 20),
    (Act::Stay, 30),
    (NORTH, 20),
];

fn events(all: &[Owned]) -> Vec<Event> {
    events_of(&context_at(0.0, 65.0), all, 60)
}

/// Returns the events of the delivery on a phone whose readings `change` changes, and those on the
/// same phone without an accelerometer. `change` receives the second of a reading.
fn both(seed: u64, change: impl Fn(u32, f32) -> f32) -> [Vec<Event>; 2] {
    let mut all = samples(&DELIVERY, Phone::ALL, seed);
    let mut without = all.clone();
    without.retain(|owned| !matches!(owned, Owned::Imu { .. }));
    for owned in &mut all {
        if let Owned::Imu {
            t_ms,
            accel: [_, _, z],
        } = owned
        {
            z.iter_mut().for_each(|z| *z = change(*t_ms / 1_000, *z));
        }
    }
    [events(&all), events(&without)]
}

/// Asserts that two lists have the same types and starts. The last event ends with the last sample,
/// which may be a reading of the accelerometer.
fn assert_same(events: &[Event], others: &[Event]) {
    let starts = |events: &[Event]| -> Vec<(EventType, u32)> {
        let starts = events.iter();
        starts
            .map(|event| (event.event_type, event.t_start_ms))
            .collect()
    };
    assert_eq!(starts(events), starts(others));
}

/// An app sends the acceleration in multiples of gravity, and the courier holds the phone in the
/// hand, which damps the steps to 0.9 m/s². A walk then looks like a body at rest.
#[test]
fn acceleration_in_multiples_of_gravity_counts_as_absent() {
    for seed in 1..6 {
        let [events, without] = both(seed, |_, z| (9.81 + 0.4 * (z - 9.81)) / 9.81);
        assert_same(&events, &without);
        assert_eq!(of_type(&events, EventType::Walking).len(), 3, "{events:?}");
    }
}

/// An app sends the acceleration without gravity, which the contract includes.
#[test]
fn acceleration_without_gravity_counts_as_absent() {
    for seed in 1..6 {
        let [events, without] = both(seed, |_, z| z - 9.81);
        assert_same(&events, &without);
    }
}

/// The accelerometer is broken: each reading is the same to the last digit. The step counter counts
/// three walks.
#[test]
fn an_accelerometer_that_never_changes_counts_as_absent() {
    for seed in 1..6 {
        let [events, without] = both(seed, |_, _| 9.79);
        assert_same(&events, &without);
        assert_eq!(of_type(&events, EventType::Walking).len(), 3, "{events:?}");
    }
}

/// During the first walk the platform stops the accelerometer, and the app repeats its last
/// reading. Once the counter has counted ten steps that it cannot have counted before, the readings
/// count no more.
#[test]
fn a_reading_that_is_repeated_during_steps_counts_as_absent() {
    for seed in 1..6 {
        let [events, _] = both(seed, |second, z| if second >= 30 { 9.79 } else { z });
        let walks = of_type(&events, EventType::Walking);
        assert!(
            walks
                .iter()
                .any(|walk| walk.t_start_ms >= 110_000 && walk.t_end_ms >= Some(130_000)),
            "{events:?}"
        );
    }
}

/// The courier lays the phone on a shelf after a walk. A coarse accelerometer then repeats one
/// reading, and nobody walks: the stay of 20 s is found as with noise.
#[test]
fn a_coarse_accelerometer_at_rest_measures() {
    for seed in 1..6 {
        let script = [(NORTH, 30), (Act::Stay, 12), (NORTH, 20)];
        let mut all = samples(&script, Phone::ALL, seed);
        all.retain(|owned| matches!(owned, Owned::Imu { .. }));
        for owned in &mut all {
            if let Owned::Imu {
                accel: [_, _, z], ..
            } = owned
            {
                z.iter_mut()
                    .for_each(|z| *z = ((*z - 9.81) / 0.15).trunc() * 0.15 + 9.81);
            }
        }
        let events = events(&all);
        assert_eq!(of_type(&events, EventType::Stopped).len(), 1, "{events:?}");
    }
}
