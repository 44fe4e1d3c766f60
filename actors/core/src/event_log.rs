//! The emitted events of a session, and the changes that opened and closed them.

use porchlight_schema::event::{Confidence, Event, EventType, Metadata};
use porchlight_schema::limits::{SESSION_EVENTS_MAX, SESSION_EVENTS_MIXED_MAX};
use serde::{Deserialize, Serialize};

/// A change of an event. Numbers run from 0 without gaps, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change {
    /// The number of the change.
    pub number: u32,
    /// The event's index in [`crate::timeline::Timeline::events`].
    pub index: usize,
    /// Whether the event was closed (or is an instant); otherwise it was opened.
    pub is_closed: bool,
}

/// The emitted events, with the numbers of the changes that opened and closed them.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct EventLog {
    pub(crate) events: Vec<Event>,
    /// For each event: the change that opened it, and the change that closed it.
    pub(crate) numbers: Vec<(u32, Option<u32>)>,
    /// The confidence and the metadata of each event when it was opened.
    pub(crate) as_opened: Vec<(Confidence, Metadata)>,
    pub(crate) next_number: u32,
    /// For each type, the index of its open event plus one; 0 if no event is open.
    open: [u16; EventType::ALL.len()],
    /// For each type, the index of its newest event plus one; 0 if the type has no event.
    newest: [u16; EventType::ALL.len()],
}

impl EventLog {
    /// Returns whether an event of this type is open.
    #[must_use]
    pub fn is_open(&self, event_type: EventType) -> bool {
        self.open[event_type as usize] != 0
    }

    /// Returns the open event of this type.
    #[must_use]
    pub fn open_event(&self, event_type: EventType) -> Option<&Event> {
        let index = usize::from(self.open[event_type as usize]).checked_sub(1)?;
        self.events.get(index)
    }

    /// Returns the newest event of this type, open or closed.
    #[must_use]
    pub fn newest_event(&self, event_type: EventType) -> Option<&Event> {
        let index = usize::from(self.newest[event_type as usize]).checked_sub(1)?;
        self.events.get(index)
    }

    /// Opens an event. At most one event of a type is open; a second one is ignored.
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
        if let Some(index) = self.append(Event {
            event_type,
            t_start_ms,
            t_end_ms: None,
            confidence,
            metadata,
        }) {
            self.open[event_type as usize] = u16::try_from(index + 1).unwrap_or(0);
        }
    }

    /// Closes the open event of this type, if any, not before its start.
    pub fn close(
        &mut self,
        event_type: EventType,
        t_end_ms: u32,
        confidence: Confidence,
        metadata: Metadata,
    ) {
        let Some(index) = usize::from(self.open[event_type as usize]).checked_sub(1) else {
            return;
        };
        self.open[event_type as usize] = 0;
        if let (Some(event), Some(numbers)) =
            (self.events.get_mut(index), self.numbers.get_mut(index))
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
        if let Some(index) = self.append(instant)
            && let Some((opened, closed)) = self.numbers.get_mut(index)
        {
            *closed = Some(*opened);
        }
    }

    /// Adds an event, and returns its index. Returns `None` if there is no place for its type.
    fn append(&mut self, event: Event) -> Option<usize> {
        let most = if event.event_type.is_movement() {
            SESSION_EVENTS_MAX
        } else {
            SESSION_EVENTS_MIXED_MAX
        };
        if self.events.len() >= most {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The phone stays in a street canyon for days, so that its reception degrades and is restored
    /// thousands of times.
    #[test]
    fn annotations_leave_places_for_movement() {
        let mut log = EventLog::default();
        let confidence = Confidence::from_probability(0.9);
        for t_ms in 0..3_000 {
            log.instant(EventType::GpsRestored, t_ms, confidence);
        }
        assert_eq!(log.events.len(), SESSION_EVENTS_MIXED_MAX);
        log.open(EventType::Stopped, 3_000, confidence, Metadata::None);
        assert!(log.is_open(EventType::Stopped));
        for t_ms in 3_000..9_000 {
            log.close(EventType::Stopped, t_ms, confidence, Metadata::None);
            log.open(EventType::Stopped, t_ms, confidence, Metadata::None);
        }
        assert_eq!(log.events.len(), SESSION_EVENTS_MAX);
        assert!(!log.is_open(EventType::Stopped));
        assert_eq!(log.newest_event(EventType::Stopped), log.events.last());
    }
}
