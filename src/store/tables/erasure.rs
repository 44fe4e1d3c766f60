//! Erasing one session, in steps that are small enough for the committer.

use porchlight_ports::{Removed, SessionRows, StoreResult};
use porchlight_schema::ids::SessionId;
use porchlight_schema::session::Tenant;
use porchlight_schema::time::TimestampMs;

use super::{Key, idempotency, insights, journal, messages, retention, sessions};
use crate::engine::{KeyRange, Space};
use crate::txn::{Read, Scan, Txn};

/// Counts the rows of a session.
pub(crate) fn rows(read: &dyn Read, session_id: SessionId) -> StoreResult<SessionRows> {
    let count = |scan: Scan| -> StoreResult<u64> { Ok(read.rows(&scan)?.len() as u64) };
    Ok(SessionRows {
        batches: count(Scan {
            keys_only: true,
            ..Scan::journal(journal::range(session_id), usize::MAX)
        })?,
        insights: u64::from(
            read.get(Space::State, &insights::key(session_id))?
                .is_some(),
        ),
        messages: count(Scan::keys(messages::range(session_id), usize::MAX))?,
    })
}

/// A part of a session's rows. Parts are removed one after the other, because a client's write waits
/// for the part that is being removed.
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
/// more rows.
pub(crate) fn step(
    txn: &mut Txn<'_>,
    session_id: SessionId,
    part: Part,
    rows_max: usize,
) -> StoreResult<bool> {
    if part == Part::Messages {
        return retention::remove_messages(txn, session_id).map(|()| false);
    }
    let has_more = retention::remove_batches(txn, session_id, rows_max)?;
    if has_more || part == Part::Batches {
        txn.journal_heads.erase(session_id);
        return Ok(has_more);
    }
    // An unreadable end leaves a row that names the session; the retention sweep removes it.
    let end = sessions::end_of(txn.as_read(), session_id);
    if let Some(end) = crate::damage::readable(end, session_id, "the end of an erased session")? {
        let completed = sessions::completed_key(end.completed_at, session_id);
        txn.delete(Space::State, completed);
    }
    txn.delete(Space::State, sessions::live_key(session_id));
    retention::remove_state(txn, session_id)?;
    txn.journal_heads.erase(session_id);
    Ok(false)
}

/// Removes the idempotency keys of a tenant whose session is gone; see [`porchlight_ports::Erasure`].
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
    let rows = txn.rows(&Scan::state(range, limit))?;
    let next = match rows.last() {
        Some(last) if rows.len() == limit => Some(last.key.clone()),
        _ => None,
    };
    let mut removed = 0;
    for row in rows {
        let remembered: idempotency::IdempotencyRecord = row.decode()?;
        let start = sessions::start_key(remembered.session_id);
        if remembered.created_at > until || txn.as_read().has_state(&start)? {
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
