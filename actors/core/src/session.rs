//! The machine of one live session: batches in, events out. It orders batches by `seq` and decides
//! about gaps; the detectors behind [`Timeline`] do the rest.
//!
//! The machine keeps no batch. Batches out of order are already in the journal; the machine
//! records only *that* they exist and requests them ([`Step::Read`]) when it is their turn. Each
//! input returns the one next step, so its shell is a loop.

pub mod feed;
pub mod idle;
pub mod lifetime;
pub mod reconcile;
pub mod replay;
mod snapshot;

use porchlight_schema::event::Event;
use porchlight_schema::limits::{
    GAP_SKIPPED_AFTER_BATCHES, GAP_SKIPPED_AFTER_T_MS, SNAPSHOT_BATCHES,
};
use porchlight_schema::sample::packed::PackedBatch;
use porchlight_schema::time::TimestampMs;
use serde::{Deserialize, Serialize};

use crate::context::SessionContext;
use crate::timeline::{NumberedChange, Timeline};

use replay::FinalEvents;
pub use snapshot::{RestoreError, SNAPSHOT_FORMAT};

/// The next step of the shell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Wait for the next batch.
    Wait,
    /// Read the journal from this `seq` on, pass each batch to [`SessionMachine::receive`] in
    /// order, and then call [`SessionMachine::on_journal_read`].
    Read {
        /// The first `seq` to read.
        from_seq: u32,
    },
    /// Store a note that this gap is skipped, and then call [`SessionMachine::skip_gap`].
    SkipGap {
        /// The first missing `seq`.
        first: u32,
        /// The last missing `seq`.
        last: u32,
    },
}

/// One live session.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct SessionMachine {
    timeline: Timeline,
    /// The next `seq` to apply.
    next_seq: u32,
    /// A bit for each later `seq`: bit i is set if `next_seq + 1 + i` is in the journal.
    beyond: u64,
    /// The smallest known numbers in the journal beyond the range of `beyond`, ascending, at most
    /// [`GAP_SKIPPED_AFTER_BATCHES`]. That many alone decide about a gap, and the journal is read
    /// again after every decision, so forgetting the greater ones changes nothing.
    far: Vec<u32>,
    /// The newest `t` of applied batches.
    t_max_ms: u32,
    /// The newest `t` of batches beyond the gap.
    beyond_t_max_ms: u32,
    /// Whether the journal was read for the gap at `next_seq`, so that the gap is real.
    is_journal_read: bool,
    /// The skipped gaps (first, last) from `next_seq` on, ascending.
    skipped: Vec<(u32, u32)>,
    /// The quarantined batches from `next_seq` on, ascending.
    quarantined: Vec<u32>,
    /// The number of batches applied since the last snapshot.
    unsnapshotted: u32,
    /// The number of changes when [`SessionMachine::record_changes`] was last called.
    changes_recorded: u32,
    changed_at: Option<TimestampMs>,
}

impl SessionMachine {
    /// Restores earlier decisions about gaps (first, last) and quarantined batches. Afterwards read
    /// the journal from [`SessionMachine::next_seq`] on.
    pub fn recall(
        &mut self,
        skipped: impl Iterator<Item = (u32, u32)>,
        quarantined: impl Iterator<Item = u32>,
    ) {
        let next_seq = self.next_seq;
        self.skipped = skipped.filter(|&(_, last)| last >= next_seq).collect();
        self.skipped.sort_unstable();
        self.quarantined = quarantined.filter(|&seq| seq >= next_seq).collect();
        self.quarantined.sort_unstable();
        self.is_journal_read = false;
        self.pass_skipped_gaps();
    }

    /// Processes a durable batch. Batches that were already applied, or that belong to a skipped
    /// gap, change nothing. Batches of a skipped gap count when the session is recomputed at its
    /// end.
    pub fn receive(&mut self, context: &SessionContext, seq: u32, batch: &PackedBatch) -> Step {
        if seq < self.next_seq {
            return Step::Wait;
        }
        if seq > self.next_seq {
            self.record_beyond(seq, batch.t_max_ms());
            return self.next_step();
        }
        // A gap may have been skipped over a quarantined batch.
        self.quarantined.retain(|&quarantined| quarantined >= seq);
        if self.quarantined.first() == Some(&seq) {
            self.quarantined.remove(0);
        } else {
            // Data that cannot be decoded ends the batch but not the session. The replay of the
            // session's end reads the same part of the batch, and reports and counts it.
            let _undecoded_rest = self.timeline.push_batch(context, batch);
            self.t_max_ms = self.t_max_ms.max(batch.t_max_ms());
        }
        self.unsnapshotted += 1;
        let next_is_there = self.advance(1);
        self.pass_skipped_gaps();
        if next_is_there && !self.is_journal_read {
            Step::Read {
                from_seq: self.next_seq,
            }
        } else {
            Step::Wait
        }
    }

    /// Reports that the journal was read to its end, and that every batch was passed to
    /// [`SessionMachine::receive`].
    pub fn on_journal_read(&mut self) -> Step {
        self.is_journal_read = true;
        self.next_step()
    }

