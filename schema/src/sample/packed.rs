//! The packed form of a batch: column by column, each a run of zigzag deltas in LEB128. A batch of
//! 60 samples with seven fields has about 1 KB. This form is journaled; its first byte is the
//! number of its format.
//!
//! ```text
//! format  samples  t_max_ms  [skipped]  runs (kind, length)*   the order in which the samples
//! stood for each kind present, by number: its columns, each  length  bytes
//! ```
//!
//! A column of a field that may be absent begins with one byte: 0 all absent, 1 all present, 2 a
//! bitmap follows. Format 2 has `skipped`, the number of samples of an unknown kind that were left
//! out; format 1 does not.
//!
//! A batch with a new kind, or with a new value of an enumeration, takes a new format. A release
//! that does not know the format leaves the batch as it is; within a known format it would count
//! the batch as damaged.

mod column;
mod reader;
mod writer;

use std::fmt;
use std::sync::Arc;

use sha2::{Digest, Sha256};

pub use reader::BatchReader;
pub(super) use writer::FixParts;
pub use writer::{BatchBuilder, with_builder};

use column::{Cursor, put_number};

/// The number of the format of a batch of which no sample was left out. Every format ever written
/// stays readable.
pub const FORMAT: u8 = 1;
/// The number of the format that also counts samples of an unknown kind.
pub const FORMAT_WITH_SKIPPED: u8 = 2;

/// The reason why bytes cannot be read as a packed batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PackedError {
    /// A later release wrote the batch.
    #[error("packed batch of unknown format {0}")]
    Format(u8),
    /// The batch is truncated or inconsistent.
    #[error("packed batch is damaged at {0}")]
    Damaged(&'static str),
}

/// A batch in its packed form. Cloning shares the bytes.
#[derive(Clone, PartialEq, Eq)]
pub struct PackedBatch {
    bytes: Arc<[u8]>,
    samples: u32,
    t_max_ms: u32,
    skipped: u32,
}

/// The start of a packed batch, which is readable without its columns.
struct Head {
    samples: u32,
    t_max_ms: u32,
    skipped: u32,
}

impl Head {
    fn read(cursor: &mut Cursor<'_>) -> Result<Self, PackedError> {
        let format = cursor.byte("format")?;
        if format != FORMAT && format != FORMAT_WITH_SKIPPED {
            return Err(PackedError::Format(format));
        }
        Ok(Self {
            samples: cursor.number("samples")?,
            t_max_ms: cursor.number("t_max_ms")?,
            skipped: match format {
                FORMAT_WITH_SKIPPED => cursor.number("skipped")?,
                _ => 0,
            },
        })
    }
}

impl fmt::Debug for PackedBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The content holds coordinates and is never printed.
        f.debug_struct("PackedBatch")
            .field("samples", &self.samples)
            .field("bytes", &self.bytes.len())
            .finish()
    }
}

impl PackedBatch {
    /// Wraps packed bytes. The head is checked here, the columns while they are read.
    pub fn from_bytes(bytes: Arc<[u8]>) -> Result<Self, PackedError> {
        let Head {
            samples,
            t_max_ms,
            skipped,
        } = Head::read(&mut Cursor::new(&bytes))?;
        Ok(Self {
            bytes,
            samples,
            t_max_ms,
            skipped,
        })
    }

    /// Returns the packed bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the number of samples.
    #[must_use]
    pub fn samples(&self) -> u32 {
        self.samples
    }

    /// Returns the largest `t` of a sample in milliseconds since the session's start, 0 without
    /// samples.
    #[must_use]
    pub fn t_max_ms(&self) -> u32 {
        self.t_max_ms
    }

    /// Returns the number of sent samples that the batch leaves out because their kind is unknown.
    #[must_use]
    pub fn skipped(&self) -> u32 {
        self.skipped
    }

    /// Returns the SHA-256 of the packed bytes, which is equal for batches with equal content.
    #[must_use]
    pub fn hash(&self) -> [u8; 32] {
        Sha256::digest(&self.bytes).into()
    }

    /// Returns the packed form in which the first release wrote a batch with the same samples, if it
    /// differs: it did not count samples of an unknown kind.
    fn without_skipped(&self) -> Option<Vec<u8>> {
        let mut cursor = Cursor::new(&self.bytes);
        match Head::read(&mut cursor) {
            Ok(Head { skipped: 0, .. }) | Err(_) => None,
            Ok(head) => {
                let mut bytes = Vec::with_capacity(self.bytes.len());
                bytes.push(FORMAT);
                put_number(&mut bytes, u64::from(head.samples));
                put_number(&mut bytes, u64::from(head.t_max_ms));
                bytes.extend_from_slice(cursor.rest());
                Some(bytes)
            }
        }
    }

    /// Returns whether the batch repeats the one with these packed bytes, which this release or the
    /// first one wrote.
    #[must_use]
    pub fn is_repeat_of(&self, stored: &[u8]) -> bool {
        stored == self.as_bytes()
            || stored.first() == Some(&FORMAT)
                && self.without_skipped().is_some_and(|bytes| bytes == stored)
    }

    /// Returns the hash under which the first release stored a batch with the same samples, if it
    /// differs from [`Self::hash`].
    #[must_use]
    pub fn hash_without_skipped(&self) -> Option<[u8; 32]> {
        self.without_skipped()
            .map(|bytes| Sha256::digest(bytes).into())
    }

    /// Reads all samples, and fails at one that cannot be read.
    ///
    /// # Errors
    ///
    /// Returns the error of the first unreadable part.
    pub fn check(&self) -> Result<(), PackedError> {
        self.reader()?.each(&mut (), |(), _| {}, |(), _| {})
    }

    /// Reads the samples in their order.
    pub fn reader(&self) -> Result<BatchReader<'_>, PackedError> {
        BatchReader::new(&self.bytes)
    }
}

#[cfg(test)]
mod tests;
