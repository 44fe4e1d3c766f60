//! Tests bodies at rest that a vehicle carries, and bodies at rest or on foot whose barometer
//! moves.

use porchlight_schema::event::{Event, EventType};
use porchlight_schema::sample::{Location, Sample};

use super::signals::{Act, Noise, Owned, Phone, context_at, events_of, of_type, samples};

const NORTH: Act = Act::Walk { heading_deg: 0.0 };
const SOUTH: Act = Act::Walk { heading_deg: 180.0 };

/// Returns the script of a courier who comes back from a door and drives away at `mps`.
fn departure(mps: f64) -> [(Act, u32); 6] {
    [
        (Act::Stay, 20),
        (NORTH, 30),
        (Act::Stay, 20),
        (SOUTH, 30),
        (Act::Stay, 8),
        (
            Act::Drive {
                mps,
                climb_mps: 0.0,
            },
            64,
        ),
    ]
}

/// Changes the fixes of the samples.
fn change_fixes(all: &mut [Owned], mut change: impl FnMut(&mut Location)) {
    for owned in all {
        if let Owned::Plain(Sample::Location(fix)) = owned {
            change(fix);
        }
    }
}

fn assert_drives_from(events: &[Event], start_ms: u32) {
    let drives = of_type(events, EventType::Driving);
    assert_eq!(drives.len(), 1, "{events:?}");
    assert!(
        drives[0].t_start_ms.abs_diff(start_ms) <= 8_000,
        "{events:?}"
    );
    assert!(
        of_type(events, EventType::Elevator).is_empty(),
        "{events:?}"
    );
}

/// A van crawls away at 3 m/s on a smooth road. The courier sits still in it, and the receiver
/// measures the speed.
#[test]
fn a_slow_vehicle_is_not_a_stay() {
    for seed in 1..6 {
        let mut all = samples(&departure(3.0), Phone::ALL, seed);
        // The wheels are quiet: only the engine shakes the phone.
        quiet(&mut all, 108_000, seed);
        assert_drives_from(&events_of(&context_at(0.0, 39.0), &all, 60), 108_000);
    }
}

/// A van drives at 6 m/s. The phone reports no speed, and the error of its positions, 20 m, hides
/// that of four seconds but not that of half a minute.
#[test]
fn coarse_positions_without_a_speed_show_a_vehicle() {
    let phone = Phone {
        accuracy_m: 20.0,
        ..Phone::ALL
    };
    for seed in 1..6 {
        let mut all = samples(&departure(6.0), phone, seed);
        change_fixes(&mut all, |fix| fix.speed_mps = None);
        quiet(&mut all, 108_000, seed);
        let events = events_of(&context_at(0.0, 39.0), &all, 60);
        assert_drives_from(&events, 118_000);
    }
}

/// Replaces the acceleration since a time with that of a body at rest.
fn quiet(all: &mut [Owned], from_ms: u32, seed: u64) {
    let mut noise = Noise::new(seed);
    for owned in all {
        if let Owned::Imu {
            t_ms,
            accel: [_, _, z],
        } = owned
            && *t_ms >= from_ms
        {
            z.iter_mut()
                .for_each(|z| *z = (9.81 + 0.06 * noise.next()) as f32);
        }
    }
}

/// The phone is in a trouser pocket, whose swing presses the air by 0.1 hPa and more with each
/// step. The barometer reports once a second, so the swing looks like a height that rises and falls
/// for seconds. The street is level.
#[test]
fn a_swing_of_the_pocket_hides_no_walk() {
    let script = [
        (Act::Stay, 20),
        (NORTH, 26),
        (Act::Stay, 30),
        (SOUTH, 26),
        (Act::Stay, 20),
    ];
    for seed in 1..6 {
        let mut all = samples(&script, Phone::ALL, seed);
        all.retain(|owned| match owned {
            Owned::Plain(Sample::Pressure(pressure)) => pressure.t_ms % 1_000 < 500,
            Owned::Plain(Sample::Location(_)) => false,
            _ => true,
        });
        for owned in &mut all {
            if let Owned::Plain(Sample::Pressure(pressure)) = owned {
                let second = pressure.t_ms / 1_000;
                if (20..46).contains(&second) || (76..102).contains(&second) {
                    let turn = std::f32::consts::TAU * second as f32 / 9.0;
                    pressure.hpa += 0.16 * turn.sin();
                }
            }
        }
        let events = events_of(&context_at(0.0, 34.0), &all, 60);
        let walks = of_type(&events, EventType::Walking);
        assert_eq!(walks.len(), 2, "{events:?}");
        let walked_ms: u32 = walks
            .iter()
            .map(|walk| walk.t_end_ms.unwrap_or(0) - walk.t_start_ms)
            .sum();
        assert!(walked_ms >= 44_000, "{events:?}");
        assert!(of_type(&events, EventType::Stairs).is_empty(), "{events:?}");
    }
}

