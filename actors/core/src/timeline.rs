//! From the samples of a session to its events.

use porchlight_schema::event::{Confidence, Event, EventType, Metadata};
use porchlight_schema::limits::SESSION_EVENTS_MAX;
use porchlight_schema::sample::Sample;
use porchlight_schema::sample::packed::{PackedBatch, PackedError};
use serde::{Deserialize, Serialize};

use crate::context::SessionContext;
use crate::detect::Detection;
use crate::intake::{Intake, IntakeCounts};
use crate::window::Window;

/// Something that happened to an event. Numbers run from 0 without holes, in the order in which it happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change {
    /// The running number.
    pub number: u32,
    /// The event's place in [`Timeline::events`].
    pub place: usize,
    /// Whether it was closed (or is an instant); else it was opened.
    pub is_closed: bool,
}

/// How many events [`EventLog::newest_event`] looks back.
const NEWEST_EVENTS: usize = 6;

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

/// The events that were emitted, with the numbers of the changes that opened and closed them.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct EventLog {
    events: Vec<Event>,
    /// Of each event: the change that opened it, and the one that closed it.
    numbers: Vec<(u32, Option<u32>)>,
    /// What was known of each event when it was opened.
    as_opened: Vec<(Confidence, Metadata)>,
    next_number: u32,
    /// Of each type the place of its open event, plus one; 0 where none is open.
    open: [u16; EventType::ALL.len()],
    /// Of each type the place of its newest event, plus one; 0 where there was none.
    newest: [u16; EventType::ALL.len()],
    dropped: u32,
}

impl EventLog {
    /// The event of this type that is open.
    #[must_use]
    pub fn open_event(&self, event_type: EventType) -> Option<&Event> {
        let place = usize::from(self.open[event_type as usize]).checked_sub(1)?;
        self.events.get(place)
    }

    /// The newest event of this type, be it open or closed, if it is among the last few.
    #[must_use]
    pub fn newest_event(&self, event_type: EventType) -> Option<&Event> {
        let place = usize::from(self.newest[event_type as usize]).checked_sub(1)?;
        let is_lately = place + NEWEST_EVENTS >= self.events.len();
        self.events.get(place).filter(|_| is_lately)
    }

    /// Emits an event that goes on. At most one of a type is open: a second one is not taken.
    pub fn open(
        &mut self,
        event_type: EventType,
        t_start_ms: u32,
        confidence: Confidence,
        metadata: Metadata,
    ) {
        if self.open[event_type as usize] != 0 {
            return;
        }
        if let Some(place) = self.append(Event {
            event_type,
            t_start_ms,
            t_end_ms: None,
            confidence,
            metadata,
        }) {
            self.open[event_type as usize] = u16::try_from(place + 1).unwrap_or(0);
        }
    }

    /// Closes the open event of this type, if there is one; never before its start.
    pub fn close(
        &mut self,
        event_type: EventType,
        t_end_ms: u32,
        confidence: Confidence,
        metadata: Metadata,
    ) {
        let Some(place) = usize::from(self.open[event_type as usize]).checked_sub(1) else {
            return;
        };
        self.open[event_type as usize] = 0;
        if let (Some(event), Some(numbers)) =
            (self.events.get_mut(place), self.numbers.get_mut(place))
        {
            event.t_end_ms = Some(t_end_ms.max(event.t_start_ms));
            event.confidence = confidence;
            event.metadata = metadata;
            numbers.1 = Some(self.next_number);
            self.next_number += 1;
        }
    }

    /// Emits an instant.
    pub fn instant(&mut self, event_type: EventType, t_ms: u32, confidence: Confidence) {
        let instant = Event {
            event_type,
            t_start_ms: t_ms,
            t_end_ms: None,
            confidence,
            metadata: Metadata::None,
        };
        if let Some(place) = self.append(instant)
            && let Some((opened, closed)) = self.numbers.get_mut(place)
        {
            *closed = Some(*opened);
        }
    }

    fn append(&mut self, event: Event) -> Option<usize> {
        if self.events.len() >= SESSION_EVENTS_MAX {
            self.dropped = self.dropped.saturating_add(1);
            return None;
        }
        self.as_opened.push((event.confidence, event.metadata));
        self.events.push(event);
        self.numbers.push((self.next_number, None));
        self.next_number += 1;
        self.newest[event.event_type as usize] = u16::try_from(self.events.len()).unwrap_or(0);
        Some(self.events.len() - 1)
    }
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

    /// Events beyond [`SESSION_EVENTS_MAX`], which were detected and not kept.
    #[must_use]
    pub fn dropped_events(&self) -> u32 {
        self.log.dropped
    }
}
