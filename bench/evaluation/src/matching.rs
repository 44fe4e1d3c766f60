//! Matches the detections of one type in one recording to its labels.

use porchlight_schema::event::{Direction, Event, EventType, Metadata};

use crate::labels::{Detected, Labels, Segment};
use crate::span::{Ends, Span, span_of, stretch_of};
use crate::tally::Tally;

/// The tolerance for instants and gates, in seconds.
const INSTANT_SEC: f64 = 5.0;
/// The maximum gap in seconds between labels of stairs in one direction that form one climb: the
/// gap is a landing.
const SAME_CLIMB_SEC: f64 = 3.0;

/// The maximum length in seconds of a part of a detection inside a labelled span that counts as a
/// boundary error. The part must also be shorter than half of the detection.
const BOUNDARY_ERROR_SEC_MAX: f64 = 5.0;

/// Returns whether a part that reaches into a span is only a boundary error.
fn is_boundary_error(piece: Span, detected: &Detected) -> bool {
    let event = &detected.event;
    let whole_ms = event.t_end_ms.unwrap_or(event.t_start_ms) - event.t_start_ms;
    piece.length() < (0.5 * f64::from(whole_ms) / 1000.0).min(BOUNDARY_ERROR_SEC_MAX)
}

/// Returns whether a detection matches a label if it starts at the same time; its end does not
/// count.
fn is_matched_by_start(event_type: EventType) -> bool {
    event_type.is_instant() || event_type == EventType::Gate
}

/// The shortest stay that is an event, seconds (contract 4). A shorter one may be part of a walk.
pub(super) const STOPPED_SEC: f64 = 8.0;
/// The shortest stay that is an event where positions are the only source, seconds (contract 4).
const STOPPED_BY_POSITION_SEC: f64 = 20.0;

/// Returns the intersection over union that a match with a label needs.
fn needed_iou(label: Span) -> f64 {
    if label.length() < 10.0 { 0.3 } else { 0.5 }
}

/// Returns whether silences cut a label of the movement track into pieces of which none can match
/// it. An event ends where a silence begins.
fn is_silent(segment: &Segment, labels: &Labels) -> bool {
    if !segment.event_type.is_movement() {
        return false;
    }
    let label = stretch_of(segment);
    let (mut from, mut longest) = (label.from, 0.0_f64);
    for &(begin, end) in &labels.silences {
        if end <= label.from || begin >= label.to {
            continue;
        }
        longest = longest.max(begin - from);
        from = end;
    }
    longest.max(label.to - from) < needed_iou(label) * label.length()
}

/// Returns whether the recording's streams can show a label.
pub(crate) fn is_decidable(segment: &Segment, labels: &Labels) -> bool {
    let has = |kind: &str| labels.streams.contains_key(kind);
    let body = labels.has_body();
    let length = stretch_of(segment).length();
    if is_silent(segment, labels) {
        return false;
    }
    match segment.event_type {
        EventType::Driving => has("location"),
        EventType::Walking => body || has("location"),
        EventType::Stopped if body => length >= STOPPED_SEC,
        EventType::Stopped => has("location") && length >= STOPPED_BY_POSITION_SEC,
        EventType::Stairs => body || has("pressure"),
        EventType::Elevator => has("imu") || has("motion") || has("pressure"),
        EventType::GpsDegraded
        | EventType::GpsLost
        | EventType::GpsRestored
        | EventType::Backtracking => has("location"),
        EventType::Gate => true,
    }
}

/// Returns the labels of a type; climbs that continue after a landing are merged.
fn labels_of(event_type: EventType, labels: &Labels) -> Vec<Segment> {
    let mut joined: Vec<Segment> = Vec::new();
    let mut own: Vec<&Segment> = labels
        .segments
        .iter()
        .filter(|one| one.event_type == event_type)
        .collect();
    own.sort_by(|a, b| a.t_start.total_cmp(&b.t_start));
    for segment in own {
        if let Some(last) = joined.last_mut()
            && event_type == EventType::Stairs
            && last
                .t_end
                .is_some_and(|t_end| segment.t_start - t_end <= SAME_CLIMB_SEC)
            && last.metadata.direction == segment.metadata.direction
        {
            last.t_end = segment.t_end;
            last.tolerance_sec = last.tolerance_sec.max(segment.tolerance_sec);
            last.metadata.floors = last
                .metadata
                .floors
                .zip(segment.metadata.floors)
                .map(|(a, b)| a + b);
        } else {
            joined.push(segment.clone());
        }
    }
    joined
}

