//! Tests starts of bicycles, whose pedals move the phone like steps.

use porchlight_schema::event::{Event, EventType};
use porchlight_schema::sample::Sample;

use super::signals::{Act, IMU_HZ, Noise, Owned, Phone, context_at, events_of, of_type, samples};

const RIDE: Act = Act::Drive {
    mps: 4.5,
    climb_mps: 0.0,
};

/// The time in which a loaded bicycle reaches its speed, seconds.
const START_SEC: u32 = 9;

/// The speed of a loaded bicycle a number of seconds after its start, m/s.
fn speed_mps(seconds: u32) -> f32 {
    (0.5 * seconds as f32).min(4.5)
}

/// Returns the events of a ride of which the seconds `starts` are starts: the rider pedals out of
/// the saddle until the bicycle has its speed.
fn events(script: &[(Act, u32)], starts: &[u32], seed: u64) -> Vec<Event> {
    pedalled(script, seed, |second| {
        let since = starts.iter().filter_map(|start| second.checked_sub(*start));
        let since = since.min().filter(|&since| since < START_SEC)?;
        Some(Pedals {
            reported_mps: Some(speed_mps(since)),
            swing_mps2: PEDALS_MPS2,
        })
    })
}

/// A second in which pedals swing the phone.
struct Pedals {
    /// The speed that the receiver reports instead of the script's.
    reported_mps: Option<f32>,
    swing_mps2: f32,
}

/// The swing by pedals, m/s².
const PEDALS_MPS2: f32 = 1.8;

/// Returns the events of a ride with a phone in a pocket, which pedals swing at 1.5 Hz in the
/// seconds that `pedals_in` returns.
fn pedalled(
    script: &[(Act, u32)],
    seed: u64,
    pedals_in: impl Fn(u32) -> Option<Pedals>,
) -> Vec<Event> {
    let mut all = samples(
        script,
        Phone {
            steps: false,
            ..Phone::ALL
        },
        seed,
    );
    let mut noise = Noise::new(seed);
    for owned in &mut all {
        let Some(pedals) = pedals_in(owned.sample().t_ms() / 1_000) else {
            continue;
        };
        match owned {
            Owned::Plain(Sample::Location(fix)) => {
                if let Some(mps) = pedals.reported_mps {
                    fix.speed_mps = Some(mps + 0.1 * noise.next() as f32);
                }
            }
            Owned::Imu {
                t_ms,
                accel: [_, _, z],
            } => {
                for (place, z) in z.iter_mut().enumerate() {
                    let t = *t_ms as f32 / 1_000.0 + place as f32 / IMU_HZ as f32;
                    *z += pedals.swing_mps2 * (std::f32::consts::TAU * 1.5 * t).sin();
                }
            }
            Owned::Plain(_) => {}
        }
    }
    events_of(&context_at(0.0, 300.0), &all, 60)
}

/// A courier slows down in front of a bend to the speed of a walk, pedals through it, and rides on.
/// Nobody steps off a bicycle that rolls.
#[test]
fn a_bicycle_that_slows_down_in_a_bend_is_one_drive() {
    const BEND: Act = Act::Drive {
        mps: 2.0,
        climb_mps: 0.0,
    };
    for seed in 1..6 {
        let script = [(RIDE, 60), (BEND, 8), (RIDE, 60)];
        let events = pedalled(&script, seed, |second| {
            let pedals = Pedals {
                reported_mps: None,
                swing_mps2: PEDALS_MPS2,
            };
            (58..70).contains(&second).then_some(pedals)
        });
        let drives = of_type(&events, EventType::Driving);
        assert_eq!(drives.len(), 1, "{events:?}");
        let walks = of_type(&events, EventType::Walking);
        assert!(walks.is_empty(), "{events:?}");
    }
}

/// A courier rides a bicycle, waits 20 s at a red light, and pedals away from it. Nobody walked, so
/// the halt belongs to the drive.
#[test]
fn a_bicycle_that_pedals_away_from_a_light_is_one_drive() {
    for seed in 1..6 {
        let events = events(&[(RIDE, 60), (Act::Stay, 20), (RIDE, 60)], &[80], seed);
        let drives = of_type(&events, EventType::Driving);
        assert_eq!(drives.len(), 1, "{events:?}");
        assert!(
            of_type(&events, EventType::Walking).is_empty(),
            "{events:?}"
        );
    }
}

/// A session begins with the start of a bicycle.
#[test]
fn a_session_that_begins_with_the_start_of_a_bicycle_has_no_walk() {
    for seed in 1..6 {
        let events = events(&[(RIDE, 60)], &[0], seed);
        assert!(
            of_type(&events, EventType::Walking).is_empty(),
            "{events:?}"
        );
        assert_eq!(of_type(&events, EventType::Driving).len(), 1, "{events:?}");
    }
}

/// A courier walks six seconds to the door, gives the parcel, walks back, and rides away: the walks
/// and the stay are found.
#[test]
fn a_short_walk_to_a_bicycle_is_found() {
    let north = Act::Walk { heading_deg: 0.0 };
    let south = Act::Walk { heading_deg: 180.0 };
    let script = [
        (RIDE, 60),
        (Act::Stay, 6),
        (north, 7),
        (Act::Stay, 20),
        (south, 7),
        (Act::Stay, 4),
        (RIDE, 60),
    ];
    for seed in 1..6 {
        let events = events(&script, &[104], seed);
        assert_eq!(of_type(&events, EventType::Walking).len(), 2, "{events:?}");
        assert_eq!(of_type(&events, EventType::Driving).len(), 2, "{events:?}");
    }
}

/// Returns the events of a courier who moves 3.3 m/s for a minute after a stay, while the phone
/// swings by `swing_mps2` as in steps, and then stays. The phone has no step counter.
fn moves_as_fast_as_a_run(swing_mps2: f32, seed: u64) -> Vec<Event> {
    const MOVE: Act = Act::Drive {
        mps: 3.3,
        climb_mps: 0.0,
    };
    let script = [(Act::Stay, 20), (MOVE, 60), (Act::Stay, 20)];
    pedalled(&script, seed, |second| {
        let swing = Pedals {
            reported_mps: None,
            swing_mps2,
        };
        (20..80).contains(&second).then_some(swing)
    })
}

/// A loaded cargo bicycle moves at the speed of a run and shakes the phone at the pace of steps,
/// but less than any run does.
#[test]
fn a_bicycle_as_fast_as_a_run_that_shakes_the_phone_softly_is_a_drive() {
    for seed in 1..6 {
        let events = moves_as_fast_as_a_run(PEDALS_MPS2, seed);
        assert_eq!(of_type(&events, EventType::Driving).len(), 1, "{events:?}");
        let walks = of_type(&events, EventType::Walking);
        assert!(walks.is_empty(), "{events:?}");
    }
}

/// A courier who runs leaves the ground at each step, which swings the phone much more.
#[test]
fn a_run_is_not_a_drive() {
    for seed in 1..6 {
        let events = moves_as_fast_as_a_run(9.0, seed);
        assert_eq!(of_type(&events, EventType::Walking).len(), 1, "{events:?}");
        let drives = of_type(&events, EventType::Driving);
        assert!(drives.is_empty(), "{events:?}");
    }
}
