//! Scores recordings of real phones, all of which are genuine.

use crate::load::{folder, load, names};

/// The families with positions or pressure; families that only recorded a gait contain no delivery.
const FAMILIES: [&str; 5] = ["nyc_", "ipin23_", "lift_", "goal_", "vehicle_"];

#[test]
fn honest_phones_are_not_accused_and_floors_are_counted() {
    let Some(folder) = folder() else {
        return;
    };
    let (mut known, mut exact, mut near) = (0_u32, 0_u32, 0_u32);
    for name in FAMILIES.iter().flat_map(|family| names(&folder, family)) {
        let recording = load(&folder, &name);
        let score = recording.score(&recording.replayed()).score;
        let summary = &score.summary;
        assert!(
            summary.fraud_score < 0.1 && !summary.suspicious_behavior,
            "{name}: {} {:#?}",
            summary.fraud_score,
            score.evidence
        );
        let Some(wanted) = recording.labels.facts.floors_change else {
            continue;
        };
        known += 1;
        let off = summary
            .floors_climbed
            .map(|floors| (f64::from(floors) - wanted).abs());
        exact += u32::from(off.is_some_and(|off| off < 0.5));
        near += u32::from(off.is_some_and(|off| off < 1.5));
    }
    // The scorer does not know the storey heights, and the prior over storeys was not fitted to
    // these buildings: 52 of 70 were exact, 69 within one, when this was written.
    assert!(
        exact * 10 >= known * 7,
        "{exact} of {known} floors are exact"
    );
    assert!(
        near * 100 >= known * 95,
        "{near} of {known} floors are within one"
    );
}
