//! What holds for a subject while a request about it runs, or after it.

use porchlight_schema::privacy::Subject;
use porchlight_schema::session::SessionStart;
use porchlight_schema::time::TimestampMs;
use serde::{Deserialize, Serialize};

/// What holds for a subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Mark {
    /// The subject's sessions are frozen.
    #[serde(default)]
    pub restricted: bool,
    /// The subject may not start sessions.
    #[serde(default)]
    pub suppressed: bool,
    /// The subject's sessions that were created up to this time are being erased.
    #[serde(default)]
    pub erased_until: Option<TimestampMs>,
}

/// What a caller may do with a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// Everything.
    Open,
    /// Nothing until its restriction is lifted.
    Restricted,
    /// Nothing, because it is being erased.
    Erased,
}

impl Mark {
    /// Returns whether the mark says nothing and can be removed.
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
