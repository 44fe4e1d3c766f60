//! Reviews of decisions, by session.

use porchlight_ports::StoreResult;
use porchlight_schema::ids::SessionId;
use porchlight_schema::review::Review;

use super::{Key, sessions};
use crate::txn::{Read, Txn};

pub(crate) fn key(session_id: SessionId) -> Vec<u8> {
    Key::of(b'V').session(session_id).build()
}

/// Replaces the review of a session. Returns `false` if there is no such session.
pub(crate) fn put(txn: &mut Txn<'_>, session_id: SessionId, review: &Review) -> StoreResult<bool> {
    let is_there = sessions::start_of(txn.as_read(), session_id)?.is_some();
    if is_there {
        txn.put_state(key(session_id), review)?;
    }
    Ok(is_there)
}

/// Returns the review of a session.
pub(crate) fn of_session(read: &dyn Read, session_id: SessionId) -> StoreResult<Option<Review>> {
    read.state(&key(session_id))
}
