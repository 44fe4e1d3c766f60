//! Tests gates, retraced paths, and rides that only the barometer shows.

use porchlight_schema::event::{Event, EventType, Metadata};
use porchlight_schema::sample::{Mark, Sample};

use super::signals::{Act, Owned, Phone, context_at, events_of, of_type, samples};

const NORTH: Act = Act::Walk { heading_deg: 0.0 };
const SOUTH: Act = Act::Walk { heading_deg: 180.0 };
const EAST: Act = Act::Walk { heading_deg: 90.0 };

const DRIVE: Act = Act::Drive {
    mps: 8.0,
    climb_mps: 0.0,
};

const NO_BAROMETER: Phone = Phone {
    pressure: false,
    ..Phone::ALL
};

fn events(address: (f64, f64), script: &[(Act, u32)], phone: Phone) -> Vec<Event> {
    let context = context_at(address.0, address.1);
    events_of(&context, &samples(script, phone, 11), 60)
}

fn is_near(event: &Event, from_sec: u32, to_sec: u32, off_sec: u32) -> bool {
    event.t_start_ms.abs_diff(from_sec * 1_000) <= off_sec * 1_000
        && event
            .t_end_ms
            .is_some_and(|t_ms| t_ms.abs_diff(to_sec * 1_000) <= off_sec * 1_000)
}

#[test]
fn a_pause_on_the_approach_is_a_gate() {
    // 40 s to the gate, 26 m to the door, a stay, and back.
    let script = [
        (Act::Stay, 20),
        (NORTH, 40),
        (Act::Stay, 15),
        (NORTH, 20),
        (Act::Stay, 30),
        (SOUTH, 60),
    ];
    for phone in [Phone::ALL, NO_BAROMETER] {
        let events = events((0.0, 78.0), &script, phone);
        let gates = of_type(&events, EventType::Gate);
        assert_eq!(
            gates.len(),
            1,
            "the stay at the door is not a gate: {events:?}"
        );
        assert!(is_near(&gates[0], 60, 75, 3), "{gates:?}");
    }
}

#[test]
fn a_pause_far_from_the_address_is_not_a_gate() {
    let script = [
        (Act::Stay, 20),
        (NORTH, 40),
        (Act::Stay, 15),
        (NORTH, 60),
        (Act::Stay, 20),
    ];
    let events = events((0.0, 600.0), &script, Phone::ALL);
    assert_eq!(of_type(&events, EventType::Gate), [], "{events:?}");
}

#[test]
fn the_wait_for_an_elevator_is_not_a_gate() {
    let script = [
        (Act::Stay, 20),
        (NORTH, 40),
        (Act::Stay, 20),
        (NORTH, 4),
        (Act::Stay, 4),
        (Act::Ride { mps: 1.0 }, 12),
        (NORTH, 10),
        (Act::Stay, 20),
    ];
    let events = events((0.0, 60.0), &script, Phone::ALL);
    assert_eq!(of_type(&events, EventType::Elevator).len(), 1, "{events:?}");
    assert_eq!(of_type(&events, EventType::Gate), [], "{events:?}");
}

/// The courier parks, walks round the van, looks for the parcel at its rear doors for half a
/// minute, and goes to the house. There was no gate to pass.
#[test]
fn looking_for_the_parcel_at_the_vehicle_is_not_a_gate() {
    for search_sec in [6, 15, 40] {
        let script = [
            (DRIVE, 40),
            (Act::Stay, 8),
            (NORTH, 5),
            (Act::Stay, search_sec),
            (NORTH, 25),
            (Act::Stay, 30),
            (SOUTH, 30),
        ];
        for phone in [Phone::ALL, NO_BAROMETER] {
            let events = events((320.0, 39.0), &script, phone);
            let gates = of_type(&events, EventType::Gate);
            assert_eq!(gates, [], "{search_sec} s: {events:?}");
        }
    }
}

/// The vehicle stands 25 m from a street gate: its proximity does not rule out the gate.
#[test]
fn a_gate_some_way_from_the_parked_vehicle_is_a_gate() {
    let script = [
        (DRIVE, 40),
        (Act::Stay, 8),
        (NORTH, 20),
        (Act::Stay, 15),
        (NORTH, 15),
        (Act::Stay, 30),
        (SOUTH, 35),
    ];
    let events = events((320.0, 45.0), &script, Phone::ALL);
    let gates = of_type(&events, EventType::Gate);
    assert_eq!(gates.len(), 1, "{events:?}");
    assert!(is_near(&gates[0], 68, 83, 3), "{gates:?}");
}

