//! One recording or simulated delivery with its truth, read once and run as in production.

use porchlight_schema::limits::GAP_MS;
use porchlight_schema::sample::json::{DecodeError, decode_sample};
use porchlight_schema::sample::packed::{BatchBuilder, PackedBatch, PackedError};
use porchlight_schema::sample::{FieldError, Kind, Sample};
use porchlight_schema::session::{Address, Device, PodType, Point};
use serde_json::Value;

use crate::labels::{Detected, Labels};
use porchlight_core::context::SessionContext;
use porchlight_core::score::{Knowledge, PodInput, ScoreInput, Scored, score_and_learn};
use porchlight_core::session::replay::{Replay, Replayed};
use porchlight_core::timeline::Timeline;

/// The reason why a recording cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    /// The labels are invalid.
    #[error("the labels are invalid: {0}")]
    Labels(#[from] serde_json::Error),
    /// A line is not a sample.
    #[error("line {line}: {error}")]
    Line {
        /// The line number, from 1.
        line: usize,
        /// The reason for the failure.
        error: DecodeError,
    },
    /// A sample cannot be moved to a later time.
    #[error(transparent)]
    Field(#[from] FieldError),
    /// A batch cannot be read back.
    #[error(transparent)]
    Packed(#[from] PackedError),
}

/// A session with its labels.
#[derive(Debug, Clone)]
pub struct Recording {
    /// The name of the recording.
    pub name: String,
    /// The labels of the recording.
    pub labels: Labels,
    /// The samples of the recording, in order of arrival.
    pub batches: Vec<PackedBatch>,
    /// The prior knowledge about the address.
    pub context: SessionContext,
}

impl Recording {
    /// Builds a recording from the text of its labels and its lines of samples (NDJSON).
    ///
    /// # Errors
    ///
    /// Returns an error if the labels or a line are invalid.
    pub fn read<'l>(
        name: &str,
        labels: &[u8],
        lines: impl Iterator<Item = &'l [u8]>,
    ) -> Result<Self, RecordingError> {
        let mut builder = BatchBuilder::default();
        for (number, line) in lines.enumerate().filter(|(_, line)| !line.is_empty()) {
            let line_number = number + 1;
            decode_sample(line, &mut builder).map_err(|error| RecordingError::Line {
                line: line_number,
                error,
            })?;
        }
        Self::new(name, serde_json::from_slice(labels)?, vec![builder.pack()])
    }

    /// Builds a recording from batches. The address is that of the start, if the labels have one;
    /// otherwise it is the place where the recording ends, without further facts about that place.
    ///
    /// # Errors
    ///
    /// Returns an error if a batch is invalid.
    pub fn new(
        name: &str,
        mut labels: Labels,
        batches: Vec<PackedBatch>,
    ) -> Result<Self, RecordingError> {
        labels.silences = silences(&batches)?;
        let address = address(&labels.start["address"], last_point(&batches)?);
        let context = SessionContext::of_address(&address, device(&labels.start).as_ref());
        Ok(Self {
            name: name.to_owned(),
            labels,
            batches,
            context,
        })
    }

    /// Returns the events, and the time at which each became known, as a live session would find
    /// them; without the kinds in `without`.
    ///
    /// # Errors
    ///
    /// Returns an error if a batch is invalid.
    pub fn detect(&self, without: &[Kind]) -> Result<Vec<Detected>, RecordingError> {
        let mut timeline = Timeline::default();
        let mut opened_at_ms: Vec<Option<u32>> = Vec::new();
        let mut newest_ms = 0;
        for batch in &self.batches {
            let mut reader = batch.reader()?;
            while let Some(sample) = reader.next_sample()? {
                if without.contains(&sample.kind()) {
                    continue;
                }
                newest_ms = newest_ms.max(sample.t_ms());
                timeline.push(&self.context, sample);
                opened_at_ms.resize(timeline.events().len(), Some(newest_ms));
            }
        }
        timeline.finish(&self.context);
        opened_at_ms.resize(timeline.events().len(), Some(newest_ms));
        let events = timeline.events().iter().zip(opened_at_ms);
        Ok(events
            .map(|(&event, opened_at_ms)| Detected {
                event,
                opened_at_ms,
            })
            .collect())
    }

    /// Returns the input of scoring.
    #[must_use]
    pub fn replayed(&self) -> Replayed {
        let mut replay = Replay::new(&self.context);
        for (seq, batch) in self.batches.iter().enumerate() {
            replay.batch(u32::try_from(seq).unwrap_or(u32::MAX), batch);
        }
        replay.finish()
    }

    /// Returns the score, without prior knowledge.
    #[must_use]
    pub fn score(&self, replayed: &Replayed) -> Scored {
        let received_ms = self.batches.iter().map(PackedBatch::t_max_ms).max();
        let end_ms = self
            .labels
            .end_sec
            .map(|end_sec| (end_sec * 1000.0).round() as u32);
        let duration_ms = end_ms.or(received_ms).unwrap_or(0);
        score_and_learn(&ScoreInput {
            context: &self.context,
            windows: &replayed.windows,
            events: &replayed.events,
            marks: &replayed.marks,
            system: &replayed.system,
            clock_steps: &replayed.clock_steps,
            pod: self.labels.pod.then_some(PodInput {
                pod_type: PodType::Photo,
                t_ms: Some(duration_ms),
                clock_ahead_ms: 0,
            }),
            duration_ms,
            timed_out: self.labels.timed_out,
            missing_batches: replayed.missing_batches,
            quarantined_batches: 0,
            known: &Knowledge::default(),
        })
    }
}

/// Finds the silences of all kinds of samples, in seconds from and to.
fn silences(batches: &[PackedBatch]) -> Result<Vec<(f64, f64)>, PackedError> {
    let mut received_ms: Vec<u32> = Vec::new();
    for batch in batches {
        let mut reader = batch.reader()?;
        while let Some(sample) = reader.next_sample()? {
            received_ms.push(sample.t_ms());
        }
    }
    received_ms.sort_unstable();
    let seconds = |t_ms: u32| f64::from(t_ms) / 1_000.0;
    Ok(received_ms
        .iter()
        .zip(received_ms.iter().skip(1))
        .filter(|(before_ms, after_ms)| *after_ms - *before_ms >= GAP_MS)
        .map(|(&before_ms, &after_ms)| (seconds(before_ms), seconds(after_ms)))
        .collect())
}

fn point(value: &Value) -> Option<Point> {
    Some(Point {
        lat: value["lat"].as_f64()?,
        lng: value["lng"].as_f64()?,
    })
}

fn address(known: &Value, end: Point) -> Address {
    let metres = |name: &str| known[name].as_f64().map(|metres| metres as f32);
    Address {
        floor: known["floor"]
            .as_i64()
            .and_then(|floor| i16::try_from(floor).ok()),
        accuracy_m: metres("accuracyM").unwrap_or(Address::ACCURACY_M_DEFAULT),
        storey_height_m: metres("storeyHeightM"),
        entrance: point(&known["entrance"]),
        gates: known["gates"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(point)
            .collect(),
        ..Address::at(point(known).unwrap_or(end))
    }
}

fn device(start: &Value) -> Option<Device> {
    let sensors = start["device"]["sensors"].as_array()?.iter();
    let names = sensors.filter_map(Value::as_str).map(str::to_owned);
    Some(Device {
        sensors: names.collect(),
        ..Device::default()
    })
}

fn last_point(batches: &[PackedBatch]) -> Result<Point, PackedError> {
    let mut last = Point { lat: 0.0, lng: 0.0 };
    for batch in batches {
        let mut reader = batch.reader()?;
        while let Some(sample) = reader.next_sample()? {
            if let Sample::Location(location) = sample {
                last = Point {
                    lat: location.lat,
                    lng: location.lng,
                };
            }
        }
    }
    Ok(last)
}
