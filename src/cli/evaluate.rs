//! `porchlight evaluate`: labelled recordings through the detectors of this very binary, and how right they are.

mod simulated;

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use flate2::read::MultiGzDecoder;
use porchlight_bench::sim::ParameterSet;
use porchlight_core::context::SessionContext;
use porchlight_core::evaluate::{Detected, Evaluation, Labels, text};
use porchlight_core::timeline::Timeline;
use porchlight_schema::sample::Sample;
use porchlight_schema::sample::json::decode_sample;
use porchlight_schema::sample::packed::{BatchBuilder, PackedBatch};
use porchlight_schema::session::{Address, Point};

const RECORDING: &str = ".ndjson.gz";
const LABELS: &str = ".labels.json";

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Recordings (`NAME.ndjson.gz`), each with its labels (`NAME.labels.json`) beside it.
    #[arg(value_name = "FOLDER", required_unless_present = "simulated")]
    folder: Option<PathBuf>,
    /// So many simulated deliveries of each kind, too; their figures stand apart.
    #[arg(long, value_name = "N")]
    simulated: Option<u32>,
    /// Simulated deliveries from the ranges that are held out from tuning.
    #[arg(long)]
    held_out: bool,
    /// Only recordings whose names begin so.
    #[arg(long, default_value = "")]
    prefix: String,
    /// JSON instead of a table.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    if let Some(folder) = &arguments.folder {
        let mut evaluation = Evaluation::default();
        let names = names(folder, &arguments.prefix)?;
        for name in &names {
            let (labels, detected) = detect(folder, name).with_context(|| name.clone())?;
            evaluation.add(&labels, &detected);
        }
        if arguments.json {
            say!("{}", serde_json::to_string_pretty(&evaluation)?)?;
        } else {
            say!("{} recordings\n\n{}", names.len(), text(&evaluation))?;
        }
    }
    if let Some(per_kind) = arguments.simulated {
        let set = if arguments.held_out {
            ParameterSet::HeldOut
        } else {
            ParameterSet::Tuning
        };
        let report = simulated::run(per_kind, set, 1)?;
        if arguments.json {
            say!("{}", serde_json::to_string_pretty(&report)?)?;
        } else {
            say!(
                "{per_kind} simulated deliveries of each kind\n\n{}",
                text(&report.events)
            )?;
            say!("{}", simulated::text(&report))?;
        }
    }
    Ok(())
}

fn names(folder: &Path, prefix: &str) -> anyhow::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let file = entry?.file_name().to_string_lossy().into_owned();
        if let Some(name) = file.strip_suffix(RECORDING)
            && name.starts_with(prefix)
        {
            names.push(name.to_owned());
        }
    }
    if names.is_empty() {
        bail!("no recording in {}", folder.display());
    }
    names.sort();
    Ok(names)
}

/// Runs one recording as one session.
fn detect(folder: &Path, name: &str) -> anyhow::Result<(Labels, Vec<Detected>)> {
    let labels = std::fs::read(folder.join(format!("{name}{LABELS}"))).context("its labels")?;
    let labels = serde_json::from_slice(&labels).context("its labels")?;
    let batch = read(&folder.join(format!("{name}{RECORDING}")))?;
    let context = SessionContext::of_address(&last_place(&batch)?, None);
    let mut timeline = Timeline::new(&context);
    let mut opened_at_ms = Vec::new();
    let mut newest_ms = 0;
    let mut reader = batch.reader()?;
    while let Some(sample) = reader.next_sample()? {
        newest_ms = newest_ms.max(sample.t_ms());
        timeline.push(&context, sample);
        opened_at_ms.resize(timeline.events().len(), Some(newest_ms));
    }
    timeline.finish(&context);
    opened_at_ms.resize(timeline.events().len(), Some(newest_ms));
    let events = timeline.events().iter().zip(opened_at_ms);
    Ok((
        labels,
        events
            .map(|(&event, opened_at_ms)| Detected {
                event,
                opened_at_ms,
            })
            .collect(),
    ))
}

fn read(file: &Path) -> anyhow::Result<PackedBatch> {
    let mut builder = BatchBuilder::default();
    for (number, line) in BufReader::new(MultiGzDecoder::new(File::open(file)?))
        .lines()
        .enumerate()
    {
        decode_sample(line?.as_bytes(), &mut builder)
            .with_context(|| format!("line {}", number + 1))?;
    }
    Ok(builder.pack())
}

/// An address where the recording ends: of the place nothing is known.
fn last_place(batch: &PackedBatch) -> anyhow::Result<Address> {
    let mut point = Point { lat: 0.0, lng: 0.0 };
    let mut reader = batch.reader()?;
    while let Some(sample) = reader.next_sample()? {
        if let Sample::Location(location) = sample {
            point = Point {
                lat: location.lat,
                lng: location.lng,
            };
        }
    }
    Ok(Address {
        line1: String::new(),
        city: String::new(),
        country: String::new(),
        point,
        unit: None,
        floor: None,
        accuracy_m: Address::ACCURACY_M_DEFAULT,
        storey_height_m: None,
        entrance: None,
        gates: Vec::new(),
    })
}
