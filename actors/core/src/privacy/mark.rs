//! The restrictions on a subject during and after a privacy request.

use porchlight_schema::privacy::Subject;
use porchlight_schema::session::SessionStart;
use porchlight_schema::time::TimestampMs;
use serde::{Deserialize, Serialize};

/// The restrictions on a subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Mark {
    /// Whether the subject's sessions are frozen.
    #[serde(default)]
    pub restricted: bool,
    /// Whether the subject is barred from starting sessions.
    #[serde(default)]
    pub suppressed: bool,
    /// The time up to which the subject's sessions are being erased, by time of creation.
    #[serde(default)]
    pub erased_until: Option<TimestampMs>,
    /// Whether a legal hold protects the session from retention and erasure. Only the mark of a single
    /// session can be held.
    #[serde(default)]
    pub held: bool,
}

/// The access that callers have to a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// The session is fully accessible.
    Open,
    /// The session is inaccessible until its restriction is lifted.
    Restricted,
    /// The session is inaccessible because it is being erased.
    Erased,
}

impl Mark {
    /// Returns whether the mark has no effect and can be removed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the standing of a session that this mark covers.
    #[must_use]
    pub fn standing(&self, created_at: TimestampMs) -> Standing {
        if self.erased_until.is_some_and(|until| created_at <= until) {
            Standing::Erased
        } else if self.restricted {
            Standing::Restricted
        } else {
            Standing::Open
        }
    }

    /// Returns whether retention must keep a session that this mark covers.
    #[must_use]
    pub fn keeps(&self) -> bool {
        self.restricted || self.held
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
