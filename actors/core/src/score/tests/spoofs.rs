//! Fabricated positions, by the sensors that contradict them, and genuine phones that look alike.

use super::acts::{arrive, house, leave};
use super::script::Script;
use super::{about, assert_sound};
use crate::geo::Place;
use crate::score::MarkName;
use crate::window::Window;

/// A delivery with a path of 350 m on foot, round a block.
fn round_the_block(seed: u64) -> Script {
    let script = arrive(seed)
        .walk_to(0.0, -25.0)
        .walk_to(0.0, 60.0)
        .walk_to(90.0, 60.0)
        .walk_to(90.0, -25.0)
        .walk_to(0.0, -25.0)
        .walk_to(0.0, -1.0);
    leave(script.stay(40).mark(MarkName::HandedOver))
}

/// A delivery round the block whose body lies on a table, with a change applied to each window.
fn spoofed(seed: u64, change: impl Fn(usize, &mut Window)) -> Script {
    let mut script = round_the_block(seed).body_at_rest();
    for (number, window) in script.windows.iter_mut().enumerate() {
        change(number, window);
    }
    script
}

fn has(script: &Script, signal: &str) -> bool {
    about(&script.score(), "fraudScore").any(|entry| entry.signal == signal)
}

#[test]
fn any_body_sensor_at_rest_contradicts_a_walk() {
    let all = spoofed(31, |_, _| {});
    let no_counter = spoofed(31, |_, window| window.steps = None);
    let counter_only = spoofed(31, |_, window| window.motion = None);
    // The user picks up the phone for two seconds in each half minute.
    let fidgets = spoofed(31, |number, window| {
        if number % 30 < 2
            && let Some(motion) = &mut window.motion
        {
            (motion.accel_std, motion.cadence_hz) = (0.9, Some(1.5));
        }
    });
    for (name, script) in [
        ("all", &all),
        ("no step counter", &no_counter),
        ("step counter only", &counter_only),
        ("fidgets", &fidgets),
    ] {
        assert!(has(script, "position_walks_body_rests"), "{name}");
        assert_sound(name, &script.score());
    }
    let silent = spoofed(31, |_, window| {
        (window.steps, window.motion) = (None, None);
    });
    assert!(
        !has(&silent, "position_walks_body_rests"),
        "missing data flags no session"
    );
}

#[test]
fn a_receiver_reporting_rest_contradicts_a_walk() {
    // Positions wander while the vehicle stands; their independently measured speed is zero.
    let parked = spoofed(32, |_, window| {
        if let Some(fix) = &mut window.fixes[0] {
            fix.speed_mps = Some(0.1);
        }
    });
    assert!(!has(&parked, "position_walks_body_rests"));
}

#[test]
fn a_phone_turns_with_its_course() {
    // A live gyroscope has a noise of some hundredths of a radian.
    let lying = spoofed(33, |number, window| {
        if let Some(motion) = &mut window.motion {
            motion.yaw_rad = Some(if number % 2 == 0 { 0.01 } else { -0.01 });
        }
    });
    assert!(has(&lying, "position_turns_phone_does_not"));
    assert!(lying.score().summary.suspicious_behavior);
    let dead = spoofed(33, |_, window| {
        if let Some(motion) = &mut window.motion {
            motion.yaw_rad = Some(0.0);
        }
    });
    assert!(
        !has(&dead, "position_turns_phone_does_not"),
        "a gyroscope that never moves is broken"
    );
    let mut carried = round_the_block(33);
    for (number, window) in carried.windows.iter_mut().enumerate() {
        if let Some(motion) = &mut window.motion {
            motion.yaw_rad = Some(if number % 2 == 0 { 0.01 } else { -0.01 });
        }
    }
    assert!(
        carried.score().summary.fraud_score < 0.1,
        "a broken gyroscope flags no walking courier"
    );
    let mut course: Option<f32> = None;
    let fixes: Vec<Option<Place>> = carried
        .windows
        .iter()
        .map(|window| window.fixes[0].map(|fix| fix.place))
        .collect();
    for (number, window) in carried.windows.iter_mut().enumerate() {
        let (Some(from), Some(to)) = (
            fixes[number.saturating_sub(5)],
            fixes[(number + 5).min(fixes.len() - 1)],
        ) else {
            continue;
        };
        let heading = libm::atan2f(to.north_m - from.north_m, to.east_m - from.east_m);
        let turned = heading - course.unwrap_or(heading);
        course = Some(heading);
        if let Some(motion) = &mut window.motion {
            motion.yaw_rad = Some(turned);
        }
    }
    assert!(!has(&carried, "position_turns_phone_does_not"));
}

