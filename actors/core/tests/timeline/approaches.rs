//! Gates after an attempt, and pauses on the way that are not gates.

use porchlight_schema::event::{Event, EventType};
use porchlight_schema::sample::{Motion, Sample};

use super::signals::{Act, Owned, Phone, context_at, events_of, of_type, samples};

const NORTH: Act = Act::Walk { heading_deg: 0.0 };
const EAST: Act = Act::Walk { heading_deg: 90.0 };
const SOUTH: Act = Act::Walk { heading_deg: 180.0 };
const DRIVE: Act = Act::Drive {
    mps: 8.0,
    climb_mps: 0.0,
};

/// Returns the events of a script with changed samples. The address is at `address_m`.
fn found(address_m: (f64, f64), script: &[(Act, u32)], change: impl Fn(&mut Owned)) -> Vec<Event> {
    let mut all = samples(script, Phone::ALL, 11);
    all.iter_mut().for_each(change);
    events_of(&context_at(address_m.0, address_m.1), &all, 60)
}

/// Asserts that gates begin at these seconds, and that there are no others.
fn assert_gates(events: &[Event], starts_sec: &[u32]) {
    let gates = of_type(events, EventType::Gate);
    assert_eq!(gates.len(), starts_sec.len(), "{gates:?}: {events:?}");
    for (gate, start_sec) in gates.iter().zip(starts_sec) {
        let late_ms = gate.t_start_ms.abs_diff(start_sec * 1_000);
        assert!(late_ms <= 2_000, "{gates:?}");
    }
}

/// Nobody answers at the main door. The phone leaves the pocket there and cools down, so that its
/// barometer drifts by 3 m. No floor was climbed, so the height does not matter on the second
/// approach.
#[test]
fn a_drift_of_the_barometer_hides_no_second_approach() {
    let script = [
        (Act::Stay, 20),
        (NORTH, 40),
        (Act::Stay, 30),
        (SOUTH, 35),
        (Act::Stay, 15),
        (NORTH, 35),
        (Act::Stay, 8),
        (NORTH, 20),
        (Act::Stay, 30),
    ];
    let events = found((0.0, 70.0), &script, |owned| {
        if let Owned::Plain(Sample::Pressure(pressure)) = owned {
            let sec = pressure.t_ms as f32 / 1_000.0;
            let drift = ((sec - 62.0) / 26.0).clamp(0.0, 1.0);
            pressure.hpa += 0.36 * drift;
        }
    });
    assert_gates(&events, &[175]);
}

/// The gate is 12 m from the van. Nobody answers; the courier waits in front of the van for a
/// minute, and rings again.
#[test]
fn a_gate_near_the_vehicle_is_found_on_the_second_approach() {
    let script = [
        (DRIVE, 60),
        (Act::Stay, 12),
        (NORTH, 9),
        (Act::Stay, 20),
        (SOUTH, 9),
        (Act::Stay, 60),
        (NORTH, 9),
        (Act::Stay, 12),
        (NORTH, 20),
        (Act::Stay, 30),
    ];
    let events = found((480.0, 36.0), &script, |_| {});
    assert_gates(&events, &[179]);
}

/// Nobody answers at the first entrance. The courier walks away, telephones, and goes to another
/// entrance, which is no nearer to the first one.
#[test]
fn a_rest_outside_ends_the_return() {
    let script = [
        (Act::Stay, 20),
        (NORTH, 40),
        (Act::Stay, 30),
        (SOUTH, 30),
        (Act::Stay, 15),
        (EAST, 25),
        (Act::Stay, 12),
        (EAST, 20),
        (Act::Stay, 30),
    ];
    let events = found((15.0, 35.0), &script, |_| {});
    assert_gates(&events, &[160]);
}

