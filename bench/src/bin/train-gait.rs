//! `train-gait`: fits the gait models on labelled recordings and writes the shipped weights.
//!
//! With a folder of recordings, it first rewrites the feature file; without one, it fits on the
//! existing file, as the tests do.

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Parser;
use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use porchlight_bench::gait::{Label, Row, Rows, folds, judge, report};
use porchlight_core::gait::GaitSecond;
use porchlight_core::intake::gait_seconds;
use porchlight_core::source::source_of;
use porchlight_evaluation::{Labels, Recording};
use porchlight_schema::event::EventType;
use porchlight_schema::sample::json::decode_batch;
use porchlight_sim::{Kind, Kit, MotionSensor, ParameterSet, Scenario};

#[derive(Debug, Parser)]
#[command(
    about = "Fits the gait models on labelled recordings, and says how right they are on sources they never saw"
)]
struct Arguments {
    /// Recordings (`NAME.ndjson.gz`) with their label files; by default the existing feature file
    /// is used.
    folder: Option<PathBuf>,
    /// The feature file.
    #[arg(long, default_value = "bench/data/gait-seconds.txt.gz")]
    features: PathBuf,
    /// The source file for the weights.
    #[arg(long, default_value = "actors/core/src/gait/weights.rs")]
    weights: PathBuf,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    if let Some(folder) = &arguments.folder {
        let mut rows = extract(folder)?;
        simulate(&mut rows)?;
        let file = std::fs::File::create(&arguments.features)?;
        let mut packed = GzEncoder::new(file, Compression::best());
        packed.write_all(rows.write().as_bytes())?;
        packed.finish()?;
    }
    let mut text = String::new();
    MultiGzDecoder::new(std::fs::File::open(&arguments.features)?).read_to_string(&mut text)?;
    let rows = Rows::read(&text)?;
    let folds = folds(&rows);
    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        "On the sources that they were fitted on:\n{}",
        report(&judge(&rows, &folds, false))
    )?;
    writeln!(
        out,
        "Each source by models that never saw it:\n{}",
        report(&judge(&rows, &folds, true))
    )?;
    let (imu, motion) = porchlight_bench::gait::evidence(&rows, &folds);
    writeln!(out, "evidence: imu {imu:?}, motion {motion:?}")?;
    std::fs::write(
        &arguments.weights,
        porchlight_bench::gait::render(&folds, imu, motion),
    )?;
    Ok(())
}

fn extract(folder: &Path) -> anyhow::Result<Rows> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let file = entry?.file_name().to_string_lossy().into_owned();
        names.extend(file.strip_suffix(".ndjson.gz").map(str::to_owned));
    }
    names.sort();
    let mut rows = Rows::default();
    for name in names {
        let labels = std::fs::read(folder.join(format!("{name}.labels.json")))?;
        let known: Labels = serde_json::from_slice(&labels)?;
        let is_left_out = UNVERIFIED.contains(&source_of(&name)) || MIXED.contains(&name.as_str());
        if !known.streams.contains_key("imu") || is_left_out {
            continue;
        }
        let mut lines = Vec::new();
        let file = std::fs::File::open(folder.join(format!("{name}.ndjson.gz")))?;
        MultiGzDecoder::new(file).read_to_end(&mut lines)?;
        let lines = lines.split(|&byte| byte == b'\n');
        let recording = Recording::read(&name, &labels, lines).with_context(|| name.clone())?;
        let number = rows.sources.len() as u32;
        rows.sources.push(source_of(&name).to_owned());
        add(&mut rows, number, &recording)?;
    }
    Ok(rows)
}

/// Adds simulated couriers who use their phones at every stay, and couriers who only fidget, from
/// the tuning ranges. No public recording contains this. Only the stays are labelled, because
/// simulated walks are more regular than real ones.
fn simulate(rows: &mut Rows) -> anyhow::Result<()> {
    for (kind, source) in [(Kind::HandledPhone, "handled"), (Kind::Elevator, "fidget")] {
        for seed in 1..=SIMULATED {
            add_stays(rows, kind, source, seed)?;
        }
    }
    Ok(())
}

