//! Reads and writes rows: [`Read`] over applied rows, [`Txn`] over those and the writes of the
//! present group.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use porchlight_ports::{JournalEntry, StoreError, StoreResult};
use porchlight_schema::ids::SessionId;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::engine::{Engine, EngineError, KeyRange, Order, Space, Visit, Write};
use super::journal_heads::JournalHeads;
use super::record;

impl From<EngineError> for StoreError {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Damaged(what) => Self::Damaged(what),
            EngineError::Failed(_) => Self::unavailable(error),
        }
    }
}

/// A row: its key and its verified payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// The key of the row.
    pub key: Vec<u8>,
    /// The payload of the row.
    pub payload: Vec<u8>,
}

/// The rows to read.
#[derive(Debug, Clone)]
pub struct Scan {
    /// The key space.
    pub space: Space,
    /// The range of keys.
    pub range: KeyRange,
    /// The order of the rows.
    pub order: Order,
    /// The maximum number of rows.
    pub rows_max: usize,
    /// The scan ends after the row with which the payloads reach this many bytes.
    pub bytes_max: usize,
    /// Whether rows are returned without their payloads and without a check: for rows that are
    /// fully described by their key, and that can be removed even when they are damaged.
    pub keys_only: bool,
}

impl Scan {
    /// Returns a scan of at most `rows_max` rows of [`Space::State`], smallest key first.
    #[must_use]
    pub fn state(range: KeyRange, rows_max: usize) -> Self {
        Self {
            space: Space::State,
            range,
            order: Order::Ascending,
            rows_max,
            bytes_max: usize::MAX,
            keys_only: false,
        }
    }

    /// Returns a scan of the keys of at most `rows_max` rows of [`Space::State`], smallest first.
    #[must_use]
    pub fn keys(range: KeyRange, rows_max: usize) -> Self {
        Self {
            keys_only: true,
            ..Self::state(range, rows_max)
        }
    }

    /// Returns a scan of at most `rows_max` rows of [`Space::Journal`], smallest key first.
    #[must_use]
    pub fn journal(range: KeyRange, rows_max: usize) -> Self {
        Self {
            space: Space::Journal,
            ..Self::state(range, rows_max)
        }
    }

    /// Returns a scan of the keys of at most `rows_max` rows of [`Space::Journal`], smallest first.
    #[must_use]
    pub fn journal_keys(range: KeyRange, rows_max: usize) -> Self {
        Self {
            keys_only: true,
            ..Self::journal(range, rows_max)
        }
    }

    /// Reverses the order: greatest key first.
    #[must_use]
    pub fn descending(mut self) -> Self {
        self.order = Order::Descending;
        self
    }
}

/// Reads rows. Both methods block and may read the disk.
pub trait Read {
    /// Returns the payload under `key`.
    fn get(&self, space: Space, key: &[u8]) -> StoreResult<Option<Vec<u8>>>;

    /// Returns the rows of a range, in order.
    fn rows(&self, scan: &Scan) -> StoreResult<Vec<Row>>;
}

impl dyn Read + '_ {
    /// Returns the decoded row under `key` of [`Space::State`].
    pub fn state<T: DeserializeOwned>(&self, key: &[u8]) -> StoreResult<Option<T>> {
        self.get(Space::State, key)?
            .map(|payload| record::decode(Space::State, key, &payload))
            .transpose()
    }

    /// Returns whether [`Space::State`] has a row under `key`.
    pub fn has_state(&self, key: &[u8]) -> StoreResult<bool> {
        Ok(self.get(Space::State, key)?.is_some())
    }
}

impl Row {
    /// Decodes the payload of a row of [`Space::State`].
    pub fn decode<T: DeserializeOwned>(&self) -> StoreResult<T> {
        record::decode(Space::State, &self.key, &self.payload)
    }
}

/// Reads applied rows.
pub struct Reader<'a>(pub &'a dyn Engine);

impl Read for Reader<'_> {
    fn get(&self, space: Space, key: &[u8]) -> StoreResult<Option<Vec<u8>>> {
        match self.0.get(space, key)? {
            Some(value) => Ok(Some(record::verified(space, key, value)?.0)),
            None => Ok(None),
        }
    }

    fn rows(&self, scan: &Scan) -> StoreResult<Vec<Row>> {
        let mut rows = Vec::new();
        if scan.range.is_empty() || scan.rows_max == 0 {
            return Ok(rows);
        }
        let mut bytes = 0;
        let mut result = Ok(());
        let visit: &mut Visit<'_> = &mut |key, value| match payload_of(scan, key, value) {
            Ok(payload) => {
                bytes += payload.len();
                rows.push(Row {
                    key: key.to_vec(),
                    payload,
                });
                if rows.len() >= scan.rows_max || bytes >= scan.bytes_max {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            }
            Err(error) => {
                result = Err(error);
                ControlFlow::Break(())
            }
        };
        if scan.keys_only {
            self.0
                .scan_keys(scan.space, &scan.range, scan.order, visit)?;
        } else {
            self.0.scan(scan.space, &scan.range, scan.order, visit)?;
        }
        result.map(|()| rows)
    }
}

fn payload_of(scan: &Scan, key: &[u8], value: &[u8]) -> StoreResult<Vec<u8>> {
    if scan.keys_only {
        return Ok(Vec::new());
    }
    record::verified(scan.space, key, value.to_vec()).map(|(payload, _)| payload)
}

/// A new payload; `None` removes the row.
type Decided = Option<Vec<u8>>;

type Overlay = BTreeMap<Vec<u8>, Decided>;

