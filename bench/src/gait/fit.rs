//! Logistic regression by Newton's method, weighted so that no source dominates.

use std::collections::BTreeMap;

use libm::{exp, sqrt};

use super::rows::{HANDLED_LN_SPREAD, IMU, Label, MOTION, Row, Rows};

/// The ridge penalty on each weight of a standardised feature, in rows. Chosen from 5, 10, 20, 50
/// and 200 by the log loss on held-out sources.
const RIDGE: f64 = 10.0;
/// The number of Newton steps; the method converges within eight.
const STEPS: usize = 12;
/// The fraction of training rows beyond each end of a feature's range.
const BEYOND: f64 = 0.005;
/// The percentage of reported cadences to drop, and of clearly moving seconds without a cadence to
/// give a false one. Real recognisers make errors, and the rows come from our own recogniser.
const DIRTY: u64 = 10;

/// A logistic model over a set of features.
#[derive(Debug, Clone, PartialEq)]
pub struct Model {
    /// The log-odds when every feature is 0.
    pub bias: f64,
    /// The log-odds per unit of each feature.
    pub weights: Vec<f64>,
    /// The range of each feature; values outside are clamped to the nearer end.
    pub ranges: Vec<(f64, f64)>,
}

impl Model {
    /// Returns the log-odds of a gait.
    #[must_use]
    pub fn log_odds(&self, features: &[f64]) -> f64 {
        let terms = features.iter().zip(&self.weights).zip(&self.ranges);
        terms.fold(self.bias, |sum, ((feature, weight), (low, high))| {
            sum + weight * feature.max(*low).min(*high)
        })
    }
}

/// The models fitted on the same sources.
#[derive(Debug, Clone, PartialEq)]
pub struct Fold {
    /// The held-out source; `None` if all sources were used.
    pub left_out: Option<String>,
    /// The model for raw `imu`.
    pub imu: Model,
    /// The model for `motion` with a cadence.
    pub with_cadence: Model,
    /// The model for `motion` without a cadence.
    pub without_cadence: Model,
}

/// The factors on the spread of a gait in its damped copies. A hand or a bag damps the steps of the
/// same walk differently, and the recordings show few of these ways.
const DAMPED: [f64; 2] = [0.5, 0.25];
/// The least spread of a damped copy, m/s²: below it, a phone counts as calm.
const DAMPED_MPS2: f64 = 0.3;

/// Returns the features of one row for each model.
#[must_use]
pub(super) fn features(row: &Row) -> ([f64; IMU], [f64; MOTION], [f64; MOTION]) {
    (row.imu(), row.motion(dirty(row)), row.motion([0; 3]))
}

/// Returns the row's cadences with simulated recogniser errors. The result is deterministic for
/// each row.
fn dirty(row: &Row) -> [i32; 3] {
    let mut place = 0;
    row.cadence.map(|hz| {
        place += 1;
        // The error is drawn per second of the recording, so every row that contains the second has
        // the same error.
        let key = u64::from(row.recording) << 32 | u64::from(row.second + place);
        let drawn = key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
        let is_dirty = drawn % 100 < DIRTY;
        match (is_dirty, hz > 0) {
            (true, true) => 0,
            // The recogniser mistakes the motion of a handled phone for steps of 1.2 to 2.4 Hz.
            (true, false) if row.imu[0] > HANDLED_LN_SPREAD => 1_200 + (drawn / 100 % 1_200) as i32,
            _ => hz,
        }
    })
}

/// Fits the models on all sources, then once without each source.
#[must_use]
pub fn folds(rows: &Rows) -> Vec<Fold> {
    let mut folds = vec![fit_all(rows, None)];
    for source in rows.source_names() {
        folds.push(fit_all(rows, Some(source)));
    }
    folds
}

/// Fits the three models, without the `left_out` source if one is given. Only the model of `imu`,
/// which measures the period of the steps, learns from damped copies: without a period, a damped
/// gait is a handled phone.
#[must_use]
pub fn fit_all(rows: &Rows, left_out: Option<&str>) -> Fold {
    let labelled = rows
        .rows
        .iter()
        .filter(|row| row.label != Label::Unknown && Some(rows.source(row)) != left_out);
    let used: Vec<Row> = labelled.cloned().collect();
    let damped: Vec<Row> = used.iter().flat_map(and_damped).collect();
    let fit_on = |used: &[Row], of: &dyn Fn(&Row) -> Vec<f64>| {
        let matrix: Vec<Vec<f64>> = used.iter().map(of).collect();
        let is_gait: Vec<bool> = used.iter().map(|row| row.label == Label::Gait).collect();
        fit(&matrix, &is_gait, &row_weights(rows, used))
    };
    Fold {
        left_out: left_out.map(str::to_owned),
        imu: fit_on(&damped, &|row| features(row).0.to_vec()),
        with_cadence: fit_on(&used, &|row| features(row).1.to_vec()),
        without_cadence: fit_on(&used, &|row| features(row).2.to_vec()),
    }
}

/// Returns a second and, if it belongs to a gait, copies of it as felt by phones whose carrying
/// damps the steps.
fn and_damped(row: &Row) -> Vec<Row> {
    let copies = DAMPED.iter().map(|&share| row.damped(share));
    let damped =
        copies.filter(|copy| copy.label == Label::Gait && copy.spread_mps2() >= DAMPED_MPS2);
    std::iter::once(row.clone()).chain(damped).collect()
}

