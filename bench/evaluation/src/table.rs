//! Prints the evaluation as a text table.

use std::fmt::Write as _;

use crate::evaluation::Evaluation;
use crate::fields::{Claim, Field, Fields, Floors, Time};
use crate::quantile::quantile;
use crate::tally::Tally;

fn number(value: Option<f64>, decimals: usize) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.decimals$}"))
}

/// Returns one line per event type that was labelled or detected, and the reliability of the
/// confidences.
#[must_use]
pub fn text(evaluation: &Evaluation) -> String {
    let mut out = format!(
        "{:<14} {:>6} {:>5} {:>6} {:>5} {:>5} {:>5} {:>5} {:>11} {:>6} {:>4} {:>4} {:>11} {:>11} {:>13} {:>9} {:>5}\n",
        "type",
        "labels",
        "n.d.",
        "found",
        "det.",
        "prec",
        "rec",
        "F1",
        "F1 95 %",
        "F1 tol",
        "frag",
        "merg",
        "bound. s",
        "latency s",
        "floors =,±1",
        "direction",
        "ECE"
    );
    let all = evaluation.by_type.iter();
    let all = all.map(|(event_type, tally)| (event_type.as_str().to_owned(), tally));
    let measured = evaluation.by_body.iter();
    let measured =
        measured.map(|(event_type, tally)| (format!("{}, body", event_type.as_str()), tally));
    for (name, tally) in all.chain(measured) {
        if tally.labels + tally.not_decidable + tally.detections > 0 {
            tally_line(&mut out, &name, tally);
        }
    }
    out.push('\n');
    reliability(&mut out, evaluation);
    out
}