/// The writes of the operations of one group so far.
#[derive(Default)]
pub(crate) struct Group {
    journal: Overlay,
    state: Overlay,
    /// The earlier content of each key that the present operation wrote.
    undo: Vec<(Space, Vec<u8>, Option<Decided>)>,
    /// Batches to deliver once the group is durable.
    pub(crate) batches: Vec<(SessionId, JournalEntry)>,
    batches_before: usize,
}

impl Group {
    fn overlay(&mut self, space: Space) -> &mut Overlay {
        match space {
            Space::Journal => &mut self.journal,
            Space::State => &mut self.state,
        }
    }

    /// Keeps the present operation's writes.
    pub(crate) fn keep(&mut self) {
        self.undo.clear();
        self.batches_before = self.batches.len();
    }

    /// Rolls back the present operation's writes.
    pub(crate) fn roll_back(&mut self) {
        for (space, key, before) in std::mem::take(&mut self.undo).into_iter().rev() {
            match before {
                Some(before) => self.overlay(space).insert(key, before),
                None => self.overlay(space).remove(&key),
            };
        }
        self.batches.truncate(self.batches_before);
    }

    /// Returns whether the group writes nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.journal.is_empty() && self.state.is_empty()
    }

    /// Takes the group's writes for the engine, each value with the group's number and a checksum.
    /// `batches` stays.
    pub(crate) fn writes(&mut self, group_number: u64) -> Vec<Write> {
        let mut writes = Vec::with_capacity(self.journal.len() + self.state.len() + 2);
        for space in Space::ALL {
            let rows = std::mem::take(self.overlay(space));
            writes.extend(
                rows.into_iter().map(|(key, payload)| Write {
                    space,
                    value: payload
                        .map(|payload| record::with_checksum(space, &key, payload, group_number)),
                    key,
                }),
            );
        }
        writes
    }
}

/// The view of an operation on the writer's thread: it reads everything decided before it, and its
/// writes become durable with its group. A failed operation leaves nothing behind.
///
/// Only the writer's thread has a `Txn`, so "read, decide, write" needs no lock.
pub struct Txn<'a> {
    pub(crate) engine: &'a dyn Engine,
    pub(crate) group: &'a mut Group,
    pub(crate) journal_heads: &'a mut JournalHeads,
}

impl Txn<'_> {
    fn write(&mut self, space: Space, key: Vec<u8>, payload: Option<Vec<u8>>) {
        let before = self.group.overlay(space).insert(key.clone(), payload);
        self.group.undo.push((space, key, before));
    }

    /// Writes a raw payload. Errors quote keys, so keys contain ids, times, hashes and names of
    /// organizations, and no secrets.
    pub fn put(&mut self, space: Space, key: Vec<u8>, payload: Vec<u8>) {
        self.write(space, key, Some(payload));
    }

    /// Encodes a value and writes it to [`Space::State`].
    pub fn put_state<T: Serialize>(&mut self, key: Vec<u8>, value: &T) -> StoreResult<()> {
        let payload = record::encode(value)?;
        self.put(Space::State, key, payload);
        Ok(())
    }

    /// Removes a row if it exists.
    pub fn delete(&mut self, space: Space, key: Vec<u8>) {
        self.write(space, key, None);
    }

    /// Delivers a batch once it is durable.
    pub(crate) fn on_durable(&mut self, session_id: SessionId, entry: JournalEntry) {
        self.group.batches.push((session_id, entry));
    }

    /// Returns this transaction as a reader.
    #[must_use]
    pub fn as_read(&self) -> &dyn Read {
        self
    }

    fn peek(&self, space: Space) -> &Overlay {
        match space {
            Space::Journal => &self.group.journal,
            Space::State => &self.group.state,
        }
    }
}

impl Read for Txn<'_> {
    fn get(&self, space: Space, key: &[u8]) -> StoreResult<Option<Vec<u8>>> {
        match self.peek(space).get(key) {
            Some(payload) => Ok(payload.clone()),
            None => Reader(self.engine).get(space, key),
        }
    }

    fn rows(&self, scan: &Scan) -> StoreResult<Vec<Row>> {
        if scan.range.is_empty() || scan.rows_max == 0 {
            return Ok(Vec::new());
        }
        let upper = if scan.range.to.is_empty() {
            std::ops::Bound::Unbounded
        } else {
            std::ops::Bound::Excluded(scan.range.to.as_slice())
        };
        let lower = std::ops::Bound::Included(scan.range.from.as_slice());
        let decided: Vec<_> = self
            .peek(scan.space)
            .range::<[u8], _>((lower, upper))
            .collect();
        if decided.is_empty() {
            return Reader(self.engine).rows(scan);
        }
        // Each pending row can hide at most one applied row.
        let applied = Reader(self.engine).rows(&Scan {
            rows_max: scan.rows_max.saturating_add(decided.len()),
            bytes_max: usize::MAX,
            ..scan.clone()
        })?;
        let mut merged: BTreeMap<Vec<u8>, Vec<u8>> = applied
            .into_iter()
            .map(|row| (row.key, row.payload))
            .collect();
        for (key, payload) in decided {
            match payload {
                Some(payload) => merged.insert(key.clone(), payload.clone()),
                None => merged.remove(key),
            };
        }
        let ordered: Box<dyn Iterator<Item = (Vec<u8>, Vec<u8>)>> = match scan.order {
            Order::Ascending => Box::new(merged.into_iter()),
            Order::Descending => Box::new(merged.into_iter().rev()),
        };
        let mut bytes: usize = 0;
        let mut rows = Vec::new();
        for (key, payload) in ordered.take(scan.rows_max) {
            bytes += payload.len();
            rows.push(Row { key, payload });
            if bytes >= scan.bytes_max {
                break;
            }
        }
        Ok(rows)
    }
}
