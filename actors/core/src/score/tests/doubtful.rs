//! Tests positions and altitudes that prove nothing.

use porchlight_schema::insight::ReasonCode;
use porchlight_schema::sample::Provider;
use serde_json::json;

use super::acts::{arrive, house as script_house, leave};
use super::contract::ERRORS;
use super::errands::house;
use super::phone::Phone;
use super::script::Script;
use super::{about, assert_sound, sum};
use crate::score::MarkName;

/// A phone reports a position every 150 s, on the way there and back. Where the courier walked
/// between them is unknown.
#[test]
fn a_position_that_is_minutes_old_accuses_nobody() {
    for error in ERRORS {
        let mut phone = Phone::new(error, 5);
        phone.fix_every = 150.0;
        let score = house(phone).score();
        let accusations = [ReasonCode::NoAttempt, ReasonCode::PossibleWrongAddress];
        assert!(
            !accusations
                .iter()
                .any(|code| score.reason_codes.contains(code)),
            "{error:?}: {:?} {:#?}",
            score.reason_codes,
            score.evidence
        );
    }
}

/// Every sixth fix comes from a network and has no accuracy, which Android gives as 0. It may be
/// anywhere in the street, so it neither jumped nor drove.
#[test]
fn fixes_without_an_accuracy_accuse_nobody() {
    for error in ERRORS {
        let mut phone = Phone::new(error, 5);
        phone.has_network_fixes = true;
        let score = house(phone).score();
        assert!(score.summary.fraud_score < 0.1, "{:#?}", score.evidence);
        let codes = &score.reason_codes;
        assert!(
            codes.contains(&ReasonCode::FullAttempt) && score.summary.right_doorstep,
            "{error:?}: {codes:?} {:#?}",
            score.evidence
        );
    }
}

/// The courier stays 125 m away from the address, with a position each second. The app reports the
/// stop nine hours later.
#[test]
fn a_late_stop_does_not_make_positions_rare() {
    for error in ERRORS {
        let phone = Phone::new(error, 5).address("accuracyM", json!(5));
        let phone = phone.drive(85.0, -30.0).stay(10).walk(125.0, -2.0).stay(35);
        let mut phone = phone.walk(85.0, -30.0).stay(10).drive(500.0, -30.0);
        phone.ends_after = 9.0 * 3_600.0;
        let score = phone.score();
        assert!(
            score
                .reason_codes
                .contains(&ReasonCode::PossibleWrongAddress),
            "{error:?}: {:?} {:#?}",
            score.reason_codes,
            score.evidence
        );
    }
}

/// The courier stays 125 m away from the address. In the middle of the walk, two positions have an
/// accuracy of 58 m; those around them are exact, and show that the courier came no nearer.
#[test]
fn a_vague_position_among_exact_ones_does_not_come_near() {
    for error in ERRORS {
        let phone = Phone::new(error, 5).address("accuracyM", json!(5));
        let mut phone = phone.drive(85.0, -30.0).stay(10).walk(122.0, -30.0);
        phone.vaguer_m = 53.0;
        let mut phone = phone.walk(124.0, -30.0);
        phone.vaguer_m = 0.0;
        let phone = phone.walk(125.0, -2.0).stay(35).walk(125.0, -30.0);
        let score = phone.walk(85.0, -30.0).stay(10).drive(500.0, -30.0).score();
        assert!(
            score.reason_codes.contains(&ReasonCode::NoAttempt),
            "{error:?}: {:?} {:#?}",
            score.reason_codes,
            score.evidence
        );
    }
}

/// The positions on foot are as inaccurate as those of a phone without satellites. They do not show
/// that the courier stayed away, even if the courier walked elsewhere with exact positions before.
#[test]
fn a_walk_with_inaccurate_positions_may_have_been_at_the_address() {
    for error in ERRORS {
        for vaguer_m in [60.0, 100.0, 115.0, 145.0, 400.0, 995.0] {
            for walks_before in [false, true] {
                let name = format!("{error:?}, {vaguer_m} m, {walks_before}");
                let mut phone = Phone::new(error, 5);
                if walks_before {
                    phone = phone.drive(-900.0, -30.0).stay(10).walk(-930.0, -30.0);
                    phone = phone.walk(-900.0, -30.0).stay(10);
                }
                let mut phone = phone.drive(-40.0, -30.0).stay(10);
                phone.vaguer_m = vaguer_m;
                let phone = phone.walk(0.0, -30.0).walk(0.0, -2.0).stay(35);
                let mut phone = phone.walk(0.0, -30.0).walk(-40.0, -30.0).stay(10);
                phone.vaguer_m = 0.0;
                let score = phone.drive(-900.0, -30.0).score();
                assert_sound(&name, &score);
                assert_ne!(
                    score.reason_codes[0],
                    ReasonCode::NoAttempt,
                    "{name}: {:#?}",
                    score.evidence
                );
            }
        }
    }
}

