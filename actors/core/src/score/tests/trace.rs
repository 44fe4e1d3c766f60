//! Tests the fingerprints of traces.

use porchlight_schema::session::Point;

use super::knowledge::address;
use super::script::Script;
use crate::geo::LocalFrame;
use crate::score::{Fingerprint, trace_fingerprint};

#[test]
fn a_copied_trace_is_detected_and_an_honest_repeat_is_not() {
    let trip = |seed| {
        Script::new(seed)
            .drive_to(-30.0, -25.0)
            .stay(10)
            .walk_to(0.0, -1.0)
            .stay(30)
            .walk_to(-30.0, -25.0)
    };
    let print = |script: &Script| trace_fingerprint(&script.windows).unwrap();
    let first = print(&trip(60));
    assert_eq!(first.copy_of(&print(&trip(60))), Some(1.0));
    for seed in 61..90 {
        assert_eq!(
            first.copy_of(&print(&trip(seed))),
            None,
            "the same way on another day"
        );
        assert!(first.similarity(&print(&trip(seed))) < 0.1);
    }
    // The copy is later, cut short, and around an address with a new geocode.
    let mut copy = trip(60);
    let moved = LocalFrame::new(Point {
        lat: 48.2003,
        lng: 11.6004,
    });
    let frame = LocalFrame::new(address().point);
    for window in &mut copy.windows {
        window.t_ms += 7_000;
        for fix in window.fixes.iter_mut().flatten() {
            fix.place = moved.place(frame.point(fix.place));
        }
    }
    copy.windows.truncate(copy.windows.len() * 4 / 5);
    assert!(first.copy_of(&print(&copy)).is_some());
    assert_eq!(
        trace_fingerprint(&Script::new(1).stay(300).windows),
        None,
        "standing still is not a trace"
    );
}

