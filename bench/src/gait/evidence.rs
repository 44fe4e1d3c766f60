//! Fits how a second's log-odds enter the decoder, on held-out sources and through a two-state
//! decoder.

use std::collections::BTreeMap;

use libm::sqrt;

use super::fit::{Fold, features};
use super::rows::{Label, Row, Rows};
use super::table::Fitted;

/// The cost of a change between rest and gait, equal to that of the detectors (`CHANGE_COST`). Only
/// its ratio to the evidence matters, so it is fixed and the evidence is fitted.
const CHANGE: f64 = 4.0;
/// The penalty for a change that is not in the labels, in wrong seconds, in addition to the wrong
/// seconds around it.
const CHANGE_SECONDS: f64 = 2.0;

const SCALES: [f64; 8] = [0.3, 0.4, 0.5, 0.6, 0.7, 0.85, 1.0, 1.2];
/// The candidate caps for rest. In this range, pauses of 5 s and more are detected, and shorter
/// ones belong to the walk, as the contract requires.
const RESTS: [f64; 3] = [-1.0, -1.1, -1.2];
/// The candidate caps for gait. From 1.4 on, a walk of 3 s outweighs its two changes, as in the
/// detectors.
const GAITS: [f64; 3] = [1.4, 1.6, 1.8];

/// The candidate shifts of the log-odds. Training weights the seconds of both labels equally,
/// regardless of their cost in events.
const SHIFTS: [f64; 5] = [0.0, 0.15, 0.3, 0.45, 0.6];
/// The penalty in wrong seconds for a lost event: a stretch of one label with less than half of its
/// seconds found. It is the shortest stay that is an event, in seconds.
const LOST_SECONDS: f64 = 8.0;

/// The source of a recording and its consecutive seconds, each with label and log-odds.
struct Sequence<'r> {
    source: &'r str,
    seconds: Vec<(Label, f64)>,
}

/// Fits the evidence of raw `imu`, and that of `motion` with and without a cadence together.
#[must_use]
pub fn evidence(rows: &Rows, folds: &[Fold]) -> (Fitted, Fitted) {
    let imu = sequences(rows, folds, 0);
    let mut motion = sequences(rows, folds, 1);
    motion.extend(sequences(rows, folds, 2));
    (best(&imu), best(&motion))
}

fn sequences<'r>(rows: &'r Rows, folds: &[Fold], kind: usize) -> Vec<Sequence<'r>> {
    let mut sequences: Vec<Sequence<'r>> = Vec::new();
    let mut before: Option<&Row> = None;
    for row in &rows.rows {
        let source = rows.source(row);
        let Some(fold) = folds
            .iter()
            .find(|fold| fold.left_out.as_deref() == Some(source))
        else {
            continue;
        };
        let (imu, with, without) = features(row);
        let log_odds = match kind {
            0 => fold.imu.log_odds(&imu),
            1 => fold.with_cadence.log_odds(&with),
            _ => fold.without_cadence.log_odds(&without),
        };
        let follows = before.is_some_and(|before| {
            before.recording == row.recording && before.second + 1 == row.second
        });
        if !follows {
            sequences.push(Sequence {
                source,
                seconds: Vec::new(),
            });
        }
        if let Some(sequence) = sequences.last_mut() {
            sequence.seconds.push((row.label, log_odds));
        }
        before = Some(row);
    }
    sequences
}

