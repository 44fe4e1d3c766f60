//! The interface below the tables: an ordered key-value engine with two spaces and atomic batches.

pub mod fjall;
pub mod memory;

use std::ops::{Bound, ControlFlow};

use serde::{Deserialize, Serialize};

/// The two key spaces. Each further space would pin more of the engine's journals (see
/// `engine/fjall.rs`), so tables are key prefixes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Space {
    /// The batches of sessions: written once, read in order.
    Journal,
    /// All other rows.
    State,
}

impl Space {
    /// Both key spaces.
    pub const ALL: [Self; 2] = [Self::Journal, Self::State];

    /// Returns the name in the engine's files and in error messages.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Journal => "journal",
            Self::State => "state",
        }
    }
}

/// Keys from `from` (inclusive) to `to` (exclusive).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRange {
    /// The first key in the range.
    pub from: Vec<u8>,
    /// The first key after the range; empty: the range has no end.
    pub to: Vec<u8>,
}

impl KeyRange {
    /// Returns all keys that begin with `prefix`.
    #[must_use]
    pub fn prefix(prefix: impl Into<Vec<u8>>) -> Self {
        let from = prefix.into();
        let mut to = from.clone();
        while let Some(last) = to.pop() {
            if last < u8::MAX {
                to.push(last + 1);
                break;
            }
        }
        Self { from, to }
    }

    /// Returns the two bounds of the range.
    pub(crate) fn bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        let to = match self.to.as_slice() {
            [] => Bound::Unbounded,
            to => Bound::Excluded(to),
        };
        (Bound::Included(&self.from), to)
    }

    /// Removes `key` and all smaller keys from the range.
    #[must_use]
    pub fn after(mut self, key: &[u8]) -> Self {
        if key >= self.from.as_slice() {
            self.from = key.to_vec();
            self.from.push(0);
        }
        self
    }

    /// Removes `key` and all greater keys from the range.
    #[must_use]
    pub fn before(mut self, key: &[u8]) -> Self {
        if self.to.is_empty() || key < self.to.as_slice() {
            self.to = key.to_vec();
        }
        self
    }

    /// Returns whether the range cannot contain a key.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        !self.to.is_empty() && self.from >= self.to
    }
}

/// The order of a scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Smallest key first.
    Ascending,
    /// Greatest key first.
    Descending,
}

/// One write of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Write {
    /// The key space.
    pub space: Space,
    /// The key of the row.
    pub key: Vec<u8>,
    /// The value; `None` removes the row.
    pub value: Option<Vec<u8>>,
}

/// The point at which a batch counts as written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Durability {
    /// The operating system has the batch: it survives a crash of the process but not of the
    /// machine.
    Buffered,
    /// The disk has the batch, together with everything applied before.
    Synced,
}

/// An error of the engine.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The disk or the file system failed.
    #[error("the storage engine failed")]
    Failed(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// A block does not match its checksum.
    #[error("a block of the storage engine is damaged: {0}")]
    Damaged(String),
}

/// Called with each key and value of a scan until it breaks.
pub type Visit<'a> = dyn FnMut(&[u8], &[u8]) -> ControlFlow<()> + 'a;

/// An ordered key-value engine. Reads see whole batches, and every later read sees an applied
/// batch. All calls block.
pub trait Engine: Send + Sync + 'static {
    /// Returns the value under `key`.
    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Vec<u8>>, EngineError>;

    /// Visits the rows of a range in order. `visit` must not call the engine.
    fn scan(
        &self,
        space: Space,
        range: &KeyRange,
        order: Order,
        visit: &mut Visit<'_>,
    ) -> Result<(), EngineError>;

    /// Visits the keys of a range in order, with values that the caller must not use. `visit` must
    /// not call the engine.
    fn scan_keys(
        &self,
        space: Space,
        range: &KeyRange,
        order: Order,
        visit: &mut Visit<'_>,
    ) -> Result<(), EngineError> {
        self.scan(space, range, order, visit)
    }

    /// Applies a batch atomically. After an error the engine must no longer be used.
    fn apply(&self, writes: Vec<Write>, durability: Durability) -> Result<(), EngineError>;

    /// Records that everything up to this group is synced, before any caller is answered.
    fn acknowledge(&self, group_number: u64) -> Result<(), EngineError>;

    /// Starts flushing the memtables to tables, without waiting.
    fn rotate(&self) -> Result<(), EngineError>;

    /// Returns the bytes that the engine holds in memory and has yet to write to its files,
    /// approximately.
    fn unflushed_bytes(&self) -> u64 {
        0
    }

    /// Starts the background work that an engine opened on a full disk left out.
    fn resume(&self) -> Result<(), EngineError> {
        Ok(())
    }

    /// Makes removed rows unreadable in the files. Rewriting the files takes as long as reading and
    /// writing the whole store.
    fn purge(&self) -> Result<(), EngineError>;

    /// Returns whether [`Self::purge`] rewrites the files, for which it needs as much space again.
    fn rewrites_in_purge(&self) -> bool {
        true
    }

    /// Returns the number of the data key that seals the rows of the session with these bytes of
    /// its id, if any does.
    fn data_key(&self, _session: [u8; 16]) -> Result<Option<u64>, EngineError> {
        Ok(None)
    }

    /// Syncs all data. Nothing is applied afterwards.
    fn close(&self) -> Result<(), EngineError>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_covers_exactly_the_keys_that_begin_with_it() {
        let range = KeyRange::prefix(*b"ab");
        assert_eq!(
            (range.from.as_slice(), range.to.as_slice()),
            (&b"ab"[..], &b"ac"[..])
        );
        assert_eq!(KeyRange::prefix([1, 255, 255]).to, [2]);
        assert!(KeyRange::prefix([255, 255]).to.is_empty());
        assert!(!KeyRange::prefix([255, 255]).is_empty());
    }

    #[test]
    fn after_and_before_only_narrow() {
        let range = KeyRange::prefix(*b"ab");
        assert_eq!(range.clone().after(b"aa"), range);
        assert_eq!(range.clone().before(b"b"), range);
        let narrow = range.after(b"ab1").before(b"ab3");
        assert_eq!(narrow.from, b"ab1\0");
        assert_eq!(narrow.to, b"ab3");
        assert!(narrow.before(b"ab0").is_empty());
    }
}
