//! Retention that an organization chooses, and the sessions to which a sweep applies it.
//!
//! A sweep walks through the sessions of a tenant in order of their creation, separately for each
//! class of data. It remembers the time up to which it has come, and advances at most a part of the
//! longest retention in one step, so that a wrong policy cannot delete everything at one time.

use porchlight_schema::limits::{
    AUDIT_DAYS_MAX, AUDIT_KEPT_MS, RETENTION_MESSAGES_DAYS_MIN, RETENTION_SESSION_LIFE_MS,
    SWEEP_SESSIONS_PARTS,
};
use porchlight_schema::time::{DAY_MS, TimestampMs};
use serde::{Deserialize, Serialize};

/// The field of the audit log's retention in the API.
pub const AUDIT_FIELD: &str = "auditDays";

/// A class of a session's data that has a retention of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DataClass {
    /// The batches and snapshots of a session, from which path images are drawn.
    Telemetry,
    /// The webhook messages of a session with their attempts.
    Messages,
    /// The session with its insight and everything that is left of it.
    Insight,
}

impl DataClass {
    /// All classes. The most detailed data comes first.
    pub const ALL: [Self; 3] = [Self::Telemetry, Self::Messages, Self::Insight];

    /// Returns the field of the class in the API.
    #[must_use]
    pub const fn field(self) -> &'static str {
        match self {
            Self::Telemetry => "telemetryDays",
            Self::Messages => "messagesDays",
            Self::Insight => "insightDays",
        }
    }
}

/// The bounds within which an organization may choose, in days. The operator sets them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetentionBounds {
    /// The shortest retention.
    pub shortest_days: u32,
    /// The longest retention, which also applies where an organization has chosen nothing.
    pub longest_days: u32,
    /// The shortest retention of the audit log. The longest is [`AUDIT_DAYS_MAX`].
    pub shortest_audit_days: u32,
}

impl RetentionBounds {
    /// Returns the shortest retention of a class. Messages stay until their last retry is over.
    #[must_use]
    pub fn shortest_days(&self, class: DataClass) -> u32 {
        let shortest = match class {
            DataClass::Telemetry => self.shortest_days,
            DataClass::Messages | DataClass::Insight => {
                self.shortest_days.max(RETENTION_MESSAGES_DAYS_MIN)
            }
        };
        shortest.min(self.longest_days)
    }
}

/// The number of days for which each class is kept: data of a session after its end, a line of the
/// audit log after its time. `None`: the longest possible.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RetentionPolicy {
    /// The retention of telemetry and path images.
    pub telemetry_days: Option<u32>,
    /// The retention of webhook messages.
    pub messages_days: Option<u32>,
    /// The retention of the session and its insight.
    pub insight_days: Option<u32>,
    /// The retention of the audit log.
    #[serde(default)]
    pub audit_days: Option<u32>,
}

/// The error of a policy that the bounds do not allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PolicyRefused {
    /// A retention is too short or too long.
    #[error("must be a whole number of days from {shortest} to {longest}")]
    OutOfBounds {
        /// The field of the API.
        field: &'static str,
        /// The shortest retention that is allowed, days.
        shortest: u32,
        /// The longest retention that is allowed, days.
        longest: u32,
    },
    /// A part of a session would be kept longer than the session.
    #[error("must not be longer than insightDays")]
    OutlivesSession {
        /// The class of data.
        class: DataClass,
    },
}

impl PolicyRefused {
    /// Returns the field of the API that is wrong.
    #[must_use]
    pub fn field(&self) -> &'static str {
        match self {
            Self::OutOfBounds { field, .. } => field,
            Self::OutlivesSession { class } => class.field(),
        }
    }
}

impl RetentionPolicy {
    /// Returns the chosen retention of a class, days.
    #[must_use]
    pub fn days(&self, class: DataClass) -> Option<u32> {
        match class {
            DataClass::Telemetry => self.telemetry_days,
            DataClass::Messages => self.messages_days,
            DataClass::Insight => self.insight_days,
        }
    }

