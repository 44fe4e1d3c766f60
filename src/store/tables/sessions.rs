//! Sessions: their start, end and PoD.

use porchlight_ports::{
    EndOutcome, Idempotency, MessageBody, NewSession, PodRow, SessionRow, StartOutcome, StoreError,
    StoreResult,
};
use porchlight_schema::ids::SessionId;
use porchlight_schema::session::{SessionEnd, SessionStart, Tenant};
use porchlight_schema::time::TimestampMs;

use super::{Key, idempotency, outbox, session_at_end, session_index, to_score};
use crate::damage::{readable, replaceable};
use crate::engine::{KeyRange, Space};
use crate::txn::{Read, Scan, Txn};

/// The maximum number of starts to read in a range for each session in progress; see
/// [`starts_of_live`].
const STARTS_PER_LIVE_MAX: usize = 4;

pub(crate) fn start_key(session_id: SessionId) -> Vec<u8> {
    Key::of(b's').session(session_id).build()
}

pub(crate) fn end_key(session_id: SessionId) -> Vec<u8> {
    Key::of(b'e').session(session_id).build()
}

pub(crate) fn pod_key(session_id: SessionId) -> Vec<u8> {
    Key::of(b'p').session(session_id).build()
}

pub(crate) fn live_key(session_id: SessionId) -> Vec<u8> {
    Key::of(b'l').session(session_id).build()
}

pub(crate) fn completed_key(completed_at: TimestampMs, session_id: SessionId) -> Vec<u8> {
    Key::of(b'c').time(completed_at).session(session_id).build()
}

/// Returns a session's start.
pub(crate) fn start_of(
    read: &dyn Read,
    session_id: SessionId,
) -> StoreResult<Option<SessionStart>> {
    read.state(&start_key(session_id))
}

/// Returns a session's end.
pub(crate) fn end_of(read: &dyn Read, session_id: SessionId) -> StoreResult<Option<SessionEnd>> {
    read.state(&end_key(session_id))
}

/// Returns whether a session has ended.
pub(crate) fn has_ended(read: &dyn Read, session_id: SessionId) -> StoreResult<bool> {
    read.has_state(&end_key(session_id))
}

/// Returns a session's start and end.
pub(crate) fn find(read: &dyn Read, session_id: SessionId) -> StoreResult<Option<SessionRow>> {
    Ok(match start_of(read, session_id)? {
        Some(start) => Some(SessionRow {
            start,
            end: end_of(read, session_id)?,
        }),
        None => None,
    })
}

/// Returns the stored result of a start with this key, at `now`.
pub(crate) fn find_earlier_start(
    read: &dyn Read,
    tenant: Tenant,
    idempotency: &Idempotency,
    now: TimestampMs,
) -> StoreResult<Option<StartOutcome>> {
    let Some(found) = idempotency::find(read, tenant, idempotency, now)? else {
        return Ok(None);
    };
    if found.body_hash != idempotency.body_hash {
        return Ok(Some(StartOutcome::KeyReused));
    }
    let made = start_of(read, found.session_id)?;
    Ok(made.map(|made| StartOutcome::Repeated(Box::new(made))))
}

/// Creates a session. If its id exists, the start is a repetition.
pub(crate) fn start(txn: &mut Txn<'_>, new: NewSession) -> StoreResult<StartOutcome> {
    let NewSession {
        start,
        idempotency,
        message,
    } = new;
    let (tenant, session_id) = (start.tenant, start.session_id);
    if let Some(idempotency) = &idempotency
        && let Some(before) =
            find_earlier_start(txn.as_read(), tenant, idempotency, start.created_at)?
    {
        return Ok(before);
    }
    if let Some(made) = start_of(txn.as_read(), session_id)? {
        return Ok(StartOutcome::Repeated(Box::new(made)));
    }
    txn.put_state(start_key(session_id), &start)?;
    txn.put(Space::State, live_key(session_id), Vec::new());
    session_index::add(txn, &start);
    if let Some(idempotency) = &idempotency {
        idempotency::put(txn, tenant, idempotency, session_id, start.created_at)?;
    }
    outbox::queue_message(txn, tenant, session_id, message)?;
    Ok(StartOutcome::Created)
}

/// Ends a session; the first end counts.
pub(crate) fn end(
    txn: &mut Txn<'_>,
    session_id: SessionId,
    end: SessionEnd,
    pod: Option<PodRow>,
    message: MessageBody,
) -> StoreResult<Option<EndOutcome>> {
    let Some(row) = find(txn.as_read(), session_id)? else {
        return Ok(None);
    };
    if let Some(end) = row.end {
        return Ok(Some(EndOutcome::later(end)));
    }
    txn.put_state(end_key(session_id), &end)?;
    txn.delete(Space::State, live_key(session_id));
    let completed = completed_key(end.completed_at, session_id);
    txn.put(Space::State, completed, Vec::new());
    if let Some(pod) = pod {
        put_pod(txn, session_id, pod)?;
    }
    outbox::queue_message(txn, row.start.tenant, session_id, message)?;
    to_score::mark(txn, session_id);
    txn.journal_heads.end(session_id);
    Ok(Some(EndOutcome::first(end)))
}

