//! Simulated deliveries with known truth, as labelled recordings.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::Context;
use porchlight_evaluation::{Evaluation, Fields, Labels, Recording, Seconds, fields_text, text};
use porchlight_schema::insight::ReasonCode;
use porchlight_schema::sample::json::decode_batch;
use porchlight_sim::{Delivery, End, Kind, Loss, ParameterSet, Scenario};
use serde::Serialize;
use serde_json::Value;

use super::page::Page;
use super::{Report, Run};

/// The duration of one batch, in seconds of telemetry.
const BATCH_SEC: f64 = 10.0;
/// The number of deliveries of each kind on the page.
const DRAWN: u32 = 3;
/// The shares of samples to remove, for `visibilityScore`.
const SHARES: [f64; 5] = [0.0, 0.2, 0.4, 0.6, 0.8];
/// The lengths of silences in seconds, around the drop-off or from the start.
const SILENCES_SEC: [f64; 6] = [0.0, 10.0, 30.0, 60.0, 120.0, 240.0];
/// The kinds of sample to remove completely.
const KINDS: [&[&str]; 3] = [&["location"], &["pressure"], &["imu", "motion", "steps"]];

/// The results of the simulated deliveries.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Simulated {
    events: Evaluation,
    seconds: Seconds,
    fields: Fields,
    by_kind: BTreeMap<&'static str, Fields>,
    visibility: Visibility,
}

/// The effect of lost telemetry on `visibilityScore`.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Visibility {
    by_chance: Losses,
    at_drop_off: Losses,
    at_start: Losses,
    /// The decrease of the score, by the first removed kind.
    by_kind: BTreeMap<&'static str, Vec<f64>>,
}

/// One kind of loss: for each session the lost amounts and the scores.
#[derive(Debug, Default, Serialize)]
#[serde(transparent)]
struct Losses(Vec<Vec<(f64, f64)>>);

impl Losses {
    /// Returns the rank correlation of loss and score over all sessions, and its mean within
    /// sessions.
    fn correlations(&self) -> Option<(f64, f64)> {
        let pooled: Vec<(f64, f64)> = self.0.iter().flatten().copied().collect();
        let each: Vec<f64> = self
            .0
            .iter()
            .filter_map(|own| rank_correlation(own))
            .collect();
        let mean = each.iter().sum::<f64>() / each.len().max(1) as f64;
        rank_correlation(&pooled).map(|pooled| (-pooled, -mean))
    }
}

/// Runs deliveries of each kind.
pub(super) fn run(
    per_kind: u32,
    set: ParameterSet,
    mut page: Option<&mut Page>,
) -> anyhow::Result<Simulated> {
    let mut all = Report::default();
    let mut by_kind = BTreeMap::new();
    let mut visibility = Visibility::default();
    for kind in Kind::ALL {
        let mut own = Fields::default();
        for seed in 1..=per_kind {
            let name = format!("{}_{seed:03}", kind.as_str());
            let delivery = Scenario::new(kind, set, u64::from(seed)).deliver();
            let recording = recording(&name, &delivery).with_context(|| name.clone())?;
            let run = Run::of(&recording)?;
            all.add(&run);
            run.count_fields(&mut own);
            if let Some(page) = page.as_deref_mut().filter(|_| seed <= DRAWN) {
                page.add(&run.drawn());
            }
            // A session with very little data has a low visibility score already.
            if seed <= DRAWN && has_enough_data(&delivery) {
                visibility.add(&name, &delivery)?;
            }
        }
        by_kind.insert(kind.as_str(), own);
    }
    Ok(Simulated {
        events: all.events,
        seconds: all.seconds,
        fields: all.fields,
        by_kind,
        visibility,
    })
}

/// Returns whether the courier carried the phone and it sent enough data for a result.
fn has_enough_data(delivery: &Delivery) -> bool {
    let outcome = delivery.truth.outcome;
    delivery.truth.phone_carried
        && outcome.is_some_and(|outcome| outcome != ReasonCode::InsufficientData)
}

impl Visibility {
    /// Adds one delivery, with all kinds of loss.
    fn add(&mut self, name: &str, delivery: &Delivery) -> anyhow::Result<()> {
        let seen = |loss: &Loss| visibility(name, &delivery.with_loss(loss));
        let whole = seen(&Loss::default())?;
        let chance = |share| Loss {
            share,
            ..Loss::default()
        };
        let silent = |from: f64, to: f64| Loss {
            spans: vec![(from, to)],
            ..Loss::default()
        };
        let row =
            |amounts: &[f64], loss: &dyn Fn(f64) -> Loss| -> anyhow::Result<Vec<(f64, f64)>> {
                let scores = amounts
                    .iter()
                    .map(|&amount| Ok((amount, seen(&loss(amount))?)));
                scores.collect()
            };
        self.by_chance.0.push(row(&SHARES, &chance)?);
        if let Some((from, to)) = delivery.truth.dwell {
            let middle = f64::midpoint(from, to);
            let around = |sec| silent(middle - sec / 2.0, middle + sec / 2.0);
            self.at_drop_off.0.push(row(&SILENCES_SEC, &around)?);
        }
        self.at_start
            .0
            .push(row(&SILENCES_SEC, &|sec| silent(0.0, sec))?);
        for kinds in KINDS {
            let Some(first) = kinds.first().copied() else {
                continue;
            };
            let loss = Loss {
                kinds: kinds.to_vec(),
                ..Loss::default()
            };
            let lower = whole - seen(&loss)?;
            self.by_kind.entry(first).or_default().push(lower);
        }
        Ok(())
    }

