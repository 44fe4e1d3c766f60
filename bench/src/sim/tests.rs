use std::collections::BTreeMap;

use porchlight_schema::event::EventType;
use porchlight_schema::sample::json::decode_batch;

use super::*;

const SETS: [ParameterSet; 2] = [ParameterSet::Tuning, ParameterSet::HeldOut];

fn all(seeds: std::ops::Range<u64>) -> impl Iterator<Item = Delivery> {
    Kind::ALL
        .into_iter()
        .flat_map(move |kind| seeds.clone().map(move |seed| (kind, seed)))
        .flat_map(|(kind, seed)| SETS.map(|set| Scenario::new(kind, set, seed).deliver()))
}

fn json(delivery: &Delivery) -> String {
    delivery
        .batches(5.0)
        .map(|batch| batch.json().unwrap())
        .collect()
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_another_does_not() {
    for kind in Kind::ALL {
        let delivery = |seed| Scenario::new(kind, ParameterSet::Tuning, seed).deliver();
        let (one, again, other) = (delivery(7), delivery(7), delivery(8));
        assert_eq!(json(&one), json(&again), "{kind:?}");
        assert_eq!(
            (&one.start, &one.truth),
            (&again.start, &again.truth),
            "{kind:?}"
        );
        assert_ne!(json(&one), json(&other), "{kind:?}");
    }
}

#[test]
fn every_batch_is_taken_by_the_service() {
    for delivery in all(0..2) {
        let mut samples = 0;
        for (number, batch) in delivery.batches(5.0).enumerate() {
            let decoded = decode_batch(batch.json().unwrap().as_bytes()).unwrap_or_else(|error| {
                panic!("{:?}: {error:?}", delivery.scenario);
            });
            assert_eq!((decoded.seq as usize, decoded.unknown_kinds), (number, 0));
            samples += decoded.batch.samples() as usize;
        }
        assert_eq!(samples, delivery.samples.len());
        assert!(samples > 0, "{:?}", delivery.scenario);
    }
}

#[test]
fn samples_of_a_kind_come_in_order_and_lag_by_little() {
    for delivery in all(0..3) {
        let mut last: BTreeMap<&str, f64> = BTreeMap::new();
        for sample in &delivery.samples {
            let before = last.insert(sample.reading.kind(), sample.t).unwrap_or(0.0);
            assert!(
                sample.t >= before,
                "{:?} {} {before}",
                delivery.scenario,
                sample.t
            );
            assert!((0.0..2.0).contains(&(sample.ready_t - sample.t)));
            assert!(sample.t <= delivery.end_t);
        }
    }
}

#[test]
fn the_movement_track_never_overlaps_and_lies_within_the_recording() {
    for delivery in all(0..10) {
        let mut end_ms = 0;
        for event in delivery
            .truth
            .events
            .iter()
            .filter(|event| event.event_type.is_movement())
        {
            let to_ms = event.t_end_ms.unwrap();
            assert!(
                event.t_start_ms >= end_ms && to_ms > event.t_start_ms,
                "{:?} {event:?}",
                delivery.scenario
            );
            assert!(f64::from(to_ms) <= delivery.end_t * 1000.0);
            end_ms = to_ms;
        }
    }
}

#[test]
fn each_kind_has_the_events_that_make_it_one() {
    let has = |kind, event_type| {
        (0..10).all(|seed| {
            let delivery = Scenario::new(kind, ParameterSet::Tuning, seed).deliver();
            delivery
                .truth
                .events
                .iter()
                .any(|event| event.event_type == event_type)
        })
    };
    assert!(has(Kind::House, EventType::Driving) && has(Kind::House, EventType::Walking));
    assert!(has(Kind::House, EventType::Stopped) && !has(Kind::House, EventType::Stairs));
    assert!(has(Kind::Stairs, EventType::Stairs) && has(Kind::Elevator, EventType::Elevator));
    assert!(has(Kind::Gate, EventType::Gate) && has(Kind::Backtracking, EventType::Backtracking));
    assert!(
        has(Kind::Basement, EventType::Walking) && !has(Kind::PhoneInVehicle, EventType::Walking)
    );
}
