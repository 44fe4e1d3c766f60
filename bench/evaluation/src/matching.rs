//! Matches the detections of one type in one recording to its labels.

use porchlight_schema::event::{Direction, Event, EventType, Metadata};

use crate::labels::{Detected, Labels, Segment};
use crate::span::{Ends, Span, stretch_of};
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

fn is_instant(event_type: EventType) -> bool {
    matches!(event_type, EventType::Gate | EventType::GpsRestored)
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
fn is_decidable(segment: &Segment, labels: &Labels) -> bool {
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
fn inside(detected: &Detected, labels: &Labels) -> Vec<Span> {
    let event = &detected.event;
    let from = f64::from(event.t_start_ms) / 1000.0;
    let to = f64::from(event.t_end_ms.unwrap_or(event.t_start_ms)) / 1000.0;
    if labels.labelled_spans.is_empty() {
        return vec![Span { from, to }];
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

/// Counts one type of one recording.
pub(crate) fn add(
    tally: &mut Tally,
    event_type: EventType,
    labels: &Labels,
    detected: &[Detected],
    ends: Ends,
) {
    let segments = labels_of(event_type, labels);
    let is_complete = labels.complete.contains(&event_type);
    let own: Vec<(Span, &Detected)> = detected
        .iter()
        .filter(|one| one.event.event_type == event_type)
        .flat_map(|one| {
            inside(one, labels)
                .into_iter()
                .map(move |stretch| (stretch, one))
        })
        .collect();
    let pairs = matched(event_type, &segments, &own, ends);
    for (place, segment) in segments.iter().enumerate() {
        let found = pairs
            .iter()
            .find(|pair| pair.0 == place)
            .and_then(|pair| own.get(pair.1));
        if !is_decidable(segment, labels) {
            tally.not_decidable += 1;
            continue;
        }
        tally.labels += 1;
        let stretch = stretch_of(segment);
        let pieces = own
            .iter()
            .filter(|(own, _)| own.common(stretch) > 0.5 * own.length())
            .count();
        tally.fragments += u32::try_from(pieces.saturating_sub(1)).unwrap_or(0);
        if let Some((own, detected)) = found {
            tally.found += 1;
            tally.found_where_complete += u32::from(is_complete);
            measure(tally, segment, *own, detected);
        }
    }
    let silent: Vec<Span> = segments
        .iter()
        .filter(|segment| is_silent(segment, labels))
        .map(stretch_of)
        .collect();
    for (place, (own, one)) in own.iter().enumerate() {
        let run_together = segments
            .iter()
            .filter(|segment| own.common(stretch_of(segment)) > 0.5 * stretch_of(segment).length());
        tally.merges += u32::try_from(run_together.count().saturating_sub(1)).unwrap_or(0);
        let pair = pairs.iter().find(|pair| pair.1 == place);
        let label = pair.and_then(|pair| segments.get(pair.0));
        let is_open = label.is_some_and(|label| !is_decidable(label, labels));
        let is_right = label.is_some() && !is_open;
        let is_apart = |label: &Span| own.common(*label) > 0.5 * own.length();
        if is_open || (!is_right && silent.iter().any(is_apart)) {
            tally.detections_apart += u32::from(is_complete);
        } else if is_complete && (is_right || !is_boundary_error(*own, one)) {
            tally.detections += 1;
            tally
                .confidences
                .push((one.event.confidence.as_probability(), is_right));
        }
    }
}

/// The verdict on a label or a detection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The label and the detection match.
    Right,
    /// A label without a detection, or a detection without a label.
    Wrong,
    /// A label that the streams cannot show, or a detection where the labels are incomplete.
    Open,
}

/// A label or a detection with its verdict.
#[derive(Debug, Clone, PartialEq)]
pub struct Judged {
    /// The event type.
    pub event_type: EventType,
    /// Whether this is a label; otherwise it is a detection.
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

/// Returns all labels and detections of a recording with their verdicts.
#[must_use]
pub fn judged(labels: &Labels, detected: &[Detected]) -> Vec<Judged> {
    let mut judged = Vec::new();
    for event_type in EventType::ALL {
        let segments = labels_of(event_type, labels);
        let is_complete = labels.complete.contains(&event_type);
        let mut own: Vec<(Span, &Detected)> = Vec::new();
        let mut beside = Vec::new();
        for one in detected
            .iter()
            .filter(|one| one.event.event_type == event_type)
        {
            let pieces = inside(one, labels);
            if pieces.is_empty() {
                beside.push(one);
            }
            own.extend(pieces.into_iter().map(|piece| (piece, one)));
        }
        let pairs = matched(event_type, &segments, &own, Ends::AsLabelled);
        for (place, segment) in segments.iter().enumerate() {
            let verdict = match pairs.iter().any(|pair| pair.0 == place) {
                _ if !is_decidable(segment, labels) => Verdict::Open,
                true => Verdict::Right,
                false => Verdict::Wrong,
            };
            let stretch = stretch_of(segment);
            judged.push(Judged {
                event_type,
                is_label: true,
                from_sec: stretch.from,
                to_sec: stretch.to,
                verdict,
                confidence: None,
            });
        }
        let of = |one: &Detected, verdict| Judged {
            event_type,
            is_label: false,
            from_sec: f64::from(one.event.t_start_ms) / 1000.0,
            to_sec: f64::from(one.event.t_end_ms.unwrap_or(one.event.t_start_ms)) / 1000.0,
            verdict,
            confidence: Some(one.event.confidence.as_probability()),
        };
        judged.extend(beside.into_iter().map(|one| of(one, Verdict::Open)));
        let mut seen: Option<&Detected> = None;
        for (_, one) in &own {
            // A detection that spans several parts is listed once.
            if seen
                .replace(*one)
                .is_some_and(|last| core::ptr::eq(last, *one))
            {
                continue;
            }
            let is_right = pairs.iter().any(|pair| {
                own.get(pair.1)
                    .is_some_and(|(_, other)| core::ptr::eq(*other, *one))
            });
            let counts = own.iter().any(|(piece, other)| {
                core::ptr::eq(*other, *one) && !is_boundary_error(*piece, other)
            });
            let verdict = match is_right {
                true => Verdict::Right,
                false if is_complete && counts => Verdict::Wrong,
                false => Verdict::Open,
            };
            judged.push(of(one, verdict));
        }
    }
    judged
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
            let quality = if is_instant(event_type) {
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
    if !is_instant(segment.event_type) {
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
mod tests {
    use porchlight_schema::event::{Confidence, Event, Metadata};

    use super::*;

    fn drive(from_sec: u32, to_sec: u32) -> Detected {
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
