#![doc = include_str!("README.md")]

mod ground;
mod layout;
mod legend;
mod letters;
mod map;
mod map_tile;
mod marks;
mod palette;
pub mod png;
mod profile;
pub mod svg;

#[cfg(test)]
mod tests;

use porchlight_core::path::Track;
use porchlight_schema::insight::Score;

pub use ground::Ground;
pub use map_tile::map_tile;

/// The width of the picture.
pub const WIDTH_PX: f32 = 960.0;
/// The height of the picture.
pub const HEIGHT_PX: f32 = 600.0;
/// The version of the drawing. It increases whenever the same session would look different, and is
/// part of the cache key of a picture.
pub const VERSION: u32 = 5;

/// The colour of a shape, by its meaning. The colours can be distinguished with any kind of colour
/// blindness (after Okabe and Ito 2008), in light and in dark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ink {
    /// The page around everything.
    Page,
    /// The sheet under the map and the profile.
    Sheet,
    /// The grid of the map.
    Grid,
    /// Text and axes.
    Text,
    /// Less important elements.
    Faint,
    /// A stretch of driving.
    Drive,
    /// A stretch of walking.
    Walk,
    /// A stretch of stairs.
    Stairs,
    /// The area under stairs in the profile.
    StairsTint,
    /// A ride in an elevator.
    Elevator,
    /// The area under elevators in the profile.
    ElevatorTint,
    /// A stay in one place.
    Stay,
    /// The entrance and the door.
    Door,
    /// The address of the delivery.
    Address,
    /// The area under the address.
    AddressTint,
    /// Land on the street map.
    MapLand,
    /// Parks and forests on the street map.
    MapGreen,
    /// Water on the street map.
    MapWater,
    /// Buildings on the street map.
    MapBuilding,
    /// The edges of streets.
    MapEdge,
    /// Streets on the street map.
    MapStreet,
    /// Footways on the street map.
    MapPath,
    /// Railways on the street map.
    MapRail,
}

impl Ink {
    /// All inks of a picture without a street map.
    pub const ALL: [Self; 15] = [
        Self::Page,
        Self::Sheet,
        Self::Grid,
        Self::Text,
        Self::Faint,
        Self::Drive,
        Self::Walk,
        Self::Stairs,
        Self::StairsTint,
        Self::Elevator,
        Self::ElevatorTint,
        Self::Stay,
        Self::Door,
        Self::Address,
        Self::AddressTint,
    ];

    /// The inks of the street map, which only pictures with a map use.
    pub const MAP: [Self; 8] = [
        Self::MapLand,
        Self::MapGreen,
        Self::MapWater,
        Self::MapBuilding,
        Self::MapEdge,
        Self::MapStreet,
        Self::MapPath,
        Self::MapRail,
    ];

    /// Returns red, green and blue, 0 to 255 each, on a light page.
    #[must_use]
    pub fn light(self) -> [u8; 3] {
        match self {
            Self::Page => [244, 245, 243],
            Self::Sheet => [255, 255, 255],
            Self::Grid => [232, 235, 237],
            Self::Text => [28, 36, 48],
            Self::Faint => [107, 116, 128],
            Self::Drive => [112, 122, 137],
            Self::Walk => [0, 96, 168],
            Self::Stairs => [200, 80, 0],
            Self::StairsTint => [252, 231, 216],
            Self::Elevator => [136, 64, 152],
            Self::ElevatorTint => [240, 226, 243],
            Self::Stay => [222, 146, 0],
            Self::Door => [0, 132, 96],
            Self::Address => [178, 34, 52],
            Self::AddressTint => [250, 234, 236],
            Self::MapLand => [243, 243, 239],
            Self::MapGreen => [224, 235, 219],
            Self::MapWater => [201, 222, 236],
            Self::MapBuilding => [226, 224, 219],
            Self::MapEdge => [216, 217, 216],
            Self::MapStreet => [255, 255, 255],
            Self::MapPath => [206, 199, 188],
            Self::MapRail => [196, 198, 202],
        }
    }

