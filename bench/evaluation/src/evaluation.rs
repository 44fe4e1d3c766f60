//! The counts of all event types over recordings.

use std::collections::BTreeMap;

use porchlight_schema::event::EventType;
use serde::Serialize;

use crate::labels::{Detected, Labels};
use crate::matching;
use crate::span::Ends;
use crate::tally::{Tally, add_counts};

/// The counts over recordings, by event type.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Evaluation {
    /// The number of recordings.
    pub recordings: u32,
    /// The counts by event type.
    pub by_type: BTreeMap<EventType, Tally>,
    /// `WALKING` and `STOPPED` of the recordings in which the motion of the body was measured.
    pub by_body: BTreeMap<EventType, Tally>,
}

impl Evaluation {
    /// Adds one recording.
    pub fn add(&mut self, labels: &Labels, detected: &[Detected]) {
        self.recordings += 1;
        for event_type in EventType::ALL {
            let tally = self.by_type.entry(event_type).or_default();
            add_one(tally, event_type, labels, detected);
        }
        if labels.has_body() {
            for event_type in [EventType::Stopped, EventType::Walking] {
                let tally = self.by_body.entry(event_type).or_default();
                add_one(tally, event_type, labels, detected);
            }
        }
    }
}

/// Adds one type of one recording.
fn add_one(tally: &mut Tally, event_type: EventType, labels: &Labels, detected: &[Detected]) {
    let before = tally.counts();
    matching::add(tally, event_type, labels, detected, Ends::AsLabelled);
    let mut own = tally.counts();
    for (count, before) in own.iter_mut().zip(before) {
        *count -= before;
    }
    if own.iter().any(|&count| count > 0) {
        tally.by_recording.push(own);
    }
    let mut tolerant = Tally::default();
    matching::add(
        &mut tolerant,
        event_type,
        labels,
        detected,
        Ends::WithinTolerance,
    );
    add_counts(&mut tally.within_tolerance, tolerant.counts());
}
