//! Draws the marks on the map, each with a distinct form, so that it needs no colour; and labels
//! that do not overlap.

use porchlight_core::path::Halt;
use porchlight_schema::event::{Direction, Event, EventType, Metadata};

use super::layout::{Area, MAP, SMALL_PX, TEXT_PX, circle, line, polygon, width_of};
use super::{Anchor, Ink, Pen, Pixel, Shape};

/// The areas that a label may not cover.
pub(super) struct Labels(Vec<Area>);

impl Labels {
    /// Places a text next to a mark if there is room; otherwise it is left out.
    pub(super) fn put(
        &mut self,
        shapes: &mut Vec<Shape>,
        at: Pixel,
        words: &str,
        ink: Ink,
        bold: bool,
    ) {
        let size = if bold { TEXT_PX } else { SMALL_PX };
        let wide = width_of(words, size);
        let sides = [
            (12.0, 4.5, Anchor::Start),
            (-12.0, 4.5, Anchor::End),
            (0.0, -12.0, Anchor::Middle),
            (0.0, 22.0, Anchor::Middle),
            (10.0, -10.0, Anchor::Start),
            (10.0, 20.0, Anchor::Start),
            (-10.0, -10.0, Anchor::End),
            (-10.0, 20.0, Anchor::End),
        ];
        for (dx, dy, anchor) in sides {
            let (x, y) = (at.x + dx, at.y + dy);
            let left = match anchor {
                Anchor::Start => x,
                Anchor::Middle => x - wide / 2.0,
                Anchor::End => x - wide,
            };
            let area = Area {
                left: left - 2.0,
                top: y - size,
                right: left + wide + 2.0,
                bottom: y + 4.0,
            };
            let inside = area.left > MAP.left + 4.0
                && area.right < MAP.right - 4.0
                && area.top > MAP.top + 4.0
                && area.bottom < MAP.bottom - 4.0;
            if inside && !self.0.iter().any(|taken| taken.overlaps(&area)) {
                self.0.push(area);
                shapes.push(Shape::Text {
                    at: Pixel { x, y },
                    text: words.to_owned(),
                    size,
                    anchor,
                    ink,
                    bold,
                    halo: true,
                });
                return;
            }
        }
    }

    /// Creates an empty set of areas.
    pub(super) fn new() -> Self {
        Self(Vec::new())
    }

    /// Keeps labels out of this area.
    pub(super) fn keep_area_free(&mut self, area: Area) {
        self.0.push(area);
    }

    /// Keeps labels away from this point.
    pub(super) fn keep_free(&mut self, at: Pixel, radius: f32) {
        self.0.push(Area {
            left: at.x - radius,
            top: at.y - radius,
            right: at.x + radius,
            bottom: at.y + radius,
        });
    }
}

pub(super) fn climb_ink(climb: &Halt) -> Ink {
    match climb.event.event_type {
        EventType::Elevator => Ink::Elevator,
        _ => Ink::Stairs,
    }
}

/// Draws a ring for the start, or a filled square for the end.
pub(super) fn end_mark(at: Pixel, is_start: bool, shapes: &mut Vec<Shape>) {
    if is_start {
        let pen = Pen::plain(Ink::Text, 2.5);
        shapes.push(circle(at, 5.5, Some(pen), Some(Ink::Sheet)));
    } else {
        shapes.push(polygon(square(at, 5.0), Ink::Text, Some(Ink::Sheet)));
    }
}

fn square(at: Pixel, half: f32) -> Vec<Pixel> {
    let corner = |dx: f32, dy: f32| Pixel {
        x: at.x + dx * half,
        y: at.y + dy * half,
    };
    vec![
        corner(-1.0, -1.0),
        corner(1.0, -1.0),
        corner(1.0, 1.0),
        corner(-1.0, 1.0),
    ]
}

