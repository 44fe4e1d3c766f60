//! The limits of the retention that organizations choose.

use super::{HELD_MS_MAX, RETENTION_MS_MIN};

const DAY_MS: i64 = 24 * 3600 * 1000;

/// Shortest retention of telemetry that an operator may allow organizations to choose, in days.
/// Late batches and changed proofs of delivery have been scored by then.
pub const RETENTION_SHORTEST_DAYS_MIN: u32 = 1;
/// Shortest retention of webhook messages and of sessions that organizations may choose, in days.
/// The retries of a message and the longest time for which it is held are over by then.
pub const RETENTION_MESSAGES_DAYS_MIN: u32 = 9;
const _: () = assert!(
    RETENTION_MESSAGES_DAYS_MIN as i64 * DAY_MS > HELD_MS_MAX + DAY_MS,
    "a message is retried or held longer than it is kept"
);
/// Longest time from the creation of a session to its end that the retention chosen by an
/// organization expects. Longer sessions are kept for `store.retention`.
pub const RETENTION_SESSION_LIFE_MS: i64 = 3 * 24 * 3600 * 1000;
/// Time by which a sweep of the chosen retention advances between two checks of whether it may
/// continue.
pub const RETENTION_STEP_MS: i64 = 3600 * 1000;
/// Time between two searches of a process for sessions whose rows must be renewed because a
/// restriction or a legal hold keeps them. Rows are renewed when half of their time to live is
/// over.
pub const RENEWAL_PASS_EVERY_MS: i64 = DAY_MS;
const _: () = assert!(
    RENEWAL_PASS_EVERY_MS < RETENTION_MS_MIN / 2,
    "a row expires between two passes"
);
