//! The shipped weights can be reproduced from the feature file without the recordings.

#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::io::Read as _;
use std::path::Path;

use flate2::read::MultiGzDecoder;
use porchlight_bench::gait::{Rows, evidence, folds, judge, render};

fn rows() -> Rows {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/gait-seconds.txt.gz");
    let mut text = String::new();
    let packed = std::fs::File::open(file).unwrap();
    MultiGzDecoder::new(packed)
        .read_to_string(&mut text)
        .unwrap();
    Rows::read(&text).unwrap()
}

/// Removes the characters that formatting may change.
fn letters(text: &str) -> String {
    let kept = |letter: &char| !letter.is_whitespace() && *letter != ',';
    text.chars().filter(kept).collect()
}

#[test]
fn the_weights_follow_from_the_features() {
    let rows = rows();
    let folds = folds(&rows);
    let (imu, motion) = evidence(&rows, &folds);
    let committed =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../actors/core/src/gait/weights.rs");
    assert_eq!(
        letters(&render(&folds, imu, motion)),
        letters(&std::fs::read_to_string(committed).unwrap()),
        "the weights are not those of the features: run train-gait"
    );
    // On sources that the model never saw, calm phones are at rest and walks are detected. In
    // `lift` the phone is handled right next to walks of 3 to 6 s.
    let judged = judge(&rows, &folds, true);
    for (source, gait_least, handled_most) in [("har", 0.98, 0.1), ("lift", 0.8, 0.35)] {
        let one = judged[&("imu", source.to_owned())];
        let share = |(all, called): (u32, u32)| f64::from(called) / f64::from(all);
        assert!(share(one.gait) >= gait_least, "{source}: {one:?}");
        assert!(share(one.handled) <= handled_most, "{source}: {one:?}");
        assert!(share(one.calm) <= 0.02, "{source}: {one:?}");
    }
}
