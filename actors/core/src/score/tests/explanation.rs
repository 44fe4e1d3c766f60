//! Tests that the grounds of a decision are named and weighed.

use super::acts::twice;
use crate::score::explanation::{Parameter, explain};

#[test]
fn evidence_is_complete_and_sorted_by_weight_per_statement() {
    let score = twice().score();
    let explanation = explain(&score);
    assert_eq!(explanation.decision, score.reason_codes);
    assert_eq!(explanation.version, score.weights);
    assert_eq!(explanation.parameters.len(), score.evidence.len());
    let friction: Vec<&Parameter> = explanation
        .parameters
        .iter()
        .filter(|parameter| parameter.name.starts_with("frictionScore."))
        .collect();
    assert!(friction.len() > 1);
    assert!(friction.is_sorted_by(|a, b| a.weight.abs() >= b.weight.abs()));
    let sum: f64 = friction.iter().map(|parameter| parameter.weight).sum();
    assert!((sum - score.summary.friction_score).abs() < 1e-9);
}
