//! Times to live of rows.

use std::time::Duration;

use porchlight_schema::limits::{HELD_MS_MAX, IDEMPOTENCY_MS};
use porchlight_schema::time::TimestampMs;

use crate::cql::CqlOptions;

/// Additional time to live of rows that are written long before the session's end, so that they do
/// not expire first.
const EXTRA_TTL: Duration = Duration::from_secs(86_400);
/// The time to live of snapshots, which may be discarded at any time.
const SNAPSHOT_TTL: Duration = Duration::from_secs(2 * 86_400);
/// The time to live of outbox rows: longer than a paused webhook holds a message. The last retry is
/// due at most 26.4 hours after the attempt before it.
const OUTBOX_TTL: Duration = Duration::from_secs(8 * 86_400);
const _: () = assert!(
    OUTBOX_TTL.as_secs() * 1_000 >= HELD_MS_MAX as u64 + 86_400_000,
    "the row of a held message outlives the time for which it is held by a day"
);
/// The shortest time after which the row of a slot is written again, in seconds. It applies if the
/// database can keep no row as long as configured, so that slots outlive nothing.
const SLOT_RENEWAL_SEC_MIN: i32 = 3_600;
/// The time by which a row of a session outlives the session's own row if it is written again late,
/// in seconds.
const AFTER_SEC: i32 = 3_600;
/// The shortest time to live of a row, in seconds.
const TTL_SEC_MIN: i64 = 60;
/// The longest time to live that both databases accept, in seconds: twenty years.
const TTL_SEC_MAX: i64 = 20 * 365 * 86_400;
/// The last second at which a row may expire: Cassandra stores the expiry in 31 bits and refuses a
/// write that expires later (19 January 2038).
const EXPIRY_SEC_MAX: i64 = i32::MAX as i64 - 1;
/// The time for which a process may run before it computes the times to live again, in seconds. A
/// row that it writes at the end of this time still expires before [`EXPIRY_SEC_MAX`].
const RUN_SEC_MAX: i64 = 366 * 86_400;

/// The time to live of rows, in seconds as the statements expect it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RowTtls {
    pub(in crate::cql) retained: i32,
    pub(in crate::cql) live: i32,
    pub(in crate::cql) slots: i32,
    pub(in crate::cql) snapshots: i32,
    pub(in crate::cql) outbox: i32,
    pub(in crate::cql) idempotency: i32,
    /// The longest time to live that the database accepts while this process runs.
    longest: i32,
}

impl RowTtls {
    /// Returns the times to live of rows that a process writes if it starts at `now`. A time to
    /// live that would end after the year 2038 is shortened, because Cassandra would refuse the
    /// write.
    pub(in crate::cql) fn of(options: &CqlOptions, now: TimestampMs) -> Self {
        let left_sec = EXPIRY_SEC_MAX - now.0.div_euclid(1_000) - RUN_SEC_MAX;
        let longest_sec = left_sec.clamp(TTL_SEC_MIN, TTL_SEC_MAX);
        let seconds = |ttl: Duration| {
            let requested_sec = i64::try_from(ttl.as_secs()).unwrap_or(i64::MAX);
            requested_sec.clamp(TTL_SEC_MIN, longest_sec) as i32
        };
        let idempotency = Duration::from_millis(IDEMPOTENCY_MS.unsigned_abs());
        let retained = options.retention + options.session_max + EXTRA_TTL;
        if i64::try_from(retained.as_secs()).unwrap_or(i64::MAX) > longest_sec {
            tracing::warn!(
                days = longest_sec / 86_400,
                "store.retention is longer than the database can keep rows: they expire earlier"
            );
        }
        Self {
            retained: seconds(retained),
            live: seconds(options.session_max + 3 * EXTRA_TTL),
            slots: seconds(options.retention + options.session_max + 3 * EXTRA_TTL),
            snapshots: seconds(SNAPSHOT_TTL),
            outbox: seconds(OUTBOX_TTL),
            idempotency: seconds(idempotency + EXTRA_TTL / 24),
            longest: longest_sec as i32,
        }
    }

