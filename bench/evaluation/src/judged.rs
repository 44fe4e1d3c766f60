//! The verdict on each label and each detection of a recording, for drawing.

use porchlight_schema::event::EventType;

use crate::labels::{Detected, Labels};
use crate::matching::{Compared, PieceVerdict, inside, is_decidable};
use crate::span::{Ends, Span, span_of, stretch_of};

/// The verdict on a label or a detection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The label and the detection match.
    Right,
    /// A label without a detection, or a detection without a label.
    Wrong,
    /// A label that the streams cannot show, or a detection that counts as neither right nor wrong:
    /// at such a label, where the labels are incomplete, or at the border of a labelled span.
    Open,
}

/// A label or a detection with its verdict.
#[derive(Debug, Clone, PartialEq)]
pub struct Judged {
    /// The event type.
    pub event_type: EventType,
    /// Whether this is a label; otherwise it is a detection, or the part of one within a labelled
    /// span if the detection lies in several.
    pub is_label: bool,
    /// The start, seconds.
    pub from_sec: f64,
    /// The end, seconds; equal to the start for an instant.
    pub to_sec: f64,
    /// The verdict of the comparison.
    pub verdict: Verdict,
    /// The confidence of a detection.
    pub confidence: Option<f64>,
}

/// Returns all labels and detections of a recording with the verdicts that the figures count.
#[must_use]
pub fn judged(labels: &Labels, detected: &[Detected]) -> Vec<Judged> {
    let mut judged = Vec::new();
    for event_type in EventType::ALL {
        let compared = Compared::new(event_type, labels, detected, Ends::AsLabelled);
        for (place, segment) in compared.segments.iter().enumerate() {
            let stretch = stretch_of(segment);
            judged.push(Judged {
                event_type,
                is_label: true,
                from_sec: stretch.from,
                to_sec: stretch.to,
                verdict: match compared.found(place) {
                    _ if !is_decidable(segment, labels) => Verdict::Open,
                    Some(_) => Verdict::Right,
                    None => Verdict::Wrong,
                },
                confidence: None,
            });
        }
        let own = detected
            .iter()
            .filter(|one| one.event.event_type == event_type);
        let beside = own.filter(|one| inside(one, labels).is_empty());
        judged.extend(beside.map(|one| of_detection(one, span_of(one), Verdict::Open)));
        let is_complete = labels.complete.contains(&event_type);
        for piece in &compared.pieces {
            let is_whole = inside(piece.detected, labels).len() == 1;
            let span = if is_whole {
                span_of(piece.detected)
            } else {
                piece.span
            };
            let verdict = match piece.verdict {
                PieceVerdict::Right => Verdict::Right,
                PieceVerdict::Wrong if is_complete => Verdict::Wrong,
                _ => Verdict::Open,
            };
            judged.push(of_detection(piece.detected, span, verdict));
        }
    }
    judged
}

fn of_detection(detected: &Detected, span: Span, verdict: Verdict) -> Judged {
    Judged {
        event_type: detected.event.event_type,
        is_label: false,
        from_sec: span.from,
        to_sec: span.to,
        verdict,
        confidence: Some(detected.event.confidence.as_probability()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matching::{add, tests::drive};
    use crate::tally::Tally;

    /// The drawing shows the verdicts that the figures beside it count: also for a detection in two
    /// spans, for a label that a silence hides, and at the border of a span.
    #[test]
    fn the_verdicts_are_those_of_the_figures() {
        let labels = serde_json::json!({
            "streams": { "location": {} },
            "complete": ["DRIVING"],
            "labelledSpans": [[0.0, 200.0], [220.0, 2000.0]],
            "segments": [
                { "type": "DRIVING", "tStart": 100.0, "tEnd": 200.0 },
                { "type": "DRIVING", "tStart": 500.0, "tEnd": 600.0 },
            ],
        });
        let mut labels: Labels = serde_json::from_value(labels).unwrap();
        labels.silences = vec![(540.0, 600.0)];
        let detected = [
            drive(100, 300),
            drive(500, 540),
            drive(900, 950),
            drive(1_997, 2_100),
        ];
        let mut tally = Tally::default();
        add(
            &mut tally,
            EventType::Driving,
            &labels,
            &detected,
            Ends::AsLabelled,
        );
        let judged = judged(&labels, &detected);
        let count = |is_label: bool, verdict: Verdict| {
            let own = judged.iter().filter(|one| one.is_label == is_label);
            own.filter(|one| one.verdict == verdict).count() as u32
        };
        let found = count(false, Verdict::Right);
        let detections = found + count(false, Verdict::Wrong);
        assert_eq!((found, detections), (tally.found, tally.detections));
        assert_eq!((found, detections), (1, 3));
        // The detection apart, and the one at the border.
        assert_eq!(count(false, Verdict::Open), tally.detections_apart + 1);
        assert_eq!(count(true, Verdict::Right), tally.found);
        assert_eq!(count(true, Verdict::Open), tally.not_decidable);
        let piece = judged
            .iter()
            .find(|one| (one.from_sec, one.to_sec) == (220.0, 300.0));
        assert_eq!(piece.map(|one| one.verdict), Some(Verdict::Wrong));
    }
}
