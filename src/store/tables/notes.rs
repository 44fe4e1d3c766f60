//! Notes: skipped gaps, quarantined batches and expired data of sessions. The key contains the
//! whole note, so writing a note twice changes nothing.

use porchlight_ports::{Note, StoreResult};
use porchlight_schema::ids::SessionId;

use super::Key;
use crate::engine::KeyRange;
use crate::txn::{Read, Row, Scan, Txn};

/// Returns all notes of a session.
pub(crate) fn range(session_id: SessionId) -> KeyRange {
    KeyRange::prefix(Key::of(b'n').session(session_id).build())
}

/// Adds a note.
pub(crate) fn put(txn: &mut Txn<'_>, session_id: SessionId, note: Note) -> StoreResult<()> {
    if txn.journal_heads.is_erased(session_id) {
        return Ok(());
    }
    let key = Key::of(b'n').session(session_id);
    let key = match note {
        Note::Skipped { first, last } => key.bytes(&[0]).number(first).number(last),
        Note::Quarantined { seq } => key.bytes(&[1]).number(seq),
        Note::TelemetryExpired => key.bytes(&[2]),
        Note::MessagesExpired => key.bytes(&[3]),
    }
    .build();
    if txn.as_read().has_state(&key)? {
        return Ok(());
    }
    txn.put_state(key, &note)
}

/// Returns a session's notes in order: gaps by number, quarantined batches by number, expired data.
pub(crate) fn all(read: &dyn Read, session_id: SessionId) -> StoreResult<Vec<Note>> {
    read.rows(&Scan::state(range(session_id), usize::MAX))?
        .iter()
        .map(Row::decode)
        .collect()
}
