//! The head of a session's journal, as far as this process knows it.

use std::time::{Duration, Instant};

use porchlight_schema::limits::{REMOTE_SESSION_TTL_MS, SNAPSHOT_ROWS_MAX};

/// The head of a session's journal, as far as this process knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in super::super) struct JournalHead {
    /// The highest number, or `None` while there is no batch.
    pub(super) highest: Option<u32>,
    /// Whether the session has ended, so that further batches are late.
    pub(in super::super) has_ended: bool,
    /// The time of the last read of the journal; `None` if it was not read yet.
    pub(super) read_at: Option<Instant>,
    /// The generation in which this process owned the session's shard when it last read the
    /// journal.
    pub(super) owned_in: Option<u64>,
    /// The snapshots that this process has written since it last deleted older ones.
    pub(super) snapshots: u8,
    /// Whether this process has erased the session.
    pub(super) is_erased: bool,
}

impl JournalHead {
    /// Returns the head of a session that this process has erased. Its journal accepts no batches.
    pub(in super::super) fn of_erased() -> Self {
        Self {
            is_erased: true,
            ..Self::default()
        }
    }

    /// Returns the head of a session that this process is about to create. `generation` is the one
    /// in which this process owns the session's shard, if it owns the shard.
    pub(in super::super) fn of_new_session(generation: Option<u64>) -> Self {
        Self {
            read_at: Some(Instant::now()),
            owned_in: generation,
            ..Self::default()
        }
    }

    /// Returns whether this head includes the batches that other nodes accepted, given the
    /// generation in which this process owns the session's shard now.
    ///
    /// Other nodes forward these batches to the owner, which reads the journal when a forward is
    /// lost. The other nodes receive no forwards, so their heads are current for a short time only.
    pub(super) fn is_current(&self, generation: Option<u64>) -> bool {
        let is_owner = generation.is_some() && generation == self.owned_in;
        let valid_for = Duration::from_millis(REMOTE_SESSION_TTL_MS);
        is_owner || self.read_at.is_some_and(|at| at.elapsed() < valid_for)
    }

    /// Counts a snapshot, and returns whether older ones are to be deleted now.
    pub(super) fn on_snapshot(&mut self) -> bool {
        self.snapshots += 1;
        let is_full = self.snapshots >= SNAPSHOT_ROWS_MAX;
        if is_full {
            self.snapshots = 0;
        }
        is_full
    }

    /// Raises the highest number to that of a new batch.
    pub(super) fn raise(&mut self, seq: u32) {
        self.highest = Some(self.highest.map_or(seq, |highest| highest.max(seq)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn older_snapshots_are_deleted_before_there_are_too_many() {
        let mut head = JournalHead::default();
        let mut rows = 0;
        for _ in 0..1_000 {
            rows += 1;
            if head.on_snapshot() {
                rows = 1;
            }
            assert!(rows <= SNAPSHOT_ROWS_MAX);
        }
    }

    #[test]
    fn the_owner_stays_current_and_other_nodes_do_not() {
        let Some(long_ago) = Instant::now().checked_sub(Duration::from_secs(60)) else {
            return;
        };
        let head = JournalHead {
            read_at: Some(long_ago),
            owned_in: Some(7),
            ..JournalHead::default()
        };
        assert!(head.is_current(Some(7)));
        assert!(
            !head.is_current(Some(8)),
            "another node owned it in between"
        );
        assert!(!head.is_current(None), "another node owns it now");
        let read_now = JournalHead {
            read_at: Some(Instant::now()),
            owned_in: None,
            ..head
        };
        assert!(read_now.is_current(None));
    }
}
