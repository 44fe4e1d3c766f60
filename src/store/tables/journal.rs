//! The journal: a session's batches by number. Acknowledged batches are never overwritten.
//!
//! The writer caches each session's highest number, so that a rising `seq` (nearly every batch)
//! needs no lookup; other numbers are looked up. The number of batches is the highest number plus
//! one, minus the count of missing numbers below it. That count has a row of its own, which only
//! batches out of order write.

use std::sync::Arc;

use porchlight_ports::{Acknowledged, Appended, JournalEntry, StoreError, StoreResult};
use porchlight_schema::ids::SessionId;
use porchlight_schema::limits::JOURNAL_READ_BYTES_MAX;
use porchlight_schema::sample::packed::{PackedBatch, PackedError};
use porchlight_schema::time::TimestampMs;

use super::{Key, sessions, to_score};
use crate::damage::report;
use crate::engine::{KeyRange, Space};
use crate::journal_heads::JournalHead;
use crate::record::{TRAILER_BYTES, damaged, newer};
use crate::txn::{Read, Row, Scan, Txn};

/// The number of the journal row format: format, time received (8 bytes, big-endian), packed batch.
const FORMAT: u8 = 1;
const HEAD_BYTES: usize = 9;
/// The number of rows that one step reads in the search for a session's missing numbers.
const ACKNOWLEDGED_STEP_ROWS: usize = 1_024;

pub(crate) fn key(session_id: SessionId, seq: u32) -> Vec<u8> {
    Key::of(b'j').session(session_id).number(seq).build()
}

/// Returns all batches of a session.
pub(crate) fn range(session_id: SessionId) -> KeyRange {
    KeyRange::prefix(Key::of(b'j').session(session_id).build())
}

pub(crate) fn missing_key(session_id: SessionId) -> Vec<u8> {
    Key::of(b'J').session(session_id).build()
}

/// Returns the session in the key of a count of missing numbers.
pub(crate) fn session_of_missing(key: &[u8]) -> Option<SessionId> {
    let session = key.strip_prefix(b"J")?.try_into().ok()?;
    Some(SessionId::from_bytes(session))
}

fn payload(batch: &PackedBatch, received_at: TimestampMs) -> Vec<u8> {
    let bytes = batch.as_bytes();
    let mut payload = Vec::with_capacity(HEAD_BYTES + bytes.len() + TRAILER_BYTES);
    payload.push(FORMAT);
    payload.extend_from_slice(&received_at.0.to_be_bytes());
    payload.extend_from_slice(bytes);
    payload
}

fn parts<'a>(key: &[u8], payload: &'a [u8]) -> StoreResult<(TimestampMs, &'a [u8])> {
    match payload.split_first() {
        Some((&FORMAT, rest)) => rest
            .split_first_chunk::<8>()
            .map(|(at, batch)| (TimestampMs(i64::from_be_bytes(*at)), batch))
            .ok_or_else(|| damaged(Space::Journal, key, "too short")),
        Some((0, _)) => Err(damaged(Space::Journal, key, "no format")),
        Some((format, _)) => {
            let what = format!("unknown format {format}");
            Err(newer(Space::Journal, key, &what))
        }
        None => Err(damaged(Space::Journal, key, "empty")),
    }
}

fn seq_of(key: &[u8]) -> StoreResult<u32> {
    key.last_chunk::<4>()
        .map(|seq| u32::from_be_bytes(*seq))
        .ok_or_else(|| damaged(Space::Journal, key, "key too short"))
}

fn entry(row: &Row) -> StoreResult<JournalEntry> {
    let (received_at, batch) = parts(&row.key, &row.payload)?;
    Ok(JournalEntry {
        seq: seq_of(&row.key)?,
        received_at,
        batch: PackedBatch::from_bytes(Arc::from(batch))
            .map_err(|error| unpackable(&row.key, error))?,
    })
}

/// Returns the error for a sound row with a batch that cannot be read.
fn unpackable(key: &[u8], error: PackedError) -> StoreError {
    let what = error.to_string();
    match error {
        PackedError::Format(_) => newer(Space::Journal, key, &what),
        PackedError::Damaged(_) => damaged(Space::Journal, key, &what),
    }
}

/// Verifies that a row is a batch, and reads its samples to the end.
pub(crate) fn verify(key: &[u8], payload: &[u8]) -> StoreResult<()> {
    let row = Row {
        key: key.to_vec(),
        payload: payload.to_vec(),
    };
    let batch = entry(&row)?.batch;
    let read = batch.check();
    read.map_err(|error| unpackable(key, error))
}

/// Removes a damaged batch, whose number then counts as missing: the phone can send it again.
pub(crate) fn remove_damaged(
    txn: &mut Txn<'_>,
    session_id: SessionId,
    key: Vec<u8>,
) -> StoreResult<()> {
    txn.delete(Space::Journal, key);
    txn.journal_heads.evict(session_id);
    write_missing(txn, session_id)
}

/// Writes the count of a session's missing numbers as its batches give it.
pub(crate) fn write_missing(txn: &mut Txn<'_>, session_id: SessionId) -> StoreResult<()> {
    let missing = counted_missing(txn.as_read(), session_id)?;
    txn.put_state(missing_key(session_id), &missing)
}