/// Behind the main door the platform locates the phone 40 m back, with an accuracy of 45 m. Such a
/// fix shows no direction.
#[test]
fn a_decayed_fix_behind_a_gate_is_not_a_way_back() {
    let script = [
        (Act::Stay, 20),
        (NORTH, 40),
        (Act::Stay, 12),
        (NORTH, 20),
        (Act::Stay, 40),
    ];
    let events = found((0.0, 70.0), &script, |owned| {
        if let Owned::Plain(Sample::Location(fix)) = owned
            && fix.t_ms > 73_000
        {
            fix.lat = 52.0 + 12.0 / 111_195.0;
            fix.accuracy_m = Some(45.0);
        }
    });
    assert_gates(&events, &[60]);
}

/// The phone sends a fix only every 12 s. The 11 s since the newest one do not show that the
/// courier is inside a building.
#[test]
fn a_rare_fix_does_not_show_a_building() {
    let script = [
        (Act::Stay, 20),
        (NORTH, 40),
        (Act::Stay, 12),
        (NORTH, 20),
        (Act::Stay, 30),
    ];
    let mut all = samples(&script, Phone::ALL, 11);
    all.retain(|owned| match owned {
        Owned::Plain(Sample::Location(fix)) => fix.t_ms / 1_000 % 12 == 3,
        _ => true,
    });
    let events = events_of(&context_at(0.0, 70.0), &all, 60);
    assert_gates(&events, &[60]);
}

/// Two gates are a few steps apart. The second door swings the pressure by 1.7 m of height for two
/// seconds. An elevator would stay at its height.
#[test]
fn a_pressure_leap_at_a_door_is_not_an_elevator() {
    let script = [
        (Act::Stay, 20),
        (NORTH, 40),
        (Act::Stay, 12),
        (NORTH, 7),
        (Act::Stay, 20),
        (NORTH, 25),
        (Act::Stay, 30),
    ];
    let events = found((0.0, 80.0), &script, |owned| {
        if let Owned::Plain(Sample::Pressure(pressure)) = owned
            && (86_000..88_000).contains(&pressure.t_ms)
        {
            pressure.hpa -= 0.21;
        }
    });
    assert_gates(&events, &[60, 79]);
}

/// The courier hesitates for two seconds some steps before the gate. The walk before that counts.
#[test]
fn a_hesitation_before_a_gate_hides_no_gate() {
    let script = [
        (Act::Stay, 20),
        (NORTH, 40),
        (Act::Stay, 2),
        (NORTH, 4),
        (Act::Stay, 15),
        (NORTH, 25),
        (Act::Stay, 30),
    ];
    let events = found((0.0, 80.0), &script, |_| {});
    assert_gates(&events, &[66]);
}

/// The courier forgot the parcel, turns round in the street, fetches it at the van, and walks to
/// the house beside it.
#[test]
fn fetching_a_forgotten_parcel_is_not_a_gate() {
    let script = [
        (DRIVE, 60),
        (Act::Stay, 12),
        (NORTH, 20),
        (SOUTH, 20),
        (Act::Stay, 15),
        (EAST, 25),
        (Act::Stay, 30),
    ];
    let events = found((515.0, 0.0), &script, |_| {});
    assert_gates(&events, &[]);
}

/// The session is stopped five seconds after the stay at a house's front door.
#[test]
fn a_door_at_the_end_of_a_session_is_not_a_gate() {
    let script = [(Act::Stay, 20), (NORTH, 40), (Act::Stay, 30), (NORTH, 5)];
    let events = found((0.0, 55.0), &script, |_| {});
    assert_gates(&events, &[]);
}

/// The van is parked in the street. The path of the house leads 14 m from it to the door, where
/// nobody opens for half a minute. On the way back the courier turns into the street after 10 s, so
/// that the last of the 20 s leads to the side.
#[test]
fn a_stay_at_the_front_door_is_not_a_gate() {
    let west = Act::Walk { heading_deg: 270.0 };
    let script = [
        (Act::Stay, 20),
        (EAST, 30),
        (NORTH, 11),
        (Act::Stay, 30),
        (SOUTH, 11),
        (west, 30),
        (Act::Stay, 20),
    ];
    assert_gates(&found((39.0, 14.0), &script, |_| {}), &[]);
}

