//! Measures the accuracy of the insight's fields against the truth: reported and correct, reported
//! and wrong, or not reported.

use std::collections::BTreeMap;

use porchlight_schema::insight::ReasonCode;
use serde::{Deserialize, Serialize};

use porchlight_core::score::Scored;

/// The truth about a whole session; each field is `None` if the source does not know it.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Facts {
    /// The time at which the courier passed the entrance, seconds.
    pub entrance_at_sec: Option<f64>,
    /// The start of the stay at the door, seconds.
    pub door_from_sec: Option<f64>,
    /// The end of the stay at the door, seconds.
    pub door_to_sec: Option<f64>,
    /// Whether the drop-off was at the address's door.
    pub right_doorstep: Option<bool>,
    /// The number of floors from the entrance to the drop-off, or to the end.
    pub floors_change: Option<f64>,
    /// Whether the courier rode an elevator.
    pub elevator_used: Option<bool>,
    /// The number of visits to the door.
    pub attempt_cycles: Option<u32>,
    /// The reason code of the outcome.
    pub outcome: Option<ReasonCode>,
    /// The other reason codes. `None` if unknown.
    pub added: Option<Vec<ReasonCode>>,
    /// Whether the telemetry or the claim is false.
    pub fraudulent: Option<bool>,
    /// Whether the phone was carried on foot.
    pub phone_carried: Option<bool>,
}

/// The counts of a nullable field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Field {
    /// The number of sessions with a reported value and a known truth.
    pub reported: u32,
    /// The number of sessions with a correct value.
    pub right: u32,
    /// The number of sessions with a null value and a known truth.
    pub unreported: u32,
}

impl Field {
    fn add<T: PartialEq>(&mut self, reported: Option<T>, truth: Option<T>) {
        match (reported, truth) {
            (_, None) => {}
            (None, Some(_)) => self.unreported += 1,
            (Some(reported), Some(truth)) => {
                self.reported += 1;
                self.right += u32::from(reported == truth);
            }
        }
    }
}

/// The counts of a boolean claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Claim {
    /// The number of true claims.
    pub right: u32,
    /// The number of false claims.
    pub wrong: u32,
    /// The number of sessions in which the statement was true but not claimed.
    pub missed: u32,
}

impl Claim {
    fn add(&mut self, reported: bool, truth: bool) {
        match (reported, truth) {
            (true, true) => self.right += 1,
            (true, false) => self.wrong += 1,
            (false, true) => self.missed += 1,
            (false, false) => {}
        }
    }
}

/// The counts of floor numbers against the truth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Floors {
    /// The number of sessions with a reported value and a known truth.
    pub reported: u32,
    /// The number of exact values.
    pub exact: u32,
    /// The number of values that are off by at most one floor.
    pub within_one: u32,
    /// The number of sessions with a null value and a known truth.
    pub unreported: u32,
}

/// The counts and errors of a time against the truth.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Time {
    /// The errors of the found times, seconds.
    pub errors_sec: Vec<f64>,
    /// The number of times that exist but were not found.
    pub missed: u32,
    /// The number of times that were found but do not exist.
    pub invented: u32,
}

/// The counts over sessions.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Fields {
    /// The number of sessions.
    pub sessions: u32,
    /// The outcome, or `INSUFFICIENT_DATA`.
    pub outcome: Field,
    /// The counts of each reason code with known truth.
    pub codes: BTreeMap<ReasonCode, Claim>,
    /// The counts of `rightDoorstep`.
    pub right_doorstep: Claim,
    /// The counts of `floorsClimbed` if the address gives the storey height.
    pub floors_known: Floors,
    /// The counts of `floorsClimbed` if the address does not give the storey height.
    pub floors_unknown: Floors,
    /// The counts of `elevatorUsed`.
    pub elevator_used: Field,
    /// The counts of `attemptCycles`.
    pub attempt_cycles: Field,
    /// The time at which the courier passed the entrance.
    pub entrance: Time,
    /// The length of the stay at the door.
    pub door: Time,
    /// The counts of `suspiciousBehavior`, where the truth is known.
    pub suspicious: Claim,
    /// The `fraudScore` of each genuine session.
    pub fraud_honest: Vec<f64>,
    /// The `fraudScore` of each fraudulent session.
    pub fraud_untrue: Vec<f64>,
}

