//! Lists of a tenant's sessions, newest first, over three indexes: all, by delivery, by courier.

use std::ops::ControlFlow;

use porchlight_ports::{Page, SessionFilter, SessionRow, StoreResult};
use porchlight_schema::ids::SessionId;
use porchlight_schema::limits::LIST_SCANNED_ROWS_MAX;
use porchlight_schema::session::Tenant;
use porchlight_schema::time::TimestampMs;

use super::session_index::place;
use super::{Key, session_at_end, sessions};
use crate::engine::KeyRange;
use crate::txn::{Read, Scan};

/// The number of index rows per read.
const CHUNK_ROWS: usize = 256;

/// Returns the narrowest index for a filter.
fn index(tenant: Tenant, filter: &SessionFilter) -> Vec<u8> {
    match (&filter.delivery_id, &filter.external_rider_id) {
        (Some(delivery_id), _) => Key::of(b'd').tenant(tenant).text(delivery_id),
        (None, Some(rider_id)) => Key::of(b'r').tenant(tenant).text(rider_id),
        (None, None) => Key::of(b't').tenant(tenant),
    }
    .build()
}

fn range(
    read: &dyn Read,
    prefix: &[u8],
    filter: &SessionFilter,
    after: Option<SessionId>,
) -> StoreResult<KeyRange> {
    let at = |time: TimestampMs| Key(prefix.to_vec()).time(time).build();
    let mut range = KeyRange::prefix(prefix);
    if let Some(from) = filter.from {
        range.from = at(from);
    }
    if let Some(to) = filter.to {
        range = range.before(&at(to));
    }
    if let Some(after) = after {
        // A session that was removed in the meantime is located by the time in its id.
        let created_at = sessions::start_of(read, after)?
            .map_or_else(|| after.made_at(), |start| start.created_at);
        range = range.before(&place(Key(prefix.to_vec()), created_at, after));
    }
    Ok(range)
}

/// Reads one page. A page may be shorter than `limit` and still have a successor if many rows did
/// not match.
pub(crate) fn page(
    read: &dyn Read,
    tenant: Tenant,
    filter: &SessionFilter,
    limit: usize,
    after: Option<SessionId>,
) -> StoreResult<Page<SessionRow, SessionId>> {
    let prefix = index(tenant, filter);
    let mut range = range(read, &prefix, filter, after)?;
    let mut rows: Vec<SessionRow> = Vec::new();
    let mut scanned = 0;
    loop {
        let chunk = read.rows(&Scan::keys(range.clone(), CHUNK_ROWS).descending())?;
        let Some(last) = chunk.last() else {
            return Ok(Page { rows, next: None });
        };
        range = range.before(&last.key);
        let is_last_chunk = chunk.len() < CHUNK_ROWS;
        for session_id in chunk.iter().filter_map(|row| session_at_end(&row.key)) {
            scanned += 1;
            if let ControlFlow::Break(next) = take(read, session_id, filter, limit, &mut rows)? {
                return Ok(Page { rows, next });
            }
            if scanned >= LIST_SCANNED_ROWS_MAX {
                return Ok(Page {
                    rows,
                    next: Some(session_id),
                });
            }
        }
        if is_last_chunk {
            return Ok(Page { rows, next: None });
        }
    }
}

/// Adds a matching session to the page; breaks with the cursor if the page is full.
fn take(
    read: &dyn Read,
    session_id: SessionId,
    filter: &SessionFilter,
    limit: usize,
    rows: &mut Vec<SessionRow>,
) -> StoreResult<ControlFlow<Option<SessionId>>> {
    if let Some(row) = sessions::find_readable(read, session_id)?
        && filter.matches(&row)
    {
        if rows.len() >= limit {
            let cursor = rows.last().map(|row| row.start.session_id);
            return Ok(ControlFlow::Break(cursor));
        }
        rows.push(row);
    }
    Ok(ControlFlow::Continue(()))
}
