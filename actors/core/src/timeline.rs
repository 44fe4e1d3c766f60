//! Turns the samples of a session into its events.

use porchlight_schema::event::Event;
use porchlight_schema::sample::Sample;
use porchlight_schema::sample::packed::{PackedBatch, PackedError};
use serde::{Deserialize, Serialize};

use crate::context::SessionContext;
use crate::detect::Detection;
use crate::event_log::{Change, EventLog};
use crate::intake::{Intake, IntakeCounts};
use crate::window::Window;

/// A change as sent to watchers: numbers run from 0 without gaps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NumberedChange {
    /// The number of the change.
    pub number: u32,
    /// The event's index, which connects its opening and its closing.
    pub index: u32,
    /// The event at that time.
    pub event: Event,
}

/// Computes a session's events, one sample at a time.
///
/// The events depend only on the context and the sequence of samples: neither batch boundaries nor
/// a snapshot and restore change a bit. See [`crate::intake`] for different interleavings of kinds.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Timeline {
    intake: Intake,
    detection: Detection,
    log: EventLog,
}

impl Timeline {
    /// Processes the next sample, in order of `seq` and position in its batch.
    #[inline(always)]
    pub fn push(&mut self, context: &SessionContext, sample: Sample<'_>) {
        self.push_with_windows(context, sample, &mut |_| {});
    }

    /// Processes the next sample; `on_window` receives each window before the detectors do. Returns
    /// `false` if the sample was dropped.
    #[inline(always)]
    pub fn push_with_windows(
        &mut self,
        context: &SessionContext,
        sample: Sample<'_>,
        on_window: &mut impl FnMut(&Window),
    ) -> bool {
        let Self {
            intake,
            detection,
            log,
        } = self;
        intake.push(context, sample, &mut |window| {
            on_window(window);
            detection.observe(context, window, log);
        })
    }

    /// Processes the next batch.
    ///
    /// # Errors
    ///
    /// Returns an error if the rest of the batch is damaged. The samples before it were processed.
    pub fn push_batch(
        &mut self,
        context: &SessionContext,
        batch: &PackedBatch,
    ) -> Result<(), PackedError> {
        batch.reader()?.each(
            self,
            |timeline, fix| timeline.push(context, Sample::Location(fix)),
            |timeline, sample| timeline.push(context, sample),
        )
    }

    /// Ends the session: pending windows are processed, and open events end at the last sample.
    pub fn finish(&mut self, context: &SessionContext) {
        self.finish_with_windows(context, &mut |_| {});
    }

    /// Ends the session; `on_window` receives each window before the detectors do.
    pub fn finish_with_windows(
        &mut self,
        context: &SessionContext,
        on_window: &mut impl FnMut(&Window),
    ) {
        let Self {
            intake,
            detection,
            log,
        } = self;
        intake.finish(&mut |window| {
            on_window(window);
            detection.observe(context, window, log);
        });
        detection.finish(context, log);
    }

    /// Returns the events emitted so far, in the order in which they were opened. Emitted events
    /// are never withdrawn, closed ones never change, and type and start of open ones never change.
    #[must_use]
    pub fn events(&self) -> &[Event] {
        &self.log.events
    }

    /// Returns the number of changes, which is the number of the next one.
    #[must_use]
    pub fn change_count(&self) -> u32 {
        self.log.next_number
    }

    /// Returns the changes from `number` on, in order. To list the changes of one batch, call
    /// [`Timeline::change_count`] before it.
    #[must_use]
    pub fn changes_since(&self, number: u32) -> Vec<Change> {
        let mut changes = Vec::new();
        for (index, &(opened, closed)) in self.log.numbers.iter().enumerate() {
            if opened >= number && closed != Some(opened) {
                changes.push(Change {
                    number: opened,
                    index,
                    is_closed: false,
                });
            }
            if let Some(closed) = closed.filter(|&closed| closed >= number) {
                changes.push(Change {
                    number: closed,
                    index,
                    is_closed: true,
                });
            }
        }
        changes.sort_by_key(|change| change.number);
        changes
    }

    /// Returns up to `limit` changes from number `number` on, each with its event at that time: an
    /// event that closed later is open in the change that opened it.
    #[must_use]
    pub fn numbered_changes_since(&self, number: u32, limit: usize) -> Vec<NumberedChange> {
        let changes = self.changes_since(number).into_iter().take(limit);
        changes.filter_map(|change| self.numbered(change)).collect()
    }

    fn numbered(&self, change: Change) -> Option<NumberedChange> {
        let mut event = *self.log.events.get(change.index)?;
        if !change.is_closed {
            event.t_end_ms = None;
            (event.confidence, event.metadata) = *self.log.as_opened.get(change.index)?;
        }
        Some(NumberedChange {
            number: change.number,
            index: u32::try_from(change.index).ok()?,
            event,
        })
    }

    /// Returns the counts of accepted and dropped samples.
    #[must_use]
    pub fn counts(&self) -> IntakeCounts {
        self.intake.counts()
    }

    /// Returns the size of the detection state in bytes, without the events. For tests.
    #[doc(hidden)]
    #[must_use]
    pub fn state_bytes(&self) -> usize {
        size_of::<Self>() + self.intake.heap_bytes() + self.detection.heap_bytes()
    }
}
