//! Tests phones that report rarely, late or coarsely.

use porchlight_schema::event::{Event, EventType, Metadata};
use porchlight_schema::sample::{Location, Pressure, Sample, Steps};

use super::signals::{Act, Noise, Owned, Phone, context_at, events_of, of_type, samples};

const WALK: Act = Act::Walk { heading_deg: 0.0 };
const STAIRS: Act = Act::Stairs {
    mps: 0.3,
    heading_deg: 0.0,
};

/// Keeps one pressure reading in `every_sec` seconds.
fn with_pressure_every(mut all: Vec<Owned>, every_sec: u32) -> Vec<Owned> {
    let mut next_ms = 0;
    all.retain(|owned| {
        let Owned::Plain(Sample::Pressure(pressure)) = owned else {
            return true;
        };
        let is_due = pressure.t_ms >= next_ms;
        if is_due {
            next_ms = pressure.t_ms + every_sec * 1_000 - 400;
        }
        is_due
    });
    all
}

/// Keeps one fix in `every_sec` seconds.
fn with_fixes_every(mut all: Vec<Owned>, every_sec: u32) -> Vec<Owned> {
    all.retain(|owned| match owned {
        Owned::Plain(Sample::Location(fix)) => fix.t_ms / 1_000 % every_sec == 0,
        _ => true,
    });
    all
}

fn floors(event: &Event) -> Option<u16> {
    match event.metadata {
        Metadata::Climb { floors, .. } => floors,
        _ => None,
    }
}

/// Returns the only event of a type, with its start and end in seconds.
fn only(events: &[Event], event_type: EventType) -> (Event, u32, u32) {
    let [event] = of_type(events, event_type)[..] else {
        unreachable!("one {event_type:?}: {events:?}")
    };
    let end_ms = event.t_end_ms.unwrap_or(event.t_start_ms);
    (event, event.t_start_ms / 1_000, end_ms / 1_000)
}

/// Three storeys of 3 m by stairs take 30 s. A barometer that reports every 3, 5 or 10 s measures
/// them as well as one that reports each second.
#[test]
fn a_barometer_that_reports_rarely_still_shows_stairs() {
    let script = [
        (Act::Stay, 20),
        (WALK, 30),
        (STAIRS, 30),
        (WALK, 15),
        (Act::Stay, 30),
    ];
    for every_sec in [1, 2, 3, 5, 10] {
        let all = with_pressure_every(samples(&script, Phone::ALL, 21), every_sec);
        let events = events_of(&context_at(0.0, 0.0), &all, 60);
        let (stairs, from_sec, to_sec) = only(&events, EventType::Stairs);
        assert_eq!(floors(&stairs), Some(3), "every {every_sec} s: {events:?}");
        assert!(
            from_sec.abs_diff(50) <= 5 && to_sec.abs_diff(80) <= 5,
            "every {every_sec} s: {events:?}"
        );
    }
}

#[test]
fn a_barometer_that_reports_rarely_still_shows_a_ride() {
    let script = [
        (Act::Stay, 20),
        (WALK, 30),
        (Act::Stay, 12),
        (Act::Ride { mps: 1.0 }, 15),
        (Act::Stay, 6),
        (WALK, 20),
    ];
    for every_sec in [1, 3, 5, 10] {
        let all = with_pressure_every(samples(&script, Phone::ALL, 22), every_sec);
        let events = events_of(&context_at(0.0, 0.0), &all, 60);
        let (ride, from_sec, to_sec) = only(&events, EventType::Elevator);
        assert_eq!(floors(&ride), Some(5), "every {every_sec} s: {events:?}");
        assert!(
            from_sec.abs_diff(62) <= 5.max(every_sec) && to_sec.abs_diff(77) <= 5.max(every_sec),
            "every {every_sec} s: {events:?}"
        );
    }
}

/// Air pressure falls by 1 hPa within some minutes of a front, and a sensor that rounds to whole
/// hectopascals then shows a leap of 8 m.
#[test]
fn a_barometer_of_whole_hectopascals_shows_no_floors() {
    let script = [(Act::Stay, 20), (WALK, 60), (Act::Stay, 60), (WALK, 40)];
    let mut all = samples(&script, Phone::ALL, 23);
    for owned in &mut all {
        if let Owned::Plain(Sample::Pressure(pressure)) = owned {
            let front_hpa = pressure.t_ms as f32 / 1_000.0 / 110.0;
            pressure.hpa = (1_013.4 - front_hpa).round();
        }
    }
    let events = events_of(&context_at(0.0, 0.0), &all, 60);
    for event_type in [EventType::Elevator, EventType::Stairs] {
        assert_eq!(of_type(&events, event_type), [], "{events:?}");
    }
}