    /// Reports that the note about this gap is durable. Afterwards read the journal from
    /// [`SessionMachine::next_seq`] on.
    pub fn skip_gap(&mut self, first: u32, last: u32) -> Step {
        if first <= self.next_seq && self.next_seq <= last {
            self.advance(last + 1 - self.next_seq);
            self.pass_skipped_gaps();
        }
        Step::Read {
            from_seq: self.next_seq,
        }
    }

    /// Returns the next `seq` to apply.
    #[must_use]
    pub fn next_seq(&self) -> u32 {
        self.next_seq
    }

    /// Returns the events so far, in the order in which they were emitted.
    #[must_use]
    pub fn events(&self) -> &[Event] {
        self.timeline.events()
    }

    /// Returns the events as they are if the session ends after the batches applied so far.
    #[must_use]
    pub fn final_events(&self, context: &SessionContext) -> FinalEvents {
        let mut timeline = self.timeline.clone();
        timeline.finish(context);
        FinalEvents {
            next_seq: self.next_seq,
            events: timeline.events().to_vec(),
        }
    }

    /// Returns the number of changes (events opened or closed) so far.
    #[must_use]
    pub fn change_count(&self) -> u32 {
        self.timeline.change_count()
    }

    /// Records that a batch received at `received_at` was applied. Returns whether it opened or
    /// closed any event.
    pub fn record_changes(&mut self, received_at: TimestampMs) -> bool {
        let change_count = self.change_count();
        let has_changed = self.changes_recorded != change_count;
        if has_changed {
            self.changes_recorded = change_count;
            self.changed_at = self.changed_at.max(Some(received_at));
        }
        has_changed
    }

    /// Returns the latest time at which the service received a batch that opened or closed an event;
    /// `None` if none has.
    #[must_use]
    pub fn changed_at(&self) -> Option<TimestampMs> {
        self.changed_at
    }

    /// Returns up to `limit` changes from number `number` on.
    #[must_use]
    pub fn numbered_changes_since(&self, number: u32, limit: usize) -> Vec<NumberedChange> {
        self.timeline.numbered_changes_since(number, limit)
    }

    /// Returns whether enough batches were applied since the last snapshot.
    #[must_use]
    pub fn is_snapshot_due(&self) -> bool {
        self.unsnapshotted >= SNAPSHOT_BATCHES
    }

    /// Returns whether any batch was applied since the last snapshot.
    #[must_use]
    pub fn has_unsnapshotted(&self) -> bool {
        self.unsnapshotted > 0
    }

    fn record_beyond(&mut self, seq: u32, t_max_ms: u32) {
        let distance = seq - self.next_seq - 1;
        match 1_u64.checked_shl(distance) {
            Some(bit) => self.beyond |= bit,
            None => {
                if let Err(place) = self.far.binary_search(&seq) {
                    self.far.insert(place, seq);
                    self.far.truncate(GAP_SKIPPED_AFTER_BATCHES as usize);
                }
            }
        }
        self.beyond_t_max_ms = self.beyond_t_max_ms.max(t_max_ms);
    }

    /// Advances `next_seq` by `by`; returns whether the next batch is known to be in the journal.
    fn advance(&mut self, by: u32) -> bool {
        let mut next_is_there = 1_u64
            .checked_shl(by - 1)
            .is_some_and(|bit| self.beyond & bit != 0);
        self.beyond = self.beyond.checked_shr(by).unwrap_or(0);
        self.next_seq += by;
        let next_seq = self.next_seq;
        let near = self
            .far
            .partition_point(|&seq| seq <= next_seq.saturating_add(u64::BITS));
        for seq in self.far.drain(..near).filter(|&seq| seq >= next_seq) {
            match seq - next_seq {
                0 => next_is_there = true,
                distance => self.beyond |= 1_u64.checked_shl(distance - 1).unwrap_or(0),
            }
        }
        if self.beyond == 0 && self.far.is_empty() && !next_is_there {
            self.beyond_t_max_ms = 0;
        }
        self.is_journal_read = false;
        next_is_there
    }

    fn pass_skipped_gaps(&mut self) {
        while let Some(&(first, last)) = self.skipped.first() {
            if first > self.next_seq {
                break;
            }
            self.skipped.remove(0);
            if last >= self.next_seq {
                self.advance(last + 1 - self.next_seq);
            }
        }
    }

    /// Returns the decision about the gap at `next_seq`, if there is one.
    fn next_step(&self) -> Step {
        let first_beyond = match (self.beyond, self.far.first()) {
            (0, None) => return Step::Wait,
            (0, Some(&far)) => far,
            (beyond, _) => self.next_seq + 1 + beyond.trailing_zeros(),
        };
        if !self.is_journal_read {
            return Step::Read {
                from_seq: self.next_seq,
            };
        }
        let batches = self.beyond.count_ones() as usize + self.far.len();
        let many = batches >= GAP_SKIPPED_AFTER_BATCHES as usize;
        let long = self.beyond_t_max_ms >= self.t_max_ms.saturating_add(GAP_SKIPPED_AFTER_T_MS);
        if many || long {
            Step::SkipGap {
                first: self.next_seq,
                last: first_beyond - 1,
            }
        } else {
            Step::Wait
        }
    }
}

#[cfg(test)]
mod tests;
