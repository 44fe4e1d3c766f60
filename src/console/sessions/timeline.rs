//! The timeline of a session: the detected events above the measured signals, on one axis.
//! Positions are shares of the width, so that the drawing fits both a phone and a desktop, and its
//! text keeps its size.

use std::fmt::Write;

use maud::{Markup, html};
use porchlight_schema::event::{Direction, Event, EventType, Metadata};

use super::super::descriptions;
use super::map::class;
use super::series::Series;
use super::trace::Trace;

/// The height of a curve's row.
const CURVE_HEIGHT: u32 = 56;
/// The height of a lane of annotations or marks.
const LANE_HEIGHT: u32 = 18;
/// The maximum number of lanes; further spans share the last one.
const LANES_MAX: usize = 8;
/// The maximum number of ticks on the axis.
const TICKS_MAX: u32 = 8;
/// The maximum number of marks drawn.
const MARKS_MAX: usize = 60;

/// Renders the rows of the timeline for a session of this length.
pub(super) fn rows(events: &[Event], trace: &Trace, series: &[Series], length_ms: u32) -> Markup {
    let length_ms = length_ms.max(1_000);
    html! {
        div.timeline data-length=(length_ms / 1_000) {
            (axis(length_ms))
            (movement(events, length_ms))
            (annotations(events, length_ms))
            (marks(trace, length_ms))
            @for series in series { (curve(series, length_ms)) }
            div.slider { label for="moment" { "Moment" } input #moment type="range" min="0" max=(length_ms / 1_000) value="0" step="1" disabled; output for="moment" {} }
        }
    }
}

/// Returns the position of a time as a percentage of the width.
fn share(t_ms: u32, length_ms: u32) -> String {
    let share = f64::from(t_ms.min(length_ms)) * 100.0 / f64::from(length_ms);
    format!("{share:.2}%")
}

/// Formats a time as minutes and seconds, with hours if needed.
pub(super) fn stamp(t_ms: u32) -> String {
    let seconds = t_ms / 1_000;
    let (hours, minutes) = (seconds / 3_600, seconds / 60 % 60);
    if hours > 0 {
        format!("{hours}:{minutes:02}:{:02}", seconds % 60)
    } else {
        format!("{minutes:02}:{:02}", seconds % 60)
    }
}

fn axis(length_ms: u32) -> Markup {
    let steps = [
        10, 30, 60, 120, 300, 600, 1_800, 3_600, 7_200, 14_400, 43_200,
    ];
    let step = steps
        .into_iter()
        .find(|step| length_ms / 1_000 / step <= TICKS_MAX);
    let step_ms = step.unwrap_or(43_200) * 1_000;
    html! {
        div.row.axis { span.label { span.faint { "from the start" } } svg height="20" aria-hidden="true" {
            @for tick in 0..=(length_ms / step_ms) {
                @let x = share(tick * step_ms, length_ms);
                line x1=(x) x2=(x) y1="14" y2="20" {}
                text.odd[tick % 2 == 1] x=(x) y="10" text-anchor=(if tick == 0 { "start" } else if tick * step_ms > length_ms / 100 * 97 { "end" } else { "middle" }) { (stamp(tick * step_ms)) }
            }
        } }
    }
}

/// Returns the end of an event; an open event lasts until now.
pub(super) fn end_ms(event: &Event, length_ms: u32) -> u32 {
    event.t_end_ms.unwrap_or(length_ms).max(event.t_start_ms)
}

/// Describes an event in one line.
pub(super) fn describe(event: &Event) -> String {
    let until = match event.t_end_ms {
        Some(end_ms) => format!("–{}", stamp(end_ms)),
        None if event.is_open() => ", ongoing".to_owned(),
        None => String::new(),
    };
    let detail = detail(event);
    let detail = if detail.is_empty() {
        detail
    } else {
        format!(", {detail}")
    };
    let confidence = event.confidence.as_probability() * 100.0;
    let name = descriptions::event(event.event_type);
    format!(
        "{name} {}{until}{detail}, {confidence:.0} % confidence",
        stamp(event.t_start_ms)
    )
}

/// Describes the details of an event other than its time.
pub(super) fn detail(event: &Event) -> String {
    match event.metadata {
        Metadata::None => String::new(),
        Metadata::Climb {
            floors,
            direction,
            height_cm,
        } => {
            let way = match direction {
                Direction::Up => "up",
                Direction::Down => "down",
            };
            let floors = floors.map(|floors| match floors {
                1 => format!("{way} 1 floor"),
                more => format!("{way} {more} floors"),
            });
            let height =
                height_cm.map(|height_cm| format!(", {:.1} m", f64::from(height_cm) / 100.0));
            format!(
                "{}{}",
                floors.unwrap_or_else(|| way.to_owned()),
                height.unwrap_or_default()
            )
        }
        Metadata::Backtracking { retraced_m } => format!("{retraced_m} m walked twice"),
        Metadata::Gate { wait_sec } => format!("waited {wait_sec} s"),
    }
}

fn movement(events: &[Event], length_ms: u32) -> Markup {
    let movement = || events.iter().filter(|event| event.event_type.is_movement());
    html! {
        div.row { span.label { "Movement" } svg height="26" role="img" aria-label={ (movement().count()) " movement segments; the table below lists them" } {
            rect.ground width="100%" height="26" rx="3" {}
            @for event in movement() {
                @let width_ms = end_ms(event, length_ms) - event.t_start_ms;
                rect class={ "event " (class(Some(event.event_type))) } x=(share(event.t_start_ms, length_ms)) width=(share(width_ms, length_ms)) height="26" { title { (describe(event)) } }
                @if width_ms > length_ms / 13 { text.on.roomy[width_ms < length_ms / 4] x=(share(event.t_start_ms, length_ms)) dx="6" y="17" { (descriptions::event(event.event_type)) } }
            }
        } }
    }
}

/// Returns whether the label of this time stands to its left, because the right edge is near.
fn is_label_left(t_ms: u32, length_ms: u32) -> bool {
    t_ms > length_ms - room_ms(length_ms)
}

/// Returns the time span that a label covers on a narrow screen.
fn room_ms(length_ms: u32) -> u32 {
    length_ms / 100 * 30
}

/// Puts each span into the first lane where it overlaps no earlier span, labels included. Returns
/// the lane of each span.
fn lanes(spans: &[(u32, u32)], length_ms: u32) -> Vec<u32> {
    let mut ends: Vec<u32> = Vec::new();
    let mut lanes = Vec::with_capacity(spans.len());
    for &(from_ms, to_ms) in spans {
        let room_ms = room_ms(length_ms);
        let (from_ms, end) = if is_label_left(from_ms, length_ms) {
            (from_ms.saturating_sub(room_ms), to_ms)
        } else {
            (from_ms, to_ms.max(from_ms.saturating_add(room_ms)))
        };
        let free = ends.iter().position(|&taken| taken <= from_ms);
        let lane = free.unwrap_or(ends.len()).min(LANES_MAX - 1);
        match ends.get_mut(lane) {
            Some(taken) => *taken = end,
            None => ends.push(end),
        }
        lanes.push(lane as u32);
    }
    lanes
}

fn annotations(events: &[Event], length_ms: u32) -> Markup {
    let noted: Vec<&Event> = events
        .iter()
        .filter(|event| !event.event_type.is_movement())
        .collect();
    let spans: Vec<_> = noted
        .iter()
        .map(|event| {
            let end_ms = if event.event_type.is_instant() {
                event.t_start_ms
            } else {
                end_ms(event, length_ms)
            };
            (event.t_start_ms, end_ms)
        })
        .collect();
    let lanes = lanes(&spans, length_ms);
    let height = (lanes.iter().max().unwrap_or(&0) + 1) * LANE_HEIGHT;
    html! {
        @if !noted.is_empty() {
            div.row { span.label { "Observations" } svg height=(height) role="img" aria-label={ (noted.len()) " observations; the table below lists them" } {
                @for ((event, span), lane) in noted.iter().zip(&spans).zip(&lanes) {
                    @let y = lane * LANE_HEIGHT;
                    @let class = annotation_class(event.event_type);
                    @if span.0 == span.1 {
                        circle class={ "noted " (class) } cx=(share(span.0, length_ms)) cy=(y + 8) r="4" { title { (describe(event)) } }
                    } @else {
                        rect class={ "noted " (class) } x=(share(span.0, length_ms)) y=(y + 12) width=(share(span.1 - span.0, length_ms)) height="4" rx="2" { title { (describe(event)) } }
                    }
                    (text(span.0, length_ms, if span.0 == span.1 { y + 12 } else { y + 9 }, if span.0 == span.1 { 8 } else { 0 }, descriptions::event(event.event_type)))
                }
            } }
        }
    }
}

fn annotation_class(event: EventType) -> &'static str {
    match event {
        EventType::GpsLost => "lost",
        EventType::GpsDegraded => "degraded",
        EventType::GpsRestored => "restored",
        EventType::Backtracking
        | EventType::Driving
        | EventType::Elevator
        | EventType::Gate
        | EventType::Stairs
        | EventType::Stopped
        | EventType::Walking => "act",
    }
}

