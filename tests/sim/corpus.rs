//! The data that the simulated phones send: a few deliveries of the simulator, cut into batches and
//! packed once.

use std::sync::LazyLock;

use porchlight_schema::sample::json::decode_batch;
use porchlight_schema::sample::packed::{BatchBuilder, PackedBatch};
use porchlight_schema::sample::{Pressure, Sample};
use porchlight_schema::session::{Address, Point};
use porchlight_sim::{Kind, ParameterSet, Scenario};

/// The maximum number of batches used of one delivery: sessions are short, so that there can be
/// many.
const BATCHES_MAX: usize = 40;

/// A recorded delivery.
pub(crate) struct Recording {
    pub(crate) address: Address,
    pub(crate) batches: Vec<PackedBatch>,
}

const KINDS: [(Kind, f64); 8] = [
    (Kind::House, 10.0),
    (Kind::Elevator, 5.0),
    (Kind::Stairs, 10.0),
    (Kind::LobbyHandOff, 20.0),
    (Kind::NoBarometer, 10.0),
    (Kind::LocationOnly, 30.0),
    (Kind::Gate, 10.0),
    (Kind::Backtracking, 15.0),
];

/// All recordings. Their places differ, so that knowledge learned in one session does not apply to
/// another.
pub(crate) static CORPUS: LazyLock<Vec<Recording>> = LazyLock::new(|| {
    KINDS
        .iter()
        .enumerate()
        .map(|(index, &(kind, seconds))| recording(kind, 1_000 + index as u64, seconds))
        .collect()
});

fn recording(kind: Kind, seed: u64, seconds: f64) -> Recording {
    let delivery = Scenario::new(kind, ParameterSet::Tuning, seed).deliver();
    let address = &delivery.start["address"];
    let text = |field: &str| address[field].as_str().unwrap().to_owned();
    let address = Address {
        line1: text("line1"),
        city: text("city"),
        country: text("country"),
        floor: address["floor"].as_i64().map(|floor| floor as i16),
        ..Address::at(Point {
            lat: address["lat"].as_f64().unwrap(),
            lng: address["lng"].as_f64().unwrap(),
        })
    };
    let packed = delivery.batches(seconds).take(BATCHES_MAX).map(|batch| {
        decode_batch(batch.json().unwrap().as_bytes())
            .unwrap()
            .batch
    });
    Recording {
        address,
        batches: packed.collect(),
    }
}

/// Returns a body that no phone sent, with which an imposter attempts to replace a batch.
pub(crate) fn imposter(seq: u32) -> PackedBatch {
    let mut builder = BatchBuilder::default();
    builder
        .push(&Sample::Pressure(Pressure {
            t_ms: 1_000 * seq,
            hpa: 999.0,
        }))
        .unwrap();
    builder.pack()
}
