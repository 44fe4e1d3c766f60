//! The evaluation as a table of text.

use std::fmt::Write as _;

use super::{Evaluation, quantile};

fn number(value: Option<f64>, decimals: usize) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.decimals$}"))
}

/// One line for each event type that was labelled or detected.
#[must_use]
pub fn text(evaluation: &Evaluation) -> String {
    let mut out = format!(
        "{:<13} {:>6} {:>5} {:>6} {:>5} {:>5} {:>5} {:>5} {:>4} {:>4} {:>11} {:>11} {:>13} {:>9} {:>5}\n",
        "type",
        "labels",
        "n.d.",
        "found",
        "det.",
        "prec",
        "rec",
        "F1",
        "frag",
        "merg",
        "bound. s",
        "latency s",
        "floors =,±1",
        "direction",
        "ECE"
    );
    for (event_type, tally) in &evaluation.by_type {
        if tally.labels + tally.not_decidable + tally.detections == 0 {
            continue;
        }
        let pair = |values: &[f64]| {
            format!(
                "{} / {}",
                number(quantile(values, 0.5), 1),
                number(quantile(values, 0.9), 1)
            )
        };
        let floors = tally.floors_off.len();
        let exact = tally.floors_off.iter().filter(|off| **off == 0).count();
        let within = tally.floors_off.iter().filter(|off| off.abs() <= 1).count();
        // Writing to a string can't fail.
        let _ = writeln!(
            out,
            "{:<13} {:>6} {:>5} {:>6} {:>5} {:>5} {:>5} {:>5} {:>4} {:>4} {:>11} {:>11} {:>13} {:>9} {:>5}",
            event_type.as_str(),
            tally.labels,
            tally.not_decidable,
            tally.found,
            tally.detections,
            number(tally.precision(), 3),
            number(tally.recall(), 3),
            number(tally.f1(), 3),
            tally.fragments,
            tally.merges,
            pair(&tally.boundary_errors_sec),
            pair(&tally.latencies_sec),
            if floors > 0 {
                format!("{exact},{within}/{floors}")
            } else {
                "-".to_owned()
            },
            if tally.directions.1 > 0 {
                format!("{}/{}", tally.directions.0, tally.directions.1)
            } else {
                "-".to_owned()
            },
            number(tally.calibration_error(), 3),
        );
    }
    out
}
