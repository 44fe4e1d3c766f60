//! The machine of one live session: batches in, events out. It keeps the order of `seq`, and decides what to do
//! about holes; the detectors behind [`Timeline`] do the rest.
//!
//! The machine holds no batch back. What comes out of order lies in the journal already; the machine remembers only
//! *that* it is there, and asks for it ([`Step::Read`]) when its turn has come. Each input answers with the one
//! thing to do next, so that its shell is a loop.

pub mod feed;
pub mod lifetime;
pub mod replay;
mod snapshot;

use porchlight_schema::event::Event;
use porchlight_schema::limits::{
    HOLE_SKIPPED_AFTER_BATCHES, HOLE_SKIPPED_AFTER_T_MS, SNAPSHOT_BATCHES,
};
use porchlight_schema::sample::packed::PackedBatch;
use serde::{Deserialize, Serialize};

use crate::context::SessionContext;
use crate::timeline::{Timeline, Told};

pub use snapshot::{RestoreError, SNAPSHOT_FORMAT};

/// What the shell has to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Nothing, until the next batch comes.
    Rest,
    /// Read the journal from this `seq` on, give each batch to [`SessionMachine::arrive`] in order, and then call
    /// [`SessionMachine::read_through`].
    Read {
        /// The first `seq` of interest.
        from_seq: u32,
    },
    /// Write down that this hole is given up, and then call [`SessionMachine::give_up`].
    GiveUp {
        /// The first `seq` that is missing.
        first: u32,
        /// The last one.
        last: u32,
    },
}

/// One live session.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SessionMachine {
    timeline: Timeline,
    /// The `seq` that is applied next.
    next_seq: u32,
    /// Bit i: `next_seq + 1 + i` is in the journal.
    beyond: u64,
    /// The smallest `seq` in the journal that is too far ahead for `beyond`.
    far: Option<u32>,
    /// The newest `t` of what was applied, and of what lies beyond the hole.
    t_max_ms: u32,
    beyond_t_max_ms: u32,
    /// The journal was read for the hole at `next_seq`: it is a real one.
    looked: bool,
    /// Holes that were given up, as (first, last), and batches that are left out; ascending, those behind forgotten.
    skipped: Vec<(u32, u32)>,
    quarantined: Vec<u32>,
    /// Batches applied since the last snapshot.
    unsnapshotted: u32,
}

impl SessionMachine {
    /// A session that has heard nothing yet. `skipped` and `quarantined` are what was decided about it before, if it
    /// is built anew from its journal.
    #[must_use]
    pub fn new(context: &SessionContext) -> Self {
        Self {
            timeline: Timeline::new(context),
            next_seq: 0,
            beyond: 0,
            far: None,
            t_max_ms: 0,
            beyond_t_max_ms: 0,
            looked: false,
            skipped: Vec::new(),
            quarantined: Vec::new(),
            unsnapshotted: 0,
        }
    }