/// Returns a detection's time within the labelled spans: one part per span.
pub(crate) fn inside(detected: &Detected, labels: &Labels) -> Vec<Span> {
    let whole @ Span { from, to } = span_of(detected);
    if labels.labelled_spans.is_empty() {
        return vec![whole];
    }
    let spans = labels.labelled_spans.iter();
    let pieces = spans.map(|&(first, last)| Span {
        from: from.max(first),
        to: to.min(last),
    });
    pieces
        .filter(|piece| piece.length() > 0.0 || (from >= to && piece.to >= piece.from))
        .collect()
}

/// The verdict on the part of a detection that lies within one labelled span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PieceVerdict {
    /// The part matches a label.
    Right,
    /// The part matches no label.
    Wrong,
    /// The part only reaches into the span.
    Boundary,
    /// The part lies at a label that the streams cannot show.
    Apart,
}

/// The part of a detection that lies within one labelled span.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Piece<'d> {
    pub(crate) span: Span,
    pub(crate) detected: &'d Detected,
    pub(crate) verdict: PieceVerdict,
}

/// The comparison of one type of one recording: the figures and the drawing both use it.
pub(crate) struct Compared<'d> {
    /// The labels.
    pub(crate) segments: Vec<Segment>,
    /// The parts of the detections.
    pub(crate) pieces: Vec<Piece<'d>>,
    /// The matches, each a label and a part.
    pairs: Vec<(usize, usize)>,
}

impl<'d> Compared<'d> {
    /// Compares the detections of a type with its labels.
    pub(crate) fn new(
        event_type: EventType,
        labels: &Labels,
        detected: &'d [Detected],
        ends: Ends,
    ) -> Self {
        let segments = labels_of(event_type, labels);
        let own: Vec<(Span, &Detected)> = detected
            .iter()
            .filter(|one| one.event.event_type == event_type)
            .flat_map(|one| inside(one, labels).into_iter().map(move |span| (span, one)))
            .collect();
        let pairs = matched(event_type, &segments, &own, ends);
        let silent: Vec<Span> = segments
            .iter()
            .filter(|segment| is_silent(segment, labels))
            .map(stretch_of)
            .collect();
        let verdict = |place: usize, span: Span, one: &Detected| {
            let pair = pairs.iter().find(|pair| pair.1 == place);
            match pair.and_then(|pair| segments.get(pair.0)) {
                Some(label) if is_decidable(label, labels) => PieceVerdict::Right,
                Some(_) => PieceVerdict::Apart,
                None if silent.iter().any(|&label| is_mostly_in(span, label)) => {
                    PieceVerdict::Apart
                }
                None if is_boundary_error(span, one) => PieceVerdict::Boundary,
                None => PieceVerdict::Wrong,
            }
        };
        let pieces = own.iter().enumerate().map(|(place, &(span, one))| Piece {
            span,
            detected: one,
            verdict: verdict(place, span, one),
        });
        let pieces = pieces.collect();
        Self {
            segments,
            pieces,
            pairs,
        }
    }

    /// Returns the part that matches the label at `place`.
    pub(crate) fn found(&self, place: usize) -> Option<&Piece<'d>> {
        let pair = self.pairs.iter().find(|pair| pair.0 == place)?;
        self.pieces.get(pair.1)
    }
}

/// Returns whether more than half of a span lies within a label.
fn is_mostly_in(span: Span, label: Span) -> bool {
    span.common(label) > 0.5 * span.length()
}

