//! Gates that are passed in a few seconds, and gates on the way to an elevator.

use porchlight_schema::event::EventType;
use porchlight_schema::sample::{Mark, Sample};

use super::signals::{Act, Owned, Phone, context_at, events_of, of_type, samples};

const NORTH: Act = Act::Walk { heading_deg: 0.0 };

/// The phone's step counter reports steps six seconds late, as real counters do: it still reports
/// steps while the courier waits at the gate for five seconds.
#[test]
fn a_late_step_counter_hides_no_pause_at_a_gate() {
    let script = [
        (Act::Stay, 20),
        (NORTH, 40),
        (Act::Stay, 5),
        (NORTH, 30),
        (Act::Stay, 30),
    ];
    let mut all = samples(&script, Phone::ALL, 11);
    let counts: Vec<u32> = all
        .iter()
        .filter_map(|owned| match owned {
            Owned::Plain(Sample::Steps(steps)) => Some(steps.count),
            _ => None,
        })
        .collect();
    let mut place = 0_usize;
    for owned in &mut all {
        if let Owned::Plain(Sample::Steps(steps)) = owned {
            steps.count = counts[place.saturating_sub(6)];
            place += 1;
        }
    }
    let events = events_of(&context_at(0.0, 90.0), &all, 60);
    let gates = of_type(&events, EventType::Gate);
    assert_eq!(gates.len(), 1, "{events:?}");
    let (start_ms, end_ms) = (gates[0].t_start_ms, gates[0].t_end_ms.unwrap());
    assert!(
        start_ms.abs_diff(60_000) <= 2_000 && end_ms.abs_diff(65_000) <= 2_000,
        "{gates:?}"
    );
}

/// The courier is let in at the gate, waits for the elevator and walks into the cabin. Only the
/// wait at the gate is one; a street gate moves no air.
#[test]
fn a_gate_before_the_wait_for_an_elevator_is_a_gate() {
    let script = [
        (Act::Stay, 20),
        (NORTH, 40),
        (Act::Stay, 12),
        (NORTH, 8),
        (Act::Stay, 15),
        (NORTH, 4),
        (Act::Stay, 3),
        (Act::Ride { mps: 1.0 }, 12),
        (NORTH, 10),
        (Act::Stay, 20),
    ];
    let all = samples(&script, Phone::ALL, 11);
    let events = events_of(&context_at(0.0, 62.0), &all, 60);
    assert_eq!(of_type(&events, EventType::Elevator).len(), 1, "{events:?}");
    let gates = of_type(&events, EventType::Gate);
    assert_eq!(gates.len(), 1, "{events:?}");
    assert!(gates[0].t_start_ms.abs_diff(60_000) <= 2_000, "{gates:?}");
}

/// The courier parks, searches the parcel at the rear of the van, turns round, and walks back past
/// the van to the gate of the house. The search is not a visit to the address, so the walk to the
/// gate is still an approach.
#[test]
fn a_search_beside_the_vehicle_hides_no_gate() {
    let east = Act::Walk { heading_deg: 90.0 };
    let west = Act::Walk { heading_deg: 270.0 };
    let drive = Act::Drive {
        mps: 8.0,
        climb_mps: 0.0,
    };
    let script = [
        (drive, 60),
        (Act::Stay, 4),
        (east, 6),
        (Act::Stay, 20),
        (west, 18),
        (Act::Stay, 8),
        (NORTH, 20),
        (Act::Stay, 30),
    ];
    let all = samples(&script, Phone::ALL, 11);
    let events = events_of(&context_at(464.0, 15.0), &all, 60);
    let gates = of_type(&events, EventType::Gate);
    assert_eq!(gates.len(), 1, "{events:?}");
    assert!(gates[0].t_start_ms.abs_diff(108_000) <= 2_000, "{gates:?}");
}

/// The phone lies at the driver's seat while the courier walks 9 m round a long van, fetches the
/// parcel at its rear doors, and walks on to the house. The pause at the doors is not a gate.
#[test]
fn fetching_the_parcel_behind_a_long_van_is_not_a_gate() {
    let east = Act::Walk { heading_deg: 90.0 };
    let drive = Act::Drive {
        mps: 8.0,
        climb_mps: 0.0,
    };
    let script = [
        (drive, 60),
        (Act::Stay, 12),
        (east, 7),
        (Act::Stay, 15),
        (NORTH, 30),
        (Act::Stay, 30),
    ];
    let all = samples(&script, Phone::ALL, 11);
    let events = events_of(&context_at(489.0, 40.0), &all, 60);
    assert!(of_type(&events, EventType::Gate).is_empty(), "{events:?}");
}

