//! Draws a recording as SVG: tracks of labels and detections above the signals.

use std::fmt::Write as _;

use porchlight_core::barometer::SCALE_HEIGHT_M;
use porchlight_core::window::Window;
use porchlight_evaluation::{Judged, Verdict};
use porchlight_schema::event::EventType;

use super::DrawnRecording;

/// The left margin, width and right margin of the drawing, in its units.
const LEFT: f64 = 96.0;
const WIDTH: f64 = 1090.0;
const RIGHT: f64 = 14.0;
/// The heights of a movement track, an annotation track, a signal, and the gaps.
const BAR: f64 = 17.0;
const NOTE: f64 = 9.0;
const SIGNAL: f64 = 44.0;
const GAP: f64 = 5.0;
/// The number of columns of a signal; the minimum and maximum of each are drawn.
const COLUMNS: usize = 500;
/// The longest time between two values of a signal that its line connects, in seconds.
const GAP_SEC: f64 = 30.0;
/// The minimum width of a bar with a name.
const NAMED: f64 = 58.0;

fn colour(event_type: EventType) -> &'static str {
    match event_type {
        EventType::Driving => "#3f74ad",
        EventType::Walking => "#3f9142",
        EventType::Stopped => "#8a929a",
        EventType::Stairs => "#e07b12",
        EventType::Elevator => "#9a5fb0",
        EventType::GpsDegraded => "#d9b310",
        EventType::GpsLost => "#b4443c",
        EventType::GpsRestored => "#2aa198",
        EventType::Gate => "#8c5a35",
        EventType::Backtracking => "#d6568c",
    }
}

/// Draws the legend of colours.
pub(super) fn legend() -> String {
    let mut out = String::new();
    for event_type in EventType::ALL {
        // Writing to a string cannot fail, here and below.
        let _ = write!(
            out,
            "<span class=key style=\"background:{}\"></span>{}",
            colour(event_type),
            event_type.as_str()
        );
    }
    out + "<span class=\"key red\"></span>missed, or detected without a label \
           <small>· pale: not labelled · grey background: outside the labelled time</small>"
}

/// Maps seconds to positions in the drawing.
#[derive(Clone, Copy)]
struct Scale {
    end_sec: f64,
}

impl Scale {
    fn x(self, sec: f64) -> f64 {
        LEFT + WIDTH * (sec / self.end_sec).clamp(0.0, 1.0)
    }
}

/// Draws a recording.
pub(super) fn svg(drawn: &DrawnRecording) -> String {
    let last = drawn
        .windows
        .last()
        .map_or(0.0, |window| f64::from(window.end_ms()) / 1000.0);
    let scale = Scale {
        end_sec: drawn
            .judged
            .iter()
            .map(|one| one.to_sec)
            .fold(last, f64::max)
            .max(1.0),
    };
    let mut body = String::new();
    let mut y = 4.0;
    let movement = |one: &&Judged| one.event_type.is_movement();
    for (is_label, name) in [(true, "true"), (false, "detected")] {
        let own = drawn.judged.iter().filter(|one| one.is_label == is_label);
        track(&mut body, scale, (y, BAR), name, own.filter(movement));
        y += BAR + GAP;
    }
    for (is_label, name) in [(true, "true"), (false, "detected")] {
        let own = drawn.judged.iter().filter(|one| one.is_label == is_label);
        let notes: Vec<&Judged> = own.filter(|one| !movement(one)).collect();
        if drawn.judged.iter().any(|one| !movement(&one)) {
            track(&mut body, scale, (y, NOTE), name, notes.into_iter());
            y += NOTE + GAP;
        }
    }
    let signals_from = y;
    let mut traces = String::new();
    for signal in signals(&drawn.windows) {
        traces += &trace(scale, y, &signal);
        y += SIGNAL + GAP;
    }
    let ground = outside(scale, &drawn.spans, (4.0, y - GAP));
    let axis = axis(scale, (signals_from, y));
    let (width, height) = (LEFT + WIDTH + RIGHT, y + 16.0);
    format!(
        "<svg viewBox=\"0 0 {width:.0} {height:.0}\" role=img>{ground}{axis}{body}{traces}</svg>"
    )
}

