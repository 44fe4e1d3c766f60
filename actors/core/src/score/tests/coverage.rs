//! Tests that loss, and only loss, lowers visibility.

use porchlight_schema::event::{Confidence, Event, EventType, Metadata};
use porchlight_schema::limits::SESSION_EVENTS_MIXED_MAX;
use porchlight_schema::sample::SystemName;
use proptest::prelude::*;

use super::script::{FULL, Kit, Script};
use super::{about, assert_sound};
use crate::score::MarkName;

fn indoors(kit: Kit) -> Script {
    let script = Script::new(40)
        .with(kit)
        .floor(4)
        .drive_to(-30.0, -25.0)
        .stay(10);
    let script = script
        .walk_to(0.0, -1.0)
        .go_in()
        .walk_to(2.0, 9.0)
        .climb(12.8, true)
        .walk_to(30.0, 9.0);
    let script = script
        .stay(120)
        .mark(MarkName::HandedOver)
        .walk_to(2.0, 9.0)
        .climb(-12.8, true);
    script
        .walk_to(0.0, -1.0)
        .come_out()
        .walk_to(-30.0, -25.0)
        .stay(20)
}

fn visibility(script: &Script) -> f64 {
    let score = script.score();
    assert_sound("visibility", &score);
    score.summary.visibility_score
}

#[test]
fn lost_reception_inside_a_building_is_not_a_loss() {
    let seen = visibility(&indoors(FULL));
    assert!(seen > 0.95, "{seen}");
    let switched_off = {
        let mut script = indoors(FULL);
        let inside_ms = script.marks[0].0 - 100_000;
        script.system.push((inside_ms, SystemName::LocationOff));
        visibility(&script)
    };
    assert!(switched_off < seen - 0.05, "{switched_off}");
}

#[test]
fn missing_sensors_are_not_a_loss() {
    let mut script = indoors(Kit {
        pressure: false,
        ..FULL
    });
    let undeclared = visibility(&script);
    script.sensors = ["location", "steps", "motion"].map(str::to_owned).to_vec();
    let lacking = visibility(&script);
    script.sensors.push("pressure".to_owned());
    let lost = visibility(&script);
    assert!(
        lacking > 0.95 && undeclared < lacking && lost < undeclared,
        "{lacking} {undeclared} {lost}"
    );
}

#[test]
fn missing_batches_are_reported() {
    let mut script = indoors(FULL);
    let seen = visibility(&script);
    (script.quarantined_batches, script.missing_batches) = (2, 1);
    let score = script.score();
    assert!(score.summary.visibility_score < seen);
    for signal in ["quarantined_batches", "missing_batches"] {
        assert!(
            about(&score, "visibilityScore").any(|entry| entry.signal == signal),
            "{signal}"
        );
    }
}

/// The phone stayed in a street canyon for days, and its reception changed all the time.
#[test]
fn a_full_list_of_events_is_reported() {
    let mut script = indoors(FULL);
    let is_reported = |script: &Script| {
        let score = script.score();
        about(&score, "visibilityScore").any(|entry| entry.signal == "many_events")
    };
    assert!(!is_reported(&script));
    let restored = Event {
        event_type: EventType::GpsRestored,
        t_start_ms: 1_000,
        t_end_ms: None,
        confidence: Confidence::from_probability(0.9),
        metadata: Metadata::None,
    };
    script.events.resize(SESSION_EVENTS_MIXED_MAX, restored);
    assert!(is_reported(&script));
}

#[test]
fn poor_data_does_not_make_a_session_suspicious() {
    let mut script = Script::new(41)
        .drive_to(-900.0, 0.0)
        .stay(10)
        .walk_to(-880.0, 5.0)
        .stay(30);
    script = script
        .mark(MarkName::HandedOver)
        .walk_to(-900.0, 0.0)
        .stay(30);
    let whole = script.score().summary;
    script.windows.retain(|window| window.t_ms % 20_000 < 2_000);
    let poor = script.score().summary;
    assert!(poor.visibility_score < whole.visibility_score);
    assert!(
        poor.fraud_score < whole.fraud_score,
        "{} {}",
        poor.fraud_score,
        whole.fraud_score
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// More lost seconds mean lower visibility. The mark fixes the time with the most weight.
    #[test]
    fn visibility_falls_with_loss(keep_a in 0.0_f64..1.0, keep_b in 0.0_f64..1.0, seed in 0_u64..1_000) {
        let (fewer, more) = if keep_a < keep_b { (keep_a, keep_b) } else { (keep_b, keep_a) };
        let kept = |share: f64| {
            let mut script = indoors(FULL);
            script.sensors = ["location", "steps", "motion", "pressure"].map(str::to_owned).to_vec();
            // Both shares lose windows in the same order: the greater share keeps every window that
            // the smaller one keeps.
            script.windows.retain(|window| {
                let mixed = (u64::from(window.t_ms / 5_000) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15 ^ seed);
                (((mixed ^ (mixed >> 29)) >> 20) % 1_000) as f64 / 1_000.0 < share
            });
            script.score().summary.visibility_score
        };
        prop_assert!(kept(fewer) <= kept(more) + 0.08);
    }
}
