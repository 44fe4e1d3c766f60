//! The input of scoring is the same with the events of the live machine as with detected ones, over
//! simulated deliveries of every kind.

#[path = "support/address.rs"]
mod address;

use address::context;
use porchlight_core::session::SessionMachine;
use porchlight_core::session::replay::Replay;
use porchlight_schema::sample::json::decode_batch;
use porchlight_sim::{Kind, ParameterSet, Scenario};

#[test]
fn the_events_of_the_live_machine_are_those_of_a_replay() {
    for kind in Kind::ALL {
        for (seed, set) in [(1, ParameterSet::Tuning), (2, ParameterSet::HeldOut)] {
            let delivery = Scenario::new(kind, set, seed).deliver();
            let context = context(&delivery);
            let mut machine = SessionMachine::default();
            let mut whole = Replay::new(&context);
            let batches: Vec<_> = (0_u32..)
                .zip(delivery.batches(10.0))
                .map(|(seq, batch)| {
                    let text = batch.json().unwrap();
                    (seq, decode_batch(text.as_bytes()).unwrap().batch)
                })
                .collect();
            for (seq, batch) in &batches {
                machine.receive(&context, *seq, batch);
                whole.batch(*seq, batch);
            }
            let mut known = Replay::with_events(&context, machine.final_events(&context));
            for (seq, batch) in &batches {
                known.batch(*seq, batch);
            }
            let (known, whole) = (known.finish(), whole.finish());
            assert!(!whole.windows.is_empty(), "{kind:?}");
            assert_eq!(known, whole, "{kind:?} {seed}");
        }
    }
}