/// Draws one track: a bar per event.
fn track<'j>(
    out: &mut String,
    scale: Scale,
    (y, height): (f64, f64),
    name: &str,
    events: impl Iterator<Item = &'j Judged>,
) {
    let _ = write!(
        out,
        "<text x=\"{:.0}\" y=\"{:.1}\" text-anchor=end>{name}</text><rect class=base x=\"{LEFT}\" y=\"{y}\" width=\"{WIDTH}\" height=\"{height}\" opacity=\".5\"/>",
        LEFT - 8.0,
        y + height / 2.0 + 4.0
    );
    for one in events {
        let from = scale.x(one.from_sec);
        let width = (scale.x(one.to_sec) - from).max(2.5);
        let class = match one.verdict {
            Verdict::Right => "",
            Verdict::Wrong => "bad",
            Verdict::Open => "open",
        };
        let what = match (one.verdict, one.is_label) {
            (Verdict::Right, _) => "right",
            (Verdict::Wrong, true) => "missed",
            (Verdict::Wrong, false) => "nothing there",
            (Verdict::Open, true) => "not decidable",
            (Verdict::Open, false) => "not judged",
        };
        let confidence = one.confidence.map_or(String::new(), |confidence| {
            format!(", confidence {confidence:.2}")
        });
        let name = one.event_type.as_str();
        let _ = write!(
            out,
            "<rect class=\"{class}\" x=\"{from:.1}\" y=\"{y}\" width=\"{width:.1}\" height=\"{height}\" rx=2 fill=\"{}\"><title>{name} {:.1}–{:.1} s: {what}{confidence}</title></rect>",
            colour(one.event_type),
            one.from_sec,
            one.to_sec
        );
        if width >= NAMED && height >= BAR {
            let _ = write!(
                out,
                "<text class=on x=\"{:.1}\" y=\"{:.1}\" text-anchor=middle>{name}</text>",
                from + width / 2.0,
                y + height / 2.0 + 4.0
            );
        }
    }
}

/// Draws grey areas outside the labelled spans.
fn outside(scale: Scale, spans: &[(f64, f64)], (top, bottom): (f64, f64)) -> String {
    let mut out = String::new();
    if spans.is_empty() {
        return out;
    }
    let mut spans = spans.to_vec();
    spans.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut from = 0.0;
    for (next, to) in spans.into_iter().chain([(scale.end_sec, scale.end_sec)]) {
        let (left, right) = (scale.x(from), scale.x(next));
        if right - left > 1.0 {
            let _ = write!(
                out,
                "<rect class=out x=\"{left:.1}\" y=\"{top}\" width=\"{:.1}\" height=\"{:.1}\"/>",
                right - left,
                bottom - top
            );
        }
        from = to.max(from);
    }
    out
}

/// Draws about eight lines at round times.
fn axis(scale: Scale, (top, bottom): (f64, f64)) -> String {
    const STEPS_SEC: [f64; 11] = [
        2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1200.0, 3600.0,
    ];
    let step_sec = STEPS_SEC
        .into_iter()
        .find(|step_sec| scale.end_sec / step_sec <= 12.0)
        .unwrap_or(7200.0);
    let mut out = String::new();
    let mut sec = 0.0;
    while sec <= scale.end_sec {
        let x = scale.x(sec);
        let text = if step_sec >= 60.0 {
            format!("{:.0} min", sec / 60.0)
        } else {
            format!("{sec:.0} s")
        };
        let _ = write!(
            out,
            "<line class=grid x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{top:.0}\" y2=\"{bottom:.0}\"/><text x=\"{x:.1}\" y=\"{:.0}\" text-anchor=middle>{text}</text>",
            bottom + 11.0
        );
        sec += step_sec;
    }
    out
}

/// One signal: values at times.
struct Signal {
    name: &'static str,
    unit: &'static str,
    values: Vec<(f64, f64)>,
    /// Whether the signal is drawn on a logarithmic scale.
    by_log: bool,
    /// The minimum range of the axis.
    range_least: f64,
}

fn signals(windows: &[Window]) -> Vec<Signal> {
    let sec = |window: &Window| f64::from(window.t_ms) / 1000.0;
    let first_hpa = windows.iter().find_map(|window| window.pressure_hpa);
    let height_m = |window: &Window| {
        let ratio = f64::from(first_hpa? / window.pressure_hpa?);
        Some((sec(window), SCALE_HEIGHT_M * ratio.ln()))
    };
    let fixes = || windows.iter().filter_map(Window::last_fix);
    let fix_sec = |t_ms: u32| f64::from(t_ms) / 1000.0;
    let reported: Vec<(f64, f64)> = fixes()
        .filter_map(|fix| Some((fix_sec(fix.t_ms), f64::from(fix.speed_mps?))))
        .collect();
    let all: Vec<_> = fixes().collect();
    let by_places = all.windows(2).filter_map(|pair| {
        let [a, b] = pair else { return None };
        let seconds = fix_sec(b.t_ms) - fix_sec(a.t_ms);
        (0.2..=60.0).contains(&seconds).then(|| {
            (
                fix_sec(b.t_ms),
                f64::from(a.place.distance_m(b.place)) / seconds,
            )
        })
    });
    let speed = if reported.is_empty() {
        by_places.collect()
    } else {
        reported
    };
    let signals = [
        Signal {
            name: "height",
            unit: "m",
            values: windows.iter().filter_map(height_m).collect(),
            by_log: false,
            range_least: 4.0,
        },
        Signal {
            name: "speed",
            unit: "m/s",
            values: speed,
            by_log: false,
            range_least: 2.0,
        },
        Signal {
            name: "accuracy",
            unit: "m",
            values: fixes()
                .filter(|fix| fix.accuracy_known)
                .map(|fix| (fix_sec(fix.t_ms), f64::from(fix.accuracy_m.max(1.0))))
                .collect(),
            by_log: true,
            range_least: 2.0,
        },
        Signal {
            name: "motion",
            unit: "m/s²",
            values: windows
                .iter()
                .filter_map(|window| Some((sec(window), f64::from(window.motion?.accel_std))))
                .collect(),
            by_log: false,
            range_least: 1.0,
        },
    ];
    signals
        .into_iter()
        .filter(|signal| signal.values.len() > 1)
        .collect()
}