/// Adds the stays of one simulated delivery.
fn add_stays(rows: &mut Rows, kind: Kind, source: &str, seed: u64) -> anyhow::Result<()> {
    let hz = if seed.is_multiple_of(2) { 25 } else { 50 };
    let motion = MotionSensor::Imu { hz, gyro: false };
    let kit = Kit {
        motion,
        ..Kit::FULL
    };
    let delivery = Scenario {
        kit: Some(kit),
        ..Scenario::new(kind, ParameterSet::Tuning, TRAINING_SEEDS + seed)
    }
    .deliver();
    let mut labels: Labels = serde_json::from_value(delivery.truth.labels(delivery.end_t))?;
    labels
        .segments
        .retain(|segment| segment.event_type == EventType::Stopped);
    let mut batches = Vec::new();
    for batch in delivery.batches(10.0) {
        batches.push(decode_batch(batch.json()?.as_bytes())?.batch);
    }
    let recording = Recording::new(source, labels, batches)?;
    let number = rows.sources.len() as u32;
    rows.sources.push(source.to_owned());
    add(rows, number, &recording)
}

/// The sources whose licence is not verified. The file of features contains none of their seconds,
/// so the models are fitted without them.
const UNVERIFIED: [&str; 1] = ["ipin23"];
/// The recordings that contain the samples of two phones in turn, so that their acceleration is
/// that of no phone. In `tmd_d2_walking`, in 28 % of the triples of samples, the third is nearer to
/// the first than half of either step between them; in the other recordings, in at most 9 %.
const MIXED: [&str; 1] = ["tmd_d2_walking"];
/// The number of simulated deliveries of each kind, giving about as many seconds at rest as the
/// other sources have.
const SIMULATED: u64 = 10;
/// The offset of the training seeds, beyond the seeds of an evaluation.
const TRAINING_SEEDS: u64 = 1_000_000;

fn add(rows: &mut Rows, number: u32, recording: &Recording) -> anyhow::Result<()> {
    let seconds = gait_seconds(&recording.batches)?;
    let margin_sec = if recording.name.starts_with("lift_") {
        0.0
    } else {
        1.0
    };
    for (place, second) in seconds.iter().enumerate() {
        // A missing neighbour is replaced by the second itself, as in the detectors.
        let near = |other: Option<&GaitSecond>| {
            other
                .filter(|other| other.t_ms.abs_diff(second.t_ms) == 1_000)
                .copied()
                .unwrap_or(*second)
        };
        let before = near(place.checked_sub(1).and_then(|place| seconds.get(place)));
        let after = near(seconds.get(place + 1));
        let means = [before.accel_mean, second.accel_mean, after.accel_mean];
        let range = means.iter().fold(f32::MIN, |most, &mean| most.max(mean))
            - means.iter().fold(f32::MAX, |least, &mean| least.min(mean));
        rows.rows.push(Row::new(
            (number, second.t_ms / 1_000),
            label(&recording.labels, second.t_ms, margin_sec),
            &second.features,
            range,
            [before.cadence_hz, second.cadence_hz, after.cadence_hz],
        ));
    }
    Ok(())
}

fn label(labels: &Labels, t_ms: u32, margin_sec: f64) -> Label {
    let from_sec = f64::from(t_ms) / 1_000.0;
    let holds = |segment: &&porchlight_evaluation::Segment| {
        let to_sec = segment.t_end.unwrap_or(segment.t_start);
        segment.t_start + margin_sec <= from_sec && from_sec + 1.0 + margin_sec <= to_sec
    };
    match labels
        .segments
        .iter()
        .find(holds)
        .map(|segment| segment.event_type)
    {
        Some(EventType::Walking | EventType::Stairs) => Label::Gait,
        Some(EventType::Stopped | EventType::Elevator | EventType::Driving) => Label::Rest,
        _ => Label::Unknown,
    }
}
