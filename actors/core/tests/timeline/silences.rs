//! Silences of the stream: a detector keeps its knowledge of the session, and connects no second
//! after a silence with one before it.

use porchlight_schema::event::EventType;
use porchlight_schema::sample::{Mark, Motion, Sample};

use super::signals::{Act, Owned, Phone, context_at, events_of, of_type, samples};

const NORTH: Act = Act::Walk { heading_deg: 0.0 };
const SOUTH: Act = Act::Walk { heading_deg: 180.0 };
const DRIVE: Act = Act::Drive {
    mps: 8.0,
    climb_mps: 0.0,
};

/// Returns the samples of a script without those of the given seconds.
fn with_silence(script: &[(Act, u32)], from_sec: u32, to_sec: u32) -> Vec<Owned> {
    let mut all = samples(script, Phone::ALL, 11);
    let is_silent = |t_ms: u32| (from_sec * 1_000..to_sec * 1_000).contains(&t_ms);
    all.retain(|owned| !is_silent(owned.sample().t_ms()));
    all
}

/// The phone is offline for 40 s on the way from the van to the house. The wait at the garden gate
/// 90 m from the van, just after it, is not a search beside the vehicle.
#[test]
fn a_silence_on_the_way_hides_no_gate() {
    let script = [
        (DRIVE, 60),
        (Act::Stay, 6),
        (NORTH, 66),
        (Act::Stay, 10),
        (NORTH, 25),
        (Act::Stay, 30),
    ];
    let all = with_silence(&script, 86, 126);
    let events = events_of(&context_at(480.0, 118.0), &all, 60);
    let gates = of_type(&events, EventType::Gate);
    assert_eq!(gates.len(), 1, "{events:?}");
    assert!(gates[0].t_start_ms.abs_diff(132_000) <= 2_000, "{gates:?}");
}

/// The phone is offline for 40 s on the way out of the building. The courier then waits at the main
/// door, which is not an approach.
#[test]
fn a_wait_on_the_way_back_after_a_silence_is_not_a_gate() {
    let script = [
        (Act::Stay, 20),
        (NORTH, 60),
        (Act::Stay, 60),
        (SOUTH, 20),
        (Act::Stay, 50),
        (SOUTH, 8),
        (Act::Stay, 8),
        (SOUTH, 30),
        (Act::Stay, 20),
    ];
    let all = with_silence(&script, 168, 208);
    let events = events_of(&context_at(0.0, 78.0), &all, 60);
    assert!(of_type(&events, EventType::Gate).is_empty(), "{events:?}");
}

/// The phone is off while the courier drives to the next street. The mark of the first delivery
/// says nothing about the gate after the drive.
#[test]
fn a_drive_in_a_silence_begins_a_new_approach() {
    let script = [
        (Act::Stay, 20),
        (NORTH, 60),
        (Act::Stay, 30),
        (SOUTH, 20),
        (DRIVE, 90),
        (Act::Stay, 12),
        (NORTH, 40),
        (Act::Stay, 10),
        (NORTH, 25),
        (Act::Stay, 30),
    ];
    let mut all = with_silence(&script, 128, 224);
    all.push(Owned::Plain(Sample::Mark(Mark {
        t_ms: 100_000,
        name: "handed_over",
    })));
    all.sort_by_key(|owned| owned.sample().t_ms());
    let events = events_of(&context_at(720.0, 137.0), &all, 60);
    let gates = of_type(&events, EventType::Gate);
    assert_eq!(gates.len(), 1, "{events:?}");
    assert!(gates[0].t_start_ms.abs_diff(272_000) <= 2_000, "{gates:?}");
}

/// Two phones send the same data after a silence, and one of them was carried up to it. Nobody
/// walked after the silence, so that the events after it are the same.
#[test]
fn the_seconds_before_a_silence_say_nothing_about_those_after_it() {
    let motion = |sec: u32, is_walking: bool| {
        Owned::Plain(Sample::Motion(Motion {
            t_ms: sec * 1_000,
            accel_mean: 9.8,
            accel_std: if is_walking { 2.4 } else { 0.3 },
            vertical_mean: None,
            cadence_hz: is_walking.then_some(1.8),
            yaw_rad: None,
        }))
    };
    let after_silence = |rest_sec: u32| {
        let before = (0..90).map(|sec| motion(sec, sec < 90 - rest_sec));
        let after = (130..190).map(|sec| motion(sec, false));
        let all: Vec<Owned> = before.chain(after).collect();
        let mut events = events_of(&context_at(0.0, 0.0), &all, 60);
        events.retain(|event| event.t_start_ms >= 130_000);
        events
    };
    let events = after_silence(0);
    assert_eq!(events.len(), 1, "{events:?}");
    assert_eq!(events, after_silence(30));
}
