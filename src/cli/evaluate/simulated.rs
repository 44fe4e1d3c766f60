//! Simulated deliveries, whose truth is known, through the detectors and the scoring of this binary.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::Context;
use porchlight_bench::sim::{Delivery, Kind, ParameterSet, Scenario};
use porchlight_core::context::SessionContext;
use porchlight_core::evaluate::{Detected, Evaluation, Labels};
use porchlight_core::score::{Knowledge, PodInput, ScoreInput, score};
use porchlight_core::session::replay::Replay;
use porchlight_schema::insight::{ReasonCode, Score};
use porchlight_schema::sample::json::decode_batch;
use porchlight_schema::session::{Address, PodType, Point};
use serde::Serialize;
use serde_json::Value;

/// Seconds of telemetry in one batch.
const BATCH_SEC: f64 = 10.0;

/// How often a field of the insight was right.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(super) struct Field {
    /// It said something, and the truth is known.
    told: u32,
    /// It was right.
    right: u32,
    /// It said that it can't tell, and the truth is known.
    untold: u32,
}

impl Field {
    fn add<T: PartialEq>(&mut self, told: Option<T>, truth: Option<T>) {
        match (told, truth) {
            (_, None) => {}
            (None, Some(_)) => self.untold += 1,
            (Some(told), Some(truth)) => {
                self.told += 1;
                self.right += u32::from(told == truth);
            }
        }
    }
}

/// What came of one kind of delivery.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct KindReport {
    sessions: u32,
    outcome: Field,
    added_codes: Field,
    right_doorstep: Field,
    floors_climbed: Field,
    elevator_used: Field,
    attempt_cycles: Field,
    suspicious: Field,
    fraud_max: f64,
    outcomes_told: BTreeMap<String, u32>,
}

/// What came of all.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report {
    pub(super) events: Evaluation,
    pub(super) by_kind: BTreeMap<&'static str, KindReport>,
}

/// Runs so many deliveries of each kind.
pub(super) fn run(per_kind: u32, set: ParameterSet, first_seed: u64) -> anyhow::Result<Report> {
    let mut report = Report::default();
    for kind in Kind::ALL {
        for number in 0..per_kind {
            let seed = first_seed + u64::from(number);
            let delivery = Scenario::new(kind, set, seed).deliver();
            let score = replay(&delivery).with_context(|| format!("{} {seed}", kind.as_str()))?;
            add(&mut report, &delivery, &score)?;
        }
    }
    Ok(report)
}

fn add(report: &mut Report, delivery: &Delivery, score: &Score) -> anyhow::Result<()> {
    let truth = &delivery.truth;
    let mut labels: Labels = serde_json::from_value(truth.labels(delivery.end_t))?;
    for sample in &delivery.samples {
        labels
            .streams
            .insert(sample.reading.kind().to_owned(), Value::Null);
    }
    let events = score.events.iter();
    let detected: Vec<_> = events
        .map(|&event| Detected {
            event,
            opened_at_ms: None,
        })
        .collect();
    report.events.add(&labels, &detected);

    let kind = report
        .by_kind
        .entry(delivery.scenario.kind.as_str())
        .or_default();
    let is_outcome = |code: &ReasonCode| *code <= ReasonCode::InsufficientData;
    let (told, added): (Vec<_>, Vec<_>) = score.reason_codes.iter().copied().partition(is_outcome);
    kind.sessions += 1;
    for code in &told {
        *kind
            .outcomes_told
            .entry(code.as_str().to_owned())
            .or_default() += 1;
    }
    let summary = &score.summary;
    kind.outcome.add(told.first().copied(), truth.outcome);
    kind.added_codes.add(Some(added), Some(truth.added.clone()));
    kind.right_doorstep
        .add(Some(summary.right_doorstep), Some(truth.right_doorstep));
    kind.floors_climbed
        .add(summary.floors_climbed, truth.floors_climbed);
    kind.elevator_used.add(
        summary.elevator_used,
        truth.phone_carried.then_some(truth.elevator_used),
    );
    kind.attempt_cycles
        .add(Some(summary.attempt_cycles), truth.attempt_cycles);
    kind.suspicious
        .add(Some(summary.suspicious_behavior), Some(truth.fraudulent));
    kind.fraud_max = kind.fraud_max.max(summary.fraud_score);
    Ok(())
}