impl Fields {
    /// Adds one session. `storey_known` says whether the address gives the storey height.
    pub fn add(&mut self, facts: &Facts, scored: &Scored, storey_known: bool) {
        let summary = &scored.score.summary;
        self.sessions += 1;
        self.add_codes(facts, &scored.score.reason_codes);
        if let Some(truth) = facts.right_doorstep {
            self.right_doorstep.add(summary.right_doorstep, truth);
        }
        if let Some(truth) = facts.floors_change {
            let floors = if storey_known {
                &mut self.floors_known
            } else {
                &mut self.floors_unknown
            };
            match summary.floors_climbed {
                None => floors.unreported += 1,
                Some(reported) => {
                    let off = (f64::from(reported) - truth).abs();
                    floors.reported += 1;
                    floors.exact += u32::from(off < 0.5);
                    floors.within_one += u32::from(off < 1.5);
                }
            }
        }
        // A phone that was left behind cannot measure these fields.
        let carried = facts.phone_carried != Some(false);
        let elevator_used = facts.elevator_used.filter(|_| carried);
        self.elevator_used.add(summary.elevator_used, elevator_used);
        self.attempt_cycles
            .add(Some(summary.attempt_cycles), facts.attempt_cycles);
        self.add_times(facts, scored);
        match facts.fraudulent {
            Some(true) => self.fraud_untrue.push(summary.fraud_score),
            Some(false) => self.fraud_honest.push(summary.fraud_score),
            None => {}
        }
        if let Some(truth) = facts.fraudulent {
            self.suspicious.add(summary.suspicious_behavior, truth);
        }
    }

    fn add_codes(&mut self, facts: &Facts, reported: &[ReasonCode]) {
        let is_outcome = |code: &ReasonCode| *code <= ReasonCode::InsufficientData;
        let outcome = reported.iter().copied().find(is_outcome);
        self.outcome.add(outcome, facts.outcome);
        for code in ReasonCode::ALL {
            let truth = if is_outcome(&code) {
                facts.outcome.map(|outcome| outcome == code)
            } else {
                facts.added.as_ref().map(|added| added.contains(&code))
            };
            if let Some(truth) = truth {
                let claim = self.codes.entry(code).or_default();
                claim.add(reported.contains(&code), truth);
            }
        }
    }

    fn add_times(&mut self, facts: &Facts, scored: &Scored) {
        let sec = |t_ms: u32| f64::from(t_ms) / 1000.0;
        // Fraudulent or hardly observed sessions have no times. If the source knows no times at the
        // door, it may only know the entrance.
        let is_real = facts.fraudulent != Some(true)
            && facts.outcome != Some(ReasonCode::InsufficientData)
            && (facts.outcome.is_some() || facts.right_doorstep.is_none());
        if !is_real {
            return;
        }
        let knows_all = facts.right_doorstep.is_some();
        match (facts.entrance_at_sec, scored.entrance_ms.map(sec)) {
            (Some(truth), Some(reported)) => {
                self.entrance.errors_sec.push((reported - truth).abs())
            }
            (Some(_), None) => self.entrance.missed += 1,
            (None, Some(_)) if knows_all => self.entrance.invented += 1,
            (None, _) => {}
        }
        let stay = facts.door_from_sec.zip(facts.door_to_sec);
        match (stay, scored.at_door_ms.map(sec)) {
            (Some((from, to)), Some(reported)) => {
                self.door.errors_sec.push((reported - (to - from)).abs())
            }
            (Some(_), None) => self.door.missed += 1,
            (None, Some(_)) if knows_all => self.door.invented += 1,
            (None, _) => {}
        }
    }

    /// Returns the share of fraudulent sessions that score above all but one in a thousand of the
    /// genuine sessions, or `None` if either set is empty.
    #[must_use]
    pub fn fraud_recall(&self) -> Option<f64> {
        let bar = crate::quantile::quantile(&self.fraud_honest, 0.999)?;
        let above = self.fraud_untrue.iter().filter(|&&score| score > bar);
        let count = self.fraud_untrue.len();
        (count > 0).then(|| above.count() as f64 / count as f64)
    }
}
