//! The labels of a recording, and the detections that are compared with them.

use std::collections::BTreeMap;

use porchlight_schema::event::{Direction, Event, EventType};
use serde::Deserialize;

use crate::fields::Facts;

/// The labels of one recording, as stored next to it in JSON.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Labels {
    /// The name of the recording.
    #[serde(default)]
    pub recording: String,
    /// The recorded streams, by kind.
    #[serde(default)]
    pub streams: BTreeMap<String, serde_json::Value>,
    /// The types that are labelled exhaustively inside the spans.
    #[serde(default)]
    pub complete: Vec<EventType>,
    /// The start and end of each labelled span, seconds.
    #[serde(default)]
    pub labelled_spans: Vec<(f64, f64)>,
    /// The labelled events.
    #[serde(default)]
    pub segments: Vec<Segment>,
    /// The ground truth of the whole session.
    #[serde(default)]
    pub facts: Facts,
    /// The body of the request that started the session, if known: address and device.
    #[serde(default)]
    pub start: serde_json::Value,
    /// The end of the session, seconds. `None` means its last sample.
    #[serde(default)]
    pub end_sec: Option<f64>,
    /// Whether a proof of delivery was attached at the end.
    #[serde(default)]
    pub pod: bool,
    /// Whether the phone never stopped the session.
    #[serde(default)]
    pub timed_out: bool,
    /// Silences of all streams of 30 s and more, seconds from and to. [`Recording::new`] finds them
    /// in the samples.
    #[serde(skip)]
    pub silences: Vec<(f64, f64)>,
}

impl Labels {
    /// Returns whether the motion of the body was recorded.
    #[must_use]
    pub fn has_body(&self) -> bool {
        let kinds = ["imu", "motion", "steps"];
        kinds.iter().any(|kind| self.streams.contains_key(*kind))
    }
}

/// One labelled event.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Segment {
    /// The event type.
    #[serde(rename = "type")]
    pub event_type: EventType,
    /// The start, seconds.
    pub t_start: f64,
    /// The end, seconds. `None` or equal to the start for an instant.
    pub t_end: Option<f64>,
    /// The tolerance of the start and the end that the source states, seconds.
    #[serde(default)]
    pub tolerance_sec: f64,
    /// Additional attributes of the label.
    #[serde(default)]
    pub metadata: SegmentMetadata,
}

/// The additional attributes of a label; unknown members are ignored.
#[derive(Debug, Clone, Copy, PartialEq, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SegmentMetadata {
    /// The number of floors passed; some sources use a negative sign for down.
    #[serde(default)]
    pub floors: Option<f64>,
    /// The direction of the climb or ride.
    #[serde(default)]
    pub direction: Option<Direction>,
}

/// A detected event, and the time at which it became known.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Detected {
    /// The event in its final form.
    pub event: Event,
    /// The newest `t` of the session when the event was opened, milliseconds. `None` if unknown.
    pub opened_at_ms: Option<u32>,
}
