//! Scenarios, and the insight that each must produce.

use porchlight_schema::insight::ReasonCode::{self, *};
use porchlight_schema::sample::SystemName;

use super::acts::*;
use super::script::{FULL, Kit, Script};
use super::{about, assert_sound};
use crate::score::MarkName;

struct Expected {
    codes: &'static [ReasonCode],
    floors: Option<i16>,
    elevator: Option<bool>,
    visits: u32,
    fraud: core::ops::RangeInclusive<f64>,
    suspicious: bool,
}

const HONEST: core::ops::RangeInclusive<f64> = 0.0..=0.05;

/// A delivery at the door of a house.
const DELIVERED: Expected = Expected {
    codes: &[FullAttempt, DeliveredToRightDoorstep],
    floors: Some(0),
    elevator: Some(false),
    visits: 1,
    fraud: HONEST,
    suspicious: false,
};

/// No door was found.
const NOWHERE: Expected = Expected {
    codes: &[NoAttempt],
    floors: None,
    visits: 0,
    ..DELIVERED
};

#[test]
fn simulated_deliveries_get_the_expected_scores() {
    let up = |floors| Expected {
        floors: Some(floors),
        ..DELIVERED
    };
    let cases = [
        ("house", house(1), DELIVERED),
        ("stairs", insists_on_floor(arrive(2), 2, 6.4, false), up(2)),
        (
            "elevator",
            insists_on_floor(arrive(3), 5, 17.0, true),
            Expected {
                elevator: Some(true),
                ..up(5)
            },
        ),
        (
            "basement",
            insists_on_floor(arrive(4), -1, -3.2, false),
            up(-1),
        ),
        (
            "wrong floor",
            insists_on_floor(arrive(5), 6, 9.6, false),
            Expected {
                codes: &[PartialAttempt],
                ..up(3)
            },
        ),
        (
            "lobby",
            lobby(FULL),
            Expected {
                codes: &[PartialAttempt, PossibleLobbyHandoff],
                ..DELIVERED
            },
        ),
    ];
    check(&cases);
}

#[test]
fn missing_sensors_leave_null_fields() {
    let no_pressure = Kit {
        pressure: false,
        ..FULL
    };
    let no_location = Kit {
        location: false,
        ..FULL
    };
    let only_location = Kit {
        pressure: false,
        body: false,
        ..FULL
    };
    let cases = [
        // Without a barometer the height is unknown: no suspicion, and no floors.
        (
            "lobby, no barometer",
            lobby(no_pressure),
            Expected {
                floors: None,
                ..DELIVERED
            },
        ),
        (
            "stairs, no barometer",
            insists_on_floor(arrive(6).with(no_pressure), 2, 6.4, false),
            Expected {
                floors: None,
                ..DELIVERED
            },
        ),
        (
            "no location",
            house_with(7, no_location),
            Expected {
                codes: &[InsufficientData],
                ..DELIVERED
            },
        ),
        (
            "location only",
            house_with(8, only_location),
            Expected {
                floors: None,
                elevator: None,
                ..DELIVERED
            },
        ),
    ];
    check(&cases);
}

#[test]
fn special_circumstances_are_reported() {
    let cases = [
        (
            "second attempt",
            twice(),
            Expected {
                visits: 2,
                ..DELIVERED
            },
        ),
        (
            "wrong address",
            at_another_door(150.0),
            Expected {
                codes: &[NoAttempt, PossibleWrongAddress],
                fraud: 0.0..=0.2,
                visits: 0,
                ..DELIVERED
            },
        ),
        (
            "interrupted at the door",
            interrupted(),
            Expected {
                codes: &[
                    FullAttempt,
                    DeliveredToRightDoorstep,
                    TelemetryStreamInterrupted,
                ],
                ..DELIVERED
            },
        ),
        (
            "timed out",
            timed_out(),
            Expected {
                codes: &[FullAttempt, DeliveredToRightDoorstep, SessionTimeout],
                ..DELIVERED
            },
        ),
        (
            "thin data",
            thin(),
            Expected {
                codes: &[InsufficientData, TelemetryStreamInterrupted],
                floors: None,
                elevator: None,
                visits: 0,
                ..DELIVERED
            },
        ),
    ];
    check(&cases);
}

#[test]
fn an_absent_courier_has_no_attempt() {
    let cases = [
        (
            "never came",
            Script::new(20)
                .drive_to(900.0, 500.0)
                .stay(40)
                .drive_to(1500.0, 500.0)
                .stay(30),
            NOWHERE,
        ),
        (
            "came by vehicle, the phone stayed in it",
            arrive(21).stay(90).drive_to(400.0, -25.0),
            Expected {
                codes: &[PossibleNoAttempt],
                ..NOWHERE
            },
        ),
        (
            "passed on foot",
            leave(arrive(22).walk_to(0.0, -25.0).walk_to(25.0, -25.0)),
            Expected {
                codes: &[PartialAttempt],
                ..NOWHERE
            },
        ),
        (
            "reported as dropped off while driving",
            Script::new(23)
                .drive_to(900.0, 500.0)
                .mark(MarkName::HandedOver)
                .drive_to(1500.0, 500.0)
                .proved(),
            Expected {
                fraud: 0.2..=0.8,
                suspicious: false,
                ..NOWHERE
            },
        ),
    ];
    check(&cases);
}

