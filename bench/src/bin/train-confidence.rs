//! `train-confidence`: fits the confidence tables on detected events and writes the shipped tables.
//!
//! With a folder of recordings, it first rewrites the file of events; without one, it fits on the
//! existing file, as the tests do.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use clap::Parser;
use flate2::read::MultiGzDecoder;
use porchlight_bench::confidence::{Rows, SIMULATED, folds, render};
use porchlight_core::confidence::{ConfidenceTable, Confidences, Knot, SensorSet};
use porchlight_core::gait::Models;
use porchlight_core::source::source_of;
use porchlight_evaluation::{Evaluation, Labels, Recording};
use porchlight_schema::event::EventType;
use porchlight_schema::sample::json::decode_batch;
use porchlight_sim::{Delivery, Kind, Kit, MotionSensor, ParameterSet, Scenario};

#[derive(Debug, Parser)]
#[command(about = "Fits the confidence of events on labelled recordings and simulated deliveries")]
struct Arguments {
    /// Recordings (`NAME.ndjson.gz`) with their label files; by default the existing file of events
    /// is used.
    folder: Option<PathBuf>,
    /// The file of events.
    #[arg(long, default_value = "bench/data/confidence-events.txt")]
    events: PathBuf,
    /// The source file for the tables.
    #[arg(long, default_value = "actors/core/src/confidence/table.rs")]
    tables: PathBuf,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    if let Some(folder) = &arguments.folder {
        let mut rows = Rows::default();
        recorded(&mut rows, folder)?;
        simulated(&mut rows)?;
        std::fs::write(&arguments.events, rows.write())?;
    }
    let rows = Rows::read(&std::fs::read_to_string(&arguments.events)?)?;
    std::fs::write(&arguments.tables, render(&folds(&rows)))?;
    Ok(())
}

/// The number of simulated deliveries of each kind and phone.
const DELIVERIES: u64 = 6;
/// The offset of the training seeds, beyond the seeds of an evaluation.
const TRAINING_SEEDS: u64 = 2_000_000;
/// The simulated kinds: genuine deliveries with a carried phone, and one with a phone that stays in
/// the vehicle.
const KINDS: [Kind; 9] = [
    Kind::House,
    Kind::Stairs,
    Kind::Elevator,
    Kind::Basement,
    Kind::Gate,
    Kind::GateAtKerb,
    Kind::Backtracking,
    Kind::SecondAttempt,
    Kind::PhoneInVehicle,
];

/// A table that gives each sensor set its own confidence: its number in hundredths. The 5 thousandths
/// keep the number from falling below the set's when it is read back as a float.
static SET_PROBES: [[Knot; 1]; SensorSet::ALL.len()] = {
    let mut probes = [[(0.0, 0); 1]; SensorSet::ALL.len()];
    let mut set = 0;
    while set < probes.len() {
        probes[set][0].1 = 10 * set as u16 + 5;
        set += 1;
    }
    probes
};

/// A table whose confidence is proportional to the strength.
static STRENGTH_PROBES: [[Knot; 2]; SensorSet::ALL.len()] = {
    let mut probes = [[(0.0, 0), (1.0, 1_000)]; SensorSet::ALL.len()];
    let mut set = 0;
    while set < probes.len() {
        probes[set][1].0 = SensorSet::ALL[set].strength_max();
        set += 1;
    }
    probes
};

static SETS: ConfidenceTable = ConfidenceTable {
    knots: {
        let mut knots: [&[Knot]; SensorSet::ALL.len()] = [&[]; SensorSet::ALL.len()];
        let mut set = 0;
        while set < knots.len() {
            knots[set] = &SET_PROBES[set];
            set += 1;
        }
        knots
    },
};

static STRENGTHS: ConfidenceTable = ConfidenceTable {
    knots: {
        let mut knots: [&[Knot]; SensorSet::ALL.len()] = [&[]; SensorSet::ALL.len()];
        let mut set = 0;
        while set < knots.len() {
            knots[set] = &STRENGTH_PROBES[set];
            set += 1;
        }
        knots
    },
};

/// Adds the detected events of a recording with their verdicts. The confidence changes no event, so
/// two runs with the two probes give the sensor set and the strength of each.
fn add(rows: &mut Rows, source: &str, recording: &mut Recording) -> anyhow::Result<()> {
    let mut run = |table: &'static ConfidenceTable| -> anyhow::Result<Evaluation> {
        recording.context.confidences = Confidences::of_table(table);
        let mut evaluation = Evaluation::default();
        evaluation.add(&recording.labels, &recording.detect(&[])?);
        Ok(evaluation)
    };
    let (sets, strengths) = (run(&SETS)?, run(&STRENGTHS)?);
    for (event_type, tally) in &sets.by_type {
        if !event_type.is_movement() && !is_learned(*event_type) {
            continue;
        }
        let strengths = strengths.by_type.get(event_type);
        let strengths = strengths.map(|tally| tally.confidences.as_slice());
        let strengths = strengths.unwrap_or_default();
        ensure!(
            tally.confidences.len() == strengths.len(),
            "the two probes of {} found different numbers of {event_type:?}",
            recording.name
        );
        let both = tally.confidences.iter().zip(strengths);
        for (&(number, is_right), &(share, _)) in both {
            let set = (number * 100.0) as usize;
            let Some(known) = SensorSet::ALL.get(set) else {
                continue;
            };
            let strength = share * f64::from(known.strength_max()) * 100.0;
            rows.add(source, set, strength.round() as i32, is_right);
        }
    }
    Ok(())
}

