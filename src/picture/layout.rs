//! Defines the layout of the page, and shared basic shapes.

use super::{Anchor, HEIGHT_PX, Ink, Pen, Picture, Pixel, Shape, WIDTH_PX};

/// A rectangle in pixels.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Area {
    pub(super) left: f32,
    pub(super) top: f32,
    pub(super) right: f32,
    pub(super) bottom: f32,
}

/// The area of the map.
pub(super) const MAP: Area = Area {
    left: 12.0,
    top: 12.0,
    right: 672.0,
    bottom: 588.0,
};
/// The area of the legend.
pub(super) const LEGEND: Area = Area {
    left: 692.0,
    top: 12.0,
    right: 948.0,
    bottom: 356.0,
};
/// The area of the profile, with its title and its numbers.
pub(super) const PROFILE: Area = Area {
    left: 684.0,
    top: 368.0,
    right: 948.0,
    bottom: 588.0,
};
/// The size of most text, in pixels.
pub(super) const TEXT_PX: f32 = 13.0;
/// The size of small text, in pixels.
pub(super) const SMALL_PX: f32 = 11.5;

impl Area {
    pub(super) fn width(&self) -> f32 {
        self.right - self.left
    }

    pub(super) fn height(&self) -> f32 {
        self.bottom - self.top
    }

    pub(super) fn middle(&self) -> Pixel {
        Pixel {
            x: (self.left + self.right) / 2.0,
            y: (self.top + self.bottom) / 2.0,
        }
    }

    pub(super) fn holds(&self, at: Pixel) -> bool {
        at.x >= self.left && at.x <= self.right && at.y >= self.top && at.y <= self.bottom
    }

    pub(super) fn overlaps(&self, other: &Self) -> bool {
        self.left < other.right
            && other.left < self.right
            && self.top < other.bottom
            && other.top < self.bottom
    }

    /// Returns the part of the line from `a` to `b` that lies in the area (Liang and Barsky 1984).
    pub(super) fn clip(&self, a: Pixel, b: Pixel) -> Option<(Pixel, Pixel)> {
        let (dx, dy) = (b.x - a.x, b.y - a.y);
        let (mut enter, mut leave) = (0.0_f32, 1.0_f32);
        let sides = [
            (-dx, a.x - self.left),
            (dx, self.right - a.x),
            (-dy, a.y - self.top),
            (dy, self.bottom - a.y),
        ];
        for (towards, room) in sides {
            if towards == 0.0 {
                if room < 0.0 {
                    return None;
                }
            } else {
                let share = room / towards;
                if towards < 0.0 {
                    enter = enter.max(share);
                } else {
                    leave = leave.min(share);
                }
            }
        }
        let at = |share: f32| Pixel {
            x: a.x + share * dx,
            y: a.y + share * dy,
        };
        (enter <= leave).then(|| (at(enter), at(leave)))
    }

    fn corners(&self) -> Vec<Pixel> {
        let at = |x, y| Pixel { x, y };
        vec![
            at(self.left, self.top),
            at(self.right, self.top),
            at(self.right, self.bottom),
            at(self.left, self.bottom),
        ]
    }

    pub(super) fn filled(&self, ink: Ink) -> Shape {
        Shape::Line {
            points: self.corners(),
            pen: None,
            fill: Some(ink),
        }
    }
}

/// Draws the page and its two sheets.
pub(super) fn page(picture: &mut Picture) {
    let page = Area {
        left: 0.0,
        top: 0.0,
        right: WIDTH_PX,
        bottom: HEIGHT_PX,
    };
    picture.shapes.push(page.filled(Ink::Page));
    picture.shapes.push(MAP.filled(Ink::Sheet));
    picture.shapes.push(PROFILE.filled(Ink::Sheet));
}

pub(super) fn line(points: Vec<Pixel>, pen: Pen) -> Shape {
    Shape::Line {
        points,
        pen: Some(pen),
        fill: None,
    }
}

pub(super) fn polygon(points: Vec<Pixel>, fill: Ink, edge: Option<Ink>) -> Shape {
    let mut closed = points;
    closed.extend(closed.first().copied());
    Shape::Line {
        points: closed,
        pen: edge.map(|ink| Pen::plain(ink, 1.5)),
        fill: Some(fill),
    }
}

pub(super) fn circle(middle: Pixel, radius: f32, pen: Option<Pen>, fill: Option<Ink>) -> Shape {
    Shape::Circle {
        middle,
        radius,
        pen,
        fill,
    }
}

/// Returns a text in the usual size.
pub(super) fn text(at: Pixel, text: impl Into<String>, ink: Ink) -> Shape {
    Shape::Text {
        at,
        text: text.into(),
        size: TEXT_PX,
        anchor: Anchor::Start,
        ink,
        bold: false,
        halo: false,
    }
}

/// Returns a small text.
pub(super) fn small(at: Pixel, words: impl Into<String>, anchor: Anchor) -> Shape {
    Shape::Text {
        at,
        text: words.into(),
        size: SMALL_PX,
        anchor,
        ink: Ink::Faint,
        bold: false,
        halo: false,
    }
}

/// Estimates the width of a text: letters of a sans-serif are a little over half as wide as high,
/// plus a margin.
pub(super) fn width_of(text: &str, size: f32) -> f32 {
    text.chars().count() as f32 * size * 0.56
}

/// Returns the greatest of 1, 2 and 5 times a power of ten that is at most `limit`, which is
/// positive.
pub(super) fn round_down(limit: f32) -> f32 {
    let mut decade = 1e-3_f32;
    while decade * 10.0 <= limit {
        decade *= 10.0;
    }
    let steps = [5.0, 2.0, 1.0];
    let step = steps.into_iter().find(|step| step * decade <= limit);
    step.unwrap_or(1.0) * decade
}

/// Formats a time as minutes and seconds.
pub(super) fn minutes(t_ms: u32) -> String {
    format!("{}:{:02}", t_ms / 60_000, t_ms / 1_000 % 60)
}

/// Formats a duration for people.
pub(super) fn duration(duration_ms: u32) -> String {
    let seconds = duration_ms.div_ceil(1_000);
    match (seconds / 3_600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds} s"),
        (0, minutes, seconds) => format!("{minutes} min {seconds} s"),
        (hours, minutes, _) => format!("{hours} h {minutes} min"),
    }
}

/// Formats a length for people.
pub(super) fn length(metres: f32) -> String {
    if metres >= 1_000.0 {
        let km = metres / 1_000.0;
        let text = format!("{km:.1}");
        match text.strip_suffix(".0") {
            Some(whole) => format!("{whole} km"),
            None if km >= 10.0 => format!("{km:.0} km"),
            None => format!("{text} km"),
        }
    } else if metres >= 1.0 {
        format!("{metres:.0} m")
    } else {
        format!("{metres:.1} m")
    }
}
