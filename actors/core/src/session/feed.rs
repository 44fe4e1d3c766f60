//! What a session told those who watched it, change by change: the same for one who watched all along and for one who
//! asks afterwards.
//!
//! While the session lives its machine has it ([`super::SessionMachine::told_since`]). Once it has ended it is computed
//! anew from what is stored: from the batches that came before the end, without those that came for a hole that had been
//! given up, and without those put aside. These are the batches that the live machine took, or would have taken had the
//! end not come first; so what it told is a beginning of this. The insight goes by all batches, late ones too: its
//! timeline may differ, and is told with the insight.

use std::collections::BTreeSet;

use porchlight_schema::sample::packed::PackedBatch;
use porchlight_schema::time::TimestampMs;

use crate::context::SessionContext;
use crate::timeline::{Timeline, Told};

/// What a session that has ended told, while it is computed.
#[derive(Debug)]
pub struct Feed<'a> {
    context: &'a SessionContext,
    timeline: Timeline,
    completed_at: TimestampMs,
    given_up: Vec<(u32, u32)>,
    put_aside: BTreeSet<u32>,
}

impl<'a> Feed<'a> {
    /// Of a session that was completed at `completed_at`, gave up these holes (first, last), and put these batches aside.
    #[must_use]
    pub fn new(
        context: &'a SessionContext,
        completed_at: TimestampMs,
        given_up: Vec<(u32, u32)>,
        put_aside: BTreeSet<u32>,
    ) -> Self {
        Self {
            context,
            timeline: Timeline::new(context),
            completed_at,
            given_up,
            put_aside,
        }
    }

    /// The next batch, in order of `seq`.
    pub fn batch(&mut self, seq: u32, received_at: TimestampMs, batch: &PackedBatch) {
        let was_given_up = |&(first, last): &(u32, u32)| (first..=last).contains(&seq);
        let came_late = received_at > self.completed_at || self.given_up.iter().any(was_given_up);
        if !came_late && !self.put_aside.contains(&seq) {
            // As in the live machine: what can't be read ends the batch, not the session.
            let _unreadable_rest = self.timeline.push_batch(self.context, batch);
        }
    }

    /// All batches were given: everything that was told.
    #[must_use]
    pub fn finish(mut self) -> Vec<Told> {
        self.timeline.finish(self.context);
        self.timeline.told_since(0, usize::MAX)
    }
}

#[cfg(test)]
mod tests;