#[test]
fn missing_noise_and_synthetic_noise_are_detected() {
    let smooth = spoofed(34, |number, window| {
        if let Some(fix) = &mut window.fixes[0] {
            fix.place = Place {
                east_m: 1.4 * number as f32 - 100.0,
                north_m: -25.0,
            };
        }
    });
    assert!(has(&smooth, "smooth_path"));
    // The noise is independent for each fix (the finaliser of SplitMix64).
    let throw = |number: usize, axis: u64| {
        let value = (number as u64 * 2 + axis + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (value >> 40) as f32 / (1_u64 << 21) as f32 - 4.0
    };
    let mut diced = round_the_block(35);
    for (number, window) in diced.windows.iter_mut().enumerate() {
        if let Some(fix) = &mut window.fixes[0] {
            fix.place.east_m += throw(number, 0);
            fix.place.north_m += throw(number, 1);
        }
    }
    assert!(has(&diced, "white_noise"), "{:#?}", diced.score().evidence);
    let score = diced.score();
    assert!(
        !score.summary.suspicious_behavior && score.summary.fraud_score < 0.5,
        "one oddity of the receiver flags no session"
    );
    let honest = round_the_block(35);
    for signal in ["white_noise", "smooth_path", "smooth_drive"] {
        assert!(!has(&honest, signal), "{signal}");
    }
}

/// Returns independent noise for each fix, evenly within 3 m (the finaliser of SplitMix64).
fn dice(number: usize, axis: u64) -> f32 {
    let value = (number as u64 * 2 + axis + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((value >> 40) as f32 / (1_u64 << 23) as f32 - 1.0) * 3.0
}

#[test]
fn a_short_walk_also_needs_strides() {
    let route = |seed| house(seed);
    // The phone is in the hand of a standing person: more motion than rest, less than a gait.
    let mut held = route(36).body_at_rest();
    for window in &mut held.windows {
        window.steps = Some(0);
        if let Some(motion) = &mut window.motion {
            (motion.accel_std, motion.cadence_hz) = (0.4, Some(0.0));
        }
    }
    assert!(
        has(&held, "position_walks_body_rests"),
        "{:#?}",
        held.score().evidence
    );
    // This counter reports on change, and never reports. Apps spell the names of sensors differently.
    let mut silent = route(36).body_at_rest();
    for (number, window) in silent.windows.iter_mut().enumerate() {
        (window.steps, window.motion) = ((number == 0).then_some(0), None);
    }
    for steps in ["Steps", "steps"] {
        silent.sensors = ["location", "pressure", steps, "mark"]
            .map(str::to_owned)
            .to_vec();
        assert!(
            has(&silent, "position_walks_body_rests"),
            "{steps}: {:#?}",
            silent.score().evidence
        );
    }
    let score = silent.score();
    let mut motion =
        about(&score, "visibilityScore").filter(|entry| entry.signal == "motion_coverage");
    assert!(
        motion.all(|entry| entry.points > 0.29),
        "the silence of the counter does not count as a loss: {:#?}",
        score.evidence
    );
    let lost = {
        let mut lost = silent.clone();
        lost.system = vec![(5_000, porchlight_schema::sample::SystemName::SensorLost)];
        lost
    };
    assert!(
        !has(&lost, "position_walks_body_rests"),
        "a lost counter counts nothing"
    );
    assert!(!has(&route(36), "position_walks_body_rests"));
}

#[test]
fn a_speed_computed_from_the_route_shows_a_resting_body() {
    // The speed is 0.9 to 1.7 m/s, there and back: the reported speed matches the line to the
    // millimetre.
    let reckoned = |mut script: Script| {
        let mut east_m = -100.0;
        for (number, window) in script.windows.iter_mut().enumerate() {
            let mps = 0.9 + 0.2 * (number % 5) as f32;
            if let Some(fix) = &mut window.fixes[0] {
                (fix.place, fix.speed_mps) = (
                    Place {
                        east_m,
                        north_m: -25.0,
                    },
                    Some(mps),
                );
            }
            let next = 0.9 + 0.2 * ((number + 1) % 5) as f32;
            east_m += (mps + next) / 2.0;
        }
        script
    };
    let spoofed = reckoned(round_the_block(37).body_at_rest());
    assert!(
        has(&spoofed, "speed_reckoned_from_route"),
        "{:#?}",
        spoofed.score().evidence
    );
    let mut unheard = spoofed;
    for window in &mut unheard.windows {
        (window.steps, window.motion) = (None, None);
    }
    assert!(
        !has(&unheard, "speed_reckoned_from_route"),
        "missing motion data contradicts nothing"
    );
    let mut carried = reckoned(round_the_block(37));
    for window in &mut carried.windows {
        if let Some(motion) = &mut window.motion {
            (motion.accel_std, motion.cadence_hz) = (2.0, Some(1.8));
        }
    }
    assert!(
        !has(&carried, "speed_reckoned_from_route"),
        "the phone walks where the positions walk"
    );
}

#[test]
fn a_standing_body_does_not_jump_back_and_forth() {
    let stands = |window: &Window| {
        window.fixes[0].is_some_and(|fix| fix.speed_mps.is_some_and(|mps| mps <= 0.3))
    };
    let leaping = |script: Script| {
        let mut script = script.stay(60);
        for (number, window) in script.windows.iter_mut().enumerate() {
            if stands(window)
                && let Some(fix) = &mut window.fixes[0]
            {
                fix.place.east_m += dice(number, 0);
                fix.place.north_m += dice(number, 1);
            }
        }
        script
    };
    let spoofed = leaping(house(38).body_at_rest());
    assert!(
        has(&spoofed, "white_noise_at_rest"),
        "{:#?}",
        spoofed.score().evidence
    );
    assert!(
        !has(&leaping(round_the_block(38)), "white_noise_at_rest"),
        "a walking courier was there"
    );
    assert!(
        !has(&house(38).body_at_rest().stay(60), "white_noise_at_rest"),
        "a drifting position is not a jump"
    );
}

#[test]
fn one_street_corner_without_any_motion_is_enough() {
    let route = |seed| {
        leave(
            Script::new(seed)
                .drive_to(-300.0, -25.0)
                .drive_to(-300.0, 300.0)
                .stay(20),
        )
    };
    let gyro = |mut script: Script, turned_rad: f32| {
        for (number, window) in script.windows.iter_mut().enumerate() {
            let noise = if number % 2 == 0 { 0.01 } else { -0.01 };
            if let Some(motion) = &mut window.motion {
                // The phone turns once, long before the corner.
                motion.yaw_rad = Some(if number == 4 { turned_rad } else { noise });
            }
        }
        script
    };
    let lying = gyro(route(39).body_at_rest(), 0.0);
    assert!(
        has(&lying, "position_turns_phone_does_not"),
        "{:#?}",
        lying.score().evidence
    );
    let taken_up = gyro(route(39).body_at_rest(), 1.2);
    assert!(
        !has(&taken_up, "position_turns_phone_does_not"),
        "a phone that turned on the way was on it"
    );
}

#[test]
fn a_constant_altitude_shows_a_resting_body() {
    let level = |mut script: Script, altitude_m: f32| {
        for (number, window) in script.windows.iter_mut().enumerate() {
            if let Some(fix) = &mut window.fixes[0] {
                fix.altitude_m = Some(altitude_m);
                fix.accuracy_m = 5.0 + (number % 7) as f32;
            }
        }
        script
    };
    assert!(has(
        &level(round_the_block(40).body_at_rest(), 512.3),
        "constant_altitude"
    ));
    assert!(
        !has(
            &level(round_the_block(40).body_at_rest(), 0.0),
            "constant_altitude"
        ),
        "altitude 0 means no altitude"
    );
    assert!(
        !has(&level(round_the_block(40), 512.3), "constant_altitude"),
        "a walking courier was there"
    );
}

#[test]
fn many_impossible_jumps_are_no_outliers_of_a_receiver() {
    let leaping = |each: usize, way_m: f32| {
        let mut script = round_the_block(7);
        for (number, window) in script.windows.iter_mut().enumerate() {
            if number % each == 0
                && let Some(fix) = &mut window.fixes[0]
            {
                fix.place.east_m += way_m;
                fix.accuracy_m = 5.0;
            }
        }
        script
    };
    let score = |script: &Script| script.score().summary.fraud_score;
    let far = leaping(5, 17_000.0);
    assert!(
        has(&far, "far_outliers") && score(&far) >= 0.5,
        "{}",
        score(&far)
    );
    let near = leaping(2, 400.0);
    assert!(
        has(&near, "outliers") && score(&near) > 0.1,
        "{}",
        score(&near)
    );
    let rare = leaping(100, 400.0);
    assert!(!has(&rare, "outliers") && !has(&rare, "far_outliers"));
}

/// A courier sits in an electric train that runs so smoothly that the phone seems to lie on a table.
/// It shakes a little while the train runs and not while it stands. A phone that lies at home under
/// false positions has the same noise throughout.
#[test]
fn a_train_that_shakes_the_phone_a_little_is_not_suspicious() {
    let ride = |spread_of: fn(f32) -> f32| {
        let script = Script::new(41).drive_to(1_500.0, 0.0).stay(40);
        let mut script = script.drive_to(3_000.0, 0.0).stay(40).body_at_rest();
        for window in &mut script.windows {
            let speed_mps = window.fixes[0].and_then(|fix| fix.speed_mps);
            if let (Some(speed_mps), Some(motion)) = (speed_mps, &mut window.motion) {
                motion.accel_std = spread_of(speed_mps);
            }
        }
        script
    };
    let train = ride(|speed_mps| if speed_mps > 3.0 { 0.07 } else { 0.02 });
    let table = ride(|_| 0.02);
    let of = |script: &Script| script.score().summary.fraud_score;
    assert!(has(&table, "position_drives_body_rests"));
    assert!(of(&train) < 0.1, "{}", of(&train));
    assert!(of(&table) >= of(&train) + 0.1, "{}", of(&table));
}