/// Renders a label at a time; near the end, the label stands to its left.
fn text(t_ms: u32, length_ms: u32, y: u32, offset: i32, words: &str) -> Markup {
    let is_label_left = is_label_left(t_ms, length_ms);
    html! {
        text.small x=(share(t_ms, length_ms)) y=(y) dx=(if is_label_left { -offset } else { offset }) text-anchor=(if is_label_left { "end" } else { "start" }) { (words) }
    }
}

fn marks(trace: &Trace, length_ms: u32) -> Markup {
    let acts = trace
        .marks
        .iter()
        .map(|(t_ms, name)| (*t_ms, name.as_str(), "act"));
    let incidents = trace
        .incidents
        .iter()
        .map(|&(t_ms, name)| (t_ms, name, "incident"));
    let mut all: Vec<_> = acts.chain(incidents).collect();
    all.sort_unstable();
    all.truncate(MARKS_MAX);
    let spans: Vec<_> = all.iter().map(|&(t_ms, ..)| (t_ms, t_ms)).collect();
    let lanes = lanes(&spans, length_ms);
    let height = (lanes.iter().max().unwrap_or(&0) + 1) * LANE_HEIGHT;
    html! {
        @if !all.is_empty() {
            div.row { span.label { "Marks" } svg height=(height) role="img" aria-label={ (all.len()) " marks and incidents" } {
                @for (&(t_ms, name, class), lane) in all.iter().zip(&lanes) {
                    @let y = lane * LANE_HEIGHT;
                    svg.mark-at class=(class) x=(share(t_ms, length_ms)) y=(y) overflow="visible" { path d="M0 4l4.500 4.500 -4.500 4.500 -4.500 -4.500z" { title { (name) " at " (stamp(t_ms)) } } }
                    (text(t_ms, length_ms, y + 12, 9, name))
                }
            } }
        }
    }
}