    /// Returns the time for which a line of the audit log is kept, ms.
    #[must_use]
    pub fn audit_kept_ms(&self) -> i64 {
        self.audit_days
            .map_or(AUDIT_KEPT_MS, |days| i64::from(days) * DAY_MS)
    }

    /// Checks the policy against the bounds.
    ///
    /// # Errors
    ///
    /// Returns the first wrong field.
    pub fn check(&self, bounds: &RetentionBounds) -> Result<(), PolicyRefused> {
        if let Some(days) = self.audit_days {
            within(
                AUDIT_FIELD,
                days,
                bounds.shortest_audit_days,
                AUDIT_DAYS_MAX,
            )?;
        }
        for class in DataClass::ALL {
            let Some(days) = self.days(class) else {
                continue;
            };
            let (shortest, longest) = (bounds.shortest_days(class), bounds.longest_days);
            within(class.field(), days, shortest, longest)?;
            if self.insight_days.is_some_and(|insight| days > insight) {
                return Err(PolicyRefused::OutlivesSession { class });
            }
        }
        Ok(())
    }
}

/// Checks a retention of `days`.
fn within(
    field: &'static str,
    days: u32,
    shortest: u32,
    longest: u32,
) -> Result<(), PolicyRefused> {
    if (shortest..=longest).contains(&days) {
        return Ok(());
    }
    Err(PolicyRefused::OutOfBounds {
        field,
        shortest,
        longest,
    })
}

/// The time up to which a sweep has applied a policy, by creation of the session; `None`: it has
/// not begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SweepProgress {
    #[serde(default)]
    telemetry: Option<TimestampMs>,
    #[serde(default)]
    messages: Option<TimestampMs>,
    #[serde(default)]
    insight: Option<TimestampMs>,
}

impl SweepProgress {
    fn of(&mut self, class: DataClass) -> &mut Option<TimestampMs> {
        match class {
            DataClass::Telemetry => &mut self.telemetry,
            DataClass::Messages => &mut self.messages,
            DataClass::Insight => &mut self.insight,
        }
    }

    /// Records that the policy was applied to all sessions created before `until`.
    pub fn advance(&mut self, class: DataClass, until: TimestampMs) {
        let at = self.of(class);
        *at = (*at).max(Some(until));
    }
}

/// The sessions of one step, by time of creation: from the first time, up to and without the
/// second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// The first time of creation.
    pub from: TimestampMs,
    /// The time of creation before which the step ends.
    pub to: TimestampMs,
}

