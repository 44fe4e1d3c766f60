//! The path image: a session's own track, drawn. A pure function of what was heard and of what was concluded, to a list
//! of shapes; [`svg`] writes them as text, and whoever paints pixels paints the same list.
//!
//! Movement is told apart without colour too: driving is a broad line, walking a row of dots, stairs a row of bars, what
//! is not known a thin line, and where there was no position a faint dotted one.

mod layout;
mod legend;
mod map;
mod marks;
pub mod png;
mod profile;
pub mod svg;

#[cfg(test)]
mod tests;

use porchlight_core::path::Track;
use porchlight_schema::insight::Score;

/// Width of the picture.
pub const WIDTH_PX: f32 = 960.0;
/// Height of the picture.
pub const HEIGHT_PX: f32 = 600.0;
/// Rises whenever the same session would look different: part of what a cache knows a picture by.
pub const VERSION: u32 = 1;

/// What a shape is coloured with, by what it stands for. The colours tell apart with any kind of colour blindness
/// (after Okabe and Ito 2008), in light and in dark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ink {
    /// Around everything.
    Page,
    /// Under the map and the profile.
    Sheet,
    /// The grid.
    Grid,
    /// Text and axes.
    Text,
    /// What is less important.
    Faint,
    /// Driving.
    Drive,
    /// Walking.
    Walk,
    /// Stairs.
    Stairs,
    /// Under stairs in the profile.
    StairsTint,
    /// Elevator.
    Elevator,
    /// Under elevators in the profile.
    ElevatorTint,
    /// A stay.
    Stay,
    /// Entrance and door.
    Door,
    /// The address.
    Address,
    /// Under the address.
    AddressTint,
}

impl Ink {
    /// All of them.
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

    /// Red, green and blue, 0 to 255 each, on a light page.
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
        }
    }

    /// The same on a dark page.
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
        }
    }
}

/// A point of the picture, pixels from its upper left corner.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct At {
    /// To the right.
    pub x: f32,
    /// Downwards.
    pub y: f32,
}

/// How a line is drawn. Ends are round where it has dashes of no length, and flat elsewhere.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pen {
    /// Its colour.
    pub ink: Ink,
    /// Its width, pixels.
    pub width: f32,
    /// Lengths of dash and space in turn, pixels; none: a line without spaces.
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

/// Where a text stands to its point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Anchor {
    /// It begins there.
    Start,
    /// Its middle is there.
    Middle,
    /// It ends there.
    End,
}

/// One thing to draw.
#[derive(Debug, Clone, PartialEq)]
pub enum Shape {
    /// A line through these points; closed back to the first one, and filled, where `fill` says with what.
    Line {
        /// The points, two at least.
        points: Vec<At>,
        /// The pen; none: it is filled only.
        pen: Option<Pen>,
        /// What it is filled with.
        fill: Option<Ink>,
    },
    /// A circle.
    Circle {
        /// Its middle.
        middle: At,
        /// Its radius, pixels.
        radius: f32,
        /// The pen; none: it is filled only.
        pen: Option<Pen>,
        /// What it is filled with.
        fill: Option<Ink>,
    },
    /// A line of text, on its base line.
    Text {
        /// Where.
        at: At,
        /// Of what.
        text: String,
        /// How high, pixels.
        size: f32,
        /// Where it stands to its point.
        anchor: Anchor,
        /// Its colour.
        ink: Ink,
        /// Whether it is to be noticed.
        bold: bool,
        /// Whether it is set off from what lies under it.
        halo: bool,
    },
}

/// A picture: shapes in the order in which they are drawn, and what to read out in its place.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Picture {
    /// What it is.
    pub title: String,
    /// What can be seen on it, in a sentence or two.
    pub description: String,
    /// The shapes.
    pub shapes: Vec<Shape>,
}

/// Draws the track of a session that was scored so.
#[must_use]
pub fn draw(track: &Track, score: &Score) -> Picture {
    let mut picture = Picture {
        title: "The path of a delivery".to_owned(),
        description: legend::description(track, score),
        shapes: Vec::new(),
    };
    layout::page(&mut picture);
    map::draw(track, &mut picture);
    legend::draw(track, score, &mut picture);
    profile::draw(track, &mut picture);
    picture
}
