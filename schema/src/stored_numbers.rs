//! Pins the bytes of every variant of the stored enums, and of one stored insight.
//!
//! Stores hold the number of a variant and not its name. A node of another release reads the same
//! bytes. So a new variant is appended behind the others; one that is inserted renumbers them.

use core::fmt::Debug;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::event::{Confidence, Direction, Event, EventType, Metadata};
use crate::hex;
use crate::insight::{Evidence, InsightRecord, Metrics, ReasonCode, Score, Summary};
use crate::key::{KeyKind, Role};
use crate::message::MessageEvent;
use crate::review::ReviewState;
use crate::sample::{ActivityType, Kind, Provider, SystemName};
use crate::session::{EndReason, Env, Pod, PodType, SessionType};
use crate::time::TimestampMs;

/// Asserts that each value has these bytes, in hexadecimal digits, and that the bytes have this
/// value. Asserts also that the enum has no variant after these.
fn assert_pinned<T>(pinned: &[(T, &str)])
where
    T: Serialize + DeserializeOwned + PartialEq + Debug,
{
    for (value, expected) in pinned {
        let bytes = postcard::to_allocvec(value).unwrap();
        assert_eq!(
            hex::encode(&bytes),
            *expected,
            "stored rows hold these bytes of {value:?}: append a variant, never insert one"
        );
        assert_eq!(&postcard::from_bytes::<T>(&bytes).unwrap(), value);
    }
    let mut next = [0; 32];
    next[0] = u8::try_from(pinned.len()).unwrap();
    if let Ok((value, _)) = postcard::take_from_bytes::<T>(&next) {
        panic!("pin the bytes of {value:?} here");
    }
}

/// Asserts that the values have the numbers from 0 on, in this order.
fn assert_numbered<T>(values: &[T])
where
    T: Serialize + DeserializeOwned + PartialEq + Debug + Copy,
{
    let numbers: Vec<String> = (0..values.len()).map(|at| format!("{at:02x}")).collect();
    let pinned = values
        .iter()
        .copied()
        .zip(numbers.iter().map(String::as_str));
    assert_pinned(&pinned.collect::<Vec<_>>());
}

#[test]
fn every_stored_type_of_event_keeps_its_bytes() {
    use EventType::{
        Backtracking, Driving, Elevator, Gate, GpsDegraded, GpsLost, GpsRestored, Stairs, Stopped,
        Walking,
    };
    assert_numbered(&[
        Backtracking,
        Driving,
        Elevator,
        Gate,
        GpsDegraded,
        GpsLost,
        GpsRestored,
        Stairs,
        Stopped,
        Walking,
    ]);
    assert_numbered(&[Direction::Up, Direction::Down]);
    let climb = Metadata::Climb {
        floors: Some(3),
        direction: Direction::Down,
        height_cm: Some(900),
    };
    assert_pinned(&[
        (Metadata::None, "00"),
        (climb, "01010301018407"),
        (Metadata::Backtracking { retraced_m: 300 }, "02ac02"),
        (Metadata::Gate { wait_sec: 9 }, "0309"),
    ]);
}

#[test]
fn every_stored_reason_code_keeps_its_bytes() {
    use ReasonCode::{
        DeliveredToRightDoorstep, FullAttempt, InsufficientData, NoAttempt, PartialAttempt,
        PossibleLobbyHandoff, PossibleNoAttempt, PossibleWrongAddress, SessionTimeout,
        TelemetryStreamInterrupted,
    };
    assert_numbered(&[
        FullAttempt,
        PartialAttempt,
        NoAttempt,
        PossibleNoAttempt,
        InsufficientData,
        DeliveredToRightDoorstep,
        PossibleLobbyHandoff,
        PossibleWrongAddress,
        SessionTimeout,
        TelemetryStreamInterrupted,
    ]);
}