fn curve(series: &Series, length_ms: u32) -> Markup {
    let (low, high) = series.range;
    let decimals = series.decimals;
    html! {
        div.row.curve data-series=(json(series)) data-decimals=(decimals) {
            span.label { (series.name) " " span.faint { (series.unit) } output {} span.about { (series.about) } }
            svg height=(CURVE_HEIGHT) role="img" aria-label={ (series.name) ", " (series.about) ": from " (format!("{low:.decimals$}")) " to " (format!("{high:.decimals$}")) " " (series.unit) } {
                rect.ground width="100%" height=(CURVE_HEIGHT) rx="3" {}
                svg viewBox={ "0 0 1000 " (CURVE_HEIGHT) } preserveAspectRatio="none" width="100%" height=(CURVE_HEIGHT) {
                    @for run in series.runs() { polyline points=(points(run, series.range, length_ms)) {} }
                }
                text.small x="100%" dx="-5" y="12" text-anchor="end" { (format!("{high:.decimals$}")) }
                text.small x="100%" dx="-5" y=(CURVE_HEIGHT - 4) text-anchor="end" { (format!("{low:.decimals$}")) }
            }
        }
    }
}

fn points(run: &[(u32, f32)], (low, high): (f32, f32), length_ms: u32) -> String {
    let span = (high - low).max(f32::MIN_POSITIVE);
    let inner = CURVE_HEIGHT as f32 - 8.0;
    let mut points = String::with_capacity(run.len() * 12);
    for &(t_ms, value) in run {
        let x = t_ms.min(length_ms) as f32 * 1_000.0 / length_ms as f32;
        let y = 4.0 + inner - (value - low) / span * inner;
        // Writing to a string cannot fail.
        let _ = write!(points, "{x:.1},{y:.1} ");
    }
    points
}

/// Returns the points for the script: `[[seconds, value], …]`.
fn json(series: &Series) -> String {
    let mut json = String::from("[");
    for (index, &(t_ms, value)) in series.points.iter().enumerate() {
        let comma = if index > 0 { "," } else { "" };
        // Writing to a string cannot fail.
        let _ = write!(
            json,
            "{comma}[{},{value:.*}]",
            t_ms / 1_000,
            series.decimals
        );
    }
    json.push(']');
    json
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_events_get_separate_lanes() {
        let spans = [(0, 400), (50, 60), (70, 80), (400, 410)];
        assert_eq!(lanes(&spans, 1_000), [0, 1, 2, 0]);
        // The second label stands to the left of its time.
        assert_eq!(lanes(&[(600, 650), (900, 900)], 1_000), [0, 1]);
        assert_eq!(lanes(&[(500, 500), (900, 900)], 1_000), [0, 1]);
        assert_eq!(lanes(&[(100, 100), (900, 900)], 1_000), [0, 0]);
        assert!(lanes(&[(0, 900); 50], 1_000).iter().all(|&lane| lane < 8));
    }

    #[test]
    fn times_are_shown_as_minutes_and_seconds() {
        assert_eq!(stamp(61_500), "01:01");
        assert_eq!(stamp(3_661_000), "1:01:01");
        assert_eq!(share(250, 1_000), "25.00%");
    }
}
