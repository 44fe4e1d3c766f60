//! Positions that somebody made, by what the phone has to contradict them; and what honest phones do that looks alike.

use super::acts::{arrive, leave};
use super::script::Script;
use super::{about, assert_sound};
use crate::geo::Place;
use crate::score::MarkName;
use crate::window::Window;

/// A delivery with a way of 350 m on foot, round a block.
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

/// Such a delivery whose body lies on a table, with a change made to each window.
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
fn a_body_at_rest_contradicts_a_walk_whatever_tells_of_it() {
    let all = spoofed(31, |_, _| {});
    let no_counter = spoofed(31, |_, window| window.steps = None);
    let counter_only = spoofed(31, |_, window| window.motion = None);
    // Two seconds in each half minute somebody takes the phone up.
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
        "what is not heard convicts nobody"
    );
}

#[test]
fn a_receiver_that_says_it_stays_does_not_walk() {
    // Positions wander while the vehicle stands; their own speed, measured apart, is nothing.
    let parked = spoofed(32, |_, window| {
        if let Some(fix) = &mut window.fixes[0] {
            fix.speed_mps = Some(0.1);
        }
    });
    assert!(!has(&parked, "position_walks_body_rests"));
}

#[test]
fn a_phone_turns_with_its_course() {
    // A gyroscope that lives: its noise is some hundredths of a radian.
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
fn noise_that_is_missing_and_noise_of_dice_are_seen() {
    let smooth = spoofed(34, |number, window| {
        if let Some(fix) = &mut window.fixes[0] {
            fix.place = Place {
                east_m: 1.4 * number as f32 - 100.0,
                north_m: -25.0,
            };
        }
    });
    assert!(has(&smooth, "smooth_path"));
    // A throw of the dice for each fix (the finaliser of SplitMix64).
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
        "one oddity of the receiver convicts nobody"
    );
    let honest = round_the_block(35);
    for signal in ["white_noise", "smooth_path", "smooth_drive"] {
        assert!(!has(&honest, signal), "{signal}");
    }
}
