//! The restrictions on a subject during and after a privacy request.

use std::collections::BTreeMap;

use porchlight_schema::privacy::Subject;
use porchlight_schema::session::SessionStart;
use porchlight_schema::time::TimestampMs;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The request of an entry that an earlier version recorded without its request.
const UNKNOWN_REQUEST: u64 = 0;

/// An erasure that is running.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunningErasure {
    /// The request that erases; see [`PrivacyRequest::number`](super::PrivacyRequest::number).
    pub request: u64,
    /// The time up to which it erases the subject's sessions, by time of creation.
    pub until: TimestampMs,
}

/// The restrictions on a subject.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Mark {
    /// Whether the subject's sessions are frozen.
    #[serde(default)]
    pub restricted: bool,
    /// Whether the subject is prevented from starting sessions.
    #[serde(default)]
    pub suppressed: bool,
    /// The latest time up to which a running erasure removes the subject's sessions, by time of
    /// creation. [`Self::begin_erasure`] and [`Self::end_erasure`] keep it.
    #[serde(default)]
    pub erased_until: Option<TimestampMs>,
    /// The running erasures of the subject. Each removes only its own entry, so that the end of one
    /// does not lift the mark of another.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub erasures: Vec<RunningErasure>,
    /// Whether a legal hold protects the session from retention and erasure. Only the mark of a
    /// single session can be held.
    #[serde(default)]
    pub held: bool,
    /// The fields that a later release has added. They are kept, and one that has an effect there
    /// protects the subject's sessions here.
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}

/// Returns whether a field of a later release has no effect: it has the value of an absent one.
fn is_default(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(is_set) => !is_set,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(values) => values.is_empty(),
        Value::Object(fields) => fields.is_empty(),
    }
}

/// The access that callers have to a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SessionAccess {
    /// The session is fully accessible.
    Open,
    /// The session is inaccessible until its restriction is lifted.
    Restricted,
    /// The session is inaccessible because it is being erased.
    Erased,
}

impl Mark {
    /// Returns the mark that a subject has while its stored mark is damaged: nothing of the
    /// subject is shown, changed, sent or deleted.
    #[must_use]
    pub fn of_damaged() -> Self {
        Self {
            restricted: true,
            suppressed: true,
            held: true,
            ..Self::default()
        }
    }