/// The number of values above which a signal is thinned.
const THINNED_FROM: usize = 2 * COLUMNS;

/// Draws a signal's line, interrupted by gaps of [`GAP_SEC`], and its range.
fn trace(scale: Scale, y: f64, signal: &Signal) -> String {
    let shape = |value: f64| if signal.by_log { value.ln() } else { value };
    let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
    for &(_, value) in &signal.values {
        (low, high) = (low.min(value), high.max(value));
    }
    // Adding 0 converts −0 to 0.
    let low = if low.abs() < 0.5 && !signal.by_log {
        low.min(0.0)
    } else {
        low
    };
    let high = high.max(low + signal.range_least);
    let (from, to) = (shape(low), shape(high));
    let y_of = |value: f64| {
        y + SIGNAL - 3.0 - (SIGNAL - 6.0) * (shape(value) - from) / (to - from).max(1e-9)
    };
    let mut path = String::new();
    // The gaps are those of the signal: thinned values lie further apart.
    for part in signal.values.chunk_by(|a, b| b.0 - a.0 <= GAP_SEC) {
        let mut pen = 'M';
        let thinned = match signal.values.len() {
            0..=THINNED_FROM => part.to_vec(),
            _ => thinned(part, scale.end_sec),
        };
        for (sec, value) in thinned {
            let _ = write!(path, "{pen}{:.1} {:.1}", scale.x(sec), y_of(value));
            pen = 'L';
        }
    }
    format!(
        "<text x=\"{:.0}\" y=\"{:.0}\" text-anchor=end>{}</text><text x=\"{:.0}\" y=\"{:.0}\" text-anchor=end opacity=\".75\">{}…{} {}</text><path class=trace d=\"{path}\"/>",
        LEFT - 8.0,
        y + SIGNAL / 2.0,
        signal.name,
        LEFT - 8.0,
        y + SIGNAL / 2.0 + 13.0,
        low.round() as i64,
        high.round() as i64,
        signal.unit
    )
}

/// Reduces a signal to at most two values per column: the minimum and the maximum, in order.
fn thinned(values: &[(f64, f64)], end_sec: f64) -> Vec<(f64, f64)> {
    let column = |sec: f64| (sec / end_sec * COLUMNS as f64) as usize;
    let mut thinned = Vec::with_capacity(2 * COLUMNS);
    for own in values.chunk_by(|a, b| column(a.0) == column(b.0)) {
        let least = own.iter().min_by(|a, b| a.1.total_cmp(&b.1));
        let greatest = own.iter().max_by(|a, b| a.1.total_cmp(&b.1));
        let mut both: Vec<(f64, f64)> = [least, greatest].into_iter().flatten().copied().collect();
        both.sort_by(|a, b| a.0.total_cmp(&b.0));
        both.dedup();
        thinned.extend(both);
    }
    thinned
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the line of a signal with a value at each of these seconds.
    fn line(seconds: impl Iterator<Item = u32>) -> String {
        let values = seconds.map(|sec| (f64::from(sec), f64::from(sec % 7)));
        let signal = Signal {
            name: "speed",
            unit: "m/s",
            values: values.collect(),
            by_log: false,
            range_least: 2.0,
        };
        let scale = Scale { end_sec: 18_000.0 };
        let drawn = trace(scale, 0.0, &signal);
        drawn.split("class=trace d=\"").nth(1).unwrap().to_owned()
    }

    /// Five hours at one value a second: the columns of the drawing are 36 s wide.
    #[test]
    fn the_line_of_a_long_recording_is_interrupted_at_gaps_only() {
        let whole = line(0..18_000);
        assert_eq!(whole.matches('M').count(), 1);
        assert!(whole.matches('L').count() > COLUMNS);
        let cut = line((0..9_000).chain(9_100..18_000));
        assert_eq!(cut.matches('M').count(), 2);
        let short = line((0..40).chain(60..80));
        assert_eq!(
            (short.matches('M').count(), short.matches('L').count()),
            (1, 59)
        );
    }
}