/// The courier walks nine seconds round the open door of a van to its side door, 6.5 m from the
/// driver's seat, and fetches the parcel there. The error of the position changes by 4 m meanwhile.
#[test]
fn fetching_the_parcel_while_the_position_drifts_is_not_a_gate() {
    let east = Act::Walk { heading_deg: 90.0 };
    let south = Act::Walk { heading_deg: 180.0 };
    let drive = Act::Drive {
        mps: 8.0,
        climb_mps: 0.0,
    };
    let script = [
        (drive, 60),
        (Act::Stay, 12),
        (NORTH, 2),
        (east, 5),
        (south, 2),
        (Act::Stay, 15),
        (NORTH, 30),
        (Act::Stay, 30),
    ];
    let mut all = samples(&script, Phone::ALL, 11);
    for owned in &mut all {
        if let Owned::Plain(Sample::Location(fix)) = owned {
            let share = (f64::from(fix.t_ms) / 1_000.0 - 72.0).clamp(0.0, 8.0) / 8.0;
            // A degree of longitude has 68.5 km here.
            fix.lng += share * 4.0 / 68_500.0;
        }
    }
    let events = events_of(&context_at(489.0, 40.0), &all, 60);
    assert!(of_type(&events, EventType::Gate).is_empty(), "{events:?}");
}

/// Nobody is at home on the second floor. The courier walks down and out, waits in the street, is
/// called back, and rings at the main door again. Both waits at the main door are gates.
#[test]
fn a_gate_on_a_second_approach_is_a_gate() {
    let south = Act::Walk { heading_deg: 180.0 };
    let stairs = |mps| Act::Stairs {
        mps,
        heading_deg: 0.0,
    };
    let script = [
        (Act::Stay, 20),
        (NORTH, 40),
        (Act::Stay, 8),
        (NORTH, 10),
        (stairs(0.3), 20),
        (Act::Stay, 20),
        (stairs(-0.3), 20),
        (south, 45),
        (Act::Stay, 15),
        (NORTH, 35),
        (Act::Stay, 8),
        (NORTH, 10),
        (stairs(0.3), 20),
        (Act::Stay, 20),
    ];
    let all = samples(&script, Phone::ALL, 11);
    let events = events_of(&context_at(0.0, 62.0), &all, 60);
    let gates = of_type(&events, EventType::Gate);
    let starts_ms: Vec<u32> = gates.iter().map(|gate| gate.t_start_ms).collect();
    assert_eq!(gates.len(), 2, "{events:?}");
    assert!(starts_ms[0].abs_diff(60_000) <= 2_000, "{starts_ms:?}");
    assert!(starts_ms[1].abs_diff(233_000) <= 2_000, "{starts_ms:?}");
}

/// The courier drops off a parcel, then drives through two tunnels, which end and restore the
/// positions twice. The mark before the drive says nothing about the gate after it.
#[test]
fn a_drive_with_two_tunnels_separates_two_visits() {
    let drive = Act::Drive {
        mps: 8.0,
        climb_mps: 0.0,
    };
    let script = [
        (Act::Stay, 30),
        (NORTH, 20),
        (drive, 240),
        (Act::Stay, 12),
        (NORTH, 25),
        (Act::Stay, 12),
        (NORTH, 25),
        (Act::Stay, 30),
    ];
    let mut all = samples(&script, Phone::ALL, 11);
    let is_tunnel =
        |t_ms: u32| (90_000..130_000).contains(&t_ms) || (170_000..210_000).contains(&t_ms);
    all.retain(
        |owned| !matches!(owned, Owned::Plain(Sample::Location(fix)) if is_tunnel(fix.t_ms)),
    );
    all.push(Owned::Plain(Sample::Mark(Mark {
        t_ms: 25_000,
        name: "handed_over",
    })));
    all.sort_by_key(|owned| owned.sample().t_ms());
    let events = events_of(&context_at(1_920.0, 85.0), &all, 60);
    assert_eq!(of_type(&events, EventType::GpsLost).len(), 2, "{events:?}");
    let gates = of_type(&events, EventType::Gate);
    assert_eq!(gates.len(), 1, "{events:?}");
    assert!(gates[0].t_start_ms.abs_diff(327_000) <= 2_000, "{gates:?}");
}

/// The stairs begin two steps behind the main door. The courier rests on a landing, which is no
/// door.
#[test]
fn a_main_door_at_the_foot_of_the_stairs_is_a_gate() {
    let stairs = Act::Stairs {
        mps: 0.3,
        heading_deg: 0.0,
    };
    let script = [
        (Act::Stay, 20),
        (NORTH, 40),
        (Act::Stay, 15),
        (NORTH, 2),
        (stairs, 20),
        (Act::Stay, 10),
        (stairs, 20),
        (NORTH, 5),
        (Act::Stay, 30),
    ];
    let all = samples(&script, Phone::ALL, 11);
    let events = events_of(&context_at(0.0, 60.0), &all, 60);
    let gates = of_type(&events, EventType::Gate);
    assert_eq!(gates.len(), 1, "{events:?}");
    assert!(gates[0].t_start_ms.abs_diff(60_000) <= 2_000, "{gates:?}");
}

