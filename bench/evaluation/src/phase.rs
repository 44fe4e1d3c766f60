//! Moves a recording by a part of a second: the windows of a session begin at whole seconds, so the
//! same walk is cut at another place.

use porchlight_schema::sample::Sample;
use porchlight_schema::sample::packed::BatchBuilder;

use crate::fields::Facts;
use crate::labels::Labels;
use crate::recording::{Recording, RecordingError};

/// The phases at which a recording is judged, in milliseconds. A window takes one second.
pub const PHASES_MS: [u32; 4] = [0, 250, 500, 750];

impl Recording {
    /// Returns the recording with all its samples and labels `by_ms` later.
    ///
    /// # Errors
    ///
    /// Returns an error if a batch is invalid, or if a time leaves its range.
    pub fn later(&self, by_ms: u32) -> Result<Self, RecordingError> {
        let mut batches = Vec::with_capacity(self.batches.len());
        for batch in &self.batches {
            let mut builder = BatchBuilder::default();
            let mut reader = batch.reader()?;
            while let Some(sample) = reader.next_sample()? {
                builder.push(&sample_later(sample, by_ms))?;
            }
            batches.push(builder.pack());
        }
        let labels = labels_later(&self.labels, f64::from(by_ms) / 1_000.0);
        Ok(Self {
            context: self.context.clone(),
            ..Self::new(&self.name, labels, batches)?
        })
    }
}

fn sample_later(mut sample: Sample<'_>, by_ms: u32) -> Sample<'_> {
    let t_ms = match &mut sample {
        Sample::Location(sample) => &mut sample.t_ms,
        Sample::Pressure(sample) => &mut sample.t_ms,
        Sample::Steps(sample) => &mut sample.t_ms,
        Sample::Imu(sample) => &mut sample.t_ms,
        Sample::Motion(sample) => &mut sample.t_ms,
        Sample::Magnetic(sample) => &mut sample.t_ms,
        Sample::Activity(sample) => &mut sample.t_ms,
        Sample::Mark(sample) => &mut sample.t_ms,
        Sample::System(sample) => &mut sample.t_ms,
    };
    *t_ms = t_ms.saturating_add(by_ms);
    sample
}

fn labels_later(labels: &Labels, by_sec: f64) -> Labels {
    let mut labels = labels.clone();
    for (from, to) in &mut labels.labelled_spans {
        *from += by_sec;
        *to += by_sec;
    }
    for segment in &mut labels.segments {
        segment.t_start += by_sec;
        segment.t_end = segment.t_end.map(|t_end| t_end + by_sec);
    }
    labels.end_sec = labels.end_sec.map(|end_sec| end_sec + by_sec);
    let Facts {
        entrance_at_sec,
        door_from_sec,
        door_to_sec,
        ..
    } = &mut labels.facts;
    for sec in [entrance_at_sec, door_from_sec, door_to_sec] {
        *sec = sec.map(|sec| sec + by_sec);
    }
    labels
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn recording() -> Recording {
        let labels = json!({
            "complete": ["STOPPED"],
            "labelledSpans": [[0.0, 60.0]],
            "segments": [{"type": "STOPPED", "tStart": 0.0, "tEnd": 60.0}],
            "facts": {"entranceAtSec": 7.5},
            "endSec": 60.0,
        });
        let lines: Vec<String> = (0..60)
            .map(|t| {
                json!({"t": t, "kind": "motion", "accelMean": 9.81, "accelStd": 0.03}).to_string()
            })
            .chain([json!({"t": 60.2, "kind": "mark", "name": "handed_over"}).to_string()])
            .collect();
        let lines = lines.iter().map(String::as_bytes);
        Recording::read("one", labels.to_string().as_bytes(), lines).unwrap()
    }

    fn times_ms(recording: &Recording) -> Vec<u32> {
        let mut times_ms = Vec::new();
        for batch in &recording.batches {
            let mut reader = batch.reader().unwrap();
            while let Some(sample) = reader.next_sample().unwrap() {
                times_ms.push(sample.t_ms());
            }
        }
        times_ms
    }

    #[test]
    fn samples_and_labels_are_later_by_the_same_time() {
        let recording = recording();
        let later = recording.later(750).unwrap();
        let moved: Vec<u32> = times_ms(&recording).iter().map(|t| t + 750).collect();
        assert_eq!(times_ms(&later), moved);
        let (segment, span) = (&later.labels.segments[0], later.labels.labelled_spans[0]);
        assert_eq!((segment.t_start, segment.t_end), (0.75, Some(60.75)));
        assert_eq!((span, later.labels.end_sec), ((0.75, 60.75), Some(60.75)));
        assert_eq!(later.labels.facts.entrance_at_sec, Some(8.25));
    }

    /// A phase of a whole second cuts a recording at the same places.
    #[test]
    fn a_whole_second_later_the_events_are_the_same() {
        let recording = recording();
        let starts_ms = |recording: &Recording| -> Vec<u32> {
            let detected = recording.detect(&[]).unwrap();
            detected.iter().map(|one| one.event.t_start_ms).collect()
        };
        let first = starts_ms(&recording);
        let later = starts_ms(&recording.later(1_000).unwrap());
        assert!(!first.is_empty());
        assert_eq!(later, first.iter().map(|t| t + 1_000).collect::<Vec<_>>());
    }
}