/// A resident buzzes the courier in; the main door is pulled open, and the elevator is a few steps
/// behind it. The pressure pulse of the door distinguishes it from the wait for the elevator.
#[test]
fn a_main_door_seconds_before_an_elevator_is_a_gate() {
    let script = [
        (Act::Stay, 20),
        (NORTH, 40),
        (Act::Stay, 14),
        (NORTH, 7),
        (Act::Stay, 8),
        (Act::Ride { mps: 1.0 }, 12),
        (NORTH, 10),
        (Act::Stay, 20),
    ];
    let mut all = samples(&script, Phone::ALL, 11);
    for owned in &mut all {
        if let Owned::Plain(Sample::Pressure(pressure)) = owned
            && (72_000..74_000).contains(&pressure.t_ms)
        {
            pressure.hpa -= 0.2;
        }
    }
    let events = events_of(&context_at(0.0, 61.0), &all, 60);
    assert_eq!(of_type(&events, EventType::Elevator).len(), 1, "{events:?}");
    let gates = of_type(&events, EventType::Gate);
    assert_eq!(gates.len(), 1, "{events:?}");
    assert!(is_near(&gates[0], 60, 74, 3), "{gates:?}");
}

/// A gate directly before stairs is kept when the stairs are recognised.
#[test]
fn a_gate_before_stairs_is_a_gate() {
    let script = [
        (Act::Stay, 20),
        (NORTH, 40),
        (Act::Stay, 12),
        (NORTH, 8),
        (
            Act::Stairs {
                mps: 0.3,
                heading_deg: 0.0,
            },
            20,
        ),
        (Act::Stay, 20),
    ];
    let events = events((0.0, 60.0), &script, Phone::ALL);
    assert_eq!(of_type(&events, EventType::Stairs).len(), 1, "{events:?}");
    let gates = of_type(&events, EventType::Gate);
    assert_eq!(gates.len(), 1, "{events:?}");
    assert!(is_near(&gates[0], 60, 72, 3), "{gates:?}");
}

/// Phones that reduce their motion themselves may smooth the pushes of a cabin away.
#[test]
fn a_ride_without_motion_is_found_by_its_height() {
    let script = [
        (NORTH, 30),
        (Act::Stay, 15),
        (Act::Ride { mps: 1.0 }, 12),
        (Act::Stay, 5),
        (NORTH, 20),
    ];
    let mut all = samples(&script, Phone::ALL, 5);
    for owned in &mut all {
        if let Owned::Imu { t_ms, accel } = owned
            && (30_000..62_000).contains(t_ms)
        {
            accel[2].fill(9.81);
        }
    }
    let found = events_of(&context_at(0.0, 40.0), &all, 60);
    let rides = of_type(&found, EventType::Elevator);
    assert_eq!(rides.len(), 1, "{found:?}");
    assert!(is_near(&rides[0], 45, 57, 3), "{rides:?}");
}

#[test]
fn a_short_look_around_at_the_turn_is_not_a_visit() {
    let script = [
        (NORTH, 60),
        (Act::Stay, 11),
        (SOUTH, 30),
        (EAST, 40),
        (Act::Stay, 30),
    ];
    for phone in [Phone::ALL, NO_BAROMETER] {
        let events = events((52.0, 39.0), &script, phone);
        let ways = of_type(&events, EventType::Backtracking);
        assert_eq!(ways.len(), 1, "{events:?}");
        assert!(is_near(&ways[0], 71, 101, 8), "{ways:?}");
    }
}

/// The courier returns to the missed door, stays there, and takes the same path to the vehicle.
#[test]
fn the_stay_at_the_door_ends_the_return() {
    let script = [(NORTH, 90), (SOUTH, 40), (Act::Stay, 25), (SOUTH, 40)];
    let events = events((0.0, 65.0), &script, Phone::ALL);
    let ways = of_type(&events, EventType::Backtracking);
    assert_eq!(ways.len(), 1, "{events:?}");
    assert!(is_near(&ways[0], 90, 130, 8), "{ways:?}");
}

/// At rest, fixes wander as far as a short walk there and back.
#[test]
fn wandering_fixes_at_rest_are_not_a_path() {
    let mut all = samples(&[(NORTH, 40), (Act::Stay, 120)], Phone::ALL, 5);
    for owned in &mut all {
        if let Owned::Plain(Sample::Location(location)) = owned
            && location.t_ms > 45_000
        {
            let phase = f64::from(location.t_ms) / 1_000.0 / 60.0 * std::f64::consts::TAU;
            location.lat += 25.0 / 111_195.0 * libm::sin(phase);
            location.speed_mps = None;
        }
    }
    let found = events_of(&context_at(0.0, 400.0), &all, 60);
    assert_eq!(of_type(&found, EventType::Backtracking), [], "{found:?}");
}

