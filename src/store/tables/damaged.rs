//! Sessions whose start is damaged. Lists leave them out; an erasure finds them by the lists'
//! keys, which name the tenant, the courier or the delivery, and the session.

use porchlight_ports::{StoreError, StoreResult};
use porchlight_schema::ids::SessionId;
use porchlight_schema::privacy::Subject;
use porchlight_schema::session::Tenant;
use porchlight_schema::time::TimestampMs;

use super::{Key, session_at_end, sessions, time_from};
use crate::engine::KeyRange;
use crate::txn::{Read, Scan};

/// The tables that list sessions: of a tenant, of a delivery, of a courier.
const LISTS: [u8; 3] = *b"tdr";
/// The number of keys per read.
const PAGE_ROWS: usize = 4_096;

/// Returns whether a session has rows but no readable start. A quarantined start is removed, and
/// the row of a session in progress or of its end stays.
pub(crate) fn is_damaged(read: &dyn Read, session_id: SessionId) -> StoreResult<bool> {
    match sessions::start_of(read, session_id) {
        Err(StoreError::Damaged(_)) => return Ok(true),
        start => {
            if start?.is_some() {
                return Ok(false);
            }
        }
    }
    for key in [
        sessions::live_key(session_id),
        sessions::end_key(session_id),
    ] {
        if !read.rows(&Scan::keys(KeyRange::prefix(key), 1))?.is_empty() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns the damaged sessions of a subject that were created up to `until`.
pub(crate) fn sessions_of(
    read: &dyn Read,
    tenant: Tenant,
    subject: &Subject,
    until: TimestampMs,
) -> StoreResult<Vec<SessionId>> {
    let (prefix, only) = match subject {
        Subject::DeliveryId(id) => (Key::of(b'd').tenant(tenant).text(id), None),
        Subject::ExternalRiderId(id) => (Key::of(b'r').tenant(tenant).text(id), None),
        Subject::SessionId(id) if !is_damaged(read, *id)? => return Ok(Vec::new()),
        Subject::SessionId(id) => (Key::of(b't').tenant(tenant), Some(*id)),
    };
    let mut found = Vec::new();
    visit(read, prefix.build(), |key| {
        let (Some(created_at), Some(session_id)) = (created_at(key), session_at_end(key)) else {
            return Ok(());
        };
        let is_covered = created_at <= until && only.is_none_or(|only| only == session_id);
        if is_covered && is_damaged(read, session_id)? {
            found.push(session_id);
        }
        Ok(())
    })?;
    Ok(found)
}

/// Returns the keys of a session's rows in the lists. They do not follow from a damaged start,
/// so this reads the keys of all sessions.
pub(crate) fn listed_keys(read: &dyn Read, session_id: SessionId) -> StoreResult<Vec<Vec<u8>>> {
    let mut found = Vec::new();
    for table in LISTS {
        visit(read, vec![table], |key| {
            if session_at_end(key) == Some(session_id) {
                found.push(key.to_vec());
            }
            Ok(())
        })?;
    }
    Ok(found)
}

/// Returns the time in a key of a list, which precedes the session.
fn created_at(key: &[u8]) -> Option<TimestampMs> {
    let before_session = key.len().checked_sub(16)?;
    let time = key.get(..before_session)?.last_chunk::<8>()?;
    Some(time_from(*time))
}

/// Calls `on_key` with each key that begins with `prefix`.
fn visit(
    read: &dyn Read,
    prefix: Vec<u8>,
    mut on_key: impl FnMut(&[u8]) -> StoreResult<()>,
) -> StoreResult<()> {
    let mut range = KeyRange::prefix(prefix);
    loop {
        let rows = read.rows(&Scan::keys(range.clone(), PAGE_ROWS))?;
        for row in &rows {
            on_key(&row.key)?;
        }
        match rows.last() {
            Some(last) if rows.len() == PAGE_ROWS => range = range.after(&last.key),
            _ => return Ok(()),
        }
    }
}