/// Returns a number from 0 to 1 that is different for each `seed`.
fn noise(seed: u64) -> f32 {
    let mixed = (seed.wrapping_add(1)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    ((mixed >> 40) as f32) / 16_777_216.0
}

/// Returns a trip by a phone whose sensors have their own noise.
fn measured(seed: u64) -> Script {
    let mut script = Script::new(seed)
        .drive_to(-30.0, -25.0)
        .stay(10)
        .walk_to(0.0, -1.0)
        .stay(30)
        .walk_to(-30.0, -25.0);
    for (index, window) in script.windows.iter_mut().enumerate() {
        let own = |channel: u64| noise(seed * 1_000_003 + index as u64 * 17 + channel);
        if let Some(hpa) = &mut window.pressure_hpa {
            *hpa += 0.02 * own(1);
        }
        if let Some(motion) = &mut window.motion {
            motion.accel_std += 0.1 * own(2);
        }
        for fix in window.fixes.iter_mut().flatten() {
            fix.accuracy_m += own(3);
        }
    }
    script
}

/// A recording is sent again as another delivery, with each position moved by 0.2 m so that it is
/// no plain copy. The readings of barometer, accelerometer and receiver are still equal to the last
/// bit, which never happens twice.
#[test]
fn a_copy_with_dithered_positions_is_detected() {
    for seed in 100..110 {
        let first = trace_fingerprint(&measured(seed).windows).unwrap();
        let mut copy = measured(seed);
        for (index, window) in copy.windows.iter_mut().enumerate() {
            for fix in window.fixes.iter_mut().flatten() {
                fix.place.east_m += 0.4 * (noise(index as u64 * 2) - 0.5);
                fix.place.north_m += 0.4 * (noise(index as u64 * 2 + 1) - 0.5);
            }
        }
        let print = trace_fingerprint(&copy.windows).unwrap();
        assert!(first.copy_of(&print).is_some(), "{seed}");
        let keys = first.keys();
        let found = print.keys().iter().filter(|key| keys.contains(key)).count();
        assert!(found >= 2, "{seed}: found under {found} keys");
    }
}

/// Returns a drive with a walk at its end, as a receiver records it whose error wanders by 2 m
/// (Gauss-Markov, 30 s), after a wait at a traffic light.
fn carried(seed: u64, wait_sec: u32) -> Script {
    let mut script = Script::new(seed)
        .drive_to(-900.0, -300.0)
        .stay(wait_sec)
        .drive_to(-30.0, -25.0)
        .stay(10)
        .walk_to(0.0, -1.0)
        .stay(30)
        .walk_to(-30.0, -25.0);
    let (mut east_m, mut north_m) = (0.0, 0.0);
    for (index, window) in script.windows.iter_mut().enumerate() {
        let drawn = |channel: u64| noise(seed * 7_919 + index as u64 * 31 + channel) - 0.5;
        // A share of 1/30 of the old error is lost in a second; uniform draws of this width keep
        // its spread at 2 m.
        (east_m, north_m) = (
            0.967 * east_m + 1.8 * drawn(1),
            0.967 * north_m + 1.8 * drawn(2),
        );
        for fix in window.fixes.iter_mut().flatten() {
            (fix.place.east_m, fix.place.north_m) =
                (fix.place.east_m + east_m, fix.place.north_m + north_m);
        }
    }
    script
}

/// Returns a copy in which every channel is dithered: positions by `spread_m` metres on each axis,
/// and the others by more than their resolution.
fn dithered(mut copy: Script, seed: u64, spread_m: f32) -> Script {
    for (index, window) in copy.windows.iter_mut().enumerate() {
        // The sum of three draws is nearly normal, with a spread of 0.5.
        let drawn = |channel: u64| {
            let draw = |number| noise(seed * 104_729 + index as u64 * 64 + channel + number) - 0.5;
            draw(0) + draw(1) + draw(2)
        };
        if let Some(hpa) = &mut window.pressure_hpa {
            *hpa += 0.02 * drawn(0);
        }
        if let Some(motion) = &mut window.motion {
            motion.accel_std += 0.04 * drawn(3);
            motion.accel_mean += 0.04 * drawn(6);
        }
        for (number, fix) in window.fixes.iter_mut().flatten().enumerate() {
            let own = 9 + 12 * number as u64;
            fix.place.east_m += 2.0 * spread_m * drawn(own);
            fix.place.north_m += 2.0 * spread_m * drawn(own + 3);
            fix.accuracy_m += 0.6 * drawn(own + 6);
            fix.speed_mps = fix.speed_mps.map(|mps| mps + 0.2 * drawn(own + 9));
        }
    }
    copy
}

/// A recording is sent again with every channel dithered, from its fortieth second on. No byte is
/// repeated, but the places still follow each other at the recorded intervals.
#[test]
fn a_copy_with_all_channels_dithered_is_detected() {
    for seed in 300..320 {
        let first = trace_fingerprint(&carried(seed, 20).windows).unwrap();
        // The store keeps it as JSON.
        let stored: Fingerprint =
            serde_json::from_str(&serde_json::to_string(&first).unwrap()).unwrap();
        let mut copy = dithered(carried(seed, 20), seed, 0.5);
        copy.windows.drain(..40);
        for window in &mut copy.windows {
            window.t_ms -= 40_000;
            for fix in window.fixes.iter_mut().flatten() {
                fix.t_ms -= 40_000;
            }
        }
        let print = trace_fingerprint(&copy.windows).unwrap();
        assert!(print.copy_of(&stored).is_some(), "{seed}");
        let kept = first.stored_keys();
        assert!(print.keys().iter().any(|key| kept.contains(key)), "{seed}");
    }
}

/// A courier brings parcels to the same building on the next days, each time with the very same
/// pace, which nobody keeps. Only the errors of the receiver differ, and the wait at a light.
#[test]
fn the_same_path_on_another_day_is_not_a_copy() {
    let first = trace_fingerprint(&carried(400, 20).windows).unwrap();
    for seed in 401..430 {
        for wait_sec in [20, 21, 40] {
            let other = trace_fingerprint(&carried(seed, wait_sec).windows).unwrap();
            assert_eq!(other.copy_of(&first), None, "{seed}, {wait_sec} s");
            assert_eq!(first.copy_of(&other), None, "{seed}, {wait_sec} s");
        }
    }
}

/// One courier ends a session after seventy seconds along a straight street, and another courier
/// begins one there at the same pace. Their receivers smooth the fixes. Two couriers in one street
/// are not a copy.
#[test]
fn one_straight_street_is_not_a_copy() {
    let print = |seed, legs: [((f32, f32), u32); 3]| {
        let mut script = Script::new(seed);
        let mut place = (0.0_f32, 0.0_f32);
        for (velocity, seconds) in legs {
            let from = script.windows.len();
            script = script.stay(seconds);
            for window in &mut script.windows[from..] {
                place = (place.0 + velocity.0, place.1 + velocity.1);
                for fix in window.fixes.iter_mut().flatten() {
                    (fix.place.east_m, fix.place.north_m) = place;
                }
            }
        }
        trace_fingerprint(&script.windows).unwrap()
    };
    let first = print(700, [((0.0, 2.0), 90), ((-2.0, 0.0), 60), ((2.0, 0.0), 70)]);
    let second = print(701, [((2.0, 0.0), 70), ((0.0, -2.0), 90), ((2.0, 0.0), 60)]);
    assert_eq!(second.copy_of(&first), None);
    assert_eq!(first.copy_of(&second), None);
}

/// Returns a walk of 170 s to the north as a good receiver records it: its error wanders by 1 m. The
/// pace is 1.3 m/s in all walks, and varies by 5 % within each.
fn straight(seed: u64) -> Script {
    let mut script = Script::new(seed).stay(170);
    let (mut east_m, mut north_m, mut pace, mut way_m) = (0.0_f32, 0.0_f32, 0.0_f32, 0.0_f32);
    for (index, window) in script.windows.iter_mut().enumerate() {
        let drawn = |channel: u64| noise(seed * 6_151 + index as u64 * 29 + channel) - 0.5;
        // Gauss-Markov processes of 30 s (positions, 1 m) and 15 s (pace, 5 %).
        (east_m, north_m) = (
            0.967 * east_m + 0.9 * drawn(1),
            0.967 * north_m + 0.9 * drawn(2),
        );
        pace = 0.935 * pace + 0.06 * drawn(3);
        way_m += 1.3 * (1.0 + pace);
        for fix in window.fixes.iter_mut().flatten() {
            (fix.place.east_m, fix.place.north_m) = (east_m, way_m + north_m);
        }
    }
    script
}

/// Couriers walk along straight streets of one direction at one pace, all over a city. The walks
/// have the same shape, but each has its own changes of pace and its own errors of the receiver.
#[test]
fn straight_walks_at_one_pace_are_not_copies() {
    let prints: Vec<_> = (0..40)
        .map(|seed| trace_fingerprint(&straight(800 + seed).windows).unwrap())
        .collect();
    for (number, print) in prints.iter().enumerate() {
        for other in prints.iter().take(number) {
            assert_eq!(print.copy_of(other), None, "{number}");
        }
    }
}

/// A straight walk is sent again with every channel dithered.
#[test]
fn a_dithered_copy_of_a_straight_walk_is_detected() {
    for seed in 840..860 {
        let first = trace_fingerprint(&straight(seed).windows).unwrap();
        let copy = dithered(straight(seed), seed, 0.2);
        let print = trace_fingerprint(&copy.windows).unwrap();
        assert!(print.copy_of(&first).is_some(), "{seed}");
    }
}

/// A fingerprint that an earlier version stored has no course. It is found under its old keys, and
/// an exact copy still matches it.
#[test]
fn a_fingerprint_of_an_earlier_version_still_matches() {
    let print = trace_fingerprint(&measured(500).windows).unwrap();
    let mut stored = serde_json::to_value(&print).unwrap();
    stored.as_object_mut().unwrap().remove("course");
    let stored: Fingerprint = serde_json::from_value(stored).unwrap();
    assert_eq!(print.copy_of(&stored), Some(1.0));
    assert_eq!(stored.keys()[..], print.keys()[..stored.keys().len()]);
}

/// A phone that drives without a stop for two days gives a fingerprint that is no larger than that
/// of a short trip.
#[test]
fn a_fingerprint_stays_small() {
    let long = Script::new(600).drive_to(200_000.0, 3_000.0);
    let print = trace_fingerprint(&long.windows).unwrap();
    let bytes = serde_json::to_vec(&print).unwrap().len();
    assert!(bytes <= 6_000, "{bytes}");
    assert!(print.keys().len() <= 26 && print.stored_keys().len() <= 19);
}

/// Two couriers take the same path on the same day with phones of one model: the path is the same,
/// the noise is not.
#[test]
fn two_couriers_on_the_same_path_are_not_a_copy() {
    let first = trace_fingerprint(&measured(200).windows).unwrap();
    for seed in 201..230 {
        let other = trace_fingerprint(&measured(seed).windows).unwrap();
        assert_eq!(first.copy_of(&other), None, "{seed}");
    }
}