    /// Returns whether the mark has no effect and can be removed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let known = Self {
            other: BTreeMap::new(),
            ..self.clone()
        };
        known == Self::default() && !self.has_unknown_effect()
    }

    /// Returns whether a later release protects the subject in a way that this one does not know.
    fn has_unknown_effect(&self) -> bool {
        !self.other.values().all(is_default)
    }

    /// Returns whether the mark of a session protects it from retention and erasure.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.held || self.has_unknown_effect()
    }

    /// Records that a request erases the subject's sessions up to `until`. May be repeated.
    pub fn begin_erasure(&mut self, request: u64, until: TimestampMs) {
        if let (Some(until), true) = (self.erased_until, self.erasures.is_empty()) {
            let request = UNKNOWN_REQUEST;
            self.erasures.push(RunningErasure { request, until });
        }
        self.erasures.retain(|running| running.request != request);
        self.erasures.push(RunningErasure { request, until });
        self.cover_running();
    }

    /// Records that a request has ended or abandoned its erasure. The erasures of other requests
    /// keep their effect. May be repeated.
    pub fn end_erasure(&mut self, request: u64, until: TimestampMs) {
        if self.erasures.is_empty() && self.erased_until != Some(until) {
            // An earlier version recorded another erasure.
            return;
        }
        self.erasures.retain(|running| {
            let is_own = running.request == request
                || (running.request == UNKNOWN_REQUEST && running.until == until);
            !is_own
        });
        self.cover_running();
    }

    fn cover_running(&mut self) {
        self.erased_until = self.erasures.iter().map(|running| running.until).max();
    }

    /// Returns the access that callers have to a session that this mark covers.
    #[must_use]
    pub fn access(&self, created_at: TimestampMs) -> SessionAccess {
        if self.erased_until.is_some_and(|until| created_at <= until) {
            SessionAccess::Erased
        } else if self.restricted || self.has_unknown_effect() {
            SessionAccess::Restricted
        } else {
            SessionAccess::Open
        }
    }

    /// Returns whether retention must keep a session that this mark covers.
    #[must_use]
    pub fn keeps(&self) -> bool {
        self.restricted || self.is_held()
    }

    /// Returns the subjects whose marks cover a session.
    #[must_use]
    pub fn subjects_of(start: &SessionStart) -> [Subject; 3] {
        [
            Subject::ExternalRiderId(start.external_rider_id.clone()),
            Subject::DeliveryId(start.delivery_id.clone()),
            Subject::SessionId(start.session_id),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EARLY: TimestampMs = TimestampMs(1_000);
    const BETWEEN: TimestampMs = TimestampMs(2_000);
    const LATE: TimestampMs = TimestampMs(3_000);

    #[test]
    fn an_erasure_does_not_lift_the_mark_of_a_later_one() {
        let mut mark = Mark::default();
        mark.begin_erasure(1, EARLY);
        assert_eq!(mark.access(BETWEEN), SessionAccess::Open);
        for _ in 0..2 {
            mark.begin_erasure(2, LATE);
        }
        for _ in 0..2 {
            mark.end_erasure(1, EARLY);
            assert_eq!(mark.access(BETWEEN), SessionAccess::Erased);
        }
        mark.end_erasure(2, LATE);
        assert!(mark.is_empty());
    }

    #[test]
    fn a_later_erasure_that_is_abandoned_leaves_the_earlier_one() {
        let mut mark = Mark::default();
        mark.begin_erasure(1, EARLY);
        // The step is repeated after a crash.
        for _ in 0..2 {
            mark.begin_erasure(2, LATE);
        }
        mark.end_erasure(2, LATE);
        assert_eq!(mark.access(EARLY), SessionAccess::Erased);
        assert_eq!(mark.access(BETWEEN), SessionAccess::Open);
        mark.end_erasure(1, EARLY);
        assert!(mark.is_empty());
    }

    #[test]
    fn two_erasures_that_began_at_the_same_time_are_distinguished() {
        let mut mark = Mark::default();
        mark.begin_erasure(1, LATE);
        mark.begin_erasure(2, LATE);
        mark.end_erasure(1, LATE);
        assert_eq!(mark.access(LATE), SessionAccess::Erased);
        mark.end_erasure(2, LATE);
        assert!(mark.is_empty());
    }

    #[test]
    fn an_erasure_that_an_earlier_version_began_keeps_its_mark() {
        let stored = r#"{"restricted":false,"erased_until":"1970-01-01T00:00:01.000Z"}"#;
        let stored: Mark = serde_json::from_str(stored).unwrap();
        let mut mark = stored.clone();
        mark.begin_erasure(2, LATE);
        mark.end_erasure(2, LATE);
        assert_eq!(mark.access(EARLY), SessionAccess::Erased);
        mark.end_erasure(1, EARLY);
        assert!(mark.is_empty());
        mark = stored;
        mark.end_erasure(2, LATE);
        assert_eq!(mark.access(EARLY), SessionAccess::Erased);
    }
    #[test]
    fn a_protection_of_a_later_release_stays_and_protects() {
        let stored = r#"{"embargoed":true,"restricted":true,"reason":""}"#;
        let mut mark: Mark = serde_json::from_str(stored).unwrap();
        mark.begin_erasure(1, EARLY);
        mark.end_erasure(1, EARLY);
        mark.restricted = false;
        assert!(!mark.is_empty() && mark.keeps() && mark.is_held());
        assert_eq!(mark.access(EARLY), SessionAccess::Restricted);
        let written = serde_json::to_value(&mark).unwrap();
        assert_eq!(written["embargoed"], true);
        assert_eq!(written["reason"], "");
    }

    #[test]
    fn a_field_of_a_later_release_without_effect_protects_nothing() {
        let stored = r#"{"suppressed":true,"embargoed":false,"until":null,"by":[],"days":0}"#;
        let mut mark: Mark = serde_json::from_str(stored).unwrap();
        assert!(!mark.is_empty() && !mark.keeps() && !mark.is_held());
        assert_eq!(mark.access(EARLY), SessionAccess::Open);
        mark.suppressed = false;
        assert!(mark.is_empty());
    }
}