/// The phone has no fix between the vehicle, 150 m from the address, and the next drive, or the end
/// of the session. The courier walked far enough to have been at the address, or only across the
/// street and back.
#[test]
fn a_walk_without_positions_may_have_led_to_the_address() {
    for error in ERRORS {
        for (to_m, drives_on, may_have_been_there) in
            [(0.0, true, true), (0.0, false, true), (-130.0, true, false)]
        {
            let name = format!("{error:?}, {to_m} m, {drives_on}");
            let mut phone = Phone::new(error, 5).drive(-150.0, -30.0).stay(10);
            phone.fix_every = 1_000.0;
            let phone = phone.walk(to_m, -30.0).walk(to_m, -2.0).stay(35);
            let mut phone = phone.walk(to_m, -30.0).walk(-150.0, -30.0).stay(10);
            if drives_on {
                phone.fix_every = 1.0;
                phone = phone.drive(-900.0, -30.0);
            }
            let score = phone.score();
            assert_sound(&name, &score);
            assert_eq!(
                score.reason_codes[0] != ReasonCode::NoAttempt,
                may_have_been_there,
                "{name}: {:?} {:#?}",
                score.reason_codes,
                score.evidence
            );
        }
    }
}

/// The phone fills altitudes that it does not know with arbitrary values, early ones in the drive
/// about 0, and late ones about 200 m.
#[test]
fn arbitrary_altitudes_contradict_no_pressure() {
    let mut script = script_house(21);
    for (index, window) in script.windows.iter_mut().enumerate() {
        let values = if index < 31 {
            [0.0, 9_999.0, -999.0, 0.0, 1.0]
        } else {
            [200.0, 9_999.0, -999.0, 201.0, 199.0]
        };
        for fix in window.fixes.iter_mut().flatten() {
            fix.altitude_m = Some(values[index % 5]);
        }
    }
    let score = script.score();
    assert!(
        !about(&score, "fraudScore").any(|entry| entry.signal == "altitude_contradicts_pressure"),
        "{:#?}",
        score.evidence
    );
}

/// The network knows one access point 6 km from its place. At the door most fixes, but not all, are
/// computed from it and claim 20 m, so the drop-off seems to be there as well. It is one wrong
/// source, and not two grounds. A courier who is 6 km away and fabricates positions at the address
/// stays suspicious.
#[test]
fn one_misplaced_access_point_is_not_two_grounds() {
    let is_wrong = [true, false, true, true, false];
    let mut script = arrive(21).walk_to(0.0, -25.0).walk_to(0.0, -1.0);
    let from = script.windows.len();
    script = script.stay(40).mark(MarkName::HandedOver);
    for (index, window) in script.windows.iter_mut().skip(from).enumerate() {
        for fix in window.fixes.iter_mut().flatten() {
            if is_wrong[index % is_wrong.len()] {
                (fix.place.east_m, fix.accuracy_m) = (6_000.0 + fix.place.east_m, 20.0);
            }
        }
    }
    let score = leave(script).score();
    let claims = about(&score, "fraudScore").filter(|entry| entry.signal.starts_with("claim_"));
    assert_eq!(claims.count(), 0, "{:#?}", score.evidence);
    assert!(!score.summary.suspicious_behavior, "{:#?}", score.evidence);

    let fraud = Script::new(21).teleport(6_000.0, 0.0).stay(60);
    let fraud = fraud.teleport(0.0, 0.0).stay(30).teleport(6_000.0, 0.0);
    let score = fraud.stay(20).mark(MarkName::HandedOver).stay(60).score();
    let mut claims = about(&score, "fraudScore").filter(|entry| entry.signal.starts_with("claim_"));
    assert!(claims.next().is_some(), "{:#?}", score.evidence);
    assert!(score.summary.suspicious_behavior, "{:#?}", score.evidence);
}

/// A phone finds its position by satellites, or by the access points around it. One of these was
/// moved 200 m from where the network knows it. At the door the position jumps there and back.
#[test]
fn a_misplaced_access_point_is_not_a_teleport() {
    let script = |provider| {
        let script: Script = arrive(21).walk_to(0.0, -25.0).walk_to(0.0, -1.0).stay(20);
        let script = script.teleport(200.0, -1.0).stay(10).teleport(0.0, -1.0);
        let mut script = leave(script.stay(10).mark(MarkName::HandedOver));
        for fix in script
            .windows
            .iter_mut()
            .flat_map(|window| window.fixes.iter_mut().flatten())
        {
            fix.provider = Some(provider);
        }
        sum(&script.score(), "fraudScore")
    };
    let (gnss, wifi) = (script(Provider::Gnss), script(Provider::Wifi));
    assert!(gnss - wifi >= 2.0, "{gnss} by satellites, {wifi} by Wi-Fi");
}

/// The courier leaves the vehicle 260 m away, where positions are good to 100 m, and comes to 200 m
/// with exact ones. The evidence states the least distance, although the vague positions leave more
/// room.
#[test]
fn the_evidence_states_the_distance_of_the_nearest_position() {
    let script = Script::new(4)
        .drive_to(-260.0, 0.0)
        .walk_to(-250.0, 0.0)
        .stay(60);
    let vague_until_ms = script.duration_ms() - 30_000;
    let script = script.walk_to(-200.0, 0.0).stay(30);
    let mut script = script.walk_to(-260.0, 0.0).stay(5).drive_to(-600.0, 0.0);
    let vague = script.windows.iter_mut();
    for window in vague.filter(|window| window.t_ms < vague_until_ms) {
        for fix in window.fixes.iter_mut().flatten() {
            fix.accuracy_m = 100.0;
        }
    }
    let score = script.score();
    assert_eq!(score.reason_codes[0], ReasonCode::NoAttempt);
    let mut entries = about(&score, "NO_ATTEMPT");
    let text = &entries.next().unwrap().text;
    let stated_m: f32 = text
        .split_whitespace()
        .find_map(|word| word.parse().ok())
        .unwrap();
    assert!((stated_m - 200.0).abs() < 15.0, "{text}");
}
