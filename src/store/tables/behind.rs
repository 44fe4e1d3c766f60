//! Sessions that have ended and whose insight may not cover all there is: marked with what made it so (the end, a
//! late batch, a PoD), in the same group; cleared with the insight that covers it. So a start-up finds them however
//! long the service was away.

use porchlight_ports::StoreResult;
use porchlight_schema::ids::SessionId;

use super::{Key, session_at_end};
use crate::engine::{KeyRange, Space};
use crate::txn::{Read, Scan, Txn};

/// The key of a session's mark.
pub(crate) fn key(session_id: SessionId) -> Vec<u8> {
    Key::of(b'y').session(session_id).build()
}

/// The insight may be behind from now on.
pub(crate) fn mark(txn: &mut Txn<'_>, session_id: SessionId) {
    txn.put(Space::State, key(session_id), Vec::new());
}

/// The insight covers all there is.
pub(crate) fn clear(txn: &mut Txn<'_>, session_id: SessionId) {
    txn.delete(Space::State, key(session_id));
}

/// Marked sessions, in order of id.
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
