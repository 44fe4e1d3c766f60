//! Recomputes the changes of a completed session as its watchers saw them, for later readers.
//!
//! While the session is live, its machine has the changes
//! ([`super::SessionMachine::numbered_changes_since`]). After the end they are recomputed from the
//! batches that arrived before the end, without batches for skipped gaps and without quarantined
//! ones. The live machine processed these batches, or would have if the session had not ended
//! first, so its changes are a prefix of the recomputed ones. The insight uses all batches, late
//! ones too, so its timeline may differ. A reader who has seen nothing yet gets the changes of that
//! timeline, which have numbers of their own.

use std::collections::BTreeSet;

use porchlight_schema::sample::packed::PackedBatch;
use porchlight_schema::time::TimestampMs;

use crate::context::SessionContext;
use crate::timeline::{NumberedChange, Timeline};

/// Recomputes the changes of a completed session.
#[derive(Debug)]
pub struct Feed<'a> {
    context: &'a SessionContext,
    timeline: Timeline,
    /// The timeline of all batches, from the first batch that `timeline` lacks.
    recomputed: Option<Timeline>,
    completed_at: TimestampMs,
    skipped_gaps: Vec<(u32, u32)>,
    quarantined: BTreeSet<u32>,
}

impl<'a> Feed<'a> {
    /// Starts for a session that was completed at `completed_at`, skipped these gaps (first, last),
    /// and quarantined these batches.
    #[must_use]
    pub fn new(
        context: &'a SessionContext,
        completed_at: TimestampMs,
        skipped_gaps: Vec<(u32, u32)>,
        quarantined: BTreeSet<u32>,
    ) -> Self {
        Self {
            context,
            timeline: Timeline::default(),
            recomputed: None,
            completed_at,
            skipped_gaps,
            quarantined,
        }
    }

    /// Adds the next batch, in order of `seq`.
    pub fn batch(&mut self, seq: u32, received_at: TimestampMs, batch: &PackedBatch) {
        let is_in_gap = |&(first, last): &(u32, u32)| (first..=last).contains(&seq);
        let is_late = received_at > self.completed_at || self.skipped_gaps.iter().any(is_in_gap);
        if self.quarantined.contains(&seq) {
            return;
        }
        if is_late && self.recomputed.is_none() {
            self.recomputed = Some(self.timeline.clone());
        }
        let live = (!is_late).then_some(&mut self.timeline);
        for timeline in live.into_iter().chain(&mut self.recomputed) {
            // As in the live machine, data that cannot be decoded ends the batch but not the
            // session.
            let _undecoded_rest = timeline.push_batch(self.context, batch);
        }
    }

    /// Returns all changes after the last batch.
    #[must_use]
    pub fn finish(self) -> FeedChanges {
        let changes = |mut timeline: Timeline| {
            timeline.finish(self.context);
            timeline.numbered_changes_since(0, usize::MAX)
        };
        FeedChanges {
            detected: changes(self.timeline),
            recomputed: self.recomputed.map(changes),
        }
    }
}

/// The changes of a completed session.
#[derive(Debug, Clone, PartialEq)]
pub struct FeedChanges {
    /// The changes as they were detected while the session was live.
    pub detected: Vec<NumberedChange>,
    /// The changes of the timeline of all batches, if some came too late to be detected live.
    pub recomputed: Option<Vec<NumberedChange>>,
}

impl FeedChanges {
    /// Returns the number of changes of both timelines together.
    #[must_use]
    pub fn count(&self) -> u32 {
        let recomputed = self.recomputed.as_ref().map_or(0, Vec::len);
        u32::try_from(self.detected.len() + recomputed).unwrap_or(u32::MAX)
    }

    /// Returns the changes for a reader whose newest change has the number `seen - 1`; 0 if the
    /// reader has seen no change.
    ///
    /// The changes of the recomputed timeline are numbered after the detected ones, so a number
    /// contains the version of the timeline that its reader has. A reader continues in that
    /// timeline. A reader who has seen nothing gets the recomputed one.
    #[must_use]
    pub fn after(self, seen: u32) -> Vec<NumberedChange> {
        let detected = u32::try_from(self.detected.len()).unwrap_or(u32::MAX);
        let mut changes = match self.recomputed {
            Some(mut recomputed) if seen == 0 || seen > detected => {
                for change in &mut recomputed {
                    change.number = change.number.saturating_add(detected);
                }
                recomputed
            }
            _ => self.detected,
        };
        changes.retain(|change| change.number >= seen);
        changes
    }
}

#[cfg(test)]
mod tests;