/// Returns the samples with marks of these names at these seconds.
fn marked(script: &[(Act, u32)], phone: Phone, marks: &[(u32, &'static str)]) -> Vec<Owned> {
    let mut all = samples(script, phone, 11);
    for &(at_sec, name) in marks {
        all.push(Owned::Plain(Sample::Mark(Mark {
            t_ms: at_sec * 1_000 + 50,
            name,
        })));
    }
    all.sort_by_key(|owned| owned.sample().t_ms());
    all
}

/// A courier who drops off the parcel, or marks the door, is not at a gate, wherever the path
/// continues from there.
#[test]
fn a_stay_with_the_drop_off_is_not_a_gate() {
    let script = [
        (Act::Stay, 20),
        (NORTH, 40),
        (Act::Stay, 30),
        (NORTH, 30),
        (Act::Stay, 30),
    ];
    let context = context_at(0.0, 60.0);
    for (marks, expected) in [
        (&[][..], 1),
        (&[(70, "app_opened")][..], 1),
        (&[(80, "pod_captured")][..], 0),
        (&[(75, "arrived")][..], 0),
        // The courier taps after the first steps away from the door.
        (&[(92, "handed_over")][..], 0),
        // The drop-off was before: the path after it is not an approach.
        (&[(50, "left_at_door")][..], 0),
        // The drop-off is later: the gate was on the way to it.
        (&[(140, "handed_over")][..], 1),
    ] {
        let found = events_of(&context, &marked(&script, Phone::ALL, marks), 60);
        let gates = of_type(&found, EventType::Gate);
        assert_eq!(gates.len(), expected, "{marks:?}: {found:?}");
    }
}

#[test]
fn the_return_from_the_drop_off_is_not_backtracking() {
    let script = [(NORTH, 60), (Act::Stay, 10), (SOUTH, 50)];
    let context = context_at(0.0, 400.0);
    for (marks, expected) in [(&[][..], 1), (&[(65, "handed_over")][..], 0)] {
        let found = events_of(&context, &marked(&script, Phone::ALL, marks), 60);
        let ways = of_type(&found, EventType::Backtracking);
        assert_eq!(ways.len(), expected, "{marks:?}: {found:?}");
    }
}

/// The second gate may be a few steps behind the first.
#[test]
fn two_gates_a_few_steps_apart_are_both_found() {
    let script = [
        (Act::Stay, 20),
        (NORTH, 40),
        (Act::Stay, 12),
        (NORTH, 7),
        (Act::Stay, 20),
        (NORTH, 25),
        (Act::Stay, 30),
    ];
    let events = events((0.0, 80.0), &script, Phone::ALL);
    let gates = of_type(&events, EventType::Gate);
    assert_eq!(gates.len(), 2, "{events:?}");
    assert!(is_near(&gates[0], 60, 72, 3), "{gates:?}");
    assert!(is_near(&gates[1], 79, 99, 3), "{gates:?}");
}

/// The end of the drive is known only after the first steps: a gate right next to the kerb lies
/// before that.
#[test]
fn a_gate_a_few_steps_from_the_vehicle_is_found() {
    let script = [
        (
            Act::Drive {
                mps: 8.0,
                climb_mps: 0.0,
            },
            60,
        ),
        (Act::Stay, 12),
        (NORTH, 9),
        (Act::Stay, 40),
        (NORTH, 20),
        (Act::Stay, 30),
    ];
    let events = events((480.0, 37.0), &script, Phone::ALL);
    let gates = of_type(&events, EventType::Gate);
    assert_eq!(
        gates.len(),
        1,
        "the stay in the vehicle is not a gate: {events:?}"
    );
    assert!(is_near(&gates[0], 81, 121, 3), "{gates:?}");
}

/// Behind the door a network's fix lies half a kilometre off: the courier did not turn back to that
/// place.
#[test]
fn a_jumping_fix_is_not_backtracking() {
    let script = [
        (Act::Stay, 20),
        (NORTH, 40),
        (Act::Stay, 15),
        (NORTH, 20),
        (Act::Stay, 40),
    ];
    let mut all = samples(&script, Phone::ALL, 11);
    for owned in &mut all {
        if let Owned::Plain(Sample::Location(location)) = owned
            && location.t_ms > 80_000
        {
            location.lat -= 500.0 / 111_195.0;
            location.accuracy_m = Some(55.0);
        }
    }
    let found = events_of(&context_at(0.0, 78.0), &all, 60);
    let gates = of_type(&found, EventType::Gate);
    assert_eq!(gates.len(), 1, "{found:?}");
    assert!(is_near(&gates[0], 60, 75, 3), "{gates:?}");
}

/// Behind the door the positions jump back along the approach within some seconds, faster than
/// anybody runs, and claim the same accuracy as ever.
#[test]
fn positions_that_jump_back_are_not_backtracking() {
    for accuracy_m in [4.0, 6.0, 15.0] {
        let phone = Phone {
            accuracy_m,
            ..Phone::ALL
        };
        let script = [(NORTH, 70), (Act::Walk { heading_deg: 90.0 }, 30)];
        let mut all = samples(&script, phone, 12);
        for owned in &mut all {
            if let Owned::Plain(Sample::Location(location)) = owned
                && location.t_ms > 70_000
            {
                let back_m = 8.0 * (f64::from(location.t_ms - 70_000) / 1_000.0).min(9.0);
                location.lat -= back_m / 111_195.0;
            }
        }
        let found = events_of(&context_at(300.0, 300.0), &all, 60);
        let ways = of_type(&found, EventType::Backtracking);
        assert!(ways.is_empty(), "{accuracy_m} m: {ways:?}");
    }
}

/// The courier looks round for nine seconds near the address: the end of the stay is known late,
/// and by then it is not a visit.
#[test]
fn a_stay_does_not_grow_after_its_end() {
    let script = [
        (NORTH, 60),
        (Act::Stay, 9),
        (SOUTH, 30),
        (EAST, 20),
        (Act::Stay, 30),
    ];
    let events = events((26.0, 60.0), &script, Phone::ALL);
    let ways = of_type(&events, EventType::Backtracking);
    assert_eq!(ways.len(), 1, "{events:?}");
    assert!(is_near(&ways[0], 69, 99, 8), "{ways:?}");
}

/// Positions alone do not show a visit to a door: turning back near the address may be a visit.
#[test]
fn without_a_body_turning_back_near_the_address_is_a_visit() {
    let bare = Phone {
        pressure: false,
        imu: false,
        steps: false,
        ..Phone::ALL
    };
    let script = [(NORTH, 90), (SOUTH, 80)];
    for (address, expected) in [((0.0, 117.0), 0), ((0.0, 600.0), 1)] {
        let events = events(address, &script, bare);
        let ways = of_type(&events, EventType::Backtracking);
        assert_eq!(ways.len(), expected, "{address:?}: {events:?}");
    }
}

/// The courier leaves a parcel at the door in a few seconds; the path back to the vehicle is not
/// backtracking.
#[test]
fn the_return_from_a_short_stop_is_not_backtracking() {
    for stop_sec in [4, 6, 9] {
        let script = [(NORTH, 60), (Act::Stay, stop_sec), (SOUTH, 55)];
        // The same stop on a wrong path is a look round.
        for (address, expected) in [((0.0, 78.0), 0), ((6.0, 82.0), 0), ((0.0, 400.0), 1)] {
            for phone in [Phone::ALL, NO_BAROMETER] {
                let events = events(address, &script, phone);
                let ways = of_type(&events, EventType::Backtracking);
                assert_eq!(
                    ways.len(),
                    expected,
                    "{stop_sec} s, {address:?}: {events:?}"
                );
            }
        }
    }
}

/// The distance before the return was detected counts: a short return is found, and a long one is
/// reported in full.
#[test]
fn a_return_is_reported_in_full_length() {
    for (back_sec, away_sec) in [(14_u32, 30), (30, 40), (60, 20)] {
        let script = [(NORTH, 75), (SOUTH, back_sec), (EAST, away_sec)];
        let events = events((300.0, 90.0), &script, Phone::ALL);
        let ways = of_type(&events, EventType::Backtracking);
        assert_eq!(ways.len(), 1, "{back_sec} s: {events:?}");
        assert!(is_near(&ways[0], 75, 75 + back_sec, 4), "{ways:?}");
        let Metadata::Backtracking { retraced_m } = ways[0].metadata else {
            panic!("{ways:?}");
        };
        let off_m = f64::from(retraced_m) - 1.3 * f64::from(back_sec);
        assert!(off_m.abs() <= 5.0, "{back_sec} s: {ways:?}");
    }
}

/// Positions that wander sideways and along the path are not a return while the phone's own course
/// continues ahead.
#[test]
fn a_continuing_course_is_not_backtracking() {
    let script = [(Act::Stay, 10), (NORTH, 90), (Act::Stay, 30)];
    let mut all = samples(&script, Phone::ALL, 5);
    for has_course in [false, true] {
        for owned in &mut all {
            if let Owned::Plain(Sample::Location(location)) = owned {
                // From 50 to 80 s the places come back by 26 m, regardless of the steps.
                let back_sec = (f64::from(location.t_ms) / 1_000.0 - 50.0).clamp(0.0, 30.0);
                let place = if has_course { 0.0 } else { 2.17 * back_sec };
                location.lat -= place / 111_195.0;
                location.bearing_deg = has_course.then_some(0.0);
            }
        }
        let found = events_of(&context_at(0.0, 400.0), &all, 60);
        let ways = of_type(&found, EventType::Backtracking);
        assert_eq!(ways.len(), usize::from(!has_course), "{found:?}");
    }
}
