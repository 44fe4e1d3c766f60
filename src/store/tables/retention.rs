//! Retention: removes sessions that were completed long ago, with all their rows, in small steps.

use porchlight_ports::StoreResult;
use porchlight_schema::ids::SessionId;
use porchlight_schema::message::Message;
use porchlight_schema::session::SessionStart;
use porchlight_schema::time::TimestampMs;

use super::{
    insights, journal, messages, notes, outbox, restrictions, reviews, session_at_end,
    session_index, sessions, snapshots, time_from, to_score,
};
use crate::damage::readable;
use crate::engine::{KeyRange, Space};
use crate::txn::{Read, Row, Scan, Txn};

/// The number of rows per read when counting.
const COUNT_PAGE_ROWS: usize = 4_096;

/// The result of one step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// No session is old enough.
    Done,
    /// Some rows of a session were removed; it has more.
    Begun,
    /// A session was removed.
    Removed,
    /// A session is, or may be, restricted or under a legal hold, and stays. The next step begins
    /// after this row.
    Kept(Vec<u8>),
}

/// Returns the newest stored time, which is that of the last creation or completion of a session.
/// The keys contain it, so it is known even if the rows are damaged.
pub(crate) fn newest_time(read: &dyn Read) -> StoreResult<Option<TimestampMs>> {
    let last = |table: u8| -> StoreResult<Option<Row>> {
        let scan = Scan::keys(KeyRange::prefix([table]), 1).descending();
        Ok(read.rows(&scan)?.into_iter().next())
    };
    let made = last(b's')?.and_then(|row| session_at_end(&row.key));
    let completed = last(b'c')?.and_then(|row| completed_at(&row.key));
    Ok(made.map(SessionId::made_at).max(completed))
}

/// Returns the time in a row's key that names a completed session.
fn completed_at(key: &[u8]) -> Option<TimestampMs> {
    let (time, _) = key.get(1..)?.split_first_chunk::<8>()?;
    Some(time_from(*time))
}

/// Returns the number of completed sessions, counting at most `max`.
pub(crate) fn completed(read: &dyn Read, max: u64) -> StoreResult<u64> {
    let mut range = KeyRange::prefix([b'c']);
    let mut count = 0;
    while count < max {
        let rows = read.rows(&Scan::keys(range.clone(), COUNT_PAGE_ROWS))?;
        count += rows.len() as u64;
        match rows.last() {
            Some(last) if rows.len() == COUNT_PAGE_ROWS => range = range.after(&last.key),
            _ => break,
        }
    }
    Ok(count.min(max))
}

/// Removes the oldest completed session after the row `after` if it was completed before `before`,
/// unless it is restricted or under a legal hold. Each call removes at most `rows_max` batches; the
/// call that finds no batch removes all other rows of the session, whose number its changes and
/// their messages determine. The row that names the session is removed last, so that an
/// interrupted sweep continues where it stopped.
pub(crate) fn step(
    txn: &mut Txn<'_>,
    before: TimestampMs,
    after: Option<&[u8]>,
    rows_max: usize,
) -> StoreResult<Step> {
    let end = super::Key::of(b'c').time(before).build();
    let mut range = KeyRange::prefix([b'c']).before(&end);
    if let Some(after) = after {
        range = range.after(after);
    }
    let old = txn.rows(&Scan::keys(range, 1))?;
    let Some(row) = old.into_iter().next() else {
        return Ok(Step::Done);
    };
    if let Some(session_id) = session_at_end(&row.key) {
        if is_kept(txn.as_read(), session_id)? {
            return Ok(Step::Kept(row.key));
        }
        if remove_batches(txn, session_id, rows_max)? {
            return Ok(Step::Begun);
        }
        remove_state(txn, session_id)?;
    }
    txn.delete(Space::State, row.key);
    Ok(Step::Removed)
}

/// Returns whether a session is, or may be, restricted or under a legal hold.
fn is_kept(read: &dyn Read, session_id: SessionId) -> StoreResult<bool> {
    match sessions::start_of(read, session_id) {
        Ok(Some(start)) => restrictions::is_kept(read, &start),
        Ok(None) => Ok(false),
        Err(error) => {
            // Returns any error other than a damaged row.
            readable::<SessionStart>(Err(error), session_id, "the start of an old session")?;
            restrictions::may_be_kept(read)
        }
    }
}

/// Removes up to `rows_max` batches of a session. Returns whether there may be more.
pub(super) fn remove_batches(
    txn: &mut Txn<'_>,
    session_id: SessionId,
    rows_max: usize,
) -> StoreResult<bool> {
    let rows = txn.rows(&Scan::journal_keys(journal::range(session_id), rows_max))?;
    let more = rows.len() >= rows_max;
    for row in rows {
        txn.delete(Space::Journal, row.key);
    }
    txn.journal_heads.evict(session_id);
    Ok(more)
}

/// Removes up to `rows_max` batches of a session or, once no batch is left, its snapshot. Returns
/// whether the session has more telemetry.
pub(crate) fn remove_telemetry(
    txn: &mut Txn<'_>,
    session_id: SessionId,
    rows_max: usize,
) -> StoreResult<bool> {
    if remove_batches(txn, session_id, rows_max)? {
        return Ok(true);
    }
    for key in [journal::missing_key(session_id), snapshots::key(session_id)] {
        txn.delete(Space::State, key);
    }
    Ok(false)
}

/// Removes the messages of a session with their attempts and their places in the outbox.
pub(crate) fn remove_messages(txn: &mut Txn<'_>, session_id: SessionId) -> StoreResult<()> {
    for row in txn.rows(&Scan::keys(messages::range(session_id), usize::MAX))? {
        remove_message_id(txn, session_id, &row.key)?;
        txn.delete(Space::State, row.key);
    }
    Ok(())
}

/// Removes all rows of a session except its batches, and the rows that list it as live or
/// completed.
pub(super) fn remove_state(txn: &mut Txn<'_>, session_id: SessionId) -> StoreResult<()> {
    // The index of the session's learned rows, which leads to its traces, is removed below.
    insights::remove_traces(txn, session_id)?;
    remove_messages(txn, session_id)?;
    for range in [
        notes::range(session_id),
        insights::learned_range(session_id),
    ] {
        for row in txn.rows(&Scan::keys(range, usize::MAX))? {
            txn.delete(Space::State, row.key);
        }
    }
    // If the start is damaged, the lists keep its rows, which then name a deleted session.
    let start = sessions::start_of(txn.as_read(), session_id);
    if let Some(start) = readable(start, session_id, "the start of an old session")? {
        for key in session_index::index_keys(&start) {
            txn.delete(Space::State, key);
        }
    }
    for key in [
        sessions::start_key(session_id),
        sessions::end_key(session_id),
        sessions::pod_key(session_id),
        journal::missing_key(session_id),
        insights::key(session_id),
        reviews::key(session_id),
        to_score::key(session_id),
        snapshots::key(session_id),
    ] {
        txn.delete(Space::State, key);
    }
    Ok(())
}

fn remove_message_id(txn: &mut Txn<'_>, session_id: SessionId, key: &[u8]) -> StoreResult<()> {
    let message = txn.as_read().state::<Message>(key);
    if let Some(message) = readable(message, session_id, "a message of an old session")? {
        outbox::remove(txn, &message)?;
        txn.delete(Space::State, messages::id_key(message.id));
    }
    Ok(())
}
