//! The three indexes of a tenant's sessions: all, by delivery, by courier.

use porchlight_schema::ids::SessionId;
use porchlight_schema::session::SessionStart;
use porchlight_schema::time::TimestampMs;

use super::Key;
use crate::engine::Space;
use crate::txn::Txn;

fn prefixes(start: &SessionStart) -> [Key; 3] {
    [
        Key::of(b't').tenant(start.tenant),
        Key::of(b'd').tenant(start.tenant).text(&start.delivery_id),
        Key::of(b'r')
            .tenant(start.tenant)
            .text(&start.external_rider_id),
    ]
}

/// Returns the keys of a session's rows in the three indexes.
pub(crate) fn index_keys(start: &SessionStart) -> [Vec<u8>; 3] {
    prefixes(start).map(|prefix| place(prefix, start.created_at, start.session_id))
}

/// Returns the key of a session's row below a prefix.
pub(crate) fn place(prefix: Key, created_at: TimestampMs, session_id: SessionId) -> Vec<u8> {
    prefix.time(created_at).session(session_id).build()
}

/// Adds a session to the indexes.
pub(crate) fn add(txn: &mut Txn<'_>, start: &SessionStart) {
    for key in index_keys(start) {
        txn.put(Space::State, key, Vec::new());
    }
}
