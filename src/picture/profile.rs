//! Draws the profile of the floors: height over time on foot, from the barometer.

use porchlight_core::path::Track;
use porchlight_schema::event::EventType;

use super::layout::{Area, PROFILE, SMALL_PX, line, minutes, round_down, small, text, width_of};
use super::marks::climb_words;
use super::{Anchor, Ink, Pen, Picture, Pixel, Shape};

/// The minimum number of levels for a profile.
const LEVELS_MIN: usize = 10;
/// The minimum height range of the profile: noise of some decimetres should look like noise.
const SPAN_MIN_M: f32 = 8.0;

/// The conversion from time and height to pixels.
struct Axes {
    plot: Area,
    from_ms: u32,
    to_ms: u32,
    low_m: f32,
    high_m: f32,
}

impl Axes {
    fn x(&self, t_ms: u32) -> f32 {
        let share = (t_ms as f32 - self.from_ms as f32) / (self.to_ms - self.from_ms).max(1) as f32;
        self.plot.left + share.clamp(0.0, 1.0) * self.plot.width()
    }

    fn y(&self, height_m: f32) -> f32 {
        let share = (height_m - self.low_m) / (self.high_m - self.low_m);
        self.plot.bottom - share * self.plot.height()
    }
}

pub(super) fn draw(track: &Track, picture: &mut Picture) {
    let shapes = &mut picture.shapes;
    let title = Pixel {
        x: PROFILE.left + 12.0,
        y: PROFILE.top + 20.0,
    };
    let (from_ms, to_ms) = (track.heights.from_ms, track.heights.to_ms);
    let levels = &track.heights.levels;
    if levels.len() < LEVELS_MIN {
        shapes.push(text(title, "Height", Ink::Text));
        let at = Pixel {
            x: title.x,
            y: title.y + 20.0,
        };
        let reason = if levels.is_empty() {
            "There was no barometer to measure it."
        } else {
            "There are too few readings of the air pressure."
        };
        shapes.push(small(at, reason, Anchor::Start));
        return;
    }
    shapes.push(text(title, "Height on foot, metres", Ink::Text));
    let heights = levels.iter().map(|level| level.height_m);
    let low_m = heights.clone().fold(0.0, f32::min);
    let high_m = heights.fold(0.0, f32::max);
    let room_m = ((SPAN_MIN_M - (high_m - low_m)) / 2.0).max((high_m - low_m) * 0.12);
    let axes = Axes {
        plot: Area {
            left: PROFILE.left + 40.0,
            top: PROFILE.top + 34.0,
            right: PROFILE.right - 14.0,
            bottom: PROFILE.bottom - 30.0,
        },
        from_ms,
        to_ms,
        low_m: low_m - room_m,
        // The space above the line leaves room for text.
        high_m: high_m + room_m + (high_m - low_m).max(SPAN_MIN_M / 2.0) * 0.3,
    };
    let words = climbs(&axes, track, shapes);
    scale(&axes, shapes);
    shapes.extend(words);
    let mut points: Vec<Pixel> = Vec::new();
    for level in levels {
        let at = Pixel {
            x: axes.x(level.t_ms),
            y: axes.y(level.height_m),
        };
        if points.last().is_none_or(|last| at.x - last.x >= 0.8) {
            points.push(at);
        }
    }
    if points.len() > 1 {
        shapes.push(line(points, Pen::plain(Ink::Text, 2.0)));
    }
    moments(&axes, track, shapes);
}