    /// Tells what was decided before about holes (first, last) and about batches that are left out. After it, read
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
        self.looked = false;
        self.jump_over_given_up();
    }

    /// A batch is durable. Batches that were applied already, or come for a hole that was given up, change nothing:
    /// the latter count when the session is computed anew at its end.
    pub fn arrive(&mut self, context: &SessionContext, seq: u32, batch: &PackedBatch) -> Step {
        if seq < self.next_seq {
            return Step::Rest;
        }
        if seq > self.next_seq {
            self.note_beyond(seq, batch.t_max_ms());
            return self.next_step();
        }
        if self.quarantined.first() == Some(&seq) {
            self.quarantined.remove(0);
        } else {
            // What can't be read ends the batch, not the session: the journal's checksum has passed, so it was
            // packed so, and replays alike.
            let _unreadable_rest = self.timeline.push_batch(context, batch);
            self.t_max_ms = self.t_max_ms.max(batch.t_max_ms());
        }
        self.unsnapshotted += 1;
        let next_is_there = self.advance(1);
        self.jump_over_given_up();
        if next_is_there && !self.looked {
            Step::Read {
                from_seq: self.next_seq,
            }
        } else {
            Step::Rest
        }
    }

    /// The journal was read to its end, and every batch given to [`SessionMachine::arrive`].
    pub fn read_through(&mut self) -> Step {
        self.looked = true;
        self.next_step()
    }

    /// The note that this hole is given up is durable. Then read the journal from [`SessionMachine::next_seq`] on.
    pub fn give_up(&mut self, first: u32, last: u32) -> Step {
        if first <= self.next_seq && self.next_seq <= last {
            self.advance(last + 1 - self.next_seq);
            self.jump_over_given_up();
        }
        Step::Read {
            from_seq: self.next_seq,
        }
    }

    /// The `seq` that is applied next.
    #[must_use]
    pub fn next_seq(&self) -> u32 {
        self.next_seq
    }

    /// The events so far, in the order in which they were emitted.
    #[must_use]
    pub fn events(&self) -> &[Event] {
        self.timeline.events()
    }

    /// How often events have opened or closed so far.
    #[must_use]
    pub fn change_count(&self) -> u32 {
        self.timeline.change_count()
    }

    /// The changes numbered `number` and up, at most `limit` of them.
    #[must_use]
    pub fn told_since(&self, number: u32, limit: usize) -> Vec<Told> {
        self.timeline.told_since(number, limit)
    }

    /// Whether enough was applied since the last snapshot for a new one.
    #[must_use]
    pub fn snapshot_is_due(&self) -> bool {
        self.unsnapshotted >= SNAPSHOT_BATCHES
    }

    /// Whether anything was applied since the last snapshot.
    #[must_use]
    pub fn has_unsnapshotted(&self) -> bool {
        self.unsnapshotted > 0
    }

    fn note_beyond(&mut self, seq: u32, t_max_ms: u32) {
        let distance = seq - self.next_seq - 1;
        match 1_u64.checked_shl(distance) {
            Some(bit) => self.beyond |= bit,
            None => self.far = Some(self.far.map_or(seq, |far| far.min(seq))),
        }
        self.beyond_t_max_ms = self.beyond_t_max_ms.max(t_max_ms);
    }

    /// Moves `next_seq` on by `by`; whether the batch that is now next is known to be in the journal.
    fn advance(&mut self, by: u32) -> bool {
        let next_is_there = 1_u64
            .checked_shl(by - 1)
            .is_some_and(|bit| self.beyond & bit != 0);
        self.beyond = self.beyond.checked_shr(by).unwrap_or(0);
        self.next_seq += by;
        let reached = self.far.is_some_and(|far| far <= self.next_seq);
        if reached {
            self.far = None;
        }
        if self.beyond == 0 && self.far.is_none() && !next_is_there {
            self.beyond_t_max_ms = 0;
        }
        self.looked = false;
        next_is_there || reached
    }

    fn jump_over_given_up(&mut self) {
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

    /// What to do about the hole at `next_seq`, if there is one.
    fn next_step(&self) -> Step {
        let first_beyond = match (self.beyond, self.far) {
            (0, None) => return Step::Rest,
            (0, Some(far)) => far,
            (beyond, _) => self.next_seq + 1 + beyond.trailing_zeros(),
        };
        if !self.looked {
            return Step::Read {
                from_seq: self.next_seq,
            };
        }
        let many = self.far.is_some() || self.beyond >> (HOLE_SKIPPED_AFTER_BATCHES - 1) != 0;
        let long = self.beyond_t_max_ms >= self.t_max_ms.saturating_add(HOLE_SKIPPED_AFTER_T_MS);
        if many || long {
            Step::GiveUp {
                first: self.next_seq,
                last: first_beyond - 1,
            }
        } else {
            Step::Rest
        }
    }
}

#[cfg(test)]
mod tests;
