//! Erases one session, in steps that are small enough to share the writer with other operations.

use porchlight_ports::{Removed, SessionRows, StoreResult};
use porchlight_schema::ids::SessionId;
use porchlight_schema::session::Tenant;
use porchlight_schema::time::TimestampMs;

use super::idempotency::IDEMPOTENCY_KEY;
use super::{Key, idempotency, insights, journal, messages, retention, sessions};
use crate::damage::{readable, readable_rows, skipped};
use crate::engine::{KeyRange, Space};
use crate::txn::{Read, Scan, Txn};

/// Counts the rows of a session.
pub(crate) fn rows(read: &dyn Read, session_id: SessionId) -> StoreResult<SessionRows> {
    let count = |scan: Scan| -> StoreResult<u64> { Ok(read.rows(&scan)?.len() as u64) };
    Ok(SessionRows {
        batches: count(Scan::journal_keys(journal::range(session_id), usize::MAX))?,
        insights: count(Scan::keys(KeyRange::prefix(insights::key(session_id)), 1))?,
        messages: count(Scan::keys(messages::range(session_id), usize::MAX))?,
    })
}

/// A part of a session's rows. Parts are removed one after the other, because a client's write
/// waits for the part that is being removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// The batches.
    Batches,
    /// The messages with their attempts and their places in the outbox.
    Messages,
    /// All rows that are left. The row that leads to the others is among them.
    Rest,
}

impl Part {
    /// All parts, in the order in which they are removed.
    pub(crate) const ALL: [Self; 3] = [Self::Batches, Self::Messages, Self::Rest];
}

/// Removes a part of a session's rows, and at most `rows_max` batches. Returns whether the part has
/// more rows. `listed` are the keys of its rows in the lists that do not follow from its start.
pub(crate) fn step(
    txn: &mut Txn<'_>,
    session_id: SessionId,
    part: Part,
    rows_max: usize,
    listed: &[Vec<u8>],
) -> StoreResult<bool> {
    if part == Part::Messages {
        return retention::remove_messages(txn, session_id).map(|()| false);
    }
    let has_more = retention::remove_batches(txn, session_id, rows_max)?;
    if has_more || part == Part::Batches {
        txn.journal_heads.erase(session_id);
        return Ok(has_more);
    }
    // A damaged end leaves a row that names the session; the retention sweep removes it.
    let end = sessions::end_of(txn.as_read(), session_id);
    if let Some(end) = readable(end, session_id, "the end of an erased session")? {
        let completed = sessions::completed_key(end.completed_at, session_id);
        txn.delete(Space::State, completed);
    }
    txn.delete(Space::State, sessions::live_key(session_id));
    retention::remove_state(txn, session_id)?;
    for key in listed {
        txn.delete(Space::State, key.clone());
    }
    txn.journal_heads.erase(session_id);
    Ok(false)
}

/// Removes the idempotency keys of a tenant whose session is gone; see
/// [`porchlight_ports::Erasure`]. A damaged row stays until it is quarantined.
pub(crate) fn idempotency_keys(
    txn: &mut Txn<'_>,
    tenant: Tenant,
    until: TimestampMs,
    after: Option<Vec<u8>>,
    limit: usize,
) -> StoreResult<Removed<Vec<u8>>> {
    let mut range = KeyRange::prefix(Key::of(b'i').tenant(tenant).build());
    if let Some(after) = after {
        range = range.after(&after);
    }
    let rows = readable_rows(txn.as_read(), &Scan::state(range, limit), IDEMPOTENCY_KEY)?;
    let next = match rows.last() {
        Some(last) if rows.len() == limit => Some(last.key.clone()),
        _ => None,
    };
    let mut removed = 0;
    for row in rows {
        let decoded = row.decode().map(Some);
        let decoded: Option<idempotency::IdempotencyRecord> = skipped(decoded, IDEMPOTENCY_KEY)?;
        let Some(remembered) = decoded else {
            continue;
        };
        let start = Scan::keys(
            KeyRange::prefix(sessions::start_key(remembered.session_id)),
            1,
        );
        if remembered.created_at > until || !txn.rows(&start)?.is_empty() {
            continue;
        }
        txn.delete(Space::State, remembered.age_key(&row.key));
        txn.delete(Space::State, row.key);
        removed += 1;
    }
    Ok(Removed {
        rows: removed,
        next,
    })
}
