//! Tests that simulated deliveries are reproducible, physical and accepted by the service.

use std::collections::BTreeMap;

use libm::hypot;
use porchlight_schema::event::{Direction, EventType, Metadata};
use porchlight_schema::sample::json::decode_batch;

use super::rng::{Draw, Rng};
use super::script::{Mode, Script, TICK_S};
use super::world::World;
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
fn only_the_same_seed_gives_the_same_bytes() {
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
fn every_batch_is_accepted_by_the_service() {
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
fn samples_of_a_kind_are_in_order_with_little_lag() {
    for delivery in all(0..2) {
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
    for delivery in all(0..4) {
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
fn each_scenario_kind_has_its_characteristic_events() {
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

/// Returns the world and the script of a scenario.
fn acted(kind: Kind, set: ParameterSet, seed: u64) -> (World, Script) {
    let mut draw = Draw::new(Rng::new(seed, 1), set);
    let world = World::draw(&mut draw);
    let script = Scenario::new(kind, set, seed).act(&world, &mut draw).script;
    (world, script)
}

#[test]
fn speeds_stay_within_physical_limits() {
    for (kind, set) in Kind::ALL
        .into_iter()
        .flat_map(|kind| SETS.map(|set| (kind, set)))
    {
        for seed in 0..5 {
            let (_, script) = acted(kind, set, seed);
            for two in script.ticks.windows(2) {
                let across_mps = hypot(
                    two[1].east_m - two[0].east_m,
                    two[1].north_m - two[0].north_m,
                ) / TICK_S;
                let up_mps = (two[1].height_m - two[0].height_m).abs() / TICK_S;
                let (across_max, up_max) = match two[1].mode {
                    Mode::Drive => (18.0, 1.6),
                    Mode::Walk => (2.4, 0.3),
                    Mode::Stairs => (1.6, 0.5),
                    Mode::Ride => (0.01, 2.6),
                    Mode::Halt | Mode::Sit | Mode::Stand => (0.01, 0.2),
                };
                assert!(
                    across_mps <= across_max && up_mps <= up_max,
                    "{kind:?} {seed} {across_mps} {up_mps} {two:?}"
                );
            }
        }
    }
}

#[test]
fn climbs_match_their_storeys_and_the_pressure() {
    let kit = Some(Kit {
        motion: MotionSensor::None,
        ..Kit::FULL
    });
    let mut climbs = 0;
    for (kind, seed) in [Kind::Stairs, Kind::Elevator, Kind::Basement]
        .into_iter()
        .zip(0..)
        .cycle()
        .take(30)
    {
        let delivery = Scenario {
            kit,
            ..Scenario::new(kind, ParameterSet::Tuning, seed + climbs)
        }
        .deliver();
        for event in &delivery.truth.events {
            let Metadata::Climb {
                floors: Some(floors),
                direction,
                height_cm: Some(height_cm),
            } = event.metadata
            else {
                continue;
            };
            climbs += 1;
            let height_m = f64::from(height_cm) / 100.0;
            let per_floor_m = height_m / f64::from(floors);
            assert!((2.7..=6.9).contains(&per_floor_m), "{event:?}");
            let from = hpa_around(&delivery, f64::from(event.t_start_ms) / 1000.0);
            let to = hpa_around(&delivery, f64::from(event.t_end_ms.unwrap()) / 1000.0);
            // One hectopascal is 8.0 to 9.4 m between -10 and 35 degrees at the drawn altitudes.
            let fall_m = (from - to)
                * 8.7
                * if direction == Direction::Up {
                    1.0
                } else {
                    -1.0
                };
            assert!(
                (fall_m - height_m).abs() < 1.5 + 0.12 * height_m,
                "{:?} {event:?} {fall_m}",
                delivery.scenario
            );
        }
    }
    assert!(climbs > 40);
}

/// Returns the mean pressure within 1.5 s of a time.
fn hpa_around(delivery: &Delivery, t: f64) -> f64 {
    let near = delivery
        .samples
        .iter()
        .filter(|sample| (sample.t - t).abs() <= 1.5);
    let values: Vec<f64> = near
        .filter_map(|sample| match sample.reading {
            Reading::Pressure { hpa } => Some(hpa),
            _ => None,
        })
        .collect();
    values.iter().sum::<f64>() / values.len() as f64
}

#[test]
fn reported_accuracy_is_correct_outdoors() {
    let (mut fixes, mut inside) = (0_u32, 0_u32);
    for seed in 0..60 {
        let scenario = Scenario {
            kit: Some(Kit::LOCATION_ONLY),
            ..Scenario::new(Kind::House, SETS[0], seed)
        };
        let (claimed, exact) = (scenario.deliver(), error_m(scenario));
        for (sample, error_m) in claimed.samples.iter().zip(exact) {
            let Reading::Location(fix) = &sample.reading else {
                continue;
            };
            if sample.t > 30.0 {
                fixes += 1;
                inside += u32::from(error_m <= fix.accuracy_m.unwrap());
            }
        }
    }
    let share = f64::from(inside) / f64::from(fixes);
    assert!(
        (0.55..0.85).contains(&share),
        "{share} of the fixes lie within the radius that should hold 68 %"
    );
}

/// Returns the distance of each fix of a scenario from the phone's true position.
fn error_m(scenario: Scenario) -> Vec<f64> {
    let seed = scenario
        .seed
        .wrapping_mul(64)
        .wrapping_add(scenario.kind as u64);
    let mut draw = Draw::new(Rng::new(seed, 1), scenario.set);
    let world = World::draw(&mut draw);
    let phone = phone::Phone::draw(&mut draw, scenario.kit);
    let script = scenario.act(&world, &mut draw).script;
    let samples = phone.record(&script, None, &world, seed);
    let off_m = |sample: &Sample| {
        let Reading::Location(fix) = &sample.reading else {
            return 0.0;
        };
        let tick = script.at(sample.t).unwrap();
        let (lat, lng) = world.degrees((tick.east_m, tick.north_m));
        hypot(
            (fix.lat - lat) * 111_195.0,
            (fix.lng - lng) * 111_195.0 * libm::cos(lat.to_radians()),
        )
    };
    samples.iter().map(off_m).collect()
}

#[test]
fn loss_removes_its_share_and_reordering_keeps_every_batch() {
    let delivery = Scenario::new(Kind::Elevator, ParameterSet::Tuning, 3).deliver();
    let loss = Loss {
        share: 0.3,
        kinds: vec!["pressure"],
        spans: vec![(50.0, 80.0)],
    };
    let lost = delivery.with_loss(&loss);
    let left = lost.samples.len() as f64 / delivery.samples.len() as f64;
    assert!((0.3..0.7).contains(&left), "{left}");
    assert!(
        lost.samples
            .iter()
            .all(|sample| sample.reading.kind() != "pressure")
    );
    assert!(
        lost.samples
            .iter()
            .all(|sample| sample.t < 50.0 || sample.t >= 80.0)
    );
    let mut order = disorder(100, 1, 4, 0.2);
    assert!(order.len() > 105 && order.windows(2).any(|two| two[0] > two[1]));
    assert!(
        order
            .iter()
            .enumerate()
            .all(|(place, &batch)| place.abs_diff(batch) < 40)
    );
    order.sort_unstable();
    order.dedup();
    assert_eq!(order, (0..100).collect::<Vec<_>>());
}

#[test]
fn the_held_out_parameters_are_never_drawn_for_tuning() {
    let draws = |set| -> Vec<f64> {
        let mut draw = Draw::new(Rng::new(5, 1), set);
        (0..2_000).map(|_| draw.range(0.0, 1.0)).collect()
    };
    let held_out = |value: &f64| !(0.1..=0.9).contains(value) || (0.4..0.6).contains(value);
    assert!(draws(ParameterSet::HeldOut).iter().all(held_out));
    assert!(
        !draws(ParameterSet::Tuning)
            .iter()
            .any(|value| held_out(value) && *value != 0.4 && *value != 0.6)
    );
}

#[test]
fn body_motion_matches_the_recordings() {
    // The 5th to 95th percentile of the recorded seconds, over all carrying positions: walking 0.66
    // to 6.6, stairs 0.97 to 5.9, at rest 0.01 to 0.57, in an elevator 0.05 to 0.18 m/s².
    let bands = [
        (EventType::Walking, 0.6, 7.0),
        (EventType::Stairs, 0.6, 7.0),
        (EventType::Stopped, 0.01, 0.6),
        (EventType::Elevator, 0.01, 0.6),
    ];
    for (event_type, low, high) in bands {
        let mut spreads = Vec::new();
        for (kind, seed) in [Kind::Stairs, Kind::Elevator]
            .into_iter()
            .cycle()
            .zip(0..16)
        {
            let kit = Some(Kit {
                motion: MotionSensor::Motion,
                ..Kit::LOCATION_ONLY
            });
            let delivery = Scenario {
                kit,
                ..Scenario::new(kind, SETS[seed as usize / 2 % 2], seed)
            }
            .deliver();
            let of_type = delivery
                .truth
                .events
                .iter()
                .filter(|event| event.event_type == event_type);
            for event in of_type {
                let (from, to) = (event.t_start_ms / 1000 + 1, event.t_end_ms.unwrap() / 1000);
                spreads.extend(delivery.samples.iter().filter_map(|sample| {
                    match sample.reading {
                        Reading::Motion { accel_std, .. } => (f64::from(from)..f64::from(to) - 1.0)
                            .contains(&sample.t)
                            .then_some(accel_std),
                        _ => None,
                    }
                }));
            }
        }
        spreads.sort_by(f64::total_cmp);
        let at = |share: f64| spreads[(share * (spreads.len() - 1) as f64) as usize];
        assert!(
            at(0.05) >= low && at(0.9) <= high,
            "{event_type:?} {} to {}",
            at(0.05),
            at(0.9)
        );
    }
}