/// A phone on the dashboard is at rest. Between two fixes nothing else shows that the vehicle
/// moves.
#[test]
fn a_drive_with_a_rare_fix_is_one_drive() {
    let drive = Act::Drive {
        mps: 12.0,
        climb_mps: 0.0,
    };
    let script = [(WALK, 30), (drive, 180), (WALK, 40), (Act::Stay, 30)];
    let phone = Phone {
        steps: false,
        ..Phone::ALL
    };
    for every_sec in [10, 20] {
        let all = with_fixes_every(samples(&script, phone, 24), every_sec);
        let events = events_of(&context_at(0.0, 0.0), &all, 60);
        let (_, from_sec, to_sec) = only(&events, EventType::Driving);
        assert!(
            from_sec.abs_diff(30) <= every_sec + 3 && to_sec.abs_diff(210) <= every_sec + 3,
            "every {every_sec} s: {events:?}"
        );
    }
}

/// Step counters report up to 10 s late. The speed over ground shows by how much.
#[test]
fn a_late_step_counter_does_not_move_a_stay() {
    let script = [
        (Act::Stay, 30),
        (WALK, 40),
        (Act::Stay, 30),
        (WALK, 40),
        (Act::Stay, 40),
        (WALK, 40),
    ];
    let phone = Phone {
        imu: false,
        pressure: false,
        ..Phone::ALL
    };
    let prompt = samples(&script, phone, 25);
    let late: Vec<Owned> = prompt
        .iter()
        .map(|owned| match owned {
            Owned::Plain(Sample::Steps(steps)) => {
                let then_ms = steps.t_ms.saturating_sub(9_000);
                let then = prompt.iter().rev().find_map(|owned| match owned {
                    Owned::Plain(Sample::Steps(then)) if then.t_ms <= then_ms => Some(then.count),
                    _ => None,
                });
                Owned::Plain(Sample::Steps(Steps {
                    count: then.unwrap_or(1_000),
                    ..*steps
                }))
            }
            other => other.clone(),
        })
        .collect();
    let events = events_of(&context_at(0.0, 0.0), &late, 60);
    let stays = of_type(&events, EventType::Stopped);
    let found = stays.iter().any(|stay| {
        let to_ms = stay.t_end_ms.unwrap_or(stay.t_start_ms);
        stay.t_start_ms.abs_diff(140_000) <= 4_000 && to_ms.abs_diff(180_000) <= 4_000
    });
    assert!(found, "{events:?}");
}

/// An app reads the accelerometer for 0.6 s of each second, or loses one array in three. The period
/// of the steps continues across the gaps.
#[test]
fn a_walk_is_seen_through_holes_in_the_acceleration() {
    let script = [(Act::Stay, 40), (WALK, 60), (Act::Stay, 40)];
    let phone = Phone {
        location: false,
        pressure: false,
        steps: false,
        ..Phone::ALL
    };
    let all = samples(&script, phone, 28);
    let mut short = all.clone();
    for owned in &mut short {
        if let Owned::Imu { accel, .. } = owned {
            accel.iter_mut().for_each(|axis| axis.truncate(15));
        }
    }
    let mut lossy = all;
    let mut noise = Noise::new(28);
    lossy.retain(|_| noise.next() > -0.4);
    for held in [short, lossy] {
        let events = events_of(&context_at(0.0, 0.0), &held, 60);
        let (_, from_sec, to_sec) = only(&events, EventType::Walking);
        assert!(
            from_sec.abs_diff(40) <= 3 && to_sec.abs_diff(100) <= 3,
            "{events:?}"
        );
        assert_eq!(of_type(&events, EventType::Stopped).len(), 2, "{events:?}");
    }
}

/// To save power, an app reads the accelerometer in every other second. Between two seconds of a
/// walk the courier walks, so a walk of 6 s shows as it does to a phone that reads it always.
#[test]
fn a_short_walk_is_seen_in_every_other_second() {
    let phone = Phone {
        location: false,
        pressure: false,
        steps: false,
        ..Phone::ALL
    };
    for walk_sec in 6..12 {
        let script = [(Act::Stay, 40), (WALK, walk_sec), (Act::Stay, 40)];
        let mut all = samples(&script, phone, 29);
        all.retain(|owned| owned.sample().t_ms() / 1_000 % 2 == 0);
        let events = events_of(&context_at(0.0, 0.0), &all, 60);
        let (_, from_sec, to_sec) = only(&events, EventType::Walking);
        assert!(
            from_sec.abs_diff(40) <= 2 && to_sec.abs_diff(40 + walk_sec) <= 2,
            "{walk_sec} s: {events:?}"
        );
    }
}

/// The air may stand at a whole hectopascal while nobody climbs.
#[test]
fn a_fine_barometer_that_begins_at_a_whole_hectopascal_shows_stairs() {
    let script = [(Act::Stay, 60), (WALK, 60), (STAIRS, 40), (Act::Stay, 30)];
    let mut all = samples(&script, Phone::ALL, 27);
    for owned in &mut all {
        if let Owned::Plain(Sample::Pressure(pressure)) = owned {
            // No noise: whole until the climb, then a steady fall.
            let climbed_sec = f64::from(pressure.t_ms.clamp(120_000, 160_000) - 120_000) / 1_000.0;
            pressure.hpa = (1_010.0 - climbed_sec * 0.024) as f32;
        }
    }
    let events = events_of(&context_at(0.0, 0.0), &all, 60);
    let stairs = of_type(&events, EventType::Stairs);
    assert_eq!(stairs.len(), 1, "{events:?}");
    assert!(
        stairs[0].t_start_ms.abs_diff(120_000) <= 5_000,
        "{events:?}"
    );
}

