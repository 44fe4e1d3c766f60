//! Insights, and data learned from them.

use porchlight_core::retention::{belongs_to_session, is_of_one_session};
use porchlight_ports::{Covered, MessageBody, StoreError, StoreResult, StoredInsight};
use porchlight_schema::ids::SessionId;

use super::{Key, journal, outbox, sessions, to_score};
use crate::engine::{KeyRange, Space};
use crate::txn::{Read, Scan, Txn};

pub(crate) fn key(session_id: SessionId) -> Vec<u8> {
    Key::of(b'v').session(session_id).build()
}

fn learned_key(key: &[u8; 32]) -> Vec<u8> {
    Key::of(b'w').bytes(key).build()
}

/// Returns the keys of the learned rows that a session's first insight wrote.
pub(super) fn learned_range(session_id: SessionId) -> KeyRange {
    KeyRange::prefix(Key::of(b'W').session(session_id).build())
}

/// Commits an insight if its revision follows the stored one and its session exists.
pub(crate) fn commit(
    txn: &mut Txn<'_>,
    session_id: SessionId,
    insight: &StoredInsight,
    message: MessageBody,
    learned: Vec<([u8; 32], Vec<u8>)>,
) -> StoreResult<bool> {
    let Some(start) = sessions::start_of(txn.as_read(), session_id)? else {
        return Ok(false);
    };
    match newest(txn.as_read(), session_id) {
        // A damaged insight is replaced, regardless of its revision.
        Err(StoreError::Damaged(_)) => {}
        stored => {
            let revision = stored?.map_or(0, |stored| stored.record.revision);
            if revision.checked_add(1) != Some(insight.record.revision) {
                return Ok(false);
            }
        }
    }
    txn.put_state(key(session_id), insight)?;
    for (key, value) in learned {
        let by_session = Key::of(b'W').session(session_id).bytes(&key).build();
        txn.put(Space::State, by_session, Vec::new());
        txn.put(Space::State, learned_key(&key), value);
    }
    outbox::queue_message(txn, start.tenant, session_id, message)?;
    match present(txn.as_read(), session_id) {
        Ok(present) if present != insight.covered => {}
        // If its rows are damaged, no better insight can be expected.
        Ok(_) | Err(StoreError::Damaged(_)) => to_score::clear(txn, session_id),
        Err(error) => return Err(error),
    }
    Ok(true)
}

/// Marks a session whose insight is `failed`, because a damaged batch, which may be the cause, is
/// removed: the next start scores the session again.
pub(crate) fn mark_if_failed(txn: &mut Txn<'_>, session_id: SessionId) -> StoreResult<()> {
    let stored = match newest(txn.as_read(), session_id) {
        Err(error) if error.is_of_single_rows() => None,
        stored => stored?,
    };
    if stored.is_some_and(|stored| stored.record.error_message.is_some()) {
        to_score::mark(txn, session_id);
    }
    Ok(())
}

/// Returns the data that an insight would have to cover now.
fn present(read: &dyn Read, session_id: SessionId) -> StoreResult<Covered> {
    Ok(Covered {
        batches: journal::count(read, session_id)?,
        pod_received_at: sessions::pod_of(read, session_id)?.map(|pod| pod.received_at),
        late_stop_at: sessions::end_of(read, session_id)?.and_then(|end| end.late_stop_at()),
    })
}

/// Returns a session's newest insight.
pub(crate) fn newest(read: &dyn Read, session_id: SessionId) -> StoreResult<Option<StoredInsight>> {
    read.state(&key(session_id))
}

/// Returns the data learned under this key.
pub(crate) fn recall(read: &dyn Read, key: &[u8; 32]) -> StoreResult<Option<Vec<u8>>> {
    read.get(Space::State, &learned_key(key))
}

/// Returns the keys of the learned rows that a session's first insight wrote.
pub(crate) fn learned_by(read: &dyn Read, session_id: SessionId) -> StoreResult<Vec<[u8; 32]>> {
    let rows = read.rows(&Scan::keys(learned_range(session_id), usize::MAX))?;
    let keys = rows
        .iter()
        .filter_map(|row| row.key.last_chunk::<32>().copied());
    Ok(keys.collect())
}

/// Removes the traces of a session that is removed. The other learned rows stay.
pub(super) fn remove_traces(txn: &mut Txn<'_>, session_id: SessionId) -> StoreResult<()> {
    for key in learned_by(txn.as_read(), session_id)? {
        if !is_of_one_session(&key) {
            continue;
        }
        let is_removed = match recall(txn.as_read(), &key) {
            // No session can use a damaged row.
            Err(StoreError::Damaged(_)) => true,
            row => row?.is_some_and(|row| belongs_to_session(session_id, &key, &row)),
        };
        if is_removed {
            txn.delete(Space::State, learned_key(&key));
        }
    }
    Ok(())
}

/// Replaces the data learned under this key if it now is `expected`. Returns whether it was.
pub(crate) fn replace_learned(
    txn: &mut Txn<'_>,
    key: &[u8; 32],
    expected: &[u8],
    data: Option<Vec<u8>>,
) -> StoreResult<bool> {
    if recall(txn.as_read(), key)?.as_deref() != Some(expected) {
        return Ok(false);
    }
    match data {
        Some(data) => txn.put(Space::State, learned_key(key), data),
        None => txn.delete(Space::State, learned_key(key)),
    }
    Ok(true)
}
