//! Retention that organizations choose: the section `[retention]`.

use porchlight_core::retention::RetentionBounds;
use porchlight_schema::limits::{
    AUDIT_DAYS_MAX, AUDIT_DAYS_MIN, AUDIT_SHORTEST_DAYS_DEFAULT, RETENTION_SHORTEST_DAYS_MIN,
};
use serde::{Deserialize, Serialize};

use super::HumanDuration;

const DAY_MS: i64 = 24 * 3_600_000;

/// The bounds of the retention that organizations choose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Retention {
    /// The shortest retention that an organization may choose. The longest is `store.retention`.
    pub shortest: HumanDuration,
    /// The shortest retention of the audit log that an organization may choose. The longest is 400 days.
    pub shortest_audit: HumanDuration,
}

impl Default for Retention {
    fn default() -> Self {
        Self {
            shortest: HumanDuration::from_days(u64::from(RETENTION_SHORTEST_DAYS_MIN)),
            shortest_audit: HumanDuration::from_days(u64::from(AUDIT_SHORTEST_DAYS_DEFAULT)),
        }
    }
}

impl Retention {
    /// Returns whether the shortest retention is a whole number of days that `store_retention` allows.
    pub(super) fn is_valid(&self, store_retention: HumanDuration) -> bool {
        let shortest_ms = self.shortest.as_millis();
        shortest_ms % DAY_MS == 0
            && shortest_ms >= i64::from(RETENTION_SHORTEST_DAYS_MIN) * DAY_MS
            && shortest_ms <= store_retention.as_millis()
    }

    /// Returns whether the shortest retention of the audit log is a whole number of days that may be
    /// allowed.
    pub(super) fn is_audit_valid(&self) -> bool {
        let shortest_ms = self.shortest_audit.as_millis();
        let days_ms = |days: u32| i64::from(days) * DAY_MS;
        shortest_ms % DAY_MS == 0
            && (days_ms(AUDIT_DAYS_MIN)..=days_ms(AUDIT_DAYS_MAX)).contains(&shortest_ms)
    }

    /// Returns the bounds in a service that keeps sessions for `store_retention`.
    #[must_use]
    pub fn bounds(&self, store_retention: HumanDuration) -> RetentionBounds {
        let days = |duration: HumanDuration| {
            u32::try_from(duration.as_millis() / DAY_MS).unwrap_or(u32::MAX)
        };
        RetentionBounds {
            shortest_days: days(self.shortest),
            longest_days: days(store_retention),
            shortest_audit_days: days(self.shortest_audit),
        }
    }
}