fn tally_line(out: &mut String, name: &str, tally: &Tally) {
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
    // Writing to a string cannot fail.
    let _ = writeln!(
        out,
        "{:<14} {:>6} {:>5} {:>6} {:>5} {:>5} {:>5} {:>5} {:>11} {:>6} {:>4} {:>4} {:>11} {:>11} {:>13} {:>9} {:>5}",
        name,
        tally.labels,
        tally.not_decidable,
        tally.found,
        tally.detections,
        number(tally.precision(), 3),
        number(tally.recall(), 3),
        number(tally.f1(), 3),
        tally.f1_interval().map_or_else(
            || "-".to_owned(),
            |(low, high)| format!("{low:.3}-{high:.3}")
        ),
        number(tally.f1_within_tolerance(), 3),
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

/// The ranges of confidence in the table of reliability. The last range contains the confidences
/// that are reported as 0.95 or more when rounded to two digits.
const CONFIDENCES: [(f64, f64); 4] = [(0.0, 0.6), (0.6, 0.85), (0.85, 0.945), (0.945, 1.01)];

/// Adds one line per event type: the share of detections that is right, by the confidence claimed.
fn reliability(out: &mut String, evaluation: &Evaluation) {
    let _ = writeln!(
        out,
        "{:<13} {:>24} {:>24} {:>24} {:>24}",
        "claimed", "under 0.60", "to 0.84", "to 0.94", "0.95 and more"
    );
    for (event_type, tally) in &evaluation.by_type {
        if tally.confidences.is_empty() {
            continue;
        }
        let _ = write!(out, "{:<13}", event_type.as_str());
        for (from, to) in CONFIDENCES {
            let text = tally.reliability(from..to).map_or_else(
                || "-".to_owned(),
                |(claimed, right, count)| format!("{claimed:.2}: {right:.3} of {count}"),
            );
            let _ = write!(out, " {text:>24}");
        }
        out.push('\n');
    }
}

fn percent(part: u32, whole: u32) -> String {
    if whole == 0 {
        return "-".to_owned();
    }
    format!("{:.0} %", f64::from(part) / f64::from(whole) * 100.0)
}

fn field_line(name: &str, field: Field) -> String {
    format!(
        "{name:<28} right {:>5} of {:>5} given ({:>5}), unknown {:>4}\n",
        field.right,
        field.reported,
        percent(field.right, field.reported),
        field.unreported
    )
}

fn claim_line(name: &str, claim: Claim) -> String {
    format!(
        "{name:<28} right {:>5}, wrong {:>4}, missed {:>4}: precision {:>5}, recall {:>5}\n",
        claim.right,
        claim.wrong,
        claim.missed,
        percent(claim.right, claim.right + claim.wrong),
        percent(claim.right, claim.right + claim.missed)
    )
}

fn floors_line(name: &str, floors: Floors) -> String {
    format!(
        "{name:<28} exact {:>5} of {:>5} ({:>5}), within one {:>5}, unknown {:>4}\n",
        floors.exact,
        floors.reported,
        percent(floors.exact, floors.reported),
        percent(floors.within_one, floors.reported),
        floors.unreported
    )
}

fn time_line(name: &str, time: &Time) -> String {
    format!(
        "{name:<28} found {:>5}, missed {:>4}, invented {:>4}; off by {} s, {} s (median, p90), within 5 s {:>5}\n",
        time.errors_sec.len(),
        time.missed,
        time.invented,
        number(quantile(&time.errors_sec, 0.5), 1),
        number(quantile(&time.errors_sec, 0.9), 1),
        percent(
            u32::try_from(time.errors_sec.iter().filter(|off| **off <= 5.0).count()).unwrap_or(0),
            u32::try_from(time.errors_sec.len()).unwrap_or(0)
        )
    )
}

/// Returns one line per field and per reason code with known truth.
#[must_use]
pub fn fields_text(fields: &Fields) -> String {
    let mut out = String::new();
    let claims = |claim: Claim| claim.right + claim.wrong + claim.missed > 0;
    if fields.outcome.reported + fields.outcome.unreported > 0 {
        out += &field_line("outcome", fields.outcome);
    }
    for (code, claim) in fields.codes.iter().filter(|(_, claim)| claims(**claim)) {
        out += &claim_line(&format!("  {}", code.as_str()), *claim);
    }
    if claims(fields.right_doorstep) {
        out += &claim_line("rightDoorstep", fields.right_doorstep);
    }
    for (name, floors) in [
        ("floors, storey known", fields.floors_known),
        ("floors, storey unknown", fields.floors_unknown),
    ] {
        if floors.reported + floors.unreported > 0 {
            out += &floors_line(name, floors);
        }
    }
    if fields.elevator_used.reported + fields.elevator_used.unreported > 0 {
        out += &field_line("elevatorUsed", fields.elevator_used);
    }
    if fields.attempt_cycles.reported > 0 {
        out += &field_line("attemptCycles", fields.attempt_cycles);
    }
    for (name, time) in [
        ("entrance passed", &fields.entrance),
        ("time at the door", &fields.door),
    ] {
        if !time.errors_sec.is_empty() || time.missed + time.invented > 0 {
            out += &time_line(name, time);
        }
    }
    if claims(fields.suspicious) {
        out += &claim_line("suspiciousBehavior", fields.suspicious);
    }
    let high = |scores: &[f64]| scores.iter().filter(|score| **score >= 0.5).count();
    if !fields.fraud_honest.is_empty() {
        let _ = writeln!(
            out,
            "{:<28} {} of {} genuine sessions at 0.5 and more, the highest {}; {} of {} fraudulent sessions; above 99.9 % of the genuine ones: {}",
            "fraudScore",
            high(&fields.fraud_honest),
            fields.fraud_honest.len(),
            number(quantile(&fields.fraud_honest, 1.0), 3),
            high(&fields.fraud_untrue),
            fields.fraud_untrue.len(),
            fields
                .fraud_recall()
                .map_or_else(|| "-".to_owned(), |share| format!("{:.0} %", share * 100.0)),
        );
    }
    out
}
