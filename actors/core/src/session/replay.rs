//! Recomputes a session from all its batches, in order, for its insight.
//!
//! Every insight is computed this way, whether batches came late or not, so it depends only on the
//! set of acknowledged batches.

use porchlight_schema::event::{Event, sort_events};
use porchlight_schema::insight::DroppedSamples;
use porchlight_schema::limits::SESSION_MARKS_MAX;
use porchlight_schema::sample::packed::PackedBatch;
use porchlight_schema::sample::{Sample, SystemName};

use crate::context::SessionContext;
use crate::mark::MarkName;
use crate::timeline::Timeline;
use crate::window::Window;

/// Collects the input of scoring, batch by batch.
#[derive(Debug)]
pub struct Replay<'a> {
    context: &'a SessionContext,
    timeline: Timeline,
    replayed: Replayed,
    next_seq: u32,
}

/// The processed batches of a session.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Replayed {
    /// The final timeline, by start, then type.
    pub events: Vec<Event>,
    /// Every second with data, and silences under 30 s.
    pub windows: Vec<Window>,
    /// Marks: milliseconds since the start, and name.
    pub marks: Vec<(u32, MarkName)>,
    /// Incidents of the phone.
    pub system: Vec<(u32, SystemName)>,
    /// Number of batches missing below the highest `seq`.
    pub missing_batches: u32,
    /// Number of batches left out because a detector could not process them.
    pub quarantined_batches: u32,
    /// Samples that no detector saw.
    pub dropped: DroppedSamples,
}

impl<'a> Replay<'a> {
    /// Starts an empty replay.
    #[must_use]
    pub fn new(context: &'a SessionContext) -> Self {
        Self {
            context,
            timeline: Timeline::new(context),
            replayed: Replayed::default(),
            next_seq: 0,
        }
    }

    /// Adds the next batch, in order of `seq`.
    pub fn batch(&mut self, seq: u32, batch: &PackedBatch) {
        self.pass(seq);
        let unknown_kind = &mut self.replayed.dropped.unknown_kind;
        *unknown_kind = unknown_kind.saturating_add(batch.skipped());
        // As in the live machine, unreadable data ends the batch but not the session.
        let Ok(mut reader) = batch.reader() else {
            return;
        };
        while let Ok(Some(sample)) = reader.next_sample() {
            match sample {
                Sample::Mark(mark) if self.replayed.marks.len() < SESSION_MARKS_MAX => {
                    self.replayed
                        .marks
                        .push((mark.t_ms, MarkName::from_name(mark.name)));
                }
                Sample::System(system) if self.replayed.system.len() < SESSION_MARKS_MAX => {
                    self.replayed.system.push((system.t_ms, system.name));
                }
                _ => {}
            }
            let windows = &mut self.replayed.windows;
            self.timeline
                .push_seen(self.context, sample, &mut |window: &Window| {
                    windows.push(*window);
                });
        }
    }

    /// Leaves out the next batch, in order of `seq`.
    pub fn quarantined(&mut self, seq: u32) {
        self.pass(seq);
        self.replayed.quarantined_batches += 1;
    }

    fn pass(&mut self, seq: u32) {
        self.replayed.missing_batches += seq.saturating_sub(self.next_seq);
        self.next_seq = seq.saturating_add(1);
    }

    /// Finishes after the last batch.
    #[must_use]
    pub fn finish(mut self) -> Replayed {
        let windows = &mut self.replayed.windows;
        self.timeline
            .finish_seen(self.context, &mut |window: &Window| windows.push(*window));
        let counts = self.timeline.counts();
        self.replayed.dropped.out_of_order = counts.backwards;
        self.replayed.dropped.too_late = counts.lagging;
        self.replayed.events = self.timeline.events().to_vec();
        sort_events(&mut self.replayed.events);
        self.replayed.marks.sort_unstable();
        self.replayed.system.sort_unstable();
        self.replayed
    }
}
