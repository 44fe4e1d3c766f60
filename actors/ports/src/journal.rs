//! The journal: the acknowledged batches of each session, a set that only grows.

use async_trait::async_trait;
use porchlight_schema::ids::SessionId;
use porchlight_schema::sample::packed::PackedBatch;
use porchlight_schema::time::TimestampMs;
use serde::{Deserialize, Serialize};

use super::StoreResult;

/// The outcome of an append.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Appended {
    /// The batch is new and now durable.
    New,
    /// The journal already holds this body under this `seq`; nothing changed.
    Repeated,
    /// Another body is stored under this `seq` and stays.
    Conflict,
    /// The session was erased; nothing is stored.
    Erased,
}

/// One batch of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalEntry {
    /// Number of the batch within the session.
    pub seq: u32,
    /// The time at which the service received the batch. The newest one determines the end of an
    /// idle session.
    pub received_at: TimestampMs,
    /// The batch itself.
    pub batch: PackedBatch,
}

/// A decision about a session's batches or messages. It is stored before it takes effect, so that a
/// replay makes the same decision.
///
/// Stores hold the number of a variant: append a new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Note {
    /// The gap from `first` to `last` was skipped: batches that arrive for it later are late.
    Skipped {
        /// The first missing `seq`.
        first: u32,
        /// The last missing `seq`.
        last: u32,
    },
    /// The batch made a detector panic and is left out permanently.
    Quarantined {
        /// The `seq` of the batch.
        seq: u32,
    },
    /// The batches are removed because the retention of telemetry has passed. The session keeps its
    /// insight and is not scored again.
    TelemetryExpired,
    /// The webhook messages are removed because their retention has passed. The session sends no
    /// further ones.
    MessagesExpired,
}

impl Note {
    /// Returns the first and the last `seq` of a skipped gap.
    #[must_use]
    pub fn skipped(self) -> Option<(u32, u32)> {
        match self {
            Self::Skipped { first, last } => Some((first, last)),
            _ => None,
        }
    }

    /// Returns the `seq` of a quarantined batch.
    #[must_use]
    pub fn quarantined(self) -> Option<u32> {
        match self {
            Self::Quarantined { seq } => Some(seq),
            _ => None,
        }
    }

    /// Returns whether a part of the session was removed because its retention has passed.
    #[must_use]
    pub fn is_expiry(self) -> bool {
        matches!(self, Self::TelemetryExpired | Self::MessagesExpired)
    }
}

/// A range of sequence numbers, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct SeqRange {
    /// The first number.
    pub first: u32,
    /// The last number.
    pub last: u32,
}

/// The acknowledged batches of a session: all below `next_seq` except the missing ones.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Acknowledged {
    /// The highest acknowledged `seq` plus one; 0 if nothing is acknowledged.
    pub next_seq: u32,
    /// The numbers below `next_seq` that were never acknowledged, in order.
    pub missing: Vec<SeqRange>,
}

impl Acknowledged {
    /// Adds the next acknowledged number; numbers must arrive in rising order. If there are already
    /// `ranges_max` ranges, the last range is extended over the missing numbers: an app then
    /// resends some acknowledged batches, but never leaves out a missing batch.
    pub fn push(&mut self, seq: u32, ranges_max: usize) {
        if let Some(last) = seq.checked_sub(1)
            && self.next_seq <= last
        {
            let is_full = self.missing.len() >= ranges_max;
            match self.missing.last_mut() {
                Some(range) if is_full => range.last = last,
                _ => self.missing.push(SeqRange {
                    first: self.next_seq,
                    last,
                }),
            }
        }
        self.next_seq = self.next_seq.max(seq.saturating_add(1));
    }
}

/// Stores batches and notes of sessions.
#[async_trait]
pub trait Journal: Send + Sync {
    /// Adds a batch. It is durable when the answer is [`Appended::New`]. `received_at` does not
    /// matter for equality.
    async fn append(
        &self,
        session_id: SessionId,
        seq: u32,
        batch: PackedBatch,
        received_at: TimestampMs,
    ) -> StoreResult<Appended>;

    /// Records that another node has written a batch of a session that this process owns, so that
    /// the next batch needs no read. A store to which no other process writes does nothing.
    fn learn_forwarded(&self, _session_id: SessionId, _seq: u32) {}

    /// Returns the highest `seq` of a session and the time at which that batch was received; `None`
    /// without batches.
    async fn newest(&self, session_id: SessionId) -> StoreResult<Option<(u32, TimestampMs)>>;

    /// Reads batches in order of `seq` from `from_seq` on: at most `limit` of them and about 1 MiB.
    /// It returns fewer only at the end or at the size limit, and then at least one.
    async fn read(
        &self,
        session_id: SessionId,
        from_seq: u32,
        limit: usize,
    ) -> StoreResult<Vec<JournalEntry>>;

    /// Returns the acknowledged batches of a session, with at most `ranges_max` ranges of missing
    /// ones; see [`Acknowledged::push`].
    async fn acknowledged(
        &self,
        session_id: SessionId,
        ranges_max: usize,
    ) -> StoreResult<Acknowledged>;

    /// Returns the number of a session's batches.
    async fn count(&self, session_id: SessionId) -> StoreResult<u32>;

    /// Adds a note; adding it twice changes nothing.
    async fn note(&self, session_id: SessionId, note: Note) -> StoreResult<()>;

    /// Returns a session's notes, in order.
    async fn notes(&self, session_id: SessionId) -> StoreResult<Vec<Note>>;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn acknowledged(seqs: &[u32], ranges_max: usize) -> (u32, Vec<(u32, u32)>) {
        let mut acknowledged = Acknowledged::default();
        for &seq in seqs {
            acknowledged.push(seq, ranges_max);
        }
        let ranges = acknowledged.missing.iter();
        let ranges = ranges.map(|range| (range.first, range.last)).collect();
        (acknowledged.next_seq, ranges)
    }

    #[test]
    fn every_seq_below_the_highest_is_present_or_missing() {
        assert_eq!(acknowledged(&[], 9), (0, vec![]));
        assert_eq!(acknowledged(&[0], 9), (1, vec![]));
        assert_eq!(acknowledged(&[0, 1, 2], 9), (3, vec![]));
        assert_eq!(acknowledged(&[3], 9), (4, vec![(0, 2)]));
        assert_eq!(
            acknowledged(&[0, 2, 3, 7, 1_000_000], 9),
            (1_000_001, vec![(1, 1), (4, 6), (8, 999_999)])
        );
        // The second of two bodies with one number changes nothing.
        assert_eq!(acknowledged(&[0, 2, 2, 3], 9), (4, vec![(1, 1)]));
    }

    #[test]
    fn beyond_the_bound_the_last_range_covers_the_rest() {
        assert_eq!(acknowledged(&[1, 3, 5, 7, 8], 2), (9, vec![(0, 0), (2, 6)]));
    }
}