/// Returns the weight of each row. The rows of one source and label together weigh the square root
/// of their number, and both labels weigh the same, because long recordings are repetitive.
fn row_weights(rows: &Rows, used: &[Row]) -> Vec<f64> {
    let key = |row: &Row| (rows.source(row).to_owned(), row.label == Label::Gait);
    let mut counts: BTreeMap<(String, bool), f64> = BTreeMap::new();
    for row in used {
        *counts.entry(key(row)).or_default() += 1.0;
    }
    let mut sums = [0.0_f64; 2];
    for ((_, is_gait), count) in &counts {
        sums[usize::from(*is_gait)] += sqrt(*count);
    }
    let half = used.len() as f64 / 2.0;
    let weight = |row: &Row| {
        let key = key(row);
        let count = counts.get(&key).copied().unwrap_or(1.0);
        half / sums[usize::from(key.1)] / sqrt(count)
    };
    used.iter().map(weight).collect()
}

/// Fits one model to weighted rows.
fn fit(features: &[Vec<f64>], is_gait: &[bool], weights: &[f64]) -> Model {
    let count = features.first().map_or(0, Vec::len);
    let ranges: Vec<(f64, f64)> = (0..count).map(|k| range(features, k)).collect();
    let clipped: Vec<Vec<f64>> = features
        .iter()
        .map(|row| {
            let pairs = row.iter().zip(&ranges);
            pairs
                .map(|(value, (low, high))| value.max(*low).min(*high))
                .collect()
        })
        .collect();
    let total: f64 = weights.iter().sum();
    let mean = |k: usize| {
        clipped
            .iter()
            .zip(weights)
            .map(|(row, w)| w * row[k])
            .sum::<f64>()
            / total
    };
    let means: Vec<f64> = (0..count).map(mean).collect();
    let spread = |k: usize| {
        let squares = clipped.iter().zip(weights).map(|(row, w)| {
            let off = row[k] - means[k];
            w * off * off
        });
        sqrt(squares.sum::<f64>() / total)
    };
    let spreads: Vec<f64> = (0..count).map(spread).collect();
    // A constant feature carries no information.
    let scale = |k: usize| {
        if spreads[k] > 1e-6 {
            1.0 / spreads[k]
        } else {
            0.0
        }
    };
    let standard: Vec<Vec<f64>> = clipped
        .iter()
        .map(|row| {
            let mut values: Vec<f64> = (0..count).map(|k| (row[k] - means[k]) * scale(k)).collect();
            values.push(1.0);
            values
        })
        .collect();
    let beta = newton(&standard, is_gait, weights);
    let weights: Vec<f64> = (0..count).map(|k| beta[k] * scale(k)).collect();
    let shift: f64 = weights
        .iter()
        .zip(&means)
        .map(|(weight, mean)| weight * mean)
        .sum();
    Model {
        bias: beta[count] - shift,
        weights,
        ranges,
    }
}

fn range(features: &[Vec<f64>], k: usize) -> (f64, f64) {
    let mut values: Vec<f64> = features.iter().map(|row| row[k]).collect();
    values.sort_by(f64::total_cmp);
    let last = values.len().saturating_sub(1);
    let at = |share: f64| {
        values
            .get((share * last as f64) as usize)
            .copied()
            .unwrap_or(0.0)
    };
    (at(BEYOND), at(1.0 - BEYOND))
}

/// Returns the weights of the standardised features; the intercept is last.
fn newton(rows: &[Vec<f64>], is_gait: &[bool], weights: &[f64]) -> Vec<f64> {
    let count = rows.first().map_or(0, Vec::len);
    let mut beta = vec![0.0; count];
    for _ in 0..STEPS {
        let mut gradient = vec![0.0; count];
        let mut hessian = vec![vec![0.0; count]; count];
        for ((row, gait), weight) in rows.iter().zip(is_gait).zip(weights) {
            let sum: f64 = row
                .iter()
                .zip(&beta)
                .map(|(value, beta)| value * beta)
                .sum();
            let share = 1.0 / (1.0 + exp(-sum));
            let off = weight * (f64::from(u8::from(*gait)) - share);
            let bend = weight * (share * (1.0 - share)).max(1e-9);
            for (k, value) in row.iter().enumerate() {
                gradient[k] += off * value;
                for (sum, other) in hessian[k].iter_mut().zip(row).take(k + 1) {
                    *sum += bend * value * other;
                }
            }
        }
        for k in 0..count {
            // The intercept is not penalised.
            if k + 1 < count {
                gradient[k] -= RIDGE * beta[k];
                hessian[k][k] += RIDGE;
            }
            // The Hessian is symmetric; copy the lower half to the upper.
            let (upper, lower) = hessian.split_at_mut(k + 1);
            for (row, value) in lower.iter().zip(upper[k].iter_mut().skip(k + 1)) {
                *value = row[k];
            }
        }
        let step = solve(hessian, gradient);
        for (beta, step) in beta.iter_mut().zip(step) {
            *beta += step;
        }
    }
    beta
}

/// Solves a symmetric positive definite system by elimination.
fn solve(mut matrix: Vec<Vec<f64>>, mut right: Vec<f64>) -> Vec<f64> {
    let count = right.len();
    for k in 0..count {
        let pivot = matrix[k][k].max(1e-12);
        for row in k + 1..count {
            let factor = matrix[row][k] / pivot;
            let (upper, lower) = matrix.split_at_mut(row);
            for (value, above) in lower[0].iter_mut().zip(&upper[k]).skip(k) {
                *value -= factor * above;
            }
            right[row] -= factor * right[k];
        }
    }
    for k in (0..count).rev() {
        let known: f64 = (k + 1..count)
            .map(|other| matrix[k][other] * right[other])
            .sum();
        right[k] = (right[k] - known) / matrix[k][k].max(1e-12);
    }
    right
}
