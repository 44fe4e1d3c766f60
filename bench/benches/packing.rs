//! Benchmarks of the ingest path for a 60-sample batch: decode and check, pack, hash, and read
//! back.

#[path = "measure/processor_time.rs"]
mod processor_time;

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use porchlight_bench::body::{Batch, BatchWriter};
use porchlight_schema::sample::json::decode_batch;
use porchlight_schema::sample::packed::PackedBatch;
use porchlight_schema::sample::proto;
use porchlight_sim::{Kind, Kit, MotionSensor, ParameterSet, Scenario};
use processor_time::ProcessorTime;

/// Returns the batch that the load generator sends: 60 location samples of seven fields.
fn locations() -> String {
    String::from_utf8_lossy(BatchWriter::default().write(7)).into_owned()
}

/// Returns a batch with sixty seconds of samples from every sensor of a phone.
fn full_batch() -> String {
    let kit = Kit {
        motion: MotionSensor::Imu { hz: 50, gyro: true },
        ..Kit::FULL
    };
    let scenario = Scenario::new(Kind::House, ParameterSet::Tuning, 1);
    batch(
        Scenario {
            kit: Some(kit),
            ..scenario
        },
        300,
    )
}

fn batch(scenario: Scenario, samples: usize) -> String {
    let mut delivery = scenario.deliver();
    delivery.samples.truncate(samples);
    delivery
        .batches(1e9)
        .next()
        .and_then(|batch| batch.json().ok())
        .unwrap_or_default()
}

fn decoded(text: &str) -> Option<PackedBatch> {
    decode_batch(text.as_bytes())
        .ok()
        .map(|decoded| decoded.batch)
}

/// Reads every sample of a packed batch.
fn read_back(batch: &PackedBatch) -> u64 {
    let Ok(mut reader) = batch.reader() else {
        return 0;
    };
    let mut sum = 0;
    while let Ok(Some(sample)) = reader.next_sample() {
        sum += u64::from(sample.t_ms());
    }
    sum
}

fn benches(criterion: &mut Criterion<ProcessorTime>) {
    for (name, text) in [
        ("60 locations", locations()),
        ("300 of all kinds", full_batch()),
    ] {
        let Some(packed) = decoded(&text) else {
            continue;
        };
        println!(
            "{name}: {} bytes of JSON, {} packed",
            text.len(),
            packed.as_bytes().len()
        );
        let mut group = criterion.benchmark_group(name);
        group.throughput(Throughput::Elements(u64::from(packed.samples())));
        group.bench_function("decode, check, pack", |bencher| {
            bencher.iter(|| decoded(black_box(&text)))
        });
        if name == "60 locations" {
            // The baseline: the work of the floor.
            group.bench_function("serde_json into owned structs", |bencher| {
                bencher.iter(|| serde_json::from_str::<Batch<'_>>(black_box(&text)));
            });
            let mut writer = BatchWriter::default();
            let protobuf = writer.write_protobuf(7);
            println!("{name}: {} bytes of protobuf", protobuf.len());
            group.bench_function("protobuf: decode, check, pack", |bencher| {
                bencher.iter(|| proto::decode_batch(black_box(protobuf)));
            });
        }
        group.bench_function("hash", |bencher| bencher.iter(|| black_box(&packed).hash()));
        group.bench_function("read back", |bencher| {
            bencher.iter(|| read_back(black_box(&packed)))
        });
        group.finish();
    }
}

criterion_group! {
    name = packing;
    config = processor_time::criterion();
    targets = benches
}
criterion_main!(packing);