/// At the door of a house the courier lifts the phone and lowers it again. The phone has no
/// barometer, and its fixes of 4 m show the open sky, which no cabin has.
#[test]
fn moving_hands_under_the_sky_are_not_an_elevator() {
    let script = [
        (Act::Stay, 10),
        (NORTH, 30),
        (Act::Stay, 10),
        (Act::Ride { mps: 1.2 }, 8),
        (Act::Stay, 30),
    ];
    let phone = Phone {
        accuracy_m: 4.0,
        pressure: false,
        ..Phone::ALL
    };
    for seed in 1..6 {
        let all = samples(&script, phone, seed);
        let events = events_of(&context_at(0.0, 39.0), &all, 60);
        assert!(
            of_type(&events, EventType::Elevator).is_empty(),
            "{events:?}"
        );
        let mut inside = all.clone();
        inside.retain(
            |owned| !matches!(owned, Owned::Plain(Sample::Location(fix)) if fix.t_ms >= 35_000),
        );
        let events = events_of(&context_at(0.0, 39.0), &inside, 60);
        assert_eq!(of_type(&events, EventType::Elevator).len(), 1, "{events:?}");
    }
}

/// On a rough road the step counter of the phone counts, and nothing else measures the body. The
/// van goes 120 m at 10 m/s and halts at a red light.
#[test]
fn a_counter_that_counts_on_the_road_hides_no_drive() {
    let drive = |seconds| {
        (
            Act::Drive {
                mps: 10.0,
                climb_mps: 0.0,
            },
            seconds,
        )
    };
    let script = [
        (Act::Stay, 20),
        (NORTH, 30),
        (Act::Stay, 20),
        (SOUTH, 30),
        (Act::Stay, 10),
        drive(12),
        (Act::Stay, 40),
        drive(60),
    ];
    let phone = Phone {
        imu: false,
        pressure: false,
        ..Phone::ALL
    };
    let mut all = samples(&script, phone, 3);
    for owned in &mut all {
        if let Owned::Plain(Sample::Steps(steps)) = owned
            && steps.t_ms >= 110_000
        {
            let second = steps.t_ms / 1_000 - 110;
            // While it halts, the van does not shake the phone.
            steps.count += second.min(12) + second.saturating_sub(52);
        }
    }
    let events = events_of(&context_at(0.0, 39.0), &all, 60);
    assert_drives_from(&events, 110_000);
}

/// A van parks, and the courier sorts parcels in it for a quarter of a minute. The phone repeats
/// its last fix meanwhile, with the speed before the van braked. At that speed the place would have
/// changed, so the van stands.
#[test]
fn a_repeated_fix_does_not_move_a_parked_vehicle() {
    let drive = Act::Drive {
        mps: 6.0,
        climb_mps: 0.0,
    };
    let script = [(drive, 60), (Act::Stay, 14), (NORTH, 30), (Act::Stay, 20)];
    for seed in 1..6 {
        let mut all = samples(&script, Phone::ALL, seed);
        let mut last = None;
        change_fixes(&mut all, |fix| {
            if (60_000..74_000).contains(&fix.t_ms)
                && let Some(repeated) = last
            {
                *fix = Location {
                    t_ms: fix.t_ms,
                    ..repeated
                };
            }
            last = Some(*fix);
        });
        let events = events_of(&context_at(360.0, 39.0), &all, 60);
        let drives = of_type(&events, EventType::Driving);
        assert_eq!(drives.len(), 1, "{events:?}");
        let end_ms = drives[0].t_end_ms.unwrap_or(0);
        assert!(end_ms.abs_diff(60_000) <= 3_000, "{events:?}");
        let stays = of_type(&events, EventType::Stopped);
        assert!(stays[0].t_start_ms.abs_diff(60_000) <= 3_000, "{events:?}");
    }
}
