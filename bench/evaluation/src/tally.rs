//! Counts of one event type, and the figures computed from them.

use serde::Serialize;

use crate::interval::interval;
use crate::quantile::share;

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
    /// The labels, found labels, found labels where complete, and detections if the ends of labels
    /// may move within their tolerance.
    pub within_tolerance: [u32; 4],
    /// The labels, found labels, found labels where complete, and detections of each recording that
    /// has any.
    pub by_recording: Vec<[u32; 4]>,
}

impl Tally {
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

    /// Returns the labels, found labels, found labels where complete, and detections.
    pub(crate) fn counts(&self) -> [u32; 4] {
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
        interval(&self.by_recording, |drawn| {
            let mut sum = [0; 4];
            for counts in drawn {
                add_counts(&mut sum, *counts);
            }
            f1_of(sum)
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

    /// Returns the harmonic mean of precision and recall, or 0 if no label is found. Returns `None`
    /// without labels, or if labels are found only where the type is not labelled completely.
    #[must_use]
    pub fn f1(&self) -> Option<f64> {
        f1_of(self.counts())
    }

    /// Returns [`Tally::f1`] if the ends of labels may move within their tolerance.
    #[must_use]
    pub fn f1_within_tolerance(&self) -> Option<f64> {
        f1_of(self.within_tolerance)
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

/// Adds the counts of one recording to a sum.
pub(crate) fn add_counts(sum: &mut [u32; 4], counts: [u32; 4]) {
    for (sum, count) in sum.iter_mut().zip(counts) {
        *sum += count;
    }
}

/// Returns the harmonic mean of precision and recall for labels, found labels, found labels where
/// complete, and detections.
fn f1_of([labels, found, found_where_complete, detections]: [u32; 4]) -> Option<f64> {
    let recall = share(found, labels)?;
    if found == 0 {
        return Some(0.0);
    }
    let precision = share(found_where_complete, detections)?;
    Some(if precision + recall > 0.0 {
        2.0 * precision * recall / (precision + recall)
    } else {
        0.0
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without this, a type that is missed completely would have no figure instead of the worst one.
    #[test]
    fn a_type_that_is_missed_completely_has_the_lowest_figure() {
        let missed = Tally {
            labels: 3,
            within_tolerance: [3, 0, 0, 0],
            by_recording: vec![[1, 0, 0, 0]; 3],
            ..Tally::default()
        };
        assert_eq!(missed.f1(), Some(0.0));
        assert_eq!(missed.f1_within_tolerance(), Some(0.0));
        assert_eq!(missed.f1_interval(), Some((0.0, 0.0)));
        assert_eq!((missed.precision(), missed.recall()), (None, Some(0.0)));
        assert_eq!(Tally::default().f1(), None);
    }
}
