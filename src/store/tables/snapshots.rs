//! Snapshots: the newest of each session.

use porchlight_actors::ports::{Snapshot, StoreResult};
use porchlight_schema::ids::SessionId;

use super::Key;
use crate::store::txn::{Read, Txn};

pub(crate) fn key(session_id: SessionId) -> Vec<u8> {
    Key::of(b'a').session(session_id).build()
}

/// Writes a snapshot unless a newer one is there.
pub(crate) fn put(
    txn: &mut Txn<'_>,
    session_id: SessionId,
    snapshot: &Snapshot,
) -> StoreResult<()> {
    if let Some(stored) = newest(txn.as_read(), session_id)?
        && (stored.generation, stored.next_seq) > (snapshot.generation, snapshot.next_seq)
    {
        return Ok(());
    }
    txn.put_state(
        key(session_id),
        &(snapshot.generation, snapshot.next_seq, &snapshot.state),
    )
}

/// The newest snapshot.
pub(crate) fn newest(read: &dyn Read, session_id: SessionId) -> StoreResult<Option<Snapshot>> {
    let row: Option<(u64, u32, Vec<u8>)> = read.state(&key(session_id))?;
    Ok(row.map(|(generation, next_seq, state)| Snapshot {
        generation,
        next_seq,
        state,
    }))
}