#[test]
fn every_other_stored_enum_keeps_its_bytes() {
    assert_numbered(&[Env::Sandbox, Env::Production]);
    assert_numbered(&[
        SessionType::Delivery,
        SessionType::Pickup,
        SessionType::Return,
    ]);
    assert_pinned(&[
        (EndReason::Stopped, "00"),
        (EndReason::Idle, "01"),
        (EndReason::TooLong, "02"),
        (
            EndReason::StoppedAfterTimeout {
                stopped_at: TimestampMs(9),
            },
            "0312",
        ),
    ]);
    assert_numbered(&[PodType::Photo, PodType::Signature, PodType::Note]);
    assert_numbered(&[ReviewState::Reviewed, ReviewState::Overturned]);
    assert_numbered(&[KeyKind::Secret, KeyKind::Client]);
    assert_numbered(&[
        MessageEvent::SessionStarted,
        MessageEvent::SessionStopped,
        MessageEvent::InsightUpdated,
    ]);
    // An unknown role is read as the one with the fewest permissions, so there is no next one.
    for (role, number) in [(Role::Admin, 0), (Role::Support, 1), (Role::Viewer, 2)] {
        assert_eq!(postcard::to_allocvec(&role).unwrap(), [number]);
    }
}

#[test]
fn every_name_in_a_sample_keeps_its_number() {
    use ActivityType::{Cycling, Driving, Running, Still, Unknown, Walking};
    assert_numbered(&Kind::ALL);
    for (number, kind) in (0..).zip(Kind::ALL) {
        assert_eq!(kind as u8, number, "{kind:?}");
    }
    assert_numbered(&[Still, Walking, Running, Cycling, Driving, Unknown]);
    assert_numbered(&[
        Provider::Gnss,
        Provider::Fused,
        Provider::Wifi,
        Provider::Cell,
    ]);
    assert_numbered(&[
        SystemName::LocationOff,
        SystemName::LocationOn,
        SystemName::PermissionLost,
        SystemName::Background,
        SystemName::Foreground,
        SystemName::PowerSave,
        SystemName::SensorLost,
        SystemName::ClockChanged,
        SystemName::IntegrityFailed,
    ]);
}

fn record() -> InsightRecord {
    let summary = Summary {
        right_doorstep: true,
        fraud_score: 0.25,
        suspicious_behavior: false,
        friction_score: 0.5,
        visibility_score: 1.0,
        floors_climbed: Some(3),
        elevator_used: Some(false),
        total_duration_sec: 2.0,
        attempt_cycles: 1,
    };
    let event = Event {
        event_type: EventType::Walking,
        t_start_ms: 1,
        t_end_ms: Some(2),
        confidence: Confidence::from_probability(0.5),
        metadata: Metadata::None,
    };
    let evidence = |about: &str| Evidence {
        about: about.to_owned(),
        signal: "s".to_owned(),
        points: 1.0,
        t_start: Some(0.5),
        t_end: None,
        text: "t".to_owned(),
        explanation: "e".to_owned(),
    };
    let score = Score {
        summary,
        reason_codes: vec![ReasonCode::FullAttempt],
        events: vec![event],
        metrics: Metrics {
            time_from_entrance_to_door_sec: None,
            time_at_door_sec: Some(0.5),
        },
        evidence: vec![evidence("a"), evidence("b")],
        weights: "w".to_owned(),
        has_path: true,
    };
    let pod = Pod {
        pod_type: PodType::Note,
        url: "u".to_owned(),
    };
    InsightRecord {
        revision: 1,
        score: Some(score),
        error_message: None,
        pod: Some(pod),
        updated_at: TimestampMs(9),
    }
}

#[test]
fn a_stored_insight_still_reads() {
    const STORED: &str = concat!(
        "010101000000000000d03f00000000000000e03f000000000000f03f01060100000000000000004001010001",
        "09010102f403000001000000000000e03f0201610173000000000000f03f01000000000000e03f0001740165",
        "01620173000000000000f03f01000000000000e03f0001740165017701000102017512",
    );
    let bytes = postcard::to_allocvec(&record()).unwrap();
    assert_eq!(
        hex::encode(&bytes),
        STORED,
        "insights are stored in these bytes, and a field here makes all of them unreadable: put it into a row of its own, \
         see \"To change a stored row\" in src/store/README.md"
    );
    assert_eq!(postcard::from_bytes::<InsightRecord>(&bytes), Ok(record()));
}
