//! Tests the guarantees of a timeline for any samples, and each way in which a detector could be
//! fooled.

#[path = "timeline/signals.rs"]
mod signals;

#[path = "timeline/annotations.rs"]
mod annotations;

#[path = "timeline/approaches.rs"]
mod approaches;

#[path = "timeline/broken.rs"]
mod broken;

#[path = "timeline/carried.rs"]
mod carried;

#[path = "timeline/couriers.rs"]
mod couriers;

#[path = "timeline/gates.rs"]
mod gates;

#[path = "timeline/gps.rs"]
mod gps;

#[path = "timeline/climbs.rs"]
mod climbs;

#[path = "timeline/fooled.rs"]
mod fooled;

#[path = "timeline/modes.rs"]
mod modes;

#[path = "timeline/rides.rs"]
mod rides;

#[path = "timeline/silences.rs"]
mod silences;

#[path = "timeline/sparse.rs"]
mod sparse;

#[path = "timeline/starts.rs"]
mod starts;

#[path = "timeline/handled.rs"]
mod handled;

#[path = "timeline/vague.rs"]
mod vague;

use porchlight_core::session::SessionMachine;
use porchlight_core::session::replay::Replay;
use porchlight_core::timeline::Timeline;
use porchlight_schema::event::{Event, sort_events};
use proptest::prelude::*;
use signals::{Act, Owned, Phone, batches, context_at, delayed, events_of, samples};

fn acts() -> impl Strategy<Value = Vec<(Act, u32)>> {
    let act = prop_oneof![
        (3_u32..40).prop_map(|seconds| (Act::Stay, seconds)),
        (3_u32..40, 0.0..360.0)
            .prop_map(|(seconds, heading_deg)| (Act::Walk { heading_deg }, seconds)),
        (6_u32..20, prop_oneof![Just(0.3), Just(-0.3)]).prop_map(|(seconds, mps)| (
            Act::Stairs {
                mps,
                heading_deg: 0.0
            },
            seconds
        )),
        (4_u32..25, prop_oneof![Just(1.0), Just(-1.5), Just(0.3)])
            .prop_map(|(seconds, mps)| (Act::Ride { mps }, seconds)),
        (10_u32..60, 3.0..15.0, -0.5..0.5)
            .prop_map(|(seconds, mps, climb_mps)| (Act::Drive { mps, climb_mps }, seconds)),
    ];
    prop::collection::vec(act, 2..8)
}

fn phones() -> impl Strategy<Value = Phone> {
    (
        any::<[bool; 4]>(),
        prop_oneof![Just(5.0_f32), Just(30.0), Just(90.0)],
        prop_oneof![Just(1_usize), Just(4)],
    )
        .prop_map(
            |([location, pressure, imu, steps], accuracy_m, imu_sec)| Phone {
                location,
                accuracy_m,
                pressure,
                imu,
                steps,
                bias: 0.0,
                imu_sec,
            },
        )
}

