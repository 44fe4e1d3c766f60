//! The shipped confidence tables can be reproduced from the file of events without the recordings.

use std::path::Path;

use porchlight_bench::confidence::{KNOTS_MAX, Rows, SETS, STRIDE, folds, render};
use porchlight_core::confidence::SensorSet;

/// Removes the characters that formatting may change.
fn letters(text: &str) -> String {
    let kept = |letter: &char| !letter.is_whitespace() && *letter != ',';
    text.chars().filter(kept).collect()
}

#[test]
fn the_tables_follow_from_the_events() {
    assert_eq!(SETS, SensorSet::ALL.len());
    assert_eq!(SensorSet::ALL.get(STRIDE), Some(&SensorSet::StairsStride));
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let events = std::fs::read_to_string(root.join("data/confidence-events.txt")).unwrap();
    let folds = folds(&Rows::read(&events).unwrap());
    for fold in &folds {
        assert!(fold.knots.iter().all(|knots| knots.len() <= KNOTS_MAX));
    }
    let committed = root.join("../actors/core/src/confidence/table.rs");
    assert_eq!(
        letters(&render(&folds)),
        letters(&std::fs::read_to_string(committed).unwrap()),
        "the tables are not those of the events: run train-confidence"
    );
}