/// A pressure reading after a long pause shows where the phone is, not how it came there.
#[test]
fn no_climb_is_invented_between_two_readings_that_are_far_apart() {
    let script = [(Act::Stay, 20), (WALK, 80), (Act::Stay, 30)];
    let mut all = samples(&script, Phone::ALL, 26);
    all.retain(|owned| match owned {
        Owned::Plain(Sample::Pressure(Pressure { t_ms, .. })) => !(30_000..70_000).contains(t_ms),
        _ => true,
    });
    for owned in &mut all {
        if let Owned::Plain(Sample::Pressure(pressure)) = owned
            && pressure.t_ms >= 70_000
        {
            pressure.hpa -= 0.8;
        }
    }
    let events = events_of(&context_at(0.0, 0.0), &all, 60);
    for event_type in [EventType::Elevator, EventType::Stairs] {
        assert_eq!(of_type(&events, event_type), [], "{events:?}");
    }
}

/// The courier climbs four storeys. The barometer, which reports each second otherwise, is silent
/// for ten seconds in the middle, or at the foot of the stairs.
#[test]
fn a_barometer_that_pauses_on_the_stairs_shows_them_whole() {
    let script = [
        (Act::Stay, 20),
        (WALK, 30),
        (STAIRS, 40),
        (WALK, 15),
        (Act::Stay, 30),
    ];
    for from_sec in [48, 52, 60, 70] {
        let mut all = samples(&script, Phone::ALL, 30);
        let hole_ms = from_sec * 1_000..(from_sec + 10) * 1_000;
        all.retain(|owned| {
            let sample = owned.sample();
            !matches!(sample, Sample::Pressure(_)) || !hole_ms.contains(&sample.t_ms())
        });
        let events = events_of(&context_at(0.0, 0.0), &all, 60);
        let (stairs, begun_sec, ended_sec) = only(&events, EventType::Stairs);
        assert_eq!(floors(&stairs), Some(4), "from {from_sec} s: {events:?}");
        assert!(
            begun_sec.abs_diff(50) <= 4 && ended_sec.abs_diff(90) <= 4,
            "from {from_sec} s: {events:?}"
        );
    }
}

/// Returns the fixes as an app sends them that reads the last known place each second: a new one
/// arrives when `is_new` says so.
fn with_fixes_read_again(mut all: Vec<Owned>, is_new: impl Fn(u32) -> bool) -> Vec<Owned> {
    let mut newest = None;
    for owned in &mut all {
        if let Owned::Plain(Sample::Location(fix)) = owned {
            let held = newest.filter(|_| !is_new(fix.t_ms / 1_000)).unwrap_or(*fix);
            newest = Some(held);
            *fix = Location {
                t_ms: fix.t_ms,
                ..held
            };
        }
    }
    all
}

/// The receiver has a fix every 3 or 5 s, and the app sends the last one each second. The vehicle
/// drives at 10 m/s and does not stop between two fixes.
#[test]
fn an_app_that_sends_each_fix_several_times_shows_the_same_drive() {
    let script = [
        (
            Act::Drive {
                mps: 10.0,
                climb_mps: 0.0,
            },
            90,
        ),
        (Act::Stay, 12),
        (WALK, 30),
        (Act::Stay, 30),
    ];
    for every_sec in [2, 3, 5, 8] {
        let again = with_fixes_read_again(samples(&script, Phone::ALL, 24), |second| {
            second.is_multiple_of(every_sec)
        });
        let events = events_of(&context_at(0.0, 0.0), &again, 60);
        let (_, from_sec, to_sec) = only(&events, EventType::Driving);
        assert!(
            from_sec <= 5 && to_sec.abs_diff(90) <= every_sec + 3,
            "every {every_sec} s: {events:?}"
        );
    }
}

/// The receiver freezes at the speed of the drive when the vehicle enters a garage and parks. A place
/// that does not change at this speed shows no drive, however fresh its time is.
#[test]
fn a_receiver_that_freezes_at_speed_does_not_prolong_the_drive() {
    let script = [
        (
            Act::Drive {
                mps: 10.0,
                climb_mps: 0.0,
            },
            90,
        ),
        (Act::Stay, 60),
    ];
    let frozen = with_fixes_read_again(samples(&script, Phone::ALL, 25), |second| second < 89);
    let events = events_of(&context_at(0.0, 0.0), &frozen, 60);
    let (_, _, to_sec) = only(&events, EventType::Driving);
    assert!(to_sec <= 97, "{events:?}");
}
