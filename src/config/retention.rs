//! Retention that organizations choose: the section `[retention]`.

use porchlight_core::retention::RetentionBounds;
use porchlight_schema::limits::{
    AUDIT_DAYS_MAX, AUDIT_DAYS_MIN, AUDIT_SHORTEST_DAYS_DEFAULT, RETENTION_SHORTEST_DAYS_MIN,
};
use porchlight_schema::time::DAY_MS;
use serde::{Deserialize, Serialize};

use super::HumanDuration;

/// The bounds of the retention that organizations choose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Retention {
    /// The shortest retention that an organization may choose. The longest is `store.retention`.
    pub shortest: HumanDuration,
    /// The shortest retention of the audit log that an organization may choose. The longest is
    /// [`AUDIT_DAYS_MAX`].
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
    /// Checks the bounds in a service that keeps sessions for `store_retention`.
    ///
    /// # Errors
    ///
    /// Returns the wrong key, and the values that it may have.
    pub(super) fn check(
        &self,
        store_retention: HumanDuration,
    ) -> Result<(), (&'static str, String)> {
        let days_ms = |days: u32| i64::from(days) * DAY_MS;
        let is_within = |duration: HumanDuration, least: u32, most_ms: i64| {
            let ms = duration.as_millis();
            ms % DAY_MS == 0 && (days_ms(least)..=most_ms).contains(&ms)
        };
        let store_ms = store_retention.as_millis();
        if !is_within(self.shortest, RETENTION_SHORTEST_DAYS_MIN, store_ms) {
            let detail = format!(
                "must be whole days, {RETENTION_SHORTEST_DAYS_MIN}d or more, and at most store.retention"
            );
            return Err(("retention.shortest", detail));
        }
        if !is_within(self.shortest_audit, AUDIT_DAYS_MIN, days_ms(AUDIT_DAYS_MAX)) {
            let detail = format!("must be whole days, from {AUDIT_DAYS_MIN}d to {AUDIT_DAYS_MAX}d");
            return Err(("retention.shortest_audit", detail));
        }
        Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_audit_log_is_kept_for_30_to_400_days() {
        let check = |days| {
            let retention = Retention {
                shortest_audit: HumanDuration::from_days(days),
                ..Retention::default()
            };
            retention.check(HumanDuration::from_days(90))
        };
        for days in [30, 400] {
            assert_eq!(check(days), Ok(()));
        }
        for days in [29, 401] {
            assert_eq!(check(days).unwrap_err().0, "retention.shortest_audit");
        }
    }
}
