//! Marks completed sessions whose insight may not cover all data. The end, a late batch or a PoD
//! sets the mark in the same group that stores it; the insight that covers everything removes it. A
//! process that starts finds all marks.

use porchlight_ports::StoreResult;
use porchlight_schema::ids::SessionId;

use super::{Key, session_at_end};
use crate::engine::{KeyRange, Space};
use crate::txn::{Read, Scan, Txn};

/// Returns the key of a session's mark.
pub(crate) fn key(session_id: SessionId) -> Vec<u8> {
    Key::of(b'y').session(session_id).build()
}

/// Marks that the session's insight may be out of date.
pub(crate) fn mark(txn: &mut Txn<'_>, session_id: SessionId) {
    txn.put(Space::State, key(session_id), Vec::new());
}

/// Removes the mark, because the insight covers everything.
pub(crate) fn clear(txn: &mut Txn<'_>, session_id: SessionId) {
    txn.delete(Space::State, key(session_id));
}

/// Returns the marked sessions, in order of id.
pub(crate) fn after(
    read: &dyn Read,
    after: Option<SessionId>,
    limit: usize,
) -> StoreResult<Vec<SessionId>> {
    let mut range = KeyRange::prefix([b'y']);
    if let Some(after) = after {
        range = range.after(&key(after));
    }
    let rows = read.rows(&Scan::keys(range, limit))?;
    Ok(rows
        .iter()
        .filter_map(|row| session_at_end(&row.key))
        .collect())
}