/// Counts one type of one recording.
pub(crate) fn add(
    tally: &mut Tally,
    event_type: EventType,
    labels: &Labels,
    detected: &[Detected],
    ends: Ends,
) {
    let compared = Compared::new(event_type, labels, detected, ends);
    let Compared {
        segments, pieces, ..
    } = &compared;
    let is_complete = labels.complete.contains(&event_type);
    for (place, segment) in segments.iter().enumerate() {
        if !is_decidable(segment, labels) {
            tally.not_decidable += 1;
            continue;
        }
        tally.labels += 1;
        let stretch = stretch_of(segment);
        let within = pieces
            .iter()
            .filter(|piece| is_mostly_in(piece.span, stretch));
        tally.fragments += u32::try_from(within.count().saturating_sub(1)).unwrap_or(0);
        if let Some(piece) = compared.found(place) {
            tally.found += 1;
            tally.found_where_complete += u32::from(is_complete);
            measure(tally, segment, piece.span, piece.detected);
        }
    }
    for piece in pieces {
        let run_together = segments
            .iter()
            .filter(|segment| is_mostly_in(stretch_of(segment), piece.span));
        tally.merges += u32::try_from(run_together.count().saturating_sub(1)).unwrap_or(0);
        if !is_complete {
            continue;
        }
        match piece.verdict {
            PieceVerdict::Apart => tally.detections_apart += 1,
            PieceVerdict::Boundary => {}
            PieceVerdict::Right | PieceVerdict::Wrong => {
                tally.detections += 1;
                let confidence = piece.detected.event.confidence.as_probability();
                let is_right = piece.verdict == PieceVerdict::Right;
                tally.confidences.push((confidence, is_right));
            }
        }
    }
}

/// Returns pairs of label and detection, best first, each used once.
fn matched(
    event_type: EventType,
    segments: &[Segment],
    own: &[(Span, &Detected)],
    ends: Ends,
) -> Vec<(usize, usize)> {
    let mut candidates: Vec<(f64, usize, usize)> = Vec::new();
    for (label, segment) in segments.iter().enumerate() {
        for (detection, (own, _)) in own.iter().enumerate() {
            let truth = ends.stretch(segment, *own);
            let quality = if is_matched_by_start(event_type) {
                let off = (own.from - truth.from).abs();
                (off <= INSTANT_SEC).then(|| 1.0 - off / (2.0 * INSTANT_SEC))
            } else {
                Some(own.iou(truth)).filter(|&iou| iou >= needed_iou(stretch_of(segment)))
            };
            candidates.extend(quality.map(|quality| (quality, label, detection)));
        }
    }
    candidates.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mut pairs: Vec<(usize, usize)> = Vec::new();
    for (_, label, detection) in candidates {
        if pairs
            .iter()
            .all(|pair| pair.0 != label && pair.1 != detection)
        {
            pairs.push((label, detection));
        }
    }
    pairs
}

fn measure(tally: &mut Tally, segment: &Segment, own: Span, detected: &Detected) {
    let truth = stretch_of(segment);
    tally
        .boundary_errors_sec
        .push((own.from - truth.from).abs());
    if !is_matched_by_start(segment.event_type) {
        tally.boundary_errors_sec.push((own.to - truth.to).abs());
    }
    if let Some(opened_at_ms) = detected.opened_at_ms {
        tally
            .latencies_sec
            .push(f64::from(opened_at_ms) / 1000.0 - truth.from);
    }
    let (floors, direction) = floors_and_direction(&detected.event);
    if let (Some(floors), Some(truth)) = (floors, segment.metadata.floors) {
        tally
            .floors_off
            .push(i32::from(floors) - truth.abs().round() as i32);
    }
    if let (Some(direction), Some(truth)) = (direction, segment.metadata.direction) {
        tally.directions.0 += u32::from(direction == truth);
        tally.directions.1 += 1;
    }
}

