//! Names the statements of an insight that evidence is about, and finds times in the evidence.
//!
//! A name is stored and returned with each piece of evidence, so it never changes. Evidence may also be
//! about a reason code, by [`ReasonCode::as_str`].
//!
//! [`ReasonCode::as_str`]: super::ReasonCode::as_str

use super::{Evidence, Score};

/// Whether the drop-off was at the address's door.
pub const RIGHT_DOORSTEP: &str = "rightDoorstep";
/// The likelihood that the telemetry or the claim is false.
pub const FRAUD_SCORE: &str = "fraudScore";
/// Whether the session is marked for a check.
pub const SUSPICIOUS_BEHAVIOR: &str = "suspiciousBehavior";
/// The difficulty of the delivery.
pub const FRICTION_SCORE: &str = "frictionScore";
/// The completeness of the data.
pub const VISIBILITY_SCORE: &str = "visibilityScore";
/// The floors from the entrance up to the drop-off.
pub const FLOORS_CLIMBED: &str = "floorsClimbed";
/// Whether the courier used an elevator.
pub const ELEVATOR_USED: &str = "elevatorUsed";
/// The duration of the session.
pub const TOTAL_DURATION_SEC: &str = "totalDurationSec";
/// The visits to the address's door.
pub const ATTEMPT_CYCLES: &str = "attemptCycles";
/// The time from the entrance to the door.
pub const TIME_FROM_ENTRANCE_TO_DOOR_SEC: &str = "timeFromEntranceToDoorSec";
/// The time at the door.
pub const TIME_AT_DOOR_SEC: &str = "timeAtDoorSec";

/// The names of all fields of an insight that evidence may be about.
pub const FIELDS: [&str; 11] = [
    RIGHT_DOORSTEP,
    FRAUD_SCORE,
    SUSPICIOUS_BEHAVIOR,
    FRICTION_SCORE,
    VISIBILITY_SCORE,
    FLOORS_CLIMBED,
    ELEVATOR_USED,
    TOTAL_DURATION_SEC,
    ATTEMPT_CYCLES,
    TIME_FROM_ENTRANCE_TO_DOOR_SEC,
    TIME_AT_DOOR_SEC,
];

/// The signal of a drop-off at the address.
pub const AT_ADDRESS: &str = "at_address";
/// The signal of a drop-off that may have been at the address.
pub const NEAR_ADDRESS: &str = "near_address";
/// The signal of a drop-off beside the address.
pub const BESIDE_ADDRESS: &str = "beside_address";
/// The signal of a drop-off elsewhere.
pub const ELSEWHERE: &str = "elsewhere";
/// The signal of a drop-off at an unknown position.
pub const PLACE_UNKNOWN: &str = "place_unknown";

/// The signals of [`RIGHT_DOORSTEP`] of which one carries the time of the drop-off.
const DROP_OFF_SIGNALS: [&str; 5] = [
    AT_ADDRESS,
    NEAR_ADDRESS,
    BESIDE_ADDRESS,
    ELSEWHERE,
    PLACE_UNKNOWN,
];

impl Evidence {
    /// Returns the start and end of the observation in milliseconds since the session's start;
    /// `None` if it concerns the whole session.
    fn span_ms(&self) -> Option<(u32, u32)> {
        Some((milliseconds(self.t_start?), milliseconds(self.t_end?)))
    }
}

impl Score {
    /// Returns the time of the drop-off in milliseconds since the session's start. Other evidence
    /// about the door does not change it.
    #[must_use]
    pub fn drop_off_ms(&self) -> Option<(u32, u32)> {
        let is_drop_off = |one: &&Evidence| {
            one.about == RIGHT_DOORSTEP && DROP_OFF_SIGNALS.contains(&one.signal.as_str())
        };
        self.evidence.iter().find(is_drop_off)?.span_ms()
    }

    /// Returns the time of the stay at the door in milliseconds since the session's start.
    #[must_use]
    pub fn door_ms(&self) -> Option<(u32, u32)> {
        self.first_about(TIME_AT_DOOR_SEC)?.span_ms()
    }

