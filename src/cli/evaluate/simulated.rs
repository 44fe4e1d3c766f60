//! Simulated deliveries, whose truth is known, as recordings with labels.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::Context;
use porchlight_bench::sim::{Delivery, End, Kind, Loss, ParameterSet, Scenario};
use porchlight_core::evaluate::{Evaluation, Fields, Labels, Recording, fields_text, text};
use porchlight_schema::insight::ReasonCode;
use porchlight_schema::sample::json::decode_batch;
use serde::Serialize;
use serde_json::Value;

use super::Report;
use super::page::Page;

/// Seconds of telemetry in one batch.
const BATCH_SEC: f64 = 10.0;
/// Of each kind, so many are drawn on the page.
const DRAWN: u32 = 3;
/// Shares of the samples that are taken away, for `visibilityScore`.
const LOSSES: [f64; 5] = [0.0, 0.2, 0.4, 0.6, 0.8];

/// What came of all.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Simulated {
    events: Evaluation,
    fields: Fields,
    by_kind: BTreeMap<&'static str, Fields>,
    /// Share of the samples that was taken away, and `visibilityScore`.
    visibility: Vec<(f64, f64)>,
}

/// Runs so many deliveries of each kind.
pub(super) fn run(
    per_kind: u32,
    set: ParameterSet,
    mut page: Option<&mut Page>,
) -> anyhow::Result<Simulated> {
    let mut all = Report::default();
    let mut by_kind = BTreeMap::new();
    let mut visibility = Vec::new();
    for kind in Kind::ALL {
        let mut own = Report::default();
        for seed in 1..=per_kind {
            let name = format!("{}_{seed:03}", kind.as_str());
            let delivery = Scenario::new(kind, set, u64::from(seed)).deliver();
            let recording = recording(&name, &delivery).with_context(|| name.clone())?;
            let shown = own.add(&recording)?;
            all.add(&recording)?;
            if let Some(page) = page.as_deref_mut().filter(|_| seed <= DRAWN) {
                page.add(&shown);
            }
            // Where hardly anything is seen without a loss, nothing can be lost.
            if seed <= DRAWN && is_seen_well(&delivery) {
                visibility.extend(with_losses(&name, &delivery)?);
            }
        }
        by_kind.insert(kind.as_str(), own.fields);
    }
    Ok(Simulated {
        events: all.events,
        fields: all.fields,
        by_kind,
        visibility,
    })
}

/// A phone that went along, and was heard to the end.
fn is_seen_well(delivery: &Delivery) -> bool {
    let outcome = delivery.truth.outcome;
    delivery.truth.phone_carried
        && outcome.is_some_and(|outcome| outcome != ReasonCode::InsufficientData)
}

fn with_losses(name: &str, delivery: &Delivery) -> anyhow::Result<Vec<(f64, f64)>> {
    let mut seen = Vec::new();
    for share in LOSSES {
        let loss = Loss {
            share,
            ..Loss::default()
        };
        let recording = recording(name, &delivery.with_loss(&loss))?;
        let scored = recording.score(&recording.replayed());
        seen.push((share, scored.score.summary.visibility_score));
    }
    Ok(seen)
}

/// A delivery as a recording with labels.
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

/// Spearman's rank correlation, equal values at their mean rank; none where there is nothing to correlate.
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
    /// All of it, then a line for each kind.
    pub(super) fn text(&self) -> String {
        let mut out = format!("{}\n{}", text(&self.events), fields_text(&self.fields));
        // Writing to a string can't fail.
        if let Some(correlation) = rank_correlation(&self.visibility) {
            let _ = writeln!(
                out,
                "{:<28} rank correlation with the share of samples left: {:.2}",
                "visibilityScore", -correlation
            );
        }
        let _ = writeln!(
            out,
            "\n{:<20} {:>9} {:>10} {:>9} {:>9} {:>9} {:>10} {:>7}",
            "kind", "outcome", "doorstep", "floors", "elevator", "attempts", "suspicious", "fraud≤"
        );
        for (kind, fields) in &self.by_kind {
            let doorstep = fields.right_doorstep;
            let floors = (
                fields.floors_known.exact + fields.floors_unknown.exact,
                fields.floors_known.told + fields.floors_unknown.told,
            );
            let highest = fields
                .fraud_honest
                .iter()
                .chain(&fields.fraud_untrue)
                .fold(0.0_f64, |most, &score| most.max(score));
            let _ = writeln!(
                out,
                "{kind:<20} {:>9} {:>10} {:>9} {:>9} {:>9} {:>10} {highest:>7.2}",
                format!("{}/{}", fields.outcome.right, fields.outcome.told),
                format!("{}+{}−{}", doorstep.right, doorstep.wrong, doorstep.missed),
                format!("{}/{}", floors.0, floors.1),
                format!(
                    "{}/{}",
                    fields.elevator_used.right, fields.elevator_used.told
                ),
                format!(
                    "{}/{}",
                    fields.attempt_cycles.right, fields.attempt_cycles.told
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
    fn ranks_correlate() {
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
