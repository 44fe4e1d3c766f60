//! Tests that any input yields a sound score in a short time.

use porchlight_schema::event::{Confidence, Direction, Event, EventType, Metadata, sort_events};
use porchlight_schema::sample::{ActivityType, SystemName};
use porchlight_schema::session::{PodType, Point};
use proptest::prelude::*;

use super::assert_sound;
use super::script::Script;
use crate::context::SessionContext;
use crate::geo::Place;
use crate::score::{
    Knowledge, LearnedPoint, MarkName, PodInput, ScoreInput, score, trace_fingerprint,
};
use crate::window::{BodyMotion, Fix, Window};

fn fix(t_ms: u32) -> impl Strategy<Value = Fix> {
    let place = prop_oneof![-200.0_f32..200.0, -2.0e7_f32..2.0e7];
    (
        place.clone(),
        place,
        0.0_f32..100_000.0,
        any::<bool>(),
        any::<bool>(),
        0.0_f32..400.0,
    )
        .prop_map(
            move |(east_m, north_m, accuracy_m, accuracy_known, mock, speed_mps)| Fix {
                t_ms,
                place: Place { east_m, north_m },
                accuracy_m: if accuracy_known {
                    accuracy_m % 200.0
                } else {
                    accuracy_m
                },
                accuracy_known,
                speed_mps: Some(speed_mps),
                bearing_deg: None,
                altitude_m: Some(north_m.clamp(-1_000.0, 20_000.0)),
                mock,
                provider: None,
            },
        )
}

fn window(t_ms: u32) -> impl Strategy<Value = Window> {
    let motion = (0.0_f32..400.0, 0.0_f32..10.0).prop_map(|(accel_std, cadence_hz)| BodyMotion {
        accel_mean: accel_std,
        accel_std,
        vertical_mean: None,
        cadence_hz: Some(cadence_hz),
        yaw_rad: Some(cadence_hz),
        stride: None,
        gait: None,
    });
    (
        proptest::option::of(fix(t_ms)),
        proptest::option::of(300.0_f32..1_150.0),
        proptest::option::of(any::<u16>()),
        proptest::option::of(motion),
        any::<bool>(),
    )
        .prop_map(
            move |(fix, pressure_hpa, steps, motion, has_measurement)| Window {
                t_ms,
                fixes: [fix, fix],
                pressure_hpa,
                steps,
                motion,
                activity: steps.map(|_| (ActivityType::Still, 1.0)),
                has_measurement,
                ..Window::default()
            },
        )
}

fn event() -> impl Strategy<Value = Event> {
    let metadata = prop_oneof![
        Just(Metadata::None),
        (any::<u16>(), any::<bool>(), any::<u32>()).prop_map(|(floors, up, height_cm)| {
            Metadata::Climb {
                floors: Some(floors),
                direction: if up { Direction::Up } else { Direction::Down },
                height_cm: Some(height_cm),
            }
        }),
        any::<u32>().prop_map(|retraced_m| Metadata::Backtracking { retraced_m }),
        any::<u32>().prop_map(|wait_sec| Metadata::Gate { wait_sec }),
    ];
    (
        0..EventType::ALL.len(),
        0_u32..200_000,
        proptest::option::of(0_u32..100_000),
        0.0_f64..1.0,
        metadata,
    )
        .prop_map(
            |(kind, t_start_ms, length_ms, probability, metadata)| Event {
                event_type: EventType::ALL[kind],
                t_start_ms,
                t_end_ms: length_ms.map(|length_ms| t_start_ms + length_ms),
                confidence: Confidence::from_probability(probability),
                metadata,
            },
        )
}

fn windows() -> impl Strategy<Value = Vec<Window>> {
    proptest::collection::vec(0_u32..3, 0..120).prop_flat_map(|gaps| {
        let mut t_ms = 0;
        let windows: Vec<_> = gaps
            .into_iter()
            .map(|gap| {
                t_ms += 1_000 + gap * 20_000;
                window(t_ms).boxed()
            })
            .collect();
        windows
    })
}

