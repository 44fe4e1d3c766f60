//! Tests that the grounds of a decision are named and weighed.

use std::collections::BTreeMap;

use porchlight_schema::insight::Evidence;

use super::acts::twice;
use crate::score::explanation::{PlainParameter, explain_plainly};

#[test]
fn evidence_is_complete_and_sorted_by_weight_per_statement() {
    let score = twice().score();
    let explanation = explain_plainly(&score);
    let weighed = score.evidence.iter().filter(|entry| entry.points != 0.0);
    assert_eq!(explanation.parameters.len(), weighed.count());
    let friction: Vec<&PlainParameter> = explanation
        .parameters
        .iter()
        .filter(|parameter| parameter.name.starts_with("frictionScore."))
        .collect();
    assert!(friction.len() > 1);
    assert!(friction.is_sorted_by(|a, b| a.weight.abs() >= b.weight.abs()));
}

/// Two parameters with the same name have their own sentences.
#[test]
fn each_visit_to_the_door_is_explained() {
    let explanation = explain_plainly(&twice().score());
    let visits = explanation.parameters.iter();
    let visits = visits.filter(|parameter| parameter.name == "attemptCycles.door_visit");
    let texts: Vec<&str> = visits.map(|parameter| parameter.text.as_str()).collect();
    assert_eq!(texts.len(), 2, "{texts:?}");
    assert!(
        texts.iter().any(|text| text.starts_with("Visit 1 ")),
        "{texts:?}"
    );
    assert!(
        texts.iter().any(|text| text.starts_with("Visit 2 ")),
        "{texts:?}"
    );
}

#[test]
fn a_plain_explanation_weighs_each_statement_and_names_no_other_session() {
    let mut score = twice().score();
    score.evidence.push(Evidence {
        about: "fraudScore".to_owned(),
        signal: "replayed_trace".to_owned(),
        points: 6.0,
        t_start: None,
        t_end: None,
        text: "90 % of the measurements are identical to session ses_01.".to_owned(),
        explanation: String::new(),
    });
    let explanation = explain_plainly(&score);
    assert!(!explanation.parameters.is_empty());
    let mut sums: BTreeMap<&str, f64> = BTreeMap::new();
    for parameter in &explanation.parameters {
        assert!(parameter.weight != 0.0 && parameter.weight.abs() <= 1.0);
        assert!(!parameter.text.is_empty() && !parameter.text.contains("ses_"));
        let (statement, _) = parameter.name.split_once('.').unwrap();
        *sums.entry(statement).or_default() += parameter.weight.abs();
    }
    for (statement, sum) in sums {
        assert!((sum - 1.0).abs() < 0.01, "{statement}: {sum}");
    }
    assert!(explanation.decision.ends_with('.') && !explanation.decision.contains('_'));
}