/// One delivery as the scoring actor would see it.
fn replay(delivery: &Delivery) -> anyhow::Result<Score> {
    let context = SessionContext::of_address(&address(&delivery.start["address"])?, None);
    let mut replay = Replay::new(&context);
    for batch in delivery.batches(BATCH_SEC) {
        let decoded = decode_batch(batch.json()?.as_bytes())?;
        replay.batch(decoded.seq, &decoded.batch);
    }
    let replayed = replay.finish();
    let duration_ms = (delivery.end_t * 1000.0) as u32;
    Ok(score(&ScoreInput {
        context: &context,
        windows: &replayed.windows,
        events: &replayed.events,
        marks: &replayed.marks,
        system: &replayed.system,
        pod: delivery.pod.as_ref().map(|_| PodInput {
            pod_type: PodType::Photo,
            t_ms: Some(duration_ms),
        }),
        duration_ms,
        timed_out: delivery.end == porchlight_bench::sim::End::TimeOut,
        missing_batches: replayed.missing_batches,
        quarantined_batches: 0,
        known: &Knowledge::default(),
    }))
}

fn address(body: &Value) -> anyhow::Result<Address> {
    let point = |value: &Value| {
        Some(Point {
            lat: value["lat"].as_f64()?,
            lng: value["lng"].as_f64()?,
        })
    };
    Ok(Address {
        line1: body["line1"].as_str().unwrap_or_default().to_owned(),
        city: String::new(),
        country: String::new(),
        point: point(body).context("an address without a place")?,
        unit: None,
        floor: body["floor"]
            .as_i64()
            .and_then(|floor| i16::try_from(floor).ok()),
        accuracy_m: body["accuracyM"]
            .as_f64()
            .map_or(Address::ACCURACY_M_DEFAULT, |metres| metres as f32),
        storey_height_m: body["storeyHeightM"].as_f64().map(|metres| metres as f32),
        entrance: point(&body["entrance"]),
        gates: body["gates"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(point)
            .collect(),
    })
}

/// The fields of the insight, a line for each kind: right of told, and where more was known, how often it said that
/// it can't tell.
pub(super) fn text(report: &Report) -> String {
    let field = |field: Field| {
        let untold = if field.untold > 0 {
            format!(" ({}?)", field.untold)
        } else {
            String::new()
        };
        format!("{}/{}{untold}", field.right, field.told)
    };
    let mut out = format!(
        "{:<20} {:>10} {:>10} {:>10} {:>14} {:>12} {:>10} {:>10} {:>6}  outcomes told\n",
        "kind",
        "outcome",
        "added",
        "doorstep",
        "floors",
        "elevator",
        "attempts",
        "suspicious",
        "fraud≤"
    );
    for (name, kind) in &report.by_kind {
        let told: Vec<_> = kind
            .outcomes_told
            .iter()
            .map(|(name, count)| format!("{name} {count}"))
            .collect();
        // Writing to a string can't fail.
        let _ = writeln!(
            out,
            "{name:<20} {:>10} {:>10} {:>10} {:>14} {:>12} {:>10} {:>10} {:>6.2}  {}",
            field(kind.outcome),
            field(kind.added_codes),
            field(kind.right_doorstep),
            field(kind.floors_climbed),
            field(kind.elevator_used),
            field(kind.attempt_cycles),
            field(kind.suspicious),
            kind.fraud_max,
            told.join(", "),
        );
    }
    out
}