/// Returns the sessions to which a sweep at `now` applies the policy for a class, or `None` if
/// there is nothing to do. Every session of the span ended at least `days` ago.
#[must_use]
pub fn next_span(
    policy: &RetentionPolicy,
    mut progress: SweepProgress,
    class: DataClass,
    bounds: &RetentionBounds,
    now: TimestampMs,
) -> Option<Span> {
    let days = policy.days(class)?;
    let longest_ms = i64::from(bounds.longest_days) * DAY_MS;
    let expired = now.plus_ms(-(i64::from(days) * DAY_MS) - RETENTION_SESSION_LIFE_MS);
    // Older sessions were deleted by the operator's retention.
    let oldest = now.plus_ms(-longest_ms - 2 * RETENTION_SESSION_LIFE_MS);
    let from = progress.of(class).unwrap_or(oldest).max(oldest);
    let parts = i64::try_from(SWEEP_SESSIONS_PARTS).unwrap_or(i64::MAX);
    let to = expired.min(from.plus_ms(longest_ms / parts));
    (from < to).then_some(Span { from, to })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BOUNDS: RetentionBounds = RetentionBounds {
        shortest_days: 1,
        longest_days: 90,
        shortest_audit_days: 180,
    };
    const NOW: TimestampMs = TimestampMs(1_800_000_000_000);

    fn telemetry(days: u32) -> RetentionPolicy {
        RetentionPolicy {
            telemetry_days: Some(days),
            ..RetentionPolicy::default()
        }
    }

    #[test]
    fn a_policy_stays_within_the_bounds() {
        assert_eq!(RetentionPolicy::default().check(&BOUNDS), Ok(()));
        assert_eq!(telemetry(1).check(&BOUNDS), Ok(()));
        assert_eq!(telemetry(90).check(&BOUNDS), Ok(()));
        for days in [0, 91] {
            let refused = telemetry(days).check(&BOUNDS).unwrap_err();
            assert_eq!(refused.field(), "telemetryDays");
        }
        let audit = |days| RetentionPolicy {
            audit_days: Some(days),
            ..RetentionPolicy::default()
        };
        for days in [179, 401] {
            let refused = audit(days).check(&BOUNDS).unwrap_err();
            assert_eq!(refused.field(), "auditDays");
        }
        assert_eq!(audit(180).check(&BOUNDS), Ok(()));
        assert_eq!(audit(400).check(&BOUNDS), Ok(()));
        let messages = |days| RetentionPolicy {
            messages_days: Some(days),
            ..RetentionPolicy::default()
        };
        assert!(
            messages(RETENTION_MESSAGES_DAYS_MIN - 1)
                .check(&BOUNDS)
                .is_err()
        );
        assert_eq!(messages(RETENTION_MESSAGES_DAYS_MIN).check(&BOUNDS), Ok(()));
        let outlives = RetentionPolicy {
            insight_days: Some(20),
            ..telemetry(21)
        };
        let class = DataClass::Telemetry;
        let refused = Err(PolicyRefused::OutlivesSession { class });
        assert_eq!(outlives.check(&BOUNDS), refused);
    }

    #[test]
    fn a_class_without_a_chosen_retention_is_not_swept() {
        let progress = SweepProgress::default();
        let policy = telemetry(7);
        assert_eq!(
            next_span(&policy, progress, DataClass::Insight, &BOUNDS, NOW),
            None
        );
    }

    proptest! {
        #[test]
        fn steps_are_bounded_follow_each_other_and_reach_the_end(days in 1_u32..90, sweeps in 1_usize..60) {
            let (policy, class) = (telemetry(days), DataClass::Telemetry);
            let (mut progress, mut now, mut before) = (SweepProgress::default(), NOW, None);
            for _ in 0..sweeps {
                if let Some(span) = next_span(&policy, progress, class, &BOUNDS, now) {
                    prop_assert!(before.is_none_or(|before| before == span.from));
                    prop_assert!(span.to.since_ms(span.from) <= 90 * DAY_MS / 20);
                    // The longest session that was created last has ended long enough ago.
                    let latest_end = span.to.plus_ms(RETENTION_SESSION_LIFE_MS);
                    prop_assert!(now.since_ms(latest_end) >= i64::from(days) * DAY_MS);
                    progress.advance(class, span.to);
                    before = Some(span.to);
                }
                now = now.plus_ms(3_600_000);
            }
            if sweeps > 30 {
                let wanted = now.plus_ms(-i64::from(days) * DAY_MS - RETENTION_SESSION_LIFE_MS - 3_600_000);
                prop_assert_eq!(before, Some(wanted));
            }
        }

        #[test]
        fn a_clock_that_steps_back_sweeps_nothing_twice(days in 1_u32..90, back_days in 1_i64..400) {
            let (policy, class) = (telemetry(days), DataClass::Telemetry);
            let mut progress = SweepProgress::default();
            progress.advance(class, NOW.plus_ms(-i64::from(days) * DAY_MS - RETENTION_SESSION_LIFE_MS));
            let then = NOW.plus_ms(-back_days * DAY_MS);
            prop_assert_eq!(next_span(&policy, progress, class, &BOUNDS, then), None);
        }
    }
}
