//! Tests the service's knowledge of places.

use porchlight_schema::ids::{OrganizationId, SessionId};
use porchlight_schema::session::{
    Address, EndReason, Env, Point, SessionEnd, SessionStart, SessionType, Tenant,
};
use porchlight_schema::time::TimestampMs;

use super::script::Script;
use crate::geo::{LocalFrame, Place};
use crate::score::{
    MarkName, PLACE_SESSIONS_MAX, PlaceFacts, PlaceKnowledge, learn, place_key, recorded_together,
};

pub(super) fn address() -> Address {
    Script::new(1).address
}

fn facts(day: u32, rider: u64, height_m: f32) -> PlaceFacts {
    PlaceFacts {
        day,
        rider,
        floor_height_m: Some((3, height_m)),
        entrance: None,
        drop_off: None,
    }
}

fn learned(sessions: &[PlaceFacts]) -> PlaceKnowledge {
    sessions
        .iter()
        .fold(PlaceKnowledge::default(), |old, &facts| learn(&old, facts))
}

/// Returns the learned height of the third floor divided by three, metres.
fn storey_m(sessions: &[PlaceFacts], day: u32) -> f32 {
    let known = learned(sessions).known(&address(), day);
    assert_eq!(known.floor_heights_m.len(), 1);
    known.floor_heights_m[0].1 / 3.0
}

#[test]
fn one_session_changes_the_knowledge_only_slightly() {
    let first = learned(&[facts(100, 1, 12.0)]).known(&address(), 100);
    assert_eq!(first.floor_heights_m, [(3, 12.0)]);
    assert!((first.floor_weights[0] - 1.0).abs() < 0.01);
    assert_eq!(first.drop_off, None, "a place is learned from two");
    let good = [
        facts(100, 1, 12.0),
        facts(101, 2, 12.2),
        facts(102, 3, 11.9),
    ];
    let known = learned(&good).known(&address(), 103);
    assert!((storey_m(&good, 103) - 4.0).abs() < 0.05);
    assert!(known.floor_weights[0] > 2.5);
    let mut poisoned = good.to_vec();
    poisoned.push(facts(103, 4, 7.0));
    let after = storey_m(&poisoned, 103);
    assert!((after - 4.0).abs() < 0.1, "{after}");
}

#[test]
fn one_courier_cannot_form_a_majority() {
    let mut sessions = vec![
        facts(100, 1, 12.0),
        facts(100, 2, 12.1),
        facts(100, 3, 12.0),
    ];
    sessions.extend((0..10).map(|day| facts(101 + day, 9, 8.0)));
    let storey_m = storey_m(&sessions, 111);
    assert!(storey_m > 3.5, "{storey_m}");
}

#[test]
fn impossible_floor_heights_are_not_learned() {
    let known = learned(&[facts(100, 1, 60.0), facts(100, 2, -9.0)]).known(&address(), 100);
    assert!(known.floor_heights_m.is_empty());
}

#[test]
fn old_sessions_count_less_and_memory_is_bounded() {
    let mut sessions: Vec<PlaceFacts> = (0..5).map(|rider| facts(0, rider, 9.0)).collect();
    sessions.extend((0..3).map(|rider| facts(900, 10 + rider, 12.0)));
    assert!(
        (storey_m(&sessions, 900) - 4.0).abs() < 0.01,
        "five old ones are worth less than three new"
    );
    let many: Vec<PlaceFacts> = (0..100)
        .map(|day| facts(day, u64::from(day), 12.0))
        .collect();
    let bytes = postcard::to_allocvec(&learned(&many)).unwrap();
    assert!(bytes.len() < PLACE_SESSIONS_MAX * 40, "{}", bytes.len());
    let back: PlaceKnowledge = postcard::from_bytes(&bytes).unwrap();
    assert_eq!(back, learned(&many));
}

#[test]
fn places_are_learned_only_around_the_address() {
    let frame = LocalFrame::new(address().point);
    let at = |east_m: f32| {
        Some((
            frame.point(Place {
                east_m,
                north_m: 0.0,
            }),
            8.0,
        ))
    };
    let session = |rider, east_m| PlaceFacts {
        drop_off: at(east_m),
        floor_height_m: None,
        ..facts(10, rider, 0.0)
    };
    let known =
        learned(&[session(1, 30.0), session(2, 34.0), session(3, 31.0)]).known(&address(), 10);
    let point = known.drop_off.unwrap().point;
    assert!((frame.place(point).east_m - 31.0).abs() < 0.5);
    let far =
        learned(&[session(1, 900.0), session(2, 905.0), session(3, 903.0)]).known(&address(), 10);
    assert_eq!(far.drop_off, None);
}

#[test]
fn heights_of_another_building_are_not_used() {
    let frame = LocalFrame::new(address().point);
    let at = |east_m: f32| {
        let north_m = 0.0;
        Some((frame.point(Place { east_m, north_m }), 8.0))
    };
    let heights = |entrance: Option<f32>, drop_off: Option<f32>| {
        let session = |rider| PlaceFacts {
            entrance: entrance.and_then(at),
            drop_off: drop_off.and_then(at),
            ..facts(10, rider, 12.0)
        };
        let known = learned(&[session(1), session(2)]).known(&address(), 10);
        known.floor_heights_m
    };
    assert!(heights(None, Some(1_600.0)).is_empty());
    assert!(heights(Some(1_600.0), Some(1_610.0)).is_empty());
    assert_eq!(heights(None, None), [(3, 12.0)]);
    assert_eq!(heights(Some(20.0), None), [(3, 12.0)]);
    assert_eq!(heights(None, Some(30.0)), [(3, 12.0)]);
}