/// The courier waits at the street gate, climbs a ramp of 1.6 m in 8 s, and rings at the house. The
/// height changed on the way and not at rest, so the gate was not a wait for an elevator.
#[test]
fn a_ramp_behind_a_gate_is_not_an_elevator() {
    let ramp = Act::Stairs {
        mps: 0.2,
        heading_deg: 0.0,
    };
    let script = [
        (Act::Stay, 20),
        (NORTH, 40),
        (Act::Stay, 12),
        (ramp, 8),
        (Act::Stay, 30),
        (NORTH, 8),
        (Act::Stay, 30),
    ];
    let all = samples(&script, Phone::ALL, 11);
    let events = events_of(&context_at(0.0, 60.0), &all, 60);
    let gates = of_type(&events, EventType::Gate);
    assert!(!gates.is_empty(), "{events:?}");
    assert!(gates[0].t_start_ms.abs_diff(60_000) <= 2_000, "{gates:?}");
}

/// The courier waits at the main door, walks to the elevator, and waits there. The two steps into
/// the cabin are too few to end the rest, but nobody stands in a cabin for 25 s before it starts.
/// The second rest includes the wait, so the first was not a wait for the elevator.
#[test]
fn a_main_door_before_a_long_wait_for_an_elevator_is_a_gate() {
    let script = [
        (Act::Stay, 20),
        (NORTH, 40),
        (Act::Stay, 14),
        (NORTH, 7),
        (Act::Stay, 25),
        (Act::Ride { mps: 1.0 }, 12),
        (NORTH, 10),
        (Act::Stay, 20),
    ];
    let all = samples(&script, Phone::ALL, 11);
    let events = events_of(&context_at(0.0, 61.0), &all, 60);
    assert_eq!(of_type(&events, EventType::Elevator).len(), 1, "{events:?}");
    let gates = of_type(&events, EventType::Gate);
    assert_eq!(gates.len(), 1, "{events:?}");
    assert!(gates[0].t_start_ms.abs_diff(60_000) <= 2_000, "{gates:?}");
}

/// The courier rings, and paces to and fro before the door until somebody comes. The address lies
/// 28 m farther, because it is badly geocoded. Nothing was passed.
#[test]
fn pacing_before_a_door_passes_no_gate() {
    let south = Act::Walk { heading_deg: 180.0 };
    for (steps_sec, turn_sec) in [(2, 3), (3, 3), (4, 5)] {
        let mut script = vec![(Act::Stay, 20), (NORTH, 40), (Act::Stay, 12)];
        for _ in 0..4 {
            script.extend([(NORTH, steps_sec), (Act::Stay, turn_sec)]);
            script.extend([(south, steps_sec), (Act::Stay, turn_sec)]);
        }
        script.extend([(Act::Stay, 10), (south, 40)]);
        let all = samples(&script, Phone::ALL, 11);
        let events = events_of(&context_at(0.0, 80.0), &all, 60);
        assert_eq!(of_type(&events, EventType::Gate), [], "{events:?}");
    }
}

/// A phone without a barometer. The courier waits 25 s for the elevator and walks into the cabin.
/// The ride is known when the cabin stops, half a minute later; the wait is no gate. A gate a few
/// steps from the door remains one: there the courier rests as long, and no cabin pushes the body.
#[test]
fn a_wait_for_an_elevator_without_a_barometer_is_not_a_gate() {
    let phone = Phone {
        pressure: false,
        ..Phone::ALL
    };
    let found = |script: &[(Act, u32)]| {
        let mut all = samples(script, phone, 11);
        all.retain(|owned| match owned {
            Owned::Plain(Sample::Location(fix)) => fix.t_ms < 58_000,
            _ => true,
        });
        events_of(&context_at(0.0, 62.0), &all, 60)
    };
    let ride = [
        (Act::Stay, 20),
        (NORTH, 40),
        (Act::Stay, 25),
        (NORTH, 4),
        (Act::Stay, 4),
        (Act::Ride { mps: 1.2 }, 30),
        (Act::Stay, 4),
        (NORTH, 12),
        (Act::Stay, 20),
    ];
    let events = found(&ride);
    assert_eq!(of_type(&events, EventType::Elevator).len(), 1, "{events:?}");
    assert_eq!(of_type(&events, EventType::Gate), [], "{events:?}");
    let gate = [
        (Act::Stay, 20),
        (NORTH, 40),
        (Act::Stay, 25),
        (NORTH, 7),
        (Act::Stay, 45),
        (NORTH, 12),
        (Act::Stay, 20),
    ];
    let events = found(&gate);
    let gates = of_type(&events, EventType::Gate);
    assert_eq!(gates.len(), 1, "{events:?}");
    assert!(gates[0].t_start_ms.abs_diff(60_000) <= 2_000, "{gates:?}");
}