/// Counts a session's missing numbers from the keys of its batches.
fn counted_missing(read: &dyn Read, session_id: SessionId) -> StoreResult<u32> {
    let rows = read.rows(&Scan::journal_keys(range(session_id), usize::MAX))?;
    let next = match rows.last() {
        Some(row) => seq_of(&row.key)?.saturating_add(1),
        None => 0,
    };
    let count = u32::try_from(rows.len()).unwrap_or(u32::MAX);
    Ok(next.saturating_sub(count))
}

/// Reads the head of a journal. A damaged batch, or a damaged count of missing numbers, must not
/// keep the session from receiving further batches.
fn load_head(read: &dyn Read, session_id: SessionId) -> StoreResult<JournalHead> {
    let last = read.rows(&Scan::journal_keys(range(session_id), 1).descending())?;
    let highest = last.first().map(|row| seq_of(&row.key)).transpose()?;
    let missing = match read.state(&missing_key(session_id)) {
        Err(StoreError::Damaged(row)) => {
            report("a count of missing batches", &row);
            counted_missing(read, session_id)?
        }
        missing => missing?.unwrap_or(0),
    };
    Ok(JournalHead {
        highest,
        missing,
        has_ended: sessions::has_ended(read, session_id)?,
        is_erased: false,
    })
}

/// Adds a batch.
pub(crate) fn append(
    txn: &mut Txn<'_>,
    session_id: SessionId,
    seq: u32,
    batch: &PackedBatch,
    received_at: TimestampMs,
) -> StoreResult<Appended> {
    let head = match txn.journal_heads.get(session_id) {
        Some(head) => head,
        None => load_head(txn.as_read(), session_id)?,
    };
    if head.is_erased {
        return Ok(Appended::Erased);
    }
    let key = key(session_id, seq);
    let expected = head.highest.map_or(0, |highest| highest.saturating_add(1));
    let mut next = head;
    if seq >= expected {
        next.highest = Some(seq);
        next.missing = head.missing.saturating_add(seq - expected);
    } else if let Some(there) = txn.get(Space::Journal, &key)? {
        txn.journal_heads.set(session_id, head);
        return Ok(if batch.is_repeat_of(parts(&key, &there)?.1) {
            Appended::Repeated
        } else {
            Appended::Conflict
        });
    } else {
        next.missing = head.missing.saturating_sub(1);
    }
    if next.missing != head.missing {
        txn.put_state(missing_key(session_id), &next.missing)?;
    }
    if head.has_ended {
        to_score::mark(txn, session_id);
    }
    txn.put(Space::Journal, key, payload(batch, received_at));
    let entry = JournalEntry {
        seq,
        received_at,
        batch: batch.clone(),
    };
    txn.on_durable(session_id, entry);
    txn.journal_heads.set(session_id, next);
    Ok(Appended::New)
}

/// Reads batches from `from_seq` on.
pub(crate) fn read(
    read: &dyn Read,
    session_id: SessionId,
    from_seq: u32,
    limit: usize,
) -> StoreResult<Vec<JournalEntry>> {
    let mut scan = Scan::journal(range(session_id), limit);
    scan.range.from = key(session_id, from_seq);
    scan.bytes_max = JOURNAL_READ_BYTES_MAX;
    read.rows(&scan)?.iter().map(entry).collect()
}

/// Returns the highest number and the time at which that batch was received.
pub(crate) fn newest(
    read: &dyn Read,
    session_id: SessionId,
) -> StoreResult<Option<(u32, TimestampMs)>> {
    match read
        .rows(&Scan::journal(range(session_id), 1).descending())?
        .first()
    {
        Some(row) => Ok(Some((seq_of(&row.key)?, parts(&row.key, &row.payload)?.0))),
        None => Ok(None),
    }
}

/// Returns the acknowledged numbers. A session without missing numbers, like nearly all sessions,
/// needs no read of its batches. For another session, only the keys up to its last missing number
/// are read.
pub(crate) fn acknowledged(
    read: &dyn Read,
    session_id: SessionId,
    ranges_max: usize,
) -> StoreResult<Acknowledged> {
    let head = load_head(read, session_id)?;
    let mut acknowledged = Acknowledged::default();
    if head.missing == 0 {
        acknowledged.next_seq = head.highest.map_or(0, |highest| highest.saturating_add(1));
        return Ok(acknowledged);
    }
    let mut scan = Scan::journal_keys(range(session_id), ACKNOWLEDGED_STEP_ROWS);
    let mut missing = head.missing;
    loop {
        let rows = read.rows(&scan)?;
        let Some(last) = rows.last() else {
            return Ok(acknowledged);
        };
        for row in &rows {
            let seq = seq_of(&row.key)?;
            missing = missing.saturating_sub(seq.saturating_sub(acknowledged.next_seq));
            acknowledged.push(seq, ranges_max);
        }
        if missing == 0 {
            let next_seq = head.highest.map_or(0, |highest| highest.saturating_add(1));
            acknowledged.next_seq = acknowledged.next_seq.max(next_seq);
            return Ok(acknowledged);
        }
        scan.range = range(session_id).after(&last.key);
    }
}

/// Returns the number of batches.
pub(crate) fn count(read: &dyn Read, session_id: SessionId) -> StoreResult<u32> {
    let head = load_head(read, session_id)?;
    Ok(head
        .highest
        .map_or(0, |highest| (highest + 1).saturating_sub(head.missing)))
}