/// Returns a session's samples, with gaps of some seconds to minutes.
fn sessions() -> impl Strategy<Value = Vec<Owned>> {
    (
        acts(),
        phones(),
        any::<u64>(),
        prop::option::of((10_u32..100, 5_u32..60)),
    )
        .prop_map(|(script, phone, seed, gap)| {
            let mut all = samples(&script, phone, seed);
            if let Some((from_sec, seconds)) = gap {
                let hole_ms = from_sec * 1_000..(from_sec + seconds) * 1_000;
                all.retain(|owned| !hole_ms.contains(&owned.sample().t_ms()));
            }
            all
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn the_division_into_batches_does_not_matter(all in sessions(), size in 1_usize..200) {
        let context = context_at(60.0, 0.0);
        prop_assert_eq!(events_of(&context, &all, usize::MAX), events_of(&context, &all, size));
    }

    #[test]
    fn the_interleaving_of_kinds_does_not_matter(all in sessions(), seed in any::<u64>(), lag_ms in 0_u32..=12_000) {
        let context = context_at(60.0, 0.0);
        let other = delayed(&all, lag_ms, seed);
        prop_assert_eq!(events_of(&context, &all, 50), events_of(&context, &other, 50));
    }

    #[test]
    fn a_snapshot_changes_nothing(all in sessions(), at in 0.0_f64..1.0) {
        let context = context_at(60.0, 0.0);
        let batches = batches(&all, 1);
        let cut = (at * batches.len() as f64) as usize;
        let mut timeline = Timeline::default();
        for batch in &batches[..cut] {
            timeline.push_batch(&context, batch).unwrap();
        }
        let snapshot = postcard::to_stdvec(&timeline).unwrap();
        let mut restored: Timeline = postcard::from_bytes(&snapshot).unwrap();
        prop_assert!(restored == timeline);
        for batch in &batches[cut..] {
            timeline.push_batch(&context, batch).unwrap();
            restored.push_batch(&context, batch).unwrap();
        }
        timeline.finish(&context);
        restored.finish(&context);
        prop_assert_eq!(postcard::to_stdvec(&timeline).unwrap(), postcard::to_stdvec(&restored).unwrap());
    }

    /// Scoring takes the events of the live machine, which must be those of a replay.
    #[test]
    fn the_events_of_the_live_machine_are_those_of_a_replay(all in sessions(), size in 1_usize..200) {
        let context = context_at(60.0, 0.0);
        let batches = batches(&all, size);
        let mut machine = SessionMachine::default();
        let mut replay = Replay::new(&context);
        for (seq, batch) in (0..).zip(&batches) {
            machine.receive(&context, seq, batch);
            replay.batch(seq, batch);
        }
        let machine = SessionMachine::restore(&machine.snapshot()).unwrap();
        let mut known = Replay::with_events(&context, machine.final_events(&context));
        for (seq, batch) in (0..).zip(&batches) {
            known.batch(seq, batch);
        }
        prop_assert_eq!(known.finish(), replay.finish());
    }

    #[test]
    fn emitted_events_are_final_and_movement_never_overlaps(all in sessions()) {
        let context = context_at(60.0, 0.0);
        let mut timeline = Timeline::default();
        let mut before: Vec<Event> = Vec::new();
        let mut changes = 0;
        for batch in batches(&all, 5) {
            timeline.push_batch(&context, &batch).unwrap();
            check_step(&before, timeline.events());
            changes += timeline.changes_since(changes).len() as u32;
            prop_assert_eq!(changes, timeline.change_count());
            before = timeline.events().to_vec();
        }
        timeline.finish(&context);
        check_step(&before, timeline.events());
        let mut movement: Vec<Event> =
            timeline.events().iter().copied().filter(|event| event.event_type.is_movement()).collect();
        sort_events(&mut movement);
        for pair in movement.windows(2) {
            prop_assert!(pair[0].t_end_ms.unwrap() <= pair[1].t_start_ms, "{:?}", pair);
        }
        prop_assert!(timeline.events().iter().all(|event| !event.is_open()));
    }

    #[test]
    fn the_state_stays_small(all in sessions()) {
        let context = context_at(60.0, 0.0);
        let mut timeline = Timeline::default();
        for batch in batches(&all, 20) {
            timeline.push_batch(&context, &batch).unwrap();
            prop_assert!(timeline.state_bytes() <= 8 * 1024, "{}", timeline.state_bytes());
        }
    }
}

/// Events never vanish, their type and start never change, and closed events do not change.
fn check_step(before: &[Event], after: &[Event]) {
    assert!(before.len() <= after.len());
    for (before, after) in before.iter().zip(after) {
        assert_eq!(
            (before.event_type, before.t_start_ms),
            (after.event_type, after.t_start_ms)
        );
        if !before.is_open() {
            assert_eq!(before, after);
        }
    }
}