    /// Formats one line per way of losing telemetry.
    fn text(&self) -> String {
        let mut out = String::new();
        let ways = [
            ("by chance", &self.by_chance),
            ("around the drop-off", &self.at_drop_off),
            ("at the start", &self.at_start),
        ];
        for (way, losses) in ways {
            if let Some((pooled, within)) = losses.correlations() {
                // Writing to a string cannot fail.
                let _ = writeln!(
                    out,
                    "{:<28} loss {way}: rank correlation over all sessions {pooled:.2}, within each {within:.2}",
                    "visibilityScore"
                );
            }
        }
        for (kind, lower) in &self.by_kind {
            let mean = lower.iter().sum::<f64>() / lower.len().max(1) as f64;
            let _ = writeln!(
                out,
                "{:<28} without {kind}: lower by {mean:.2} on average",
                "visibilityScore"
            );
        }
        out
    }
}

fn visibility(name: &str, delivery: &Delivery) -> anyhow::Result<f64> {
    let recording = recording(name, delivery)?;
    let scored = recording.score(&recording.replayed());
    Ok(scored.score.summary.visibility_score)
}

/// Converts a delivery to a labelled recording.
fn recording(name: &str, delivery: &Delivery) -> anyhow::Result<Recording> {
    let mut labels: Labels = serde_json::from_value(delivery.truth.labels(delivery.end_t))?;
    for sample in &delivery.samples {
        labels
            .streams
            .insert(sample.reading.kind().to_owned(), Value::Null);
    }
    labels.start = delivery.start.clone();
    labels.end_sec = Some(delivery.end_t);
    labels.pod = delivery.pod.is_some();
    labels.timed_out = delivery.end == End::TimeOut;
    let mut batches = Vec::new();
    for batch in delivery.batches(BATCH_SEC) {
        batches.push(decode_batch(batch.json()?.as_bytes())?.batch);
    }
    Ok(Recording::new(name, labels, batches)?)
}

/// Computes Spearman's rank correlation with mean ranks for ties. Returns `None` if it is
/// undefined.
fn rank_correlation(pairs: &[(f64, f64)]) -> Option<f64> {
    let ranks = |of: fn(&(f64, f64)) -> f64| -> Vec<f64> {
        let rank = |one: &(f64, f64)| {
            let below = pairs.iter().filter(|other| of(other) < of(one)).count();
            let equal = pairs.iter().filter(|other| of(other) == of(one)).count();
            below as f64 + (equal as f64 - 1.0) / 2.0
        };
        pairs.iter().map(rank).collect()
    };
    let (a, b) = (ranks(|pair| pair.0), ranks(|pair| pair.1));
    let middle = (pairs.len() as f64 - 1.0) / 2.0;
    let sum = |a: &[f64], b: &[f64]| -> f64 {
        a.iter()
            .zip(b)
            .map(|(a, b)| (a - middle) * (b - middle))
            .sum()
    };
    let spread = (sum(&a, &a) * sum(&b, &b)).sqrt();
    (spread > 0.0).then(|| sum(&a, &b) / spread)
}

impl Simulated {
    /// Formats the totals, and one line per kind.
    pub(super) fn text(&self) -> String {
        let mut out = format!(
            "{}\n{}\n{}",
            text(&self.events),
            self.seconds.text(),
            fields_text(&self.fields)
        );
        out.push_str(&self.visibility.text());
        let _ = writeln!(
            out,
            "\n{:<20} {:>9} {:>10} {:>9} {:>9} {:>9} {:>10} {:>7}",
            "kind", "outcome", "doorstep", "floors", "elevator", "attempts", "suspicious", "fraud≤"
        );
        for (kind, fields) in &self.by_kind {
            let doorstep = fields.right_doorstep;
            let floors = (
                fields.floors_known.exact + fields.floors_unknown.exact,
                fields.floors_known.reported + fields.floors_unknown.reported,
            );
            let highest = fields
                .fraud_honest
                .iter()
                .chain(&fields.fraud_untrue)
                .fold(0.0_f64, |most, &score| most.max(score));
            let _ = writeln!(
                out,
                "{kind:<20} {:>9} {:>10} {:>9} {:>9} {:>9} {:>10} {highest:>7.2}",
                format!("{}/{}", fields.outcome.right, fields.outcome.reported),
                format!("{}+{}−{}", doorstep.right, doorstep.wrong, doorstep.missed),
                format!("{}/{}", floors.0, floors.1),
                format!(
                    "{}/{}",
                    fields.elevator_used.right, fields.elevator_used.reported
                ),
                format!(
                    "{}/{}",
                    fields.attempt_cycles.right, fields.attempt_cycles.reported
                ),
                format!(
                    "{}/{}",
                    fields.suspicious.right + fields.suspicious.wrong,
                    fields.sessions
                ),
            );
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rank_correlations_are_computed() {
        let pairs = |values: [f64; 4]| {
            [0.0, 1.0, 2.0, 3.0]
                .into_iter()
                .zip(values)
                .collect::<Vec<_>>()
        };
        assert_eq!(rank_correlation(&pairs([1.0, 2.0, 5.0, 9.0])), Some(1.0));
        assert_eq!(rank_correlation(&pairs([9.0, 5.0, 2.0, 1.0])), Some(-1.0));
        assert_eq!(rank_correlation(&pairs([1.0, 1.0, 1.0, 1.0])), None);
    }
}
