//! `porchlight evaluate`: runs labelled recordings and simulated deliveries through this binary's
//! detectors and scoring and measures their accuracy.

mod page;
mod phases;
mod simulated;

use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use porchlight_core::confidence::Confidences;
use porchlight_core::gait::Models;
use porchlight_core::score::Scored;
use porchlight_core::window::Window;
use porchlight_evaluation::{
    Detected, Evaluation, Fields, PHASES_MS, Recording, Seconds, fields_text, judged, text,
};
use porchlight_sim::ParameterSet;
use serde::Serialize;

use super::recording;
use page::DrawnRecording;

const RECORDING: &str = ".ndjson.gz";
const LABELS: &str = ".labels.json";

/// The part of the models that is not fitted without the judged source.
const SHARED_EVIDENCE: &str =
    "two sets of four numbers that weigh a second of gait are fitted on all sources";

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The folder with recordings (`NAME.ndjson.gz`) and their labels (`NAME.labels.json`).
    #[arg(value_name = "FOLDER", required_unless_present = "simulated")]
    folder: Option<PathBuf>,
    /// Also evaluate this many simulated deliveries of each kind, reported separately.
    #[arg(long, value_name = "N")]
    simulated: Option<u32>,
    /// Draw simulated deliveries from the parameter ranges held out from tuning.
    #[arg(long, requires = "simulated")]
    held_out: bool,
    /// Evaluate only recordings whose names start with this prefix.
    #[arg(long, default_value = "", requires = "folder")]
    prefix: String,
    /// Also evaluate each recording with all its times moved by 250, 500 and 750 ms, and report the
    /// mean and the range of the figures.
    #[arg(long, requires = "folder")]
    phases: bool,
    /// Print one JSON object with the members `recordings` and `simulated` instead of tables.
    #[arg(long)]
    json: bool,
    /// Write a page that shows labels and detections of each recording above its signals.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// The accuracy over all recordings.
#[derive(Debug, Default, Serialize)]
struct Report {
    events: Evaluation,
    /// Accuracy of walking and staying, second by second, where the body was measured.
    seconds: Seconds,
    fields: Fields,
}

/// The results for the recordings, with two sets of models.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Recordings {
    /// Results with the shipped models, which were fitted on some of the recordings.
    plain: Report,
    /// Results of each recording with models that were fitted without its source.
    left_out: Report,
    /// Results of the same models for recordings with later times, one report for each further phase.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    left_out_later: Vec<Report>,
}

impl Recordings {
    fn text(&self) -> String {
        let mut out = format!(
            "With the models that ship:\n{}\nLeave one source out: each source by models that were fitted without it; \
             {SHARED_EVIDENCE}. Intervals: 95 %, from resampled recordings.\n{}",
            self.plain.text(),
            self.left_out.text()
        );
        if !self.left_out_later.is_empty() {
            let reports: Vec<&Report> = std::iter::once(&self.left_out)
                .chain(&self.left_out_later)
                .collect();
            out.push_str("\nLeave one source out, at four phases of the whole seconds.\n");
            out.push_str(&phases::text(&reports));
        }
        out
    }
}

/// The detected events and the score of one recording.
struct Run<'r> {
    recording: &'r Recording,
    detected: Vec<Detected>,
    windows: Vec<Window>,
    scored: Scored,
}

impl<'r> Run<'r> {
    /// Runs a recording through the detectors and scoring.
    fn of(recording: &'r Recording) -> anyhow::Result<Self> {
        let replayed = recording.replayed();
        Ok(Self {
            recording,
            detected: recording.detect(&[])?,
            scored: recording.score(&replayed),
            windows: replayed.windows,
        })
    }

    /// Adds the insight's fields to counts.
    fn count_fields(&self, fields: &mut Fields) {
        let storey_known = self.recording.context.storey_height_m.is_some();
        fields.add(&self.recording.labels.facts, &self.scored, storey_known);
    }

    /// Returns the drawing for the page.
    fn drawn(self) -> DrawnRecording {
        let labels = &self.recording.labels;
        DrawnRecording {
            name: self.recording.name.clone(),
            judged: judged(labels, &self.detected),
            spans: labels.labelled_spans.clone(),
            windows: self.windows,
            score: self.scored.score,
            facts: labels.facts.clone(),
        }
    }
}

impl Report {
    /// Adds the run of one recording.
    fn add(&mut self, run: &Run<'_>) {
        let Recording { name, labels, .. } = run.recording;
        self.events.add(labels, &run.detected);
        self.seconds.add(name, labels, &run.detected, &run.windows);
        run.count_fields(&mut self.fields);
    }

    fn text(&self) -> String {
        format!(
            "{}\n{}\n{}",
            text(&self.events),
            self.seconds.text(),
            fields_text(&self.fields)
        )
    }
}