/// Returns whether the confidence of an annotation is learned; that of the position quality follows
/// from its rules.
fn is_learned(event_type: EventType) -> bool {
    match event_type {
        EventType::Backtracking | EventType::Gate => true,
        EventType::Driving
        | EventType::Elevator
        | EventType::GpsDegraded
        | EventType::GpsLost
        | EventType::GpsRestored
        | EventType::Stairs
        | EventType::Stopped
        | EventType::Walking => false,
    }
}

fn recorded(rows: &mut Rows, folder: &Path) -> anyhow::Result<()> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let file = entry?.file_name().to_string_lossy().into_owned();
        names.extend(file.strip_suffix(".ndjson.gz").map(str::to_owned));
    }
    names.sort();
    for name in names {
        let labels = std::fs::read(folder.join(format!("{name}.labels.json")))?;
        let mut lines = Vec::new();
        let file = std::fs::File::open(folder.join(format!("{name}.ndjson.gz")))?;
        MultiGzDecoder::new(file).read_to_end(&mut lines)?;
        let lines = lines.split(|&byte| byte == b'\n');
        let mut recording = Recording::read(&name, &labels, lines).with_context(|| name.clone())?;
        // The events are those of gait models that never saw the source.
        recording.context.models = Models::without_source_of(&name).unwrap_or_default();
        add(rows, source_of(&name), &mut recording)?;
    }
    Ok(())
}

/// A simulated phone: its sensors, and the least time between two fixes and two pressure readings,
/// seconds.
type SimulatedPhone = (Option<Kit>, f64, f64);

/// Returns the simulated phones.
fn phones() -> [SimulatedPhone; 12] {
    let no_motion = Kit {
        motion: MotionSensor::None,
        ..Kit::FULL
    };
    let no_body = Kit {
        steps: false,
        ..no_motion
    };
    let no_height = Kit {
        barometer: false,
        ..Kit::FULL
    };
    let body_only = Kit {
        location: false,
        barometer: false,
        ..Kit::FULL
    };
    let sparse = Kit {
        steps: false,
        ..Kit::FULL
    };
    [
        (None, 0.0, 0.0),
        (Some(no_height), 0.0, 0.0),
        (Some(body_only), 0.0, 0.0),
        (Some(no_motion), 0.0, 0.0),
        (Some(no_motion), 5.0, 5.0),
        (Some(no_body), 0.0, 0.0),
        (Some(no_body), 5.0, 2.0),
        (Some(sparse), 10.0, 5.0),
        (Some(sparse), 30.0, 3.0),
        (Some(Kit::LOCATION_ONLY), 0.0, 0.0),
        (Some(Kit::LOCATION_ONLY), 5.0, 0.0),
        (Some(Kit::LOCATION_ONLY), 15.0, 0.0),
    ]
}

/// Keeps the samples of a kind that are at least this far apart.
fn thin(delivery: &mut Delivery, kind: &str, apart_sec: f64) {
    let mut next_sec = 0.0;
    delivery.samples.retain(|sample| {
        if sample.reading.kind() != kind {
            return true;
        }
        let is_due = sample.t >= next_sec;
        if is_due {
            next_sec = sample.t + 0.98 * apart_sec;
        }
        is_due
    });
}

/// Adds simulated deliveries of the tuning ranges.
fn simulated(rows: &mut Rows) -> anyhow::Result<()> {
    for (number, (kit, fix_sec, pressure_sec)) in phones().into_iter().enumerate() {
        for kind in KINDS {
            for seed in 1..=DELIVERIES {
                let seed = TRAINING_SEEDS + 1_000 * number as u64 + seed;
                let scenario = Scenario::new(kind, ParameterSet::Tuning, seed);
                let mut delivery = Scenario { kit, ..scenario }.deliver();
                thin(&mut delivery, "location", fix_sec);
                thin(&mut delivery, "pressure", pressure_sec);
                let mut recording = recording(&delivery)?;
                add(rows, SIMULATED, &mut recording)?;
            }
        }
    }
    Ok(())
}

fn recording(delivery: &Delivery) -> anyhow::Result<Recording> {
    let mut labels: Labels = serde_json::from_value(delivery.truth.labels(delivery.end_t))?;
    for sample in &delivery.samples {
        let kind = sample.reading.kind().to_owned();
        labels.streams.insert(kind, serde_json::Value::Null);
    }
    labels.start = delivery.start.clone();
    let mut batches = Vec::new();
    for batch in delivery.batches(10.0) {
        batches.push(decode_batch(batch.json()?.as_bytes())?.batch);
    }
    Ok(Recording::new(SIMULATED, labels, batches)?)
}