    /// Returns the time at which the courier entered the building, in milliseconds since the
    /// session's start.
    #[must_use]
    pub fn entrance_ms(&self) -> Option<u32> {
        let entrance = self.first_about(TIME_FROM_ENTRANCE_TO_DOOR_SEC)?;
        entrance.span_ms().map(|(from_ms, _)| from_ms)
    }

    fn first_about(&self, statement: &str) -> Option<&Evidence> {
        self.evidence.iter().find(|one| one.about == statement)
    }
}

/// Returns a time of the evidence in whole milliseconds. Most of them are not exact in seconds, so
/// a cut value may lie before the stay that begins there.
fn milliseconds(seconds: f64) -> u32 {
    (seconds * 1_000.0).round() as u32
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::insight::{Metrics, Summary};

    fn evidence(about: &str, signal: &str, span: (f64, f64)) -> Evidence {
        Evidence {
            about: about.to_owned(),
            signal: signal.to_owned(),
            points: 1.0,
            t_start: Some(span.0),
            t_end: Some(span.1),
            text: "An observation.".to_owned(),
            explanation: "An explanation.".to_owned(),
        }
    }

    fn score(evidence: Vec<Evidence>) -> Score {
        let summary = json!({
            "rightDoorstep": true, "fraudScore": 0.0, "suspiciousBehavior": false,
            "frictionScore": 0.0, "visibilityScore": 1.0, "floorsClimbed": 1,
            "elevatorUsed": false, "totalDurationSec": 90.0, "attemptCycles": 1
        });
        Score {
            summary: serde_json::from_value(summary).unwrap(),
            reason_codes: Vec::new(),
            events: Vec::new(),
            metrics: Metrics::default(),
            evidence,
            weights: String::new(),
            has_path: false,
        }
    }

    #[test]
    fn other_evidence_about_the_door_does_not_move_the_drop_off() {
        let drop_off = evidence(RIGHT_DOORSTEP, AT_ADDRESS, (60.0011, 70.0));
        let alone = score(vec![drop_off.clone()]);
        assert_eq!(alone.drop_off_ms(), Some((60_001, 70_000)));
        let others = [
            evidence(RIGHT_DOORSTEP, "right_floor", (1.0, 2.0)),
            evidence(ATTEMPT_CYCLES, AT_ADDRESS, (3.0, 4.0)),
        ];
        let among = score(others.into_iter().chain([drop_off]).collect());
        assert_eq!(among.drop_off_ms(), alone.drop_off_ms());
        assert_eq!(score(Vec::new()).drop_off_ms(), None);
    }

    #[test]
    fn the_door_and_the_entrance_are_found_by_their_times() {
        let found = score(vec![
            evidence(TIME_AT_DOOR_SEC, "stay", (50.0, 80.0)),
            evidence(TIME_FROM_ENTRANCE_TO_DOOR_SEC, "entrance", (20.0, 50.0)),
        ]);
        assert_eq!(found.door_ms(), Some((50_000, 80_000)));
        assert_eq!(found.entrance_ms(), Some(20_000));
    }

    #[test]
    fn a_time_of_the_evidence_is_a_whole_millisecond() {
        for t_ms in 0..20_000 {
            assert_eq!(milliseconds(f64::from(t_ms) / 1_000.0), t_ms);
        }
    }

    #[test]
    fn the_statements_are_the_fields_of_an_insight() {
        fn keys(of: &Value) -> Vec<&str> {
            of.as_object().unwrap().keys().map(String::as_str).collect()
        }
        let summary: Summary = score(Vec::new()).summary;
        let summary = serde_json::to_value(summary).unwrap();
        let metrics = serde_json::to_value(Metrics::default()).unwrap();
        let mut fields = [keys(&summary), keys(&metrics)].concat();
        let mut named = FIELDS.to_vec();
        fields.sort_unstable();
        named.sort_unstable();
        assert_eq!(named, fields);
    }
}
