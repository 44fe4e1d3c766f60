//! Recomputes a session from all its batches, in order, for its insight.
//!
//! Every insight is computed this way, even if no batch arrived late, so it depends only on the set
//! of acknowledged batches. The events can be taken from a live machine that has applied exactly
//! these batches ([`Replay::with_events`]): they are identical, and detecting them is most of the
//! cost.

mod clock;
mod kept;

use porchlight_schema::event::{Event, sort_events};
use porchlight_schema::insight::DroppedSamples;
use porchlight_schema::sample::packed::{PackedBatch, PackedError};
use porchlight_schema::sample::{Sample, SystemName};

use crate::context::SessionContext;
use crate::intake::{Intake, IntakeCounts};
use crate::mark::MarkName;
use crate::timeline::Timeline;
use crate::window::{ClockStep, Window};
use clock::ClockWatch;
use kept::Kept;

/// Collects the input of scoring, batch by batch.
#[derive(Debug)]
pub struct Replay<'a> {
    context: &'a SessionContext,
    detection: Detection,
    replayed: Replayed,
    marks: Kept<MarkName>,
    system: Kept<SystemName>,
    clock: ClockWatch,
    next_seq: u32,
}

/// The events of a live machine as they are if the session ends after the batches applied so far.
#[derive(Debug, Clone, PartialEq)]
pub struct FinalEvents {
    /// The next `seq` to apply: the number of applied batches, if none was skipped.
    pub next_seq: u32,
    /// The events in the order in which they were emitted.
    pub events: Vec<Event>,
}

/// The source of the events.
#[derive(Debug)]
enum Detection {
    /// The events are detected from the samples.
    Timeline(Box<Timeline>),
    /// The events are known, and the samples are only reduced to windows.
    Known(Box<Intake>, Vec<Event>),
}

impl Detection {
    /// Takes the next sample. Returns `false` if the sample was dropped.
    #[inline(always)]
    fn push(
        &mut self,
        context: &SessionContext,
        sample: Sample<'_>,
        on_window: &mut impl FnMut(&Window),
    ) -> bool {
        match self {
            Self::Timeline(timeline) => timeline.push_with_windows(context, sample, on_window),
            Self::Known(intake, _) => intake.push(context, sample, on_window),
        }
    }

    fn finish(
        self,
        context: &SessionContext,
        on_window: &mut impl FnMut(&Window),
    ) -> (Vec<Event>, IntakeCounts) {
        match self {
            Self::Timeline(mut timeline) => {
                timeline.finish_with_windows(context, on_window);
                (timeline.events().to_vec(), timeline.counts())
            }
            Self::Known(mut intake, events) => {
                intake.finish(on_window);
                (events, intake.counts())
            }
        }
    }
}

/// The processed batches of a session.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Replayed {
    /// The final timeline, by start, then type.
    pub events: Vec<Event>,
    /// Every second with data, and silences under 30 s.
    pub windows: Vec<Window>,
    /// The marks: milliseconds since the session's start, and the name. Of each name at most
    /// [`porchlight_schema::limits::SESSION_MARKS_MAX`]: the first and the most recent ones.
    pub marks: Vec<(u32, MarkName)>,
    /// The incidents of the phone, bounded like the marks.
    pub system: Vec<(u32, SystemName)>,
    /// The times at which the phone's clock was set back, in order.
    pub clock_steps: Vec<ClockStep>,
    /// The number of batches missing below the highest `seq`.
    pub missing_batches: u32,
    /// The number of batches that were left out because a detector could not process them, or read
    /// only in part because the rest cannot be decoded.
    pub quarantined_batches: u32,
    /// The counts of samples that were dropped before detection.
    pub dropped: DroppedSamples,
}

impl<'a> Replay<'a> {
    /// Starts an empty replay.
    #[must_use]
    pub fn new(context: &'a SessionContext) -> Self {
        Self::of(context, Detection::Timeline(Box::default()))
    }

    /// Starts an empty replay that takes its events from a machine that has applied exactly the
    /// batches that follow.
    #[must_use]
    pub fn with_events(context: &'a SessionContext, live: FinalEvents) -> Self {
        Self::of(context, Detection::Known(Box::default(), live.events))
    }

    fn of(context: &'a SessionContext, detection: Detection) -> Self {
        Self {
            context,
            detection,
            replayed: Replayed::default(),
            marks: Kept::default(),
            system: Kept::default(),
            clock: ClockWatch::default(),
            next_seq: 0,
        }
    }

    /// Adds the next batch, in order of `seq`. Returns whether it could be read to its end. As in
    /// the live machine, data that cannot be decoded ends the batch but not the session; the batch
    /// then counts as quarantined.
    pub fn batch(&mut self, seq: u32, batch: &PackedBatch) -> bool {
        self.pass(seq);
        let unknown_kind = &mut self.replayed.dropped.unknown_kind;
        *unknown_kind = unknown_kind.saturating_add(batch.skipped());
        let is_read = self.read(batch).is_ok();
        if !is_read {
            self.replayed.quarantined_batches += 1;
        }
        is_read
    }

    fn read(&mut self, batch: &PackedBatch) -> Result<(), PackedError> {
        let mut reader = batch.reader()?;
        while let Some(sample) = reader.next_sample()? {
            self.clock.push(sample.kind(), sample.t_ms());
            let windows = &mut self.replayed.windows;
            let is_taken = self
                .detection
                .push(self.context, sample, &mut |window: &Window| {
                    windows.push(*window);
                });
            match sample {
                Sample::Mark(mark) if is_taken => {
                    self.marks.push(mark.t_ms, MarkName::from_name(mark.name));
                }
                Sample::System(system) if is_taken => self.system.push(system.t_ms, system.name),
                _ => {}
            }
        }
        Ok(())
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
        let (events, counts) = self
            .detection
            .finish(self.context, &mut |window: &Window| windows.push(*window));
        self.replayed.dropped.out_of_order = counts.backwards;
        self.replayed.dropped.too_late = counts.lagging;
        self.replayed.events = events;
        sort_events(&mut self.replayed.events);
        self.replayed.marks = self.marks.into_sorted();
        self.replayed.system = self.system.into_sorted();
        self.replayed.clock_steps = self.clock.steps();
        self.replayed
    }
}

#[cfg(test)]
mod tests;
