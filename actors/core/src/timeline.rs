//! From the samples of a session to its events.

use porchlight_schema::event::Event;
use porchlight_schema::sample::Sample;
use porchlight_schema::sample::packed::{PackedBatch, PackedError};
use serde::{Deserialize, Serialize};

use crate::context::SessionContext;
use crate::detect::Detection;
use crate::event_log::{Change, EventLog};
use crate::intake::{Intake, IntakeCounts};
use crate::window::Window;

/// A change as it is told to whoever watches: numbers run from 0 without holes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Told {
    /// The running number.
    pub number: u32,
    /// The event's place among all: by it the opening and the closing of one event find each other.
    pub place: u32,
    /// The event as it was then.
    pub event: Event,
}

/// A session's way from samples to events, one sample at a time.
///
/// It is a function of the context and of the sequence of samples: neither their cut into batches, nor a snapshot and
/// restore between any two, changes a bit of the events. See [`crate::intake`] for what holds when kinds are
/// interleaved differently.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Timeline {
    intake: Intake,
    detection: Detection,
    log: EventLog,
}

impl Timeline {
    /// Of a session that begins.
    #[must_use]
    pub fn new(_context: &SessionContext) -> Self {
        Self {
            intake: Intake::default(),
            detection: Detection::default(),
            log: EventLog::default(),
        }
    }

    /// Takes the next sample, in the order of `seq` and of its place in its batch.
    pub fn push(&mut self, context: &SessionContext, sample: Sample<'_>) {
        self.push_seen(context, sample, &mut |_| {});
    }

    /// The same; `see` gets each window that the detectors get, before them.
    #[inline(always)]
    pub fn push_seen(
        &mut self,
        context: &SessionContext,
        sample: Sample<'_>,
        see: &mut impl FnMut(&Window),
    ) {
        let Self {
            intake,
            detection,
            log,
        } = self;
        intake.push(context, sample, &mut |window| {
            see(window);
            detection.observe(context, window, log);
        });
    }

    /// Takes the next batch.
    ///
    /// # Errors
    ///
    /// A batch whose rest is corrupt; what stood before the damage has been taken.
    pub fn push_batch(
        &mut self,
        context: &SessionContext,
        batch: &PackedBatch,
    ) -> Result<(), PackedError> {
        batch.reader()?.each(
            self,
            |timeline, fix| timeline.push_seen(context, Sample::Location(fix), &mut |_| {}),
            |timeline, sample| timeline.push_seen(context, sample, &mut |_| {}),
        )
    }

    /// The session is over: what is held back is looked at, and what is open ends at the last sample.
    pub fn finish(&mut self, context: &SessionContext) {
        self.finish_seen(context, &mut |_| {});
    }

    /// The same; `see` gets each window that the detectors get, before them.
    pub fn finish_seen(&mut self, context: &SessionContext, see: &mut impl FnMut(&Window)) {
        let Self {
            intake,
            detection,
            log,
        } = self;
        intake.finish(&mut |window| {
            see(window);
            detection.observe(context, window, log);
        });
        detection.finish(context, log);
    }

    /// The events emitted so far, in the order in which they were opened. What stands here is never withdrawn; what is
    /// closed never changes; of what is open, type and start never change.
    #[must_use]
    pub fn events(&self) -> &[Event] {
        &self.log.events
    }

    /// How many changes there were: the number that the next one gets.
    #[must_use]
    pub fn change_count(&self) -> u32 {
        self.log.next_number
    }

    /// The changes numbered `number` and up, in order. To learn what a batch changed, take [`Timeline::change_count`]
    /// before it.
    #[must_use]
    pub fn changes_since(&self, number: u32) -> Vec<Change> {
        let mut changes = Vec::new();
        for (place, &(opened, closed)) in self.log.numbers.iter().enumerate() {
            if opened >= number && closed != Some(opened) {
                changes.push(Change {
                    number: opened,
                    place,
                    is_closed: false,
                });
            }
            if let Some(closed) = closed.filter(|&closed| closed >= number) {
                changes.push(Change {
                    number: closed,
                    place,
                    is_closed: true,
                });
            }
        }
        changes.sort_by_key(|change| change.number);
        changes
    }

    /// The changes numbered `number` and up, at most `limit` of them, each with its event as it was told then: what
    /// has closed since is open in the change that opened it.
    #[must_use]
    pub fn told_since(&self, number: u32, limit: usize) -> Vec<Told> {
        let changes = self.changes_since(number).into_iter().take(limit);
        changes.filter_map(|change| self.told(change)).collect()
    }

    fn told(&self, change: Change) -> Option<Told> {
        let mut event = *self.log.events.get(change.place)?;
        if !change.is_closed {
            event.t_end_ms = None;
            (event.confidence, event.metadata) = *self.log.as_opened.get(change.place)?;
        }
        Some(Told {
            number: change.number,
            place: u32::try_from(change.place).ok()?,
            event,
        })
    }

    /// What the intake took and dropped.
    #[must_use]
    pub fn counts(&self) -> IntakeCounts {
        self.intake.counts()
    }

    /// Bytes of what is remembered for detection, the events themselves apart.
    #[must_use]
    pub fn state_bytes(&self) -> usize {
        size_of::<Self>() + self.intake.heap_bytes() + self.detection.heap_bytes()
    }

    /// Events beyond [`porchlight_schema::limits::SESSION_EVENTS_MAX`], which were detected and not kept.
    #[must_use]
    pub fn dropped_events(&self) -> u32 {
        self.log.dropped
    }
}