/// The courier stays at the door of the address for a while and walks back. The fixes of 30 m show
/// no direction over 14 m, no sign of a passage follows, and the walk after the stay is as long as
/// the walk before it.
#[test]
fn a_stay_with_coarse_fixes_at_the_address_is_not_a_gate() {
    let script = [
        (Act::Stay, 20),
        (NORTH, 11),
        (Act::Stay, 30),
        (SOUTH, 11),
        (Act::Stay, 30),
    ];
    let coarse = |owned: &mut Owned| {
        if let Owned::Plain(Sample::Location(fix)) = owned {
            fix.accuracy_m = Some(30.0);
        }
    };
    assert_gates(&found((0.0, 14.0), &script, coarse), &[]);
    // A short walk after the stay led through a gate to the door.
    let script = [
        (Act::Stay, 20),
        (NORTH, 40),
        (Act::Stay, 12),
        (NORTH, 8),
        (Act::Stay, 40),
    ];
    assert_gates(&found((0.0, 62.0), &script, coarse), &[60]);
}

/// Returns the seconds of `motion` of a phone in the pocket, and its turn about gravity in each.
fn motion(script: &[(Act, u32)], yaw_rad: f32) -> Vec<Owned> {
    let acts = script
        .iter()
        .flat_map(|&(act, seconds)| (0..seconds).map(move |_| act));
    let second = |(sec, act)| {
        let walks = !matches!(act, Act::Stay);
        Owned::Plain(Sample::Motion(Motion {
            t_ms: sec * 1_000,
            accel_mean: 9.81,
            accel_std: if walks { 2.0 } else { 0.03 },
            vertical_mean: None,
            cadence_hz: Some(if walks { 1.8 } else { 0.0 }),
            yaw_rad: Some(yaw_rad),
        }))
    };
    (0_u32..).zip(acts).map(second).collect()
}

/// Returns the events of a phone that sends `motion`. Its positions wander back by `wander_m` in
/// the last 20 s of a wait of a minute that begins at 60 s.
fn found_wandering(
    script: &[(Act, u32)],
    yaw_rad: f32,
    (accuracy_m, wander_m): (f32, f64),
) -> Vec<Event> {
    let phone = Phone {
        imu: false,
        accuracy_m,
        ..Phone::ALL
    };
    let mut all = samples(script, phone, 11);
    for owned in &mut all {
        if let Owned::Plain(Sample::Location(fix)) = owned {
            let share = (f64::from(fix.t_ms) / 20_000.0 - 5.0).clamp(0.0, 1.0);
            fix.lat -= share * wander_m / 111_195.0;
        }
    }
    all.extend(motion(script, yaw_rad));
    all.sort_by_key(|owned| owned.sample().t_ms());
    events_of(&context_at(0.0, 68.0), &all, 60)
}

/// The courier waits a minute at the gate for an answer, and walks on in the same direction, which
/// the gyroscope shows. The position wanders back by 24 m meanwhile, four times its accuracy. A
/// gyroscope that reads zero does not work, so the positions decide.
#[test]
fn a_position_that_wanders_back_during_the_wait_hides_no_gate() {
    let script = [
        (Act::Stay, 20),
        (NORTH, 40),
        (Act::Stay, 60),
        (NORTH, 10),
        (Act::Stay, 40),
    ];
    assert_gates(&found_wandering(&script, 0.002, (6.0, 24.0)), &[60]);
    assert_gates(&found_wandering(&script, 0.0, (6.0, 24.0)), &[]);
}

/// Nobody opens at the door, and the courier walks back, and turns the phone in the hand meanwhile,
/// so that the gyroscope shows no turn. The positions of 6 m show the way back clearly.
#[test]
fn a_clear_way_back_is_no_gate_although_the_phone_was_turned() {
    let script = [
        (Act::Stay, 20),
        (NORTH, 40),
        (Act::Stay, 60),
        (SOUTH, 40),
        (Act::Stay, 20),
    ];
    assert_gates(&found_wandering(&script, 0.002, (6.0, 0.0)), &[]);
}