/// The results of one run of the command.
#[derive(Debug, Serialize)]
struct Results {
    #[serde(skip_serializing_if = "Option::is_none")]
    recordings: Option<Recordings>,
    #[serde(skip_serializing_if = "Option::is_none")]
    simulated: Option<simulated::Simulated>,
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let mut page = page::Page::default();
    let mut results = Results {
        recordings: None,
        simulated: None,
    };
    if let Some(folder) = &arguments.folder {
        let names = names(folder, &arguments.prefix)?;
        let report = evaluate(folder, &names, arguments, &mut page)?;
        if !arguments.json {
            let recordings = super::counted(names.len() as u64, "recording");
            say!("{recordings}\n\n{}", report.text())?;
        }
        page.table("Recordings", &report.text());
        results.recordings = Some(report);
    }
    if let Some(per_kind) = arguments.simulated {
        let set = if arguments.held_out {
            ParameterSet::HeldOut
        } else {
            ParameterSet::Tuning
        };
        let drawn = arguments.html.is_some().then_some(&mut page);
        let report = simulated::run(per_kind, set, drawn)?;
        if !arguments.json {
            say!(
                "{per_kind} simulated deliveries of each kind\n\n{}",
                report.text()
            )?;
        }
        page.table("Simulated deliveries", &report.text());
        results.simulated = Some(report);
    }
    if arguments.json {
        say!("{}", serde_json::to_string_pretty(&results)?)?;
    }
    if let Some(file) = &arguments.html {
        std::fs::write(file, page.html()).with_context(|| file.display().to_string())?;
    }
    Ok(())
}

/// Runs all recordings of a folder, and draws them on the page if one is written.
fn evaluate(
    folder: &Path,
    names: &[String],
    arguments: &Arguments,
    page: &mut page::Page,
) -> anyhow::Result<Recordings> {
    let later_ms = PHASES_MS
        .get(1..)
        .filter(|_| arguments.phases)
        .unwrap_or_default();
    let mut report = Recordings {
        left_out_later: later_ms.iter().map(|_| Report::default()).collect(),
        ..Recordings::default()
    };
    for name in names {
        let recording = read(folder, name).with_context(|| name.clone())?;
        let run = Run::of(&recording).with_context(|| name.clone())?;
        report.plain.add(&run);
        if arguments.html.is_some() {
            page.add(&run.drawn());
        }
        let mut unseen = recording;
        unseen.context.models = Models::without_source_of(name).unwrap_or_default();
        unseen.context.confidences = Confidences::without_source_of(name).unwrap_or_default();
        let run = Run::of(&unseen).with_context(|| name.clone())?;
        report.left_out.add(&run);
        for (&by_ms, report) in later_ms.iter().zip(&mut report.left_out_later) {
            let later = unseen.later(by_ms).with_context(|| name.clone())?;
            report.add(&Run::of(&later).with_context(|| name.clone())?);
        }
    }
    Ok(report)
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
        bail!(
            "{} contains no recording (NAME.ndjson.gz with NAME.labels.json)",
            folder.display()
        );
    }
    names.sort();
    Ok(names)
}

fn read(folder: &Path, name: &str) -> anyhow::Result<Recording> {
    let labels = std::fs::read(folder.join(format!("{name}{LABELS}")))
        .context("the labels cannot be read")?;
    let mut lines = Vec::new();
    recording::open(&folder.join(format!("{name}{RECORDING}")))?.read_to_end(&mut lines)?;
    Ok(Recording::read(
        name,
        &labels,
        lines.split(|&byte| byte == b'\n'),
    )?)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Command {
        #[command(flatten)]
        evaluate: Arguments,
    }

    fn is_accepted(line: &[&str]) -> bool {
        Command::try_parse_from([&["evaluate"], line].concat()).is_ok()
    }

    #[test]
    fn an_option_without_the_data_that_it_concerns_is_refused() {
        assert!(is_accepted(&["folder", "--phases", "--prefix", "har_"]));
        assert!(is_accepted(&["--simulated", "3", "--held-out"]));
        assert!(!is_accepted(&["folder", "--held-out"]));
        assert!(!is_accepted(&["--simulated", "3", "--phases"]));
        assert!(!is_accepted(&["--simulated", "3", "--prefix", "har_"]));
    }

    /// A program that reads the output gets one document, with one member for each kind of data.
    #[test]
    fn the_results_are_one_object() {
        let results = Results {
            recordings: Some(Recordings::default()),
            simulated: None,
        };
        let value = serde_json::to_value(results).unwrap();
        let members: Vec<&String> = value.as_object().unwrap().keys().collect();
        assert_eq!(members, ["recordings"]);
    }
}