fn best(sequences: &[Sequence<'_>]) -> Fitted {
    let mut best = (
        f64::INFINITY,
        Fitted {
            scale: SCALES[0],
            rest: RESTS[0],
            gait: GAITS[0],
            shift: SHIFTS[0],
        },
    );
    for scale in SCALES {
        for rest in RESTS {
            for (gait, shift) in GAITS
                .iter()
                .flat_map(|&gait| SHIFTS.map(|shift| (gait, shift)))
            {
                let fitted = Fitted {
                    scale,
                    rest,
                    gait,
                    shift,
                };
                let cost = cost(sequences, fitted);
                if cost < best.0 {
                    best = (cost, fitted);
                }
            }
        }
    }
    best.1
}

/// Returns the cost in wrong seconds and wrong changes. Each source and label is weighted by the
/// square root of its seconds.
fn cost(sequences: &[Sequence<'_>], fitted: Fitted) -> f64 {
    let mut by_source: BTreeMap<(&str, bool), (f64, f64)> = BTreeMap::new();
    for sequence in sequences {
        let decoded = decode(&sequence.seconds, fitted);
        let mut before: Option<(Label, bool)> = None;
        // The seconds of the current stretch of one label, and the correctly decoded ones.
        let mut stretch = (0, 0);
        for ((label, _), says_gait) in sequence.seconds.iter().zip(decoded) {
            let goes_on = before.is_some_and(|(label_before, _)| label_before == *label);
            if let Some((label_before, _)) = before.filter(|_| !goes_on) {
                let key = (sequence.source, label_before == Label::Gait);
                let is_lost = stretch.1 * 2 < stretch.0;
                by_source.entry(key).or_default().1 += if is_lost { LOST_SECONDS } else { 0.0 };
                stretch = (0, 0);
            }
            if *label == Label::Unknown {
                before = None;
                continue;
            }
            let is_gait = *label == Label::Gait;
            stretch = (stretch.0 + 1, stretch.1 + u32::from(is_gait == says_gait));
            let one = by_source.entry((sequence.source, is_gait)).or_default();
            one.0 += 1.0;
            one.1 += f64::from(u8::from(is_gait != says_gait));
            // The decoded state must not change within one label.
            if before
                .is_some_and(|(label_before, said)| label_before == *label && said != says_gait)
            {
                one.1 += CHANGE_SECONDS;
            }
            before = Some((*label, says_gait));
        }
    }
    by_source
        .values()
        .map(|(all, wrong)| wrong / all * sqrt(*all))
        .sum()
}

/// Decodes the most likely sequence of the two states.
fn decode(seconds: &[(Label, f64)], fitted: Fitted) -> Vec<bool> {
    let (mut scores, mut back) = ([0.0_f64; 2], Vec::with_capacity(seconds.len()));
    for (_, log_odds) in seconds {
        let evidence = (fitted.scale * (log_odds + fitted.shift))
            .max(fitted.rest)
            .min(fitted.gait);
        let [rest, gait] = scores;
        let to_rest = rest < gait - CHANGE;
        let to_gait = gait < rest - CHANGE;
        back.push([to_rest, !to_gait]);
        scores = [
            if to_rest { gait - CHANGE } else { rest } - evidence,
            if to_gait { rest - CHANGE } else { gait } + evidence,
        ];
    }
    let mut is_gait = scores[1] > scores[0];
    let mut decoded = vec![false; seconds.len()];
    for (state, back) in decoded.iter_mut().zip(back).rev() {
        *state = is_gait;
        is_gait = back[usize::from(is_gait)];
    }
    decoded
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two gait-like seconds in a long rest do not start a gait, and two rest-like seconds do not
    /// end a walk.
    #[test]
    fn brief_contrary_evidence_changes_nothing() {
        let fitted = Fitted {
            scale: 0.5,
            rest: -1.0,
            gait: 1.2,
            shift: 0.0,
        };
        let seconds = |log_odds: &[f64]| -> Vec<(Label, f64)> {
            log_odds
                .iter()
                .map(|&log_odds| (Label::Unknown, log_odds))
                .collect()
        };
        let rest = [-4.0, -4.0, -4.0, -4.0, 3.0, 3.0, -4.0, -4.0, -4.0, -4.0];
        assert_eq!(decode(&seconds(&rest), fitted), [false; 10]);
        assert_eq!(
            decode(&seconds(&rest.map(|log_odds| -log_odds)), fitted),
            [true; 10]
        );
    }
}