/// Draws heights and times next to the plot.
fn scale(axes: &Axes, shapes: &mut Vec<Shape>) {
    let plot = &axes.plot;
    let step_m = round_down((axes.high_m - axes.low_m) / 2.5);
    let first = (axes.low_m / step_m).ceil() as i32;
    let last = (axes.high_m / step_m).floor() as i32;
    for number in first..=last {
        let height_m = number as f32 * step_m;
        let y = axes.y(height_m);
        let at = |x: f32| Pixel { x, y };
        let pen = Pen::plain(if number == 0 { Ink::Faint } else { Ink::Grid }, 1.0);
        shapes.push(line(vec![at(plot.left), at(plot.right)], pen));
        let label = Pixel {
            x: plot.left - 6.0,
            y: y + 4.0,
        };
        shapes.push(small(label, format!("{height_m:.0}"), Anchor::End));
    }
    let steps_sec = [
        15, 30, 60, 120, 300, 600, 1_200, 1_800, 3_600, 7_200, 14_400,
    ];
    let span_sec = (axes.to_ms - axes.from_ms) / 1_000;
    let step_sec = steps_sec.into_iter().find(|step| span_sec / step <= 4);
    let step_ms = step_sec.unwrap_or(28_800) * 1_000;
    let mut t_ms = axes.from_ms.div_ceil(step_ms) * step_ms;
    while t_ms <= axes.to_ms {
        let x = axes.x(t_ms);
        let at = |y: f32| Pixel { x, y };
        let tick = vec![at(plot.bottom), at(plot.bottom + 4.0)];
        shapes.push(line(tick, Pen::plain(Ink::Faint, 1.0)));
        shapes.push(small(at(plot.bottom + 17.0), minutes(t_ms), Anchor::Middle));
        t_ms = t_ms.saturating_add(step_ms);
    }
}

/// Draws the areas under stairs and elevators, and returns the words for them.
fn climbs(axes: &Axes, track: &Track, shapes: &mut Vec<Shape>) -> Vec<Shape> {
    let mut texts = Vec::new();
    let mut free_from = axes.plot.left;
    for climb in &track.climbs {
        let from_ms = climb.event.t_start_ms;
        let to_ms = from_ms.saturating_add(climb.duration_ms);
        if to_ms <= axes.from_ms || from_ms >= axes.to_ms {
            continue;
        }
        let band = Area {
            left: axes.x(from_ms),
            right: axes.x(to_ms),
            ..axes.plot
        };
        let (tint, ink, way) = match climb.event.event_type {
            EventType::Elevator => (Ink::ElevatorTint, Ink::Elevator, "elevator"),
            _ => (Ink::StairsTint, Ink::Stairs, "stairs"),
        };
        shapes.push(band.filled(tint));
        for (words, y) in [
            (way.to_owned(), axes.plot.top + 12.0),
            (climb_words(&climb.event), axes.plot.top + 25.0),
        ] {
            let wide = width_of(&words, SMALL_PX);
            let left = (band.middle().x - wide / 2.0)
                .max(free_from)
                .min(axes.plot.right - wide);
            if left + 0.1 < free_from {
                continue;
            }
            texts.push(Shape::Text {
                at: Pixel { x: left, y },
                text: words,
                size: SMALL_PX,
                anchor: Anchor::Start,
                ink,
                bold: false,
                halo: true,
            });
        }
        let widest = width_of(way, SMALL_PX).max(width_of(&climb_words(&climb.event), SMALL_PX));
        free_from = (band.middle().x + widest / 2.0 + 4.0).max(free_from);
    }
    texts
}

/// Draws the times at which the courier passed the entrance and reached the door.
fn moments(axes: &Axes, track: &Track, shapes: &mut Vec<Shape>) {
    let pen = Pen {
        dashes: &[4.0, 3.0],
        round: false,
        ..Pen::plain(Ink::Door, 1.5)
    };
    let spots = [
        ("entrance", track.entrance, 18.0),
        ("door", track.door, 5.0),
    ];
    for (words, spot, up) in spots {
        let Some(spot) = spot.filter(|spot| (axes.from_ms..=axes.to_ms).contains(&spot.t_ms))
        else {
            continue;
        };
        let x = axes.x(spot.t_ms);
        let at = |y: f32| Pixel { x, y };
        shapes.push(line(vec![at(axes.plot.top), at(axes.plot.bottom)], pen));
        let wide = width_of(words, SMALL_PX);
        let (dx, anchor) = if x + wide + 6.0 > axes.plot.right {
            (-4.0, Anchor::End)
        } else {
            (4.0, Anchor::Start)
        };
        shapes.push(Shape::Text {
            at: Pixel {
                x: x + dx,
                y: axes.plot.bottom - up,
            },
            text: words.to_owned(),
            size: SMALL_PX,
            anchor,
            ink: Ink::Door,
            bold: false,
            halo: true,
        });
    }
}
