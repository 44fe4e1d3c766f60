//! Labelled recordings, as they lie in the folder beside the project.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test reads files, and stops where it can't"
)]

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use porchlight_core::context::SessionContext;
use porchlight_core::evaluate::{Detected, Labels};
use porchlight_core::timeline::Timeline;
use porchlight_schema::sample::json::decode_sample;
use porchlight_schema::sample::packed::{BatchBuilder, PackedBatch};
use porchlight_schema::sample::{Kind, Sample};
use porchlight_schema::session::{Address, Point};

/// A recording with its labels.
pub(crate) struct Recording {
    pub(crate) labels: Labels,
    pub(crate) batch: PackedBatch,
    pub(crate) context: SessionContext,
}

/// Where the recordings are; none where they are not on this machine.
pub(crate) fn folder() -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/recordings");
    let folder = std::env::var_os("PORCHLIGHT_RECORDINGS").map_or(beside, PathBuf::from);
    folder.is_dir().then_some(folder)
}

/// Names of the recordings that begin with `prefix`, in order.
pub(crate) fn names(folder: &Path, prefix: &str) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.unwrap().file_name().into_string().ok())
        .filter_map(|name| name.strip_suffix(".ndjson.gz").map(str::to_owned))
        .filter(|name| name.starts_with(prefix))
        .collect();
    names.sort();
    names
}

/// Reads a recording.
pub(crate) fn load(folder: &Path, name: &str) -> Recording {
    let text = std::fs::read(folder.join(format!("{name}.labels.json"))).unwrap();
    let labels: Labels = serde_json::from_slice(&text).unwrap();
    let file = File::open(folder.join(format!("{name}.ndjson.gz"))).unwrap();
    let mut builder = BatchBuilder::default();
    for line in BufReader::new(GzDecoder::new(file)).lines() {
        decode_sample(line.unwrap().as_bytes(), &mut builder).unwrap();
    }
    let batch = builder.pack();
    let start: serde_json::Value =
        serde_json::from_slice::<serde_json::Value>(&text).unwrap()["start"].take();
    let address = address(&batch, &start["address"]);
    let context = SessionContext::of_address(&address, None);
    Recording {
        labels,
        batch,
        context,
    }
}

/// The address of a session's start where the labels hold one; else it is where the recording ends, and of the place
/// nothing is known.
fn address(batch: &PackedBatch, known: &serde_json::Value) -> Address {
    let point_of = |value: &serde_json::Value| {
        Some(Point {
            lat: value["lat"].as_f64()?,
            lng: value["lng"].as_f64()?,
        })
    };
    let point = point_of(known).unwrap_or_else(|| last_point(batch));
    let gates = known["gates"]
        .as_array()
        .map(|gates| gates.iter().filter_map(point_of).collect());
    Address {
        line1: String::new(),
        city: String::new(),
        country: String::new(),
        point,
        unit: None,
        floor: known["floor"]
            .as_i64()
            .and_then(|floor| i16::try_from(floor).ok()),
        accuracy_m: known["accuracyM"]
            .as_f64()
            .map_or(Address::ACCURACY_M_DEFAULT, |metres| metres as f32),
        storey_height_m: known["storeyHeightM"].as_f64().map(|metres| metres as f32),
        entrance: point_of(&known["entrance"]),
        gates: gates.unwrap_or_default(),
    }
}

fn last_point(batch: &PackedBatch) -> Point {
    let mut point = Point { lat: 0.0, lng: 0.0 };
    let mut reader = batch.reader().unwrap();
    while let Some(sample) = reader.next_sample().unwrap() {
        if let Sample::Location(location) = sample {
            point = Point {
                lat: location.lat,
                lng: location.lng,
            };
        }
    }
    point
}

/// Runs a recording without the kinds in `without`.
pub(crate) fn run(recording: &Recording, without: &[Kind]) -> Vec<Detected> {
    let mut timeline = Timeline::new(&recording.context);
    let mut opened_at_ms: Vec<Option<u32>> = Vec::new();
    let mut newest_ms = 0;
    let mut reader = recording.batch.reader().unwrap();
    while let Some(sample) = reader.next_sample().unwrap() {
        if without.contains(&sample.kind()) {
            continue;
        }
        newest_ms = newest_ms.max(sample.t_ms());
        timeline.push(&recording.context, sample);
        opened_at_ms.resize(timeline.events().len(), Some(newest_ms));
    }
    timeline.finish(&recording.context);
    opened_at_ms.resize(timeline.events().len(), Some(newest_ms));
    let opened = opened_at_ms.into_iter();
    timeline
        .events()
        .iter()
        .zip(opened)
        .map(|(&event, opened_at_ms)| Detected {
            event,
            opened_at_ms,
        })
        .collect()
}