    /// Returns the time to live of a row that is written at `now` and kept until `end`.
    pub(in crate::cql) fn until(&self, end: TimestampMs, now: TimestampMs) -> i32 {
        let left_sec = end.since_ms(now).div_euclid(1_000).saturating_add(1);
        left_sec.clamp(TTL_SEC_MIN, self.longest.into()) as i32
    }

    /// Returns the time to live of a row that must expire soon after another row, which has
    /// `left_sec` left. `None` means that the other row never expires.
    pub(in crate::cql) fn after(&self, left_sec: Option<i32>) -> i32 {
        let left_sec = left_sec.unwrap_or(self.retained);
        left_sec.saturating_add(AFTER_SEC).min(self.retained)
    }

    /// Returns the time after which a process that writes rows into a slot writes the slot's own
    /// row again: half of the time by which a slot outlives a row that is written together with it.
    pub(super) fn slot_renewal_ms(&self) -> i64 {
        let spare_sec = (self.slots - self.retained.max(self.live)) / 2;
        i64::from(spare_sec.max(SLOT_RENEWAL_SEC_MIN)) * 1_000
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 22 November 2026, in milliseconds of the Unix epoch.
    const NOW: TimestampMs = TimestampMs(1_795_305_600_000);

    fn row_ttls(retention_days: u64) -> RowTtls {
        let options = CqlOptions {
            nodes: Vec::new(),
            keyspace: String::new(),
            replication_factor: 1,
            datacenter: None,
            user: None,
            tls: None,
            ingest_within: Duration::from_secs(1),
            retention: Duration::from_secs(retention_days * 86_400),
            session_max: Duration::from_secs(12 * 3_600),
            agreement: crate::cql::Agreement::default(),
        };
        RowTtls::of(&options, NOW)
    }

    #[test]
    fn rows_are_kept_for_the_retention_the_longest_session_and_a_day() {
        assert_eq!(row_ttls(90).retained, 91 * 86_400 + 12 * 3_600);
    }

    #[test]
    fn a_row_with_an_end_lives_until_then_whatever_the_retention_is() {
        for retention_days in [1, 90] {
            let row_ttls = row_ttls(retention_days);
            let ttl_sec = |left_ms| row_ttls.until(NOW.plus_ms(left_ms), NOW);
            assert_eq!(ttl_sec(30 * 86_400_000), 30 * 86_400 + 1);
            assert_eq!(ttl_sec(90_500), 91);
            assert_eq!(ttl_sec(-1), 60, "the shortest");
            assert_eq!(ttl_sec(i64::MAX / 2), row_ttls.longest);
        }
    }

    #[test]
    fn a_slot_that_is_written_again_in_time_outlives_its_rows() {
        for retention_days in [1, 90, 3_650] {
            let row_ttls = row_ttls(retention_days);
            let written_sec = (row_ttls.slot_renewal_ms() / 1_000) as i32;
            let left_sec = row_ttls.slots - written_sec;
            assert!(written_sec >= 3_600);
            assert!(left_sec >= row_ttls.retained, "{retention_days}");
            assert!(left_sec >= row_ttls.live, "{retention_days}");
        }
        // With this retention, all rows expire at the last possible second.
        assert_eq!(row_ttls(36_500).slot_renewal_ms(), 3_600_000);
    }

    #[test]
    fn no_row_expires_after_the_last_second_that_cassandra_can_store() {
        for retention_days in [90, 3_650, 4_000, 7_300, 36_500] {
            let row_ttls = row_ttls(retention_days);
            let last_write_sec = NOW.0 / 1_000 + RUN_SEC_MAX;
            for ttl_sec in [
                row_ttls.retained,
                row_ttls.slots,
                row_ttls.live,
                row_ttls.outbox,
            ] {
                assert!(last_write_sec + i64::from(ttl_sec) <= EXPIRY_SEC_MAX);
                assert!(ttl_sec > 0);
            }
        }
        assert!(
            row_ttls(36_500).retained > 9 * 365 * 86_400,
            "the time to live is shortened no further than necessary"
        );
    }
}
