//! Measures the detectors by matching events and labels one to one.
//!
//! A detection matches a label of its type at a temporal intersection over union of at least 0.5,
//! or 0.3 if the label is shorter than 10 s; instants and gates match within 5 s (Ward, Lukowicz &
//! Gellersen, TIST 2011). Recall counts all labels that the recording's streams can show. Precision
//! counts only types that are labelled exhaustively, inside the labelled spans. Labels that no
//! stream can show are counted separately, as not decidable.

mod fields;
mod interval;
mod matching;
mod recording;
mod seconds;
mod table;

use std::collections::BTreeMap;

use porchlight_schema::event::{Direction, Event, EventType, Metadata};
use serde::{Deserialize, Serialize};

pub use fields::{Claim, Facts, Field, Fields, Floors, Time};
pub use matching::{Judged, Verdict, judged};
pub use recording::{Recording, RecordingError};
pub use seconds::{SecondCounts, Seconds, Share};
pub use table::{fields_text, text};

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

/// The counts of one event type.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Tally {
    /// The number of labels that the streams can show.
    pub labels: u32,
    /// Labels that the recording cannot show: it lacks the stream, is silent for most of the label,
    /// or the label is shorter than an event.
    pub not_decidable: u32,
    /// Detections within such labels, which count as neither right nor wrong.
    pub detections_apart: u32,
    /// The number of labels found.
    pub found: u32,
    /// The number of found labels in recordings where the type is complete.
    pub found_where_complete: u32,
    /// The number of detections inside the spans where the type is complete.
    pub detections: u32,
    /// The number of additional detections into which labels were split.
    pub fragments: u32,
    /// The number of additional labels that were merged by one detection.
    pub merges: u32,
    /// The absolute errors of the starts and ends of matches, seconds.
    pub boundary_errors_sec: Vec<f64>,
    /// The time from a label's start to the opening of its detection, seconds.
    pub latencies_sec: Vec<f64>,
    /// The errors in floors, where the number is known.
    pub floors_off: Vec<i32>,
    /// The number of correct directions, and the number of known directions.
    pub directions: (u32, u32),
    /// The confidence of each detection, and whether it was correct.
    pub confidences: Vec<(f64, bool)>,
    /// The labels, found labels, found labels where complete, and detections of each recording that
    /// has any.
    pub by_recording: Vec<[u32; 4]>,
}

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
            tally.add(event_type, labels, detected);
        }
        if labels.has_body() {
            for event_type in [EventType::Stopped, EventType::Walking] {
                let tally = self.by_body.entry(event_type).or_default();
                tally.add(event_type, labels, detected);
            }
        }
    }
}

impl Tally {
    /// Adds one type of one recording.
    fn add(&mut self, event_type: EventType, labels: &Labels, detected: &[Detected]) {
        let before = self.counts();
        matching::add(self, event_type, labels, detected);
        let mut own = self.counts();
        for (count, before) in own.iter_mut().zip(before) {
            *count -= before;
        }
        if own.iter().any(|&count| count > 0) {
            self.by_recording.push(own);
        }
    }

    /// Returns the mean confidence of the detections with a confidence in a range, the share of
    /// them that is correct, and their number. Returns `None` if the range contains no detections.
    #[must_use]
    pub fn reliability(&self, range: std::ops::Range<f64>) -> Option<(f64, f64, u32)> {
        let within = self
            .confidences
            .iter()
            .filter(|(confidence, _)| range.contains(confidence));
        let (sum, right, count) = within.fold((0.0, 0, 0), |(sum, right, count), one| {
            (sum + one.0, right + u32::from(one.1), count + 1)
        });
        let right = share(right, count)?;
        Some((sum / f64::from(count), right, count))
    }

    fn counts(&self) -> [u32; 4] {
        [
            self.labels,
            self.found,
            self.found_where_complete,
            self.detections,
        ]
    }

    /// Returns the 95 % interval of [`Tally::f1`] over resampled recordings.
    #[must_use]
    pub fn f1_interval(&self) -> Option<(f64, f64)> {
        interval::interval(&self.by_recording, |drawn| {
            let mut sum = Self::default();
            for [labels, found, found_where_complete, detections] in drawn {
                sum.labels += labels;
                sum.found += found;
                sum.found_where_complete += found_where_complete;
                sum.detections += detections;
            }
            sum.f1()
        })
    }

    /// Returns the share of correct detections, or `None` without detections.
    #[must_use]
    pub fn precision(&self) -> Option<f64> {
        share(self.found_where_complete, self.detections)
    }

    /// Returns the share of found labels, or `None` without labels.
    #[must_use]
    pub fn recall(&self) -> Option<f64> {
        share(self.found, self.labels)
    }

    /// Returns the harmonic mean of precision and recall.
    #[must_use]
    pub fn f1(&self) -> Option<f64> {
        let (precision, recall) = (self.precision()?, self.recall()?);
        Some(if precision + recall > 0.0 {
            2.0 * precision * recall / (precision + recall)
        } else {
            0.0
        })
    }

    /// Returns the expected calibration error: the mean distance between confidence and share of
    /// correct detections, by tenths of confidence.
    #[must_use]
    pub fn calibration_error(&self) -> Option<f64> {
        let mut bins = [(0.0_f64, 0.0_f64, 0.0_f64); 10];
        for &(confidence, is_right) in &self.confidences {
            let place = ((confidence * 10.0) as usize).min(9);
            if let Some((sum, right, count)) = bins.get_mut(place) {
                *sum += confidence;
                *right += f64::from(u8::from(is_right));
                *count += 1.0;
            }
        }
        let count: f64 = bins.iter().map(|bin| bin.2).sum();
        let off: f64 = bins.iter().map(|(sum, right, _)| (sum - right).abs()).sum();
        (count > 0.0).then(|| off / count)
    }
}

/// Returns the value below which `share` of the values lie, or `None` without values.
#[must_use]
pub fn quantile(values: &[f64], share: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let place = (share.clamp(0.0, 1.0) * (sorted.len().checked_sub(1)?) as f64).round() as usize;
    sorted.get(place).copied()
}

fn share(part: u32, whole: u32) -> Option<f64> {
    (whole > 0).then(|| f64::from(part) / f64::from(whole))
}

fn floors_and_direction(event: &Event) -> (Option<u16>, Option<Direction>) {
    match event.metadata {
        Metadata::Climb {
            floors, direction, ..
        } => (floors, Some(direction)),
        _ => (None, None),
    }
}
