//! Rows of the journal and of notes, as bytes.

use std::sync::Arc;

use porchlight_ports::{JournalEntry, Note, StoreError, StoreResult};
use porchlight_schema::limits::JOURNAL_PARTITION_BATCHES_MAX;
use porchlight_schema::sample::packed::{FORMAT_WITH_SKIPPED, PackedBatch, PackedError};
use porchlight_schema::time::TimestampMs;

/// Batches per partition before the nodes agreed on bounded partitions.
const LARGE_PARTITION_BATCHES: u32 = 4_096;
/// The format of journal rows: format, time received (8 bytes, big-endian), packed batch.
const FORMAT: u8 = 1;
const HEAD_BYTES: usize = 9;

/// Returns the number of the partition of a journal that has this batch.
pub(super) fn bucket_of(seq: u32, is_bounded: bool) -> i32 {
    let batches = if is_bounded {
        JOURNAL_PARTITION_BATCHES_MAX
    } else {
        LARGE_PARTITION_BATCHES
    };
    cell(seq / batches)
}

/// Returns a batch number as a cell. Numbers beyond the range of a cell do not occur.
pub(super) fn cell(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

/// Returns the batch number in a cell, or the error of a damaged row if it is negative.
pub(super) fn number(cell: i32) -> StoreResult<u32> {
    u32::try_from(cell).map_err(|_| StoreError::Damaged("telemetry: a negative number".to_owned()))
}

/// Encodes a journal row, as [`FORMAT`] describes.
pub(super) fn payload(batch: &PackedBatch, received_at: TimestampMs) -> Vec<u8> {
    let bytes = batch.as_bytes();
    let mut payload = Vec::with_capacity(HEAD_BYTES + bytes.len());
    payload.push(FORMAT);
    payload.extend_from_slice(&received_at.0.to_be_bytes());
    payload.extend_from_slice(bytes);
    payload
}

/// Splits a journal row into the time at which the batch was received, and the packed batch.
pub(super) fn parts(payload: &[u8]) -> StoreResult<(TimestampMs, &[u8])> {
    let damaged = |what: &str| StoreError::Damaged(format!("telemetry: {what}"));
    match payload.split_first() {
        Some((&FORMAT, rest)) => rest
            .split_first_chunk::<8>()
            .map(|(at, batch)| (TimestampMs(i64::from_be_bytes(*at)), batch))
            .ok_or_else(|| damaged("too short")),
        Some((&format, _)) if format > FORMAT => Err(StoreError::Newer(format!(
            "telemetry: unknown format {format}"
        ))),
        Some(_) => Err(damaged("no format")),
        None => Err(damaged("empty")),
    }
}

/// Decodes a journal row that has this number.
pub(super) fn entry(seq: u32, payload: &[u8]) -> StoreResult<JournalEntry> {
    let (received_at, batch) = parts(payload)?;
    let batch = PackedBatch::from_bytes(Arc::from(batch));
    Ok(JournalEntry {
        seq,
        received_at,
        batch: batch.map_err(unpackable)?,
    })
}

/// Returns the error for a row with a batch that cannot be read.
fn unpackable(error: PackedError) -> StoreError {
    let what = format!("telemetry: {error}");
    match error {
        PackedError::Format(format) if format > FORMAT_WITH_SKIPPED => StoreError::Newer(what),
        PackedError::Format(_) | PackedError::Damaged(_) => StoreError::Damaged(what),
    }
}

/// Returns a note's bytes, which sort as notes do.
pub(in super::super) fn note_bytes(note: Note) -> Vec<u8> {
    match note {
        Note::Skipped { first, last } => {
            let mut bytes = vec![0];
            bytes.extend(first.to_be_bytes());
            bytes.extend(last.to_be_bytes());
            bytes
        }
        Note::Quarantined { seq } => {
            let mut bytes = vec![1];
            bytes.extend(seq.to_be_bytes());
            bytes
        }
        Note::TelemetryExpired => vec![2],
        Note::MessagesExpired => vec![3],
    }
}

/// The greatest first byte of a note.
const NOTE_MAX: u8 = 3;

/// Returns the note that [`note_bytes`] encoded.
///
/// # Errors
///
/// Returns [`StoreError::Newer`] if the first byte is that of a later release, and
/// [`StoreError::Damaged`] for other bytes.
pub(super) fn note_of(bytes: &[u8]) -> StoreResult<Note> {
    match bytes.first() {
        Some(&kind) if kind > NOTE_MAX => {
            Err(StoreError::Newer(format!("notes: unknown kind {kind}")))
        }
        _ => known_note(bytes).ok_or_else(|| StoreError::Damaged("notes: not a note".to_owned())),
    }
}

fn known_note(bytes: &[u8]) -> Option<Note> {
    let number = |bytes: &[u8]| Some(u32::from_be_bytes(bytes.try_into().ok()?));
    match bytes.split_first()? {
        (0, rest) if rest.len() == 8 => Some(Note::Skipped {
            first: number(rest.get(..4)?)?,
            last: number(rest.get(4..)?)?,
        }),
        (1, rest) => Some(Note::Quarantined { seq: number(rest)? }),
        (2, []) => Some(Note::TelemetryExpired),
        (3, []) => Some(Note::MessagesExpired),
        _ => None,
    }
}