#[test]
fn fraud_is_detected() {
    let cases = [
        (
            "mock fixes",
            mock(),
            Expected {
                codes: &[InsufficientData],
                fraud: 0.5..=1.0,
                suspicious: true,
                ..DELIVERED
            },
        ),
        (
            "replay",
            replayed(),
            Expected {
                codes: &[FullAttempt],
                fraud: 0.5..=1.0,
                ..DELIVERED
            },
        ),
        (
            "teleport",
            teleported(),
            Expected {
                codes: &[NoAttempt, PossibleWrongAddress],
                fraud: 0.5..=1.0,
                suspicious: true,
                visits: 0,
                ..DELIVERED
            },
        ),
        (
            "positions of a delivery, the phone on a table",
            house(24).body_at_rest(),
            Expected {
                codes: &[PossibleNoAttempt],
                fraud: 0.3..=1.0,
                visits: 0,
                floors: None,
                ..DELIVERED
            },
        ),
    ];
    check(&cases);
}

fn check(cases: &[(&str, Script, Expected)]) {
    for (name, script, expected) in cases {
        let score = script.score();
        assert_sound(name, &score);
        assert_eq!(
            score,
            script.score(),
            "{name}: the same input gives the same score"
        );
        let summary = &score.summary;
        assert_eq!(
            score.reason_codes, expected.codes,
            "{name}: {:#?}",
            score.evidence
        );
        assert_eq!(
            summary.floors_climbed, expected.floors,
            "{name}: {:#?}",
            score.evidence
        );
        assert_eq!(
            summary.elevator_used, expected.elevator,
            "{name}: {:#?}",
            score.evidence
        );
        assert_eq!(
            summary.attempt_cycles, expected.visits,
            "{name}: {:#?}",
            score.evidence
        );
        assert!(
            expected.fraud.contains(&summary.fraud_score),
            "{name}: {} {:#?}",
            summary.fraud_score,
            score.evidence
        );
        assert_eq!(summary.suspicious_behavior, expected.suspicious, "{name}");
        assert_eq!(
            summary.total_duration_sec,
            f64::from(script.duration_ms()) / 1000.0,
            "{name}"
        );
    }
}

#[test]
fn times_at_the_building_are_reported() {
    let score = insists_on_floor(arrive(30), 2, 6.4, false).score();
    let at_door = score.metrics.time_at_door_sec.unwrap();
    assert!((at_door - 45.0).abs() <= 3.0, "{at_door}");
    // The way in has 8 m of hall, 22 s of stairs, 9 m of corridor.
    let way_in = score.metrics.time_from_entrance_to_door_sec.unwrap();
    assert!((30.0..=45.0).contains(&way_in), "{way_in}");
    // A house has no entrance before its door.
    assert_eq!(
        house(31).score().metrics.time_from_entrance_to_door_sec,
        None
    );
}

#[test]
fn friction_grows_with_difficulty() {
    let plain = house(32).score().summary.friction_score;
    let gated = leave(
        arrive(32)
            .walk_to(0.0, -25.0)
            .wait_at_gate(40)
            .walk_to(0.0, -1.0)
            .stay(40)
            .mark(MarkName::HandedOver),
    );
    let high = insists_on_floor(arrive(32), 4, 12.8, false);
    let again = twice();
    for (name, harder) in [("gate", gated), ("stairs", high), ("second attempt", again)] {
        let friction = harder.score().summary.friction_score;
        assert!(
            friction > plain + 0.05,
            "{name}: {friction} against {plain}"
        );
    }
}

#[test]
fn incidents_alone_do_not_make_a_session_suspicious() {
    let cases = [
        ("clock", SystemName::ClockChanged, "clock_changed"),
        ("integrity", SystemName::IntegrityFailed, "integrity_failed"),
    ];
    for (name, incident, signal) in cases {
        let script = house(33).incident(incident).incident(incident);
        let score = script.score();
        assert_sound(name, &score);
        assert!(
            about(&score, "fraudScore").any(|entry| entry.signal == signal),
            "{name}"
        );
        assert!(
            score.summary.fraud_score < 0.5 && !score.summary.suspicious_behavior,
            "{name}"
        );
    }
}

#[test]
fn knowledge_from_earlier_sessions_counts() {
    let mut script = insists_on_floor(arrive(34), 3, 14.4, false);
    script.address.storey_height_m = None;
    script.known.floor_heights_m = vec![(3, 14.5)];
    script.known.floor_weights = vec![1.0];
    assert_eq!(script.score().summary.floors_climbed, Some(3));
    assert!(script.score().summary.right_doorstep);
    script.known.floor_heights_m = vec![(5, 14.5)];
    assert_eq!(script.score().summary.floors_climbed, Some(5));
    assert!(!script.score().summary.right_doorstep);
    // Data stored by an earlier version has no weights.
    script.known.floor_weights = Vec::new();
    assert_eq!(script.score().summary.floors_climbed, Some(5));
}

#[test]
fn no_telemetry_is_insufficient_data() {
    let script = Script::new(35).silence(300);
    let score = script.score();
    assert_sound("nothing", &score);
    assert_eq!(
        score.reason_codes,
        [InsufficientData, TelemetryStreamInterrupted]
    );
    assert!(!score.has_path);
    assert!(score.summary.visibility_score < 0.001);
}