#[test]
fn only_a_correct_delivery_is_learned_from() {
    let deliver = |east: f32| {
        let script = Script::new(50)
            .drive_to(-30.0, -25.0)
            .stay(10)
            .walk_to(east, -1.0)
            .stay(40);
        script
            .mark(MarkName::HandedOver)
            .walk_to(-30.0, -25.0)
            .stay(20)
            .scored()
    };
    let drop_off = deliver(0.0).learned.unwrap().drop_off.unwrap().0;
    assert!(
        LocalFrame::new(address().point)
            .place(drop_off)
            .distance_m(Place::default())
            < 20.0
    );
    assert_eq!(deliver(200.0).learned, None);
}

#[test]
fn the_key_identifies_the_building() {
    let tenant = |seed| Tenant {
        organization_id: OrganizationId::from_bytes([seed; 16]),
        env: Env::Production,
    };
    let key = |line1: &str| {
        place_key(
            tenant(1),
            &Address {
                line1: line1.into(),
                ..address()
            },
        )
    };
    assert_eq!(key("12 Main Street"), key("12  main street, Apt 4B"));
    assert_eq!(key("12 Main Street"), key("12 MAIN STREET #7"));
    assert_ne!(key("12 Main Street"), key("14 Main Street"));
    let moved = |degrees: f64| {
        let point = address().point;
        place_key(
            tenant(1),
            &Address {
                line1: "12 Main Street".into(),
                point: Point {
                    lat: point.lat + degrees,
                    ..point
                },
                ..address()
            },
        )
    };
    assert_eq!(key("12 Main Street"), moved(0.0001), "geocoded again");
    assert_ne!(
        key("12 Main Street"),
        moved(1.0),
        "a town of that name elsewhere"
    );
    assert_ne!(
        key("12 Main Street"),
        place_key(
            tenant(2),
            &Address {
                line1: "12 Main Street".into(),
                ..address()
            }
        )
    );
    let sandbox = Tenant {
        env: Env::Sandbox,
        ..tenant(1)
    };
    assert_ne!(
        key("12 Main Street"),
        place_key(
            sandbox,
            &Address {
                line1: "12 Main Street".into(),
                ..address()
            }
        )
    );
}

/// A word for a unit is part of many street names, and a house number may follow `#`.
#[test]
fn the_key_contains_all_of_a_street_name() {
    let key = |line1: &str| {
        let tenant = Tenant {
            organization_id: OrganizationId::from_bytes([1; 16]),
            env: Env::Production,
        };
        let line1 = line1.to_owned();
        place_key(tenant, &Address { line1, ..address() })
    };
    for (one, other) in [
        ("Calle 45 #12-34", "Calle 45 #80-10"),
        ("#05-12, 21 Orchard Road", "#05-12, 40 Orchard Road"),
        ("12 Rue Ste-Anne", "12 Rue Ste-Catherine"),
        ("7 Flat Rock", "7 Flat Bush"),
        ("3rd Floor, 12 Main Street", "3rd Floor, 90 Main Street"),
        ("12 Flat 3, High Street", "12 Flat 3, Low Street"),
    ] {
        assert_ne!(key(one), key(other), "{one}, {other}");
    }
    for unit in [
        "Ste 400",
        "flat b",
        "fl 3",
        "Unit 2/7",
        "Apt4B, 2nd entrance",
    ] {
        let line = format!("12 Main Street {unit}");
        assert_eq!(key("12 Main Street"), key(&line), "{line}");
    }
}

/// Two parcels of one stop share one phone and one trace in two sessions. The same trace is also
/// sent again, later.
#[test]
fn two_concurrent_sessions_are_not_a_copy() {
    let session = |rider: &str, created_ms: i64, completed_ms: i64| {
        let start = SessionStart {
            session_id: SessionId::from_bytes([1; 16]),
            tenant: Tenant {
                organization_id: OrganizationId::from_bytes([2; 16]),
                env: Env::Sandbox,
            },
            delivery_id: "d".into(),
            external_rider_id: rider.into(),
            session_type: SessionType::Delivery,
            address: Script::new(1).address,
            device: None,
            started_at: TimestampMs(0),
            created_at: TimestampMs(created_ms),
        };
        let end = SessionEnd {
            ended_at: TimestampMs(completed_ms),
            completed_at: TimestampMs(completed_ms),
            reason: EndReason::Stopped,
        };
        (start, end)
    };
    let together = |one: &(SessionStart, SessionEnd), other: &(SessionStart, SessionEnd)| {
        recorded_together((&one.0, &one.1), (&other.0, &other.1))
    };
    let first = session("rider", 1_000, 90_000);
    assert!(together(&first, &session("rider", 1_500, 91_000)));
    assert!(together(&session("rider", 1_500, 91_000), &first));
    assert!(
        !together(&first, &session("rider", 90_000, 180_000)),
        "sent after it was recorded"
    );
    assert!(
        !together(&first, &session("another", 1_500, 91_000)),
        "another courier"
    );

    let mut script = super::acts::replayed();
    let copied = script.score().summary;
    assert!(copied.fraud_score >= 0.5);
    if let Some(copied) = &mut script.known.copied_trace {
        copied.together = true;
    }
    let twin = script.score().summary;
    assert!(twin.fraud_score < 0.05 && twin.right_doorstep, "{twin:?}");
}