/// Draws a stay as a disc; a longer stay has a larger one.
pub(super) fn stay_mark(at: Pixel, duration_ms: u32, shapes: &mut Vec<Shape>) {
    let minutes = duration_ms as f32 / 60_000.0;
    let radius = (4.0 + 2.5 * minutes.sqrt()).min(11.0);
    let pen = Pen::plain(Ink::Sheet, 1.5);
    shapes.push(circle(at, radius, Some(pen), Some(Ink::Stay)));
}

/// Draws a climb as an arrow up or down in a box.
pub(super) fn climb_mark(at: Pixel, climb: &Halt, shapes: &mut Vec<Shape>) {
    let is_up = !matches!(
        climb.event.metadata,
        Metadata::Climb {
            direction: Direction::Down,
            ..
        }
    );
    box_mark(at, climb_ink(climb), is_up, shapes);
}

pub(super) fn box_mark(at: Pixel, ink: Ink, is_up: bool, shapes: &mut Vec<Shape>) {
    shapes.push(polygon(square(at, 7.0), ink, Some(Ink::Sheet)));
    let sign = if is_up { -1.0 } else { 1.0 };
    let tip = |dx: f32, dy: f32| Pixel {
        x: at.x + dx,
        y: at.y + sign * dy,
    };
    shapes.push(polygon(
        vec![tip(0.0, 4.5), tip(4.2, -2.5), tip(-4.2, -2.5)],
        Ink::Sheet,
        None,
    ));
}

/// Draws the door as a house.
pub(super) fn door_mark(at: Pixel, shapes: &mut Vec<Shape>) {
    let corner = |dx: f32, dy: f32| Pixel {
        x: at.x + dx,
        y: at.y + dy,
    };
    let house = vec![
        corner(0.0, -11.0),
        corner(10.0, -2.0),
        corner(7.0, -2.0),
        corner(7.0, 8.0),
        corner(-7.0, 8.0),
        corner(-7.0, -2.0),
        corner(-10.0, -2.0),
    ];
    shapes.push(polygon(house, Ink::Door, Some(Ink::Sheet)));
    let leaf = vec![
        corner(-2.5, 8.0),
        corner(-2.5, 0.0),
        corner(2.5, 0.0),
        corner(2.5, 8.0),
    ];
    shapes.push(polygon(leaf, Ink::Sheet, None));
}

/// Draws the entrance as a rhombus.
pub(super) fn entrance_mark(at: Pixel, shapes: &mut Vec<Shape>) {
    let corner = |dx: f32, dy: f32| Pixel {
        x: at.x + dx,
        y: at.y + dy,
    };
    let rhomb = vec![
        corner(0.0, -8.0),
        corner(8.0, 0.0),
        corner(0.0, 8.0),
        corner(-8.0, 0.0),
    ];
    shapes.push(polygon(rhomb, Ink::Door, Some(Ink::Sheet)));
}

/// Draws the cross of the address.
pub(super) fn cross(at: Pixel, shapes: &mut Vec<Shape>) {
    for (ink, width) in [(Ink::Sheet, 5.0), (Ink::Address, 2.5)] {
        for (dx, dy) in [(8.0, 0.0), (0.0, 8.0)] {
            let ends = [-1.0, 1.0].map(|sign| Pixel {
                x: at.x + sign * dx,
                y: at.y + sign * dy,
            });
            shapes.push(line(ends.into(), Pen::plain(ink, width)));
        }
    }
}

/// Returns the label of a climb: `3 floors up`.
pub(super) fn climb_words(event: &Event) -> String {
    let Metadata::Climb {
        floors,
        direction,
        height_cm,
    } = event.metadata
    else {
        return String::new();
    };
    let way = match direction {
        Direction::Up => "up",
        Direction::Down => "down",
    };
    match (floors, height_cm) {
        (Some(1), _) => format!("1 floor {way}"),
        (Some(floors), _) => format!("{floors} floors {way}"),
        (None, Some(height_cm)) => format!("{:.0} m {way}", f64::from(height_cm) / 100.0),
        (None, None) => way.to_owned(),
    }
}
