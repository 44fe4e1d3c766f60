//! The periods of labels and detections, and the tolerance of the ends of labels.

use crate::labels::{Detected, Segment};

/// A period of time, in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Span {
    pub(crate) from: f64,
    pub(crate) to: f64,
}

impl Span {
    pub(crate) fn length(self) -> f64 {
        (self.to - self.from).max(0.0)
    }

    pub(crate) fn common(self, other: Self) -> f64 {
        (self.to.min(other.to) - self.from.max(other.from)).max(0.0)
    }

    pub(crate) fn iou(self, other: Self) -> f64 {
        let common = self.common(other);
        let union = self.length() + other.length() - common;
        if union > 0.0 { common / union } else { 0.0 }
    }
}

/// The largest part of a label by which each of its ends may move within its tolerance. At least
/// half of the label stays where it is.
const TOLERANCE_PART_MAX: f64 = 0.25;

/// Whether the ends of a label are exact.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ends {
    /// The ends are where the label says.
    AsLabelled,
    /// Each end lies within the tolerance of the label, where it is nearest to the detection.
    WithinTolerance,
}

impl Ends {
    /// Returns the period of a label to compare with a detection.
    pub(crate) fn stretch(self, segment: &Segment, detection: Span) -> Span {
        let label = stretch_of(segment);
        match self {
            Self::AsLabelled => label,
            Self::WithinTolerance => {
                let by = tolerance_sec(segment);
                Span {
                    from: detection.from.clamp(label.from - by, label.from + by),
                    to: detection.to.clamp(label.to - by, label.to + by),
                }
            }
        }
    }
}

/// Returns by how many seconds each end of a label may move.
pub(crate) fn tolerance_sec(segment: &Segment) -> f64 {
    let most_sec = TOLERANCE_PART_MAX * stretch_of(segment).length();
    segment.tolerance_sec.clamp(0.0, most_sec)
}

/// Returns the period of a label as labelled; that of an instant has no length.
pub(crate) fn stretch_of(segment: &Segment) -> Span {
    Span {
        from: segment.t_start,
        to: segment.t_end.unwrap_or(segment.t_start),
    }
}

/// Returns the whole period of a detection; that of an instant has no length.
pub(crate) fn span_of(detected: &Detected) -> Span {
    let event = &detected.event;
    Span {
        from: f64::from(event.t_start_ms) / 1000.0,
        to: f64::from(event.t_end_ms.unwrap_or(event.t_start_ms)) / 1000.0,
    }
}
