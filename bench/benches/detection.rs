//! Benchmarks of the detectors, for each sample kind and for a whole delivery, and of scoring.

#[path = "../tests/support/address.rs"]
mod address;
#[path = "measure/processor_time.rs"]
mod processor_time;

use std::hint::black_box;

use address::context;
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use porchlight_core::context::SessionContext;
use porchlight_core::score::{Knowledge, ScoreInput, score};
use porchlight_core::session::replay::Replay;
use porchlight_core::timeline::Timeline;
use porchlight_schema::sample::json::decode_batch;
use porchlight_schema::sample::packed::PackedBatch;
use porchlight_sim::{Delivery, Kind, Kit, MotionSensor, ParameterSet, Scenario};
use processor_time::ProcessorTime;

/// A phone without sensors; each case enables one kind.
const SILENT: Kit = Kit {
    location: false,
    barometer: false,
    steps: false,
    motion: MotionSensor::None,
    magnetic: false,
    activity: false,
    marks: false,
};

fn delivery(kit: Kit) -> Delivery {
    Scenario {
        kit: Some(kit),
        ..Scenario::new(Kind::Elevator, ParameterSet::Tuning, 1)
    }
    .deliver()
}

fn packed(delivery: &Delivery) -> Vec<PackedBatch> {
    let decode = |text: String| {
        decode_batch(text.as_bytes())
            .ok()
            .map(|decoded| decoded.batch)
    };
    delivery
        .batches(60.0)
        .filter_map(|batch| batch.json().ok().and_then(decode))
        .collect()
}

fn play(context: &SessionContext, batches: &[PackedBatch], mut timeline: Timeline) -> usize {
    for batch in batches {
        if timeline.push_batch(context, batch).is_err() {
            return 0;
        }
    }
    timeline.finish(context);
    timeline.events().len()
}

fn detection(criterion: &mut Criterion<ProcessorTime>) {
    let imu = MotionSensor::Imu { hz: 50, gyro: true };
    let cases = [
        (
            "location",
            Kit {
                location: true,
                ..SILENT
            },
        ),
        (
            "pressure",
            Kit {
                barometer: true,
                ..SILENT
            },
        ),
        (
            "steps",
            Kit {
                steps: true,
                ..SILENT
            },
        ),
        (
            "a second of 50 Hz imu",
            Kit {
                motion: imu,
                ..SILENT
            },
        ),
        (
            "motion",
            Kit {
                motion: MotionSensor::Motion,
                ..SILENT
            },
        ),
        (
            "a whole delivery",
            Kit {
                motion: imu,
                ..Kit::FULL
            },
        ),
    ];
    let mut group = criterion.benchmark_group("timeline");
    for (name, kit) in cases {
        let delivery = delivery(kit);
        let (context, batches) = (context(&delivery), packed(&delivery));
        group.throughput(Throughput::Elements(delivery.samples.len() as u64));
        group.bench_function(name, |bencher| {
            bencher.iter_batched(
                Timeline::default,
                |timeline| play(black_box(&context), black_box(&batches), timeline),
                BatchSize::SmallInput,
            );
        });
    }
    group.finish();
}

/// Measures the end of a session: recomputing it from its batches, and scoring it.
fn scoring(criterion: &mut Criterion<ProcessorTime>) {
    let delivery = delivery(Kit::FULL);
    let (context, batches) = (context(&delivery), packed(&delivery));
    let replay = || {
        let mut replay = Replay::new(&context);
        for (seq, batch) in (0..).zip(&batches) {
            replay.batch(seq, batch);
        }
        replay.finish()
    };
    let (replayed, known) = (replay(), Knowledge::default());
    let input = ScoreInput {
        context: &context,
        windows: &replayed.windows,
        events: &replayed.events,
        marks: &replayed.marks,
        system: &replayed.system,
        clock_steps: &replayed.clock_steps,
        pod: None,
        duration_ms: (delivery.end_t * 1000.0) as u32,
        timed_out: false,
        missing_batches: 0,
        quarantined_batches: 0,
        known: &known,
    };
    let mut group = criterion.benchmark_group("scoring");
    group.bench_function("replay of a delivery", |bencher| bencher.iter(replay));
    group.bench_function("score of a delivery", |bencher| {
        bencher.iter(|| score(black_box(&input)))
    });
    group.finish();
}

criterion_group! {
    name = all;
    config = processor_time::criterion();
    targets = detection, scoring
}
criterion_main!(all);