/// Replaces the service's end of a session with the app's own stop. The retention row stays,
/// because the time of completion does not change.
pub(crate) fn stop_after_timeout(
    txn: &mut Txn<'_>,
    session_id: SessionId,
    end: SessionEnd,
    pod: Option<PodRow>,
) -> StoreResult<Option<EndOutcome>> {
    let Some(stored) = end_of(txn.as_read(), session_id)? else {
        return Ok(None);
    };
    if !stored.reason.is_timeout() {
        return Ok(Some(EndOutcome::later(stored)));
    }
    txn.put_state(end_key(session_id), &end)?;
    if let Some(pod) = pod {
        put_pod(txn, session_id, pod)?;
    }
    to_score::mark(txn, session_id);
    Ok(Some(EndOutcome::first(end)))
}

/// Attaches a PoD, which replaces the previous one.
pub(crate) fn attach_pod(
    txn: &mut Txn<'_>,
    session_id: SessionId,
    pod: &PodRow,
) -> StoreResult<bool> {
    if !txn.as_read().has_state(&start_key(session_id))? {
        return Ok(false);
    }
    if !put_pod(txn, session_id, pod.clone())? {
        return Ok(false);
    }
    if has_ended(txn.as_read(), session_id)? {
        to_score::mark(txn, session_id);
    }
    Ok(true)
}

/// Stores a PoD unless it is identical with the stored one. Returns whether it was stored.
fn put_pod(txn: &mut Txn<'_>, session_id: SessionId, pod: PodRow) -> StoreResult<bool> {
    let stored = pod_of(txn.as_read(), session_id)?;
    let Some(pod) = pod.replacing(stored.as_ref()) else {
        return Ok(false);
    };
    txn.put_state(pod_key(session_id), &pod)?;
    Ok(true)
}

/// Returns a session's PoD.
pub(crate) fn pod_of(read: &dyn Read, session_id: SessionId) -> StoreResult<Option<PodRow>> {
    read.state(&pod_key(session_id))
}

/// Returns the live sessions, in order of id.
pub(crate) fn live(
    read: &dyn Read,
    after: Option<SessionId>,
    limit: usize,
) -> StoreResult<Vec<SessionRow>> {
    let mut range = KeyRange::prefix([b'l']);
    if let Some(after) = after {
        range = range.after(&live_key(after));
    }
    loop {
        let rows = read.rows(&Scan::keys(range.clone(), limit))?;
        let live: Vec<_> = rows
            .iter()
            .filter_map(|row| session_at_end(&row.key))
            .collect();
        let sessions = starts_of_live(read, &live)?;
        match rows.last() {
            // All sessions of this page are damaged: an empty page would end the list.
            Some(last) if sessions.is_empty() => range = range.after(&last.key),
            _ => return Ok(sessions),
        }
    }
}

/// Returns the starts of these sessions, in order of id. The row of a session in progress is
/// removed with the write that ends it, so the ends are not read. A session that is damaged, or
/// was swept meanwhile, is left out.
///
/// A range of rows is read in less time than the same rows one by one: reading each start and each
/// end alone took half of the start of a node with a million sessions. The range is read unless
/// most of its rows belong to sessions that have ended.
fn starts_of_live(read: &dyn Read, live: &[SessionId]) -> StoreResult<Vec<SessionRow>> {
    let (Some(&first), Some(&last)) = (live.first(), live.last()) else {
        return Ok(Vec::new());
    };
    let range = KeyRange {
        from: start_key(first),
        to: KeyRange::prefix(start_key(last)).to,
    };
    let rows = match read.rows(&Scan::state(range, live.len() * STARTS_PER_LIVE_MAX)) {
        Ok(rows) => rows,
        // The range has a damaged row, so its sessions are read one by one below.
        Err(StoreError::Damaged(_)) => Vec::new(),
        Err(error) => return Err(error),
    };
    let mut rows = rows.into_iter().peekable();
    let mut sessions = Vec::with_capacity(live.len());
    for &session_id in live {
        let key = start_key(session_id);
        while rows.next_if(|row| row.key < key).is_some() {}
        let start = match rows.next_if(|row| row.key == key) {
            Some(row) => row.decode().map(Some),
            None => start_of(read, session_id),
        };
        let start = readable(start, session_id, "a session")?;
        sessions.extend(start.map(|start| SessionRow { start, end: None }));
    }
    Ok(sessions)
}

/// Returns the current state of a session, or `None` if it does not exist or its start is
/// damaged. A session whose end is damaged counts as recording, so that an erasure finds it.
pub(crate) fn find_readable(
    read: &dyn Read,
    session_id: SessionId,
) -> StoreResult<Option<SessionRow>> {
    let start = replaceable(start_of(read, session_id), session_id, "a session")?;
    let Some(start) = start else {
        return Ok(None);
    };
    let end = replaceable(end_of(read, session_id), session_id, "the end of a session")?;
    Ok(Some(SessionRow { start, end }))
}