/// Returns the events of a phone without positions that sends `motion` and turns by a half turn in
/// the seconds `turns_sec`. With `has_pressure` it has a barometer.
fn found_unlocated(script: &[(Act, u32)], turns_sec: &[u32], has_pressure: bool) -> Vec<Event> {
    let phone = Phone {
        imu: false,
        location: false,
        pressure: has_pressure,
        ..Phone::ALL
    };
    let mut all = samples(script, phone, 11);
    let mut motions = motion(script, 0.002);
    for owned in &mut motions {
        if let Owned::Plain(Sample::Motion(motion)) = owned
            && turns_sec.contains(&(motion.t_ms / 1_000))
        {
            motion.yaw_rad = Some(core::f32::consts::PI);
        }
    }
    all.extend(motions);
    all.sort_by_key(|owned| owned.sample().t_ms());
    events_of(&context_at(0.0, 68.0), &all, 60)
}

/// The phone sends no position. The courier waits, and walks on in the same direction, which the
/// gyroscope shows: the courier has passed a gate. At a door the courier turns round.
#[test]
fn a_gyroscope_shows_a_gate_without_positions() {
    let script = [
        (Act::Stay, 20),
        (NORTH, 40),
        (Act::Stay, 12),
        (NORTH, 30),
        (Act::Stay, 40),
    ];
    for has_pressure in [false, true] {
        assert_gates(&found_unlocated(&script, &[], has_pressure), &[60]);
        assert_gates(&found_unlocated(&script, &[71], has_pressure), &[]);
    }
}

/// The phone has neither positions nor a barometer. The courier waits for the elevator, walks a few
/// steps into the cabin, turns round or not, and walks on upstairs. Nothing shows the ride.
#[test]
fn a_wait_for_an_unseen_ride_without_positions_is_not_a_gate() {
    let script = [
        (Act::Stay, 20),
        (NORTH, 40),
        (Act::Stay, 25),
        (NORTH, 6),
        (Act::Stay, 30),
        (NORTH, 25),
        (Act::Stay, 40),
    ];
    assert_gates(&found_unlocated(&script, &[], false), &[]);
    assert_gates(&found_unlocated(&script, &[95], false), &[]);
}

/// The courier walks along the kerb to the gate, waits a minute, and turns by a right angle to the
/// house. The position of 6 m wanders meanwhile, so that the walk after the gate seems to lead
/// back. The gyroscope shows that it does not.
#[test]
fn a_right_angle_at_a_gate_is_not_a_way_back() {
    let script = [
        (Act::Stay, 20),
        (NORTH, 40),
        (Act::Stay, 60),
        (EAST, 10),
        (Act::Stay, 40),
    ];
    let phone = Phone {
        imu: false,
        ..Phone::ALL
    };
    let found = |turn_rad: f32| {
        let mut all = samples(&script, phone, 11);
        for owned in &mut all {
            if let Owned::Plain(Sample::Location(fix)) = owned {
                let share = (f64::from(fix.t_ms) / 20_000.0 - 5.0).clamp(0.0, 1.0);
                fix.lat -= share * 30.0 / 111_195.0;
            }
        }
        let mut motions = motion(&script, 0.002);
        if let Some(Owned::Plain(Sample::Motion(motion))) = motions.get_mut(119) {
            motion.yaw_rad = Some(turn_rad);
        }
        all.extend(motions);
        all.sort_by_key(|owned| owned.sample().t_ms());
        events_of(&context_at(0.0, 68.0), &all, 60)
    };
    assert_gates(&found(core::f32::consts::FRAC_PI_2), &[60]);
    // After a half turn the positions are right.
    assert_gates(&found(core::f32::consts::PI), &[]);
}
