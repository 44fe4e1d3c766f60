//! Renders the fitted models as the shipped source file.

use std::fmt::Write as _;

use super::fit::{Fold, Model};

/// The parameters fitted in addition to the models: how their log-odds enter the decoder.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fitted {
    /// The factor on the log-odds.
    pub scale: f64,
    /// The maximum evidence of a second for rest.
    pub rest: f64,
    /// The maximum evidence of a second for a gait.
    pub gait: f64,
    /// The value added to the log-odds.
    pub shift: f64,
}

/// Renders the text of `actors/core/src/gait/weights.rs`.
#[must_use]
pub fn render(folds: &[Fold], imu: Fitted, motion: Fitted) -> String {
    let mut body = String::new();
    let (shipped, left_out): (Vec<_>, Vec<_>) =
        folds.iter().partition(|fold| fold.left_out.is_none());
    for fold in shipped {
        let _ = write!(
            body,
            "\npub(super) const SHIPPED: GaitModels = {};\n",
            models(fold)
        );
    }
    let _ = write!(
        body,
        "\n/// Fitted without the source of the name.\npub(super) const LEFT_OUT: &[(&str, GaitModels)] = &[\n"
    );
    for fold in left_out {
        let name = fold.left_out.as_deref().unwrap_or_default();
        let _ = writeln!(body, "(\"{name}\", {}),", models(fold));
    }
    body.push_str("];\n");
    for (name, fitted) in [("IMU_EVIDENCE", imu), ("MOTION_EVIDENCE", motion)] {
        let _ = write!(
            body,
            "\nconst {name}: Evidence = Evidence {{ scale: {:?}, rest: {:?}, gait: {:?}, shift: {:?} }};\n",
            fitted.scale as f32, fitted.rest as f32, fitted.gait as f32, fitted.shift as f32,
        );
    }
    let hash = fnv1a(body.as_bytes());
    format!(
        "//! Weights of the gait models: written by `train-gait` of `porchlight-bench`, not by hand.\n\n\
         use super::model::{{Evidence, GaitModels, Logistic}};\n\n\
         /// Version of the weights: a hash of all that follows. It is part of the version of the scoring parameters.\n\
         pub const VERSION: &str = \"gait-{:08x}\";\n{body}",
        (hash >> 32) as u32 ^ hash as u32
    )
}

/// Computes the FNV-1a hash (Fowler, Noll and Vo), which is sufficient to distinguish versions.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

fn models(fold: &Fold) -> String {
    format!(
        "GaitModels {{ imu: {}, with_cadence: {}, without_cadence: {}, imu_evidence: IMU_EVIDENCE, motion_evidence: MOTION_EVIDENCE }}",
        logistic(&fold.imu),
        logistic(&fold.with_cadence),
        logistic(&fold.without_cadence),
    )
}

/// Renders a model with four decimal places, far finer than the uncertainty of the weights.
fn logistic(model: &Model) -> String {
    let number = |value: f64| format!("{:?}", (value * 10_000.0).round() as f32 / 10_000.0);
    let weights: Vec<String> = model.weights.iter().map(|&weight| number(weight)).collect();
    let ranges: Vec<String> = model
        .ranges
        .iter()
        .map(|&(low, high)| format!("({}, {})", number(low), number(high)))
        .collect();
    format!(
        "Logistic {{ bias: {}, weights: [{}], ranges: [{}] }}",
        number(model.bias),
        weights.join(", "),
        ranges.join(", ")
    )
}