    /// Returns red, green and blue, 0 to 255 each, on a dark page.
    #[must_use]
    pub fn dark(self) -> [u8; 3] {
        match self {
            Self::Page => [16, 20, 26],
            Self::Sheet => [26, 32, 40],
            Self::Grid => [42, 50, 60],
            Self::Text => [232, 236, 240],
            Self::Faint => [150, 160, 172],
            Self::Drive => [142, 153, 168],
            Self::Walk => [98, 182, 240],
            Self::Stairs => [255, 148, 72],
            Self::StairsTint => [66, 44, 30],
            Self::Elevator => [214, 150, 228],
            Self::ElevatorTint => [58, 42, 64],
            Self::Stay => [250, 190, 70],
            Self::Door => [60, 206, 160],
            Self::Address => [255, 122, 136],
            Self::AddressTint => [62, 34, 40],
            Self::MapLand => [30, 36, 43],
            Self::MapGreen => [29, 44, 38],
            Self::MapWater => [21, 44, 62],
            Self::MapBuilding => [40, 47, 56],
            Self::MapEdge => [24, 29, 35],
            Self::MapStreet => [56, 65, 76],
            Self::MapPath => [60, 62, 62],
            Self::MapRail => [66, 72, 80],
        }
    }
}

/// A point of the picture, in pixels from its upper left corner.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Pixel {
    /// The distance to the right.
    pub x: f32,
    /// The distance downwards.
    pub y: f32,
}

/// The style of a line.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pen {
    /// The colour of the line.
    pub ink: Ink,
    /// The width of the line, in pixels.
    pub width: f32,
    /// The lengths of dashes and spaces in turn, in pixels; empty for a line without spaces.
    pub dashes: &'static [f32],
    /// Whether ends and corners are round.
    pub round: bool,
}

impl Pen {
    const fn plain(ink: Ink, width: f32) -> Self {
        Self {
            ink,
            width,
            dashes: &[],
            round: true,
        }
    }
}

/// The position of a text relative to its point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Anchor {
    /// The text begins at the point.
    Start,
    /// The middle of the text is at the point.
    Middle,
    /// The text ends at the point.
    End,
}

/// One shape to draw.
#[derive(Debug, Clone, PartialEq)]
pub enum Shape {
    /// A line through these points. It is closed back to the first one, and filled, if `fill` is
    /// set.
    Line {
        /// The points, at least two.
        points: Vec<Pixel>,
        /// The pen; `None` if the shape is only filled.
        pen: Option<Pen>,
        /// The ink that fills the shape.
        fill: Option<Ink>,
    },
    /// Many lines, or many areas with holes, with the same look. An area is filled by the rule of
    /// non-zero winding numbers.
    Paths {
        /// The points of each line, or of each ring without its repeated last point.
        parts: Vec<Vec<Pixel>>,
        /// The pen of lines; `None` for areas.
        pen: Option<Pen>,
        /// The ink that fills areas; `None` for lines.
        fill: Option<Ink>,
    },
    /// A circle, drawn or filled.
    Circle {
        /// The centre of the circle.
        middle: Pixel,
        /// The radius, in pixels.
        radius: f32,
        /// The pen; `None` if the shape is only filled.
        pen: Option<Pen>,
        /// The ink that fills the circle.
        fill: Option<Ink>,
    },
    /// A line of text, on its baseline.
    Text {
        /// The point of the text.
        at: Pixel,
        /// The characters of the text.
        text: String,
        /// The font size, in pixels.
        size: f32,
        /// The position of the text relative to its point.
        anchor: Anchor,
        /// The colour of the text.
        ink: Ink,
        /// Whether the text is emphasized.
        bold: bool,
        /// Whether a halo separates the text from the shapes under it.
        halo: bool,
    },
}

/// A picture: shapes in drawing order, and a text alternative.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Picture {
    /// The title of the picture.
    pub title: String,
    /// A description of the picture, in a sentence or two.
    pub description: String,
    /// The shapes to draw.
    pub shapes: Vec<Shape>,
    /// Whether there is a street map in the picture.
    pub has_map: bool,
}

/// Draws the track of a session with its score.
#[must_use]
pub fn draw(track: &Track, score: &Score) -> Picture {
    draw_on(track, score, None)
}

/// Draws the track of a session with its score, on a street map if there is one. Reads the map's
/// file, so call it where a thread may block.
#[must_use]
pub fn draw_on(track: &Track, score: &Score, ground: Option<Ground<'_>>) -> Picture {
    let mut picture = Picture {
        title: "The path of a delivery".to_owned(),
        description: legend::description(track, score),
        shapes: Vec::new(),
        has_map: false,
    };
    layout::page(&mut picture);
    map::draw(track, ground, &mut picture);
    legend::draw(track, score, &mut picture);
    profile::draw(track, &mut picture);
    picture
}