fn floors_and_direction(event: &Event) -> (Option<u16>, Option<Direction>) {
    match event.metadata {
        Metadata::Climb {
            floors, direction, ..
        } => (floors, Some(direction)),
        _ => (None, None),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use porchlight_schema::event::{Confidence, Event, Metadata};

    use super::*;

    /// Returns a detected drive.
    pub(crate) fn drive(from_sec: u32, to_sec: u32) -> Detected {
        Detected {
            event: Event {
                event_type: EventType::Driving,
                t_start_ms: from_sec * 1_000,
                t_end_ms: Some(to_sec * 1_000),
                confidence: Confidence::from_probability(0.9),
                metadata: Metadata::None,
            },
            opened_at_ms: None,
        }
    }

    fn tally(silences: &[(f64, f64)], detected: &[Detected]) -> Tally {
        let labels = serde_json::json!({
            "streams": { "location": {} },
            "complete": ["DRIVING"],
            "segments": [{ "type": "DRIVING", "tStart": 100.0, "tEnd": 300.0 }],
        });
        let mut labels: Labels = serde_json::from_value(labels).unwrap();
        labels.silences = silences.to_vec();
        let mut tally = Tally::default();
        add(
            &mut tally,
            EventType::Driving,
            &labels,
            detected,
            Ends::AsLabelled,
        );
        tally
    }

    /// The source of a drive of 200 s knows its times to `tolerance_sec`.
    fn found_within(tolerance_sec: f64, detected: &[Detected]) -> (u32, u32) {
        let labels = serde_json::json!({
            "streams": { "location": {} },
            "complete": ["DRIVING"],
            "segments": [{ "type": "DRIVING", "tStart": 100.0, "tEnd": 300.0, "toleranceSec": tolerance_sec }],
        });
        let labels: Labels = serde_json::from_value(labels).unwrap();
        let mut tally = Tally::default();
        let ends = Ends::WithinTolerance;
        add(&mut tally, EventType::Driving, &labels, detected, ends);
        (tally.found, tally.detections)
    }

    /// A detection of 90 s covers 45 % of the label. It matches if the label may begin 20 s later.
    #[test]
    fn the_ends_of_a_label_move_within_its_tolerance() {
        assert_eq!(found_within(0.0, &[drive(210, 300)]), (0, 1));
        assert_eq!(found_within(10.0, &[drive(210, 300)]), (0, 1));
        assert_eq!(found_within(20.0, &[drive(210, 300)]), (1, 1));
    }

    /// However large the tolerance, half of the label stays where it is.
    #[test]
    fn a_large_tolerance_does_not_match_a_detection_elsewhere() {
        assert_eq!(found_within(600.0, &[drive(300, 380)]), (0, 1));
        assert_eq!(found_within(600.0, &[drive(180, 225)]), (0, 1));
    }

    /// Silences cut a drive of 200 s into pieces of 80 s at most, so no event can match it.
    /// Detected pieces do not count as false drives either, but a drive elsewhere does.
    #[test]
    fn a_label_that_silences_cut_is_reported_apart() {
        let silences = [(180.0, 220.0), (290.0, 400.0)];
        let found = [drive(100, 180), drive(220, 290), drive(500, 600)];
        let tally = tally(&silences, &found);
        assert_eq!((tally.labels, tally.not_decidable), (0, 1));
        assert_eq!((tally.detections, tally.detections_apart), (1, 2));
        assert_eq!(
            tally.reliability(0.8..1.0).map(|one| (one.1, one.2)),
            Some((0.0, 1))
        );
    }

    /// A stay of 7 s is shorter than an event. Neither the label nor its detection counts.
    #[test]
    fn a_label_that_the_streams_cannot_show_does_not_count_even_if_it_is_found() {
        let labels = serde_json::json!({
            "streams": { "imu": {} },
            "complete": ["STOPPED"],
            "segments": [{ "type": "STOPPED", "tStart": 100.0, "tEnd": 107.0 }],
        });
        let labels: Labels = serde_json::from_value(labels).unwrap();
        let mut stay = drive(100, 107);
        stay.event.event_type = EventType::Stopped;
        let mut tally = Tally::default();
        add(
            &mut tally,
            EventType::Stopped,
            &labels,
            &[stay],
            Ends::AsLabelled,
        );
        assert_eq!((tally.labels, tally.found, tally.not_decidable), (0, 0, 1));
        assert_eq!((tally.detections, tally.detections_apart), (0, 1));
    }

    /// A silence at the end leaves most of the drive, so missing it is an error.
    #[test]
    fn a_label_that_a_silence_shortens_still_counts() {
        let silences = [(260.0, 310.0)];
        let missed = tally(&silences, &[drive(100, 150)]);
        assert_eq!(
            (missed.labels, missed.found, missed.not_decidable),
            (1, 0, 0)
        );
        assert_eq!((missed.detections, missed.detections_apart), (1, 0));
        let found = tally(&silences, &[drive(100, 260)]);
        assert_eq!((found.labels, found.found, found.detections), (1, 1, 1));
    }
}