const NAMES: [MarkName; 5] = [
    MarkName::Arrived,
    MarkName::PodCaptured,
    MarkName::HandedOver,
    MarkName::LeftAtDoor,
    MarkName::Other,
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn any_session_gets_a_valid_score(
        windows in windows(),
        mut events in proptest::collection::vec(event(), 0..40),
        mut marks in proptest::collection::vec((0_u32..300_000, 0..NAMES.len()), 0..6),
        mut incidents in proptest::collection::vec((0_u32..300_000, 0..SystemName::ALL.len()), 0..6),
        duration_ms in prop_oneof![0_u32..400_000, Just(u32::MAX)],
        floor in proptest::option::of(any::<i16>()),
        storey_m in proptest::option::of(-1.0_f32..20.0),
        pod_ms in proptest::option::of(any::<u32>()),
        batches in (any::<u32>(), any::<u32>()),
    ) {
        sort_events(&mut events);
        marks.sort_unstable();
        incidents.sort_unstable();
        let marks: Vec<(u32, MarkName)> = marks.into_iter().map(|(t_ms, name)| (t_ms, NAMES[name])).collect();
        let system: Vec<(u32, SystemName)> =
            incidents.into_iter().map(|(t_ms, name)| (t_ms, SystemName::ALL[name])).collect();
        let mut address = Script::new(1).address;
        (address.floor, address.storey_height_m) = (floor, storey_m);
        let context = SessionContext::of_address(&address, None);
        let point = LearnedPoint { point: Point { lat: 48.2, lng: 11.6 }, sigma_m: 5.0, weight: 3.0 };
        let known = Knowledge {
            floor_heights_m: vec![(i16::MAX, 1.0e9), (i16::MIN, -1.0e9), (1, 3.0)],
            floor_weights: vec![f32::INFINITY, -1.0],
            entrance: Some(point),
            drop_off: Some(point),
            copied_trace: None,
        };
        let input = ScoreInput {
            context: &context,
            windows: &windows,
            events: &events,
            marks: &marks,
            system: &system,
            clock_steps: &[],
            pod: pod_ms.map(|t_ms| PodInput { pod_type: PodType::Note, t_ms: Some(t_ms), clock_ahead_ms: 0 }),
            duration_ms,
            timed_out: false,
            missing_batches: batches.0,
            quarantined_batches: batches.1,
            known: &known,
        };
        let first = score(&input);
        assert_sound("hostile", &first);
        prop_assert_eq!(first, score(&input));
        let _ = trace_fingerprint(&windows);
    }
}

/// Two days of seconds with the most events, marks and jumps that a session may have: quadratic
/// work would take minutes.
#[test]
fn the_longest_session_is_scored() {
    let mut script = Script::new(2);
    for second in 0..172_800_u32 {
        let t_ms = second * 1_000;
        let east_m = if second % 7 == 0 {
            1.0e6
        } else {
            (second % 400) as f32
        };
        let place = Place {
            east_m,
            north_m: (second % 90) as f32,
        };
        let fix = Fix {
            t_ms,
            place,
            accuracy_m: 5.0,
            accuracy_known: true,
            speed_mps: None,
            bearing_deg: None,
            altitude_m: Some(1.0),
            mock: false,
            provider: None,
        };
        script.windows.push(Window {
            t_ms,
            fixes: [Some(fix), None],
            pressure_hpa: Some(1_000.0 + (second % 50) as f32 / 10.0),
            steps: Some((second % 3) as u16),
            has_measurement: true,
            has_sample: true,
            ..Window::default()
        });
    }
    for number in 0..2_000_u32 {
        script.events.push(Event {
            event_type: EventType::ALL[number as usize % EventType::ALL.len()],
            t_start_ms: number * 86_000,
            t_end_ms: Some(number * 86_000 + 80_000),
            confidence: Confidence::from_probability(0.9),
            metadata: Metadata::None,
        });
    }
    for number in 0..256_u32 {
        script
            .marks
            .push((number * 600_000, NAMES[number as usize % NAMES.len()]));
        script.system.push((
            number * 600_000,
            SystemName::ALL[number as usize % SystemName::ALL.len()],
        ));
    }
    assert_sound("longest", &script.silence(172_800).score());
}
