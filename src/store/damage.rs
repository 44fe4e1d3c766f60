//! Handling of damaged rows and of rows that a later release wrote: each affects only the object
//! that it belongs to.

#[cfg(test)]
mod tests;

use porchlight_observe::Fact;
use porchlight_observe::store::StoreMetrics;
use porchlight_ports::{StoreError, StoreResult};
use porchlight_schema::ids::SessionId;
use porchlight_schema::time::TimestampMs;

use super::engine::Order;
use super::txn::{Read, Row, Scan};

/// The name of a damaged body of a message in the log.
pub(crate) const BODY: &str = "the body of a message";
/// The name of a damaged insight in the log.
pub(crate) const INSIGHT: &str = "an insight";
/// The name of a damaged API key in the log.
pub(crate) const KEY: &str = "an API key";
/// The name of a damaged organization in the log.
pub(crate) const ORGANIZATION: &str = "an organization";

/// Replaces a row of a session by `None` if it is damaged or a later release wrote it. Counts and
/// logs it with the session's id. For reads that change nothing.
pub(crate) fn readable<T>(
    read: StoreResult<Option<T>>,
    session_id: SessionId,
    what: &'static str,
) -> StoreResult<Option<T>> {
    match read {
        Err(error @ StoreError::Damaged(_)) => {
            Fact::Damaged {
                session_id,
                what,
                error: &error,
            }
            .record();
            Ok(None)
        }
        Err(StoreError::Newer(row)) => {
            report_newer(what, &row);
            Ok(None)
        }
        read => read,
    }
}

/// Replaces a damaged row of a session by `None`, like [`readable`]. A row that a later release
/// wrote stays an error, because the caller must not answer or act as if it did not exist.
pub(crate) fn replaceable<T>(
    read: StoreResult<Option<T>>,
    session_id: SessionId,
    what: &'static str,
) -> StoreResult<Option<T>> {
    match read {
        Err(StoreError::Newer(_)) => read,
        read => readable(read, session_id, what),
    }
}

/// Replaces a row that belongs to no session by `None` if it is damaged or a later release wrote
/// it. Counts and logs it.
pub(crate) fn skipped<T>(
    read: StoreResult<Option<T>>,
    what: &'static str,
) -> StoreResult<Option<T>> {
    match read {
        Err(StoreError::Damaged(row)) => {
            report(what, &row);
            Ok(None)
        }
        Err(StoreError::Newer(row)) => {
            report_newer(what, &row);
            Ok(None)
        }
        read => read,
    }
}

/// Reads rows like [`Read::rows`], but leaves out damaged ones, which it counts and logs.
pub(crate) fn readable_rows(
    read: &dyn Read,
    scan: &Scan,
    what: &'static str,
) -> StoreResult<Vec<Row>> {
    recovered_rows(read, scan, what, |_key| Ok(None))
}

/// Reads rows like [`readable_rows`]. `recover` receives the key of each damaged row and returns
/// its payload if other rows repeat it.
pub(crate) fn recovered_rows(
    read: &dyn Read,
    scan: &Scan,
    what: &'static str,
    recover: impl Fn(&[u8]) -> StoreResult<Option<Vec<u8>>>,
) -> StoreResult<Vec<Row>> {
    match read.rows(scan) {
        Err(StoreError::Damaged(_)) => {}
        read => return read,
    }
    // A damaged row ends a scan of payloads, but not one of keys.
    let mut keys = Scan {
        keys_only: true,
        ..scan.clone()
    };
    let mut found = Vec::new();
    while found.len() < scan.rows_max {
        keys.rows_max = scan.rows_max - found.len();
        let rows = read.rows(&keys)?;
        let Some(last) = rows.last() else { break };
        keys.range = match scan.order {
            Order::Ascending => keys.range.after(&last.key),
            Order::Descending => keys.range.before(&last.key),
        };
        for Row { key, .. } in rows {
            let payload = match read.get(scan.space, &key) {
                Err(StoreError::Damaged(row)) => {
                    report(what, &row);
                    recover(&key)?
                }
                payload => payload?,
            };
            found.extend(payload.map(|payload| Row { key, payload }));
        }
    }
    Ok(found)
}

/// Lets the tenant of a damaged outbox count as having work now, because damage in one outbox
/// must not stop the others. On the embedded store, the actor of that tenant then sends the
/// messages that can be read.
pub(crate) fn due_despite_damage(
    first_due: StoreResult<Option<TimestampMs>>,
) -> StoreResult<Option<TimestampMs>> {
    match first_due {
        Err(error) if error.is_of_single_rows() => {
            report_error("an outbox", &error);
            Ok(Some(TimestampMs(0)))
        }
        first_due => first_due,
    }
}

/// Counts and logs a row that belongs to no session. `row` names it as the error does.
pub(crate) fn report(what: &'static str, row: &str) {
    StoreMetrics::get().damaged.increment(1);
    tracing::error!(what, row, "stored data damaged");
}

/// Logs a row that a later release wrote.
pub(crate) fn report_newer(what: &'static str, row: &str) {
    tracing::warn!(what, row, "a later release wrote stored data");
}

/// Reports a damaged row, or a row that a later release wrote. Other errors concern no row.
pub(crate) fn report_error(what: &'static str, error: &StoreError) {
    match error {
        StoreError::Damaged(row) => report(what, row),
        StoreError::Newer(row) => report_newer(what, row),
        _ => {}
    }
}
