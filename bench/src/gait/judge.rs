//! Accuracy of held-out models, second by second.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use libm::{exp, log};

use super::fit::{Fold, features};
use super::rows::{Label, Rows};

/// The counts for one source and one kind of measurement.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Judgement {
    /// The labelled gait seconds, and those classified as gait.
    pub gait: (u32, u32),
    /// The rest seconds without handling, and those classified as gait.
    pub calm: (u32, u32),
    /// The rest seconds with the phone handled, and those classified as gait.
    pub handled: (u32, u32),
    /// The sum of the log loss.
    pub loss: f64,
}

impl Judgement {
    fn add(&mut self, label: Label, is_handled: bool, log_odds: f64) {
        let says_gait = log_odds > 0.0;
        let group = match (label, is_handled) {
            (Label::Gait, _) => &mut self.gait,
            (_, true) => &mut self.handled,
            (_, false) => &mut self.calm,
        };
        group.0 += 1;
        group.1 += u32::from(says_gait);
        let towards = if label == Label::Gait {
            log_odds
        } else {
            -log_odds
        };
        self.loss += log(1.0 + exp(-towards.clamp(-30.0, 30.0)));
    }

    fn merge(&mut self, other: &Self) {
        for (sum, more) in [
            (&mut self.gait, other.gait),
            (&mut self.calm, other.calm),
            (&mut self.handled, other.handled),
        ] {
            sum.0 += more.0;
            sum.1 += more.1;
        }
        self.loss += other.loss;
    }
}

/// The names of the three models.
const KINDS: [&str; 3] = ["imu", "motion with cadence", "motion without cadence"];

/// Evaluates each source with the models fitted without it, or with the models of all sources if
/// `left_out` is false.
#[must_use]
pub fn judge(
    rows: &Rows,
    folds: &[Fold],
    left_out: bool,
) -> BTreeMap<(&'static str, String), Judgement> {
    let mut judged: BTreeMap<(&'static str, String), Judgement> = BTreeMap::new();
    for row in rows.rows.iter().filter(|row| row.label != Label::Unknown) {
        let source = rows.source(row);
        let wanted = left_out.then_some(source);
        let Some(fold) = folds.iter().find(|fold| fold.left_out.as_deref() == wanted) else {
            continue;
        };
        let (imu, with, without) = features(row);
        let log_odds = [
            fold.imu.log_odds(&imu),
            fold.with_cadence.log_odds(&with),
            fold.without_cadence.log_odds(&without),
        ];
        for (kind, log_odds) in KINDS.into_iter().zip(log_odds) {
            let key = (kind, source.to_owned());
            judged
                .entry(key)
                .or_default()
                .add(row.label, row.is_handled(), log_odds);
        }
    }
    judged
}

/// Renders the judgements as a table.
#[must_use]
pub fn report(judged: &BTreeMap<(&'static str, String), Judgement>) -> String {
    let mut out = String::new();
    let _ = writeln!(
        out,
        "{:<24} {:<12} {:>16} {:>18} {:>18} {:>9}",
        "model", "source", "gait found", "calm called gait", "handled so called", "log loss"
    );
    for kind in KINDS {
        let mut all = Judgement::default();
        let own = judged.iter().filter(|((of, _), _)| *of == kind);
        for ((_, source), one) in own {
            line(&mut out, kind, source, one);
            all.merge(one);
        }
        line(&mut out, kind, "all", &all);
    }
    out
}

fn line(out: &mut String, kind: &str, source: &str, one: &Judgement) {
    let share = |(all, called): (u32, u32)| {
        if all == 0 {
            "-".to_owned()
        } else {
            format!(
                "{:.1} % of {all}",
                100.0 * f64::from(called) / f64::from(all)
            )
        }
    };
    let seconds = one.gait.0 + one.calm.0 + one.handled.0;
    let _ = writeln!(
        out,
        "{kind:<24} {source:<12} {:>16} {:>18} {:>18} {:>9.3}",
        share(one.gait),
        share(one.calm),
        share(one.handled),
        one.loss / f64::from(seconds.max(1)),
    );
}
