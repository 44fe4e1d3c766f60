//! Runs the detectors on real labelled recordings, prints the table, and checks the minimum
//! quality.

use std::path::Path;

use porchlight_evaluation::{Evaluation, text};
use porchlight_schema::event::EventType;
use porchlight_schema::sample::Kind;

use crate::load;

fn evaluate(folder: &Path, prefixes: &[&str], without: &[Kind]) -> Evaluation {
    let mut evaluation = Evaluation::default();
    for prefix in prefixes {
        for name in load::names(folder, prefix) {
            let recording = load::load(folder, &name);
            evaluation.add(&recording.labels, &load::run(&recording, without));
        }
    }
    evaluation
}

/// The minimum quality: families, left-out kinds, type, precision, recall.
type Floor = (
    &'static [&'static str],
    &'static [Kind],
    EventType,
    f64,
    f64,
);

/// The limits are slightly below the current results, so that a regression fails the test.
const FLOORS: &[Floor] = &[
    (
        &["lift_", "liftshake_"],
        &[],
        EventType::Elevator,
        0.95,
        0.95,
    ),
    (&["lift_"], &[], EventType::Walking, 0.95, 0.93),
    (&["lift_"], &[], EventType::Stopped, 0.95, 0.88),
    (
        &["lift_"],
        &[Kind::Pressure],
        EventType::Elevator,
        0.9,
        0.55,
    ),
    (&["nyc_"], &[], EventType::Elevator, 0.9, 0.9),
    (&["ipin23_"], &[], EventType::Stairs, 0.8, 0.75),
    (&["ipin23_"], &[], EventType::Stopped, 0.9, 0.9),
    (&["ipin23_"], &[], EventType::Walking, 0.9, 0.95),
    (&["har_"], &[], EventType::Stopped, 0.9, 0.9),
    (&["oxford_"], &[], EventType::Walking, 0.9, 0.9),
    (&["goal_"], &[], EventType::Driving, 0.75, 0.65),
];

#[test]
fn the_recordings_labels_are_found() {
    let Some(folder) = load::folder() else {
        println!(
            "left out: no recordings on this machine (PORCHLIGHT_RECORDINGS names their folder)"
        );
        return;
    };
    println!("{}", text(&evaluate(&folder, &[""], &[])));
    for &(prefixes, without, event_type, precision, recall) in FLOORS {
        let evaluation = evaluate(&folder, prefixes, without);
        let tally = &evaluation.by_type[&event_type];
        let reached = (tally.precision().unwrap(), tally.recall().unwrap());
        assert!(
            reached.0 >= precision && reached.1 >= recall,
            "{prefixes:?} without {without:?}: {event_type:?} {reached:?}"
        );
        let (right, all) = tally.directions;
        assert_eq!(
            right, all,
            "{prefixes:?}: every ride and climb goes the way of its label"
        );
    }
}

/// In the open no fix is worse than 30 m for long: any event found there would be false.
#[test]
fn good_gps_is_never_lost() {
    let Some(folder) = load::folder() else {
        println!(
            "left out: no recordings on this machine (PORCHLIGHT_RECORDINGS names their folder)"
        );
        return;
    };
    for name in load::names(&folder, "gsdc_") {
        let recording = load::load(&folder, &name);
        let detected = load::run(&recording, &[]);
        let gps = [
            EventType::GpsDegraded,
            EventType::GpsLost,
            EventType::GpsRestored,
        ];
        assert!(
            detected
                .iter()
                .all(|one| !gps.contains(&one.event.event_type)),
            "{name}"
        );
    }
    let tunnels = evaluate(&folder, &["vehicle_"], &[]);
    for event_type in [EventType::GpsLost, EventType::GpsRestored] {
        assert_eq!(
            tunnels.by_type[&event_type].recall(),
            Some(1.0),
            "{event_type:?}"
        );
    }
}
