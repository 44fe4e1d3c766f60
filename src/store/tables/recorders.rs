//! Recorders: their version and data, by id.

use porchlight_ports::{RecorderPage, RecorderRow, StoreResult};
use porchlight_schema::ids::RecorderId;
use porchlight_schema::limits::{RECORDER_EXPIRES_SEC_MAX, RECORDER_KEPT_BEYOND_MS};
use porchlight_schema::time::TimestampMs;

use super::Key;
use crate::damage::{readable_rows, skipped};
use crate::engine::{KeyRange, Space};
use crate::txn::{Read, Row, Scan, Txn};

/// The table's letter.
const TABLE: u8 = b'R';
/// The name of a damaged row in the log.
const RECORDER: &str = "a recorder";

fn key(id: RecorderId) -> Vec<u8> {
    Key::of(TABLE).bytes(&id.to_bytes()).build()
}

/// Creates a recorder. An existing recorder is not changed.
pub(crate) fn create(txn: &mut Txn<'_>, id: RecorderId, data: &[u8]) -> StoreResult<()> {
    if find(txn.as_read(), id)?.is_none() {
        txn.put_state(key(id), &(1_u64, data))?;
    }
    Ok(())
}

/// Finds a recorder by its id.
pub(crate) fn find(read: &dyn Read, id: RecorderId) -> StoreResult<Option<RecorderRow>> {
    let row: Option<(u64, Vec<u8>)> = read.state(&key(id))?;
    Ok(row.map(|(version, data)| RecorderRow { version, data }))
}

/// Returns up to `limit` recorders after `after`, and the position after which the next page
/// begins. Damaged ones are left out.
pub(crate) fn page(
    read: &dyn Read,
    after: Option<RecorderId>,
    limit: usize,
) -> StoreResult<RecorderPage> {
    let mut range = KeyRange::prefix([TABLE]);
    if let Some(after) = after {
        range = range.after(&key(after));
    }
    let rows = readable_rows(read, &Scan::state(range, limit), RECORDER)?;
    let id_of = |row: &Row| row.key.last_chunk::<16>().copied();
    let last = rows.last().filter(|_| rows.len() == limit);
    let next = last.and_then(id_of).map(RecorderId::from_bytes);
    let mut recorders = Vec::new();
    for row in rows {
        let decoded = skipped(row.decode().map(Some), RECORDER)?;
        if let Some(((version, data), id)) = decoded.zip(id_of(&row)) {
            recorders.push((RecorderId::from_bytes(id), RecorderRow { version, data }));
        }
    }
    Ok((recorders, next))
}

/// Replaces the stored recorder if it has this version.
pub(crate) fn change(
    txn: &mut Txn<'_>,
    id: RecorderId,
    version: u64,
    data: &[u8],
) -> StoreResult<bool> {
    let stored = find(txn.as_read(), id)?;
    let is_this = stored.is_some_and(|stored| stored.version == version);
    if is_this {
        txn.put_state(key(id), &(version.saturating_add(1), data))?;
    }
    Ok(is_this)
}

/// Removes at most `rows_max` recorders whose creation, according to their ids, is so long ago that
/// they have expired with any permitted lifetime. Returns their number.
pub(crate) fn sweep(txn: &mut Txn<'_>, now: TimestampMs, rows_max: usize) -> StoreResult<usize> {
    let longest_ms = i64::from(RECORDER_EXPIRES_SEC_MAX) * 1_000;
    let made_before = now.plus_ms(-(longest_ms + RECORDER_KEPT_BEYOND_MS));
    let end = key(RecorderId::new(made_before, 0));
    let old = txn.rows(&Scan::keys(
        KeyRange::prefix([TABLE]).before(&end),
        rows_max,
    ))?;
    for row in &old {
        txn.delete(Space::State, row.key.clone());
    }
    Ok(old.len())
}

/// Removes a recorder.
pub(crate) fn remove(txn: &mut Txn<'_>, id: RecorderId) -> StoreResult<bool> {
    let is_there = find(txn.as_read(), id)?.is_some();
    if is_there {
        txn.delete(Space::State, key(id));
    }
    Ok(is_there)
}
