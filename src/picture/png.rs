//! Pixels: a picture's shapes painted and written as PNG.
//!
//! Letters are the outlines of Roboto (Apache-2.0), reduced to the characters that pictures use and
//! embedded, so that the same picture is the same file on every machine.

use std::sync::LazyLock;

use tiny_skia::{
    Color, FillRule, LineCap, LineJoin, Paint, Path, PathBuilder, Pixmap, Stroke, StrokeDash,
    Transform,
};
use ttf_parser::{Face, OutlineBuilder};

use super::{Anchor, At, HEIGHT_PX, Ink, Pen, Picture, Shape, WIDTH_PX};

/// The number of pixels in the file per pixel of the picture.
const SCALE: f32 = 2.0;
/// The width of the halo of a text, both sides together.
const HALO_PX: f32 = 3.0;

static REGULAR: &[u8] = include_bytes!("roboto-regular.ttf");
static MEDIUM: &[u8] = include_bytes!("roboto-medium.ttf");

/// Why no file could be created. All variants are faults of this code.
#[derive(Debug, thiserror::Error)]
pub enum PngError {
    /// The canvas could not be created.
    #[error("no canvas")]
    Canvas,
    /// An embedded font cannot be read.
    #[error("an embedded font cannot be read")]
    Font,
    /// The file could not be encoded.
    #[error("the pixels cannot be written")]
    Encoding,
}

/// The two fonts, loaded once.
struct Fonts {
    regular: Face<'static>,
    medium: Face<'static>,
}

fn fonts() -> Result<&'static Fonts, PngError> {
    static FONTS: LazyLock<Option<Fonts>> = LazyLock::new(|| {
        Some(Fonts {
            regular: Face::parse(REGULAR, 0).ok()?,
            medium: Face::parse(MEDIUM, 0).ok()?,
        })
    });
    FONTS.as_ref().ok_or(PngError::Font)
}

/// Paints a picture on a light page.
///
/// # Errors
///
/// Returns a [`PngError`] if the file cannot be created.
pub fn png(picture: &Picture) -> Result<Vec<u8>, PngError> {
    let (width, height) = ((WIDTH_PX * SCALE) as u32, (HEIGHT_PX * SCALE) as u32);
    let mut canvas = Canvas {
        pixels: Pixmap::new(width, height).ok_or(PngError::Canvas)?,
        fonts: fonts()?,
    };
    for shape in &picture.shapes {
        canvas.paint(shape);
    }
    canvas.pixels.encode_png().map_err(|_| PngError::Encoding)
}

struct Canvas {
    pixels: Pixmap,
    fonts: &'static Fonts,
}

fn paint_of(ink: Ink) -> Paint<'static> {
    let [r, g, b] = ink.light();
    let mut paint = Paint {
        anti_alias: true,
        ..Paint::default()
    };
    paint.set_color(Color::from_rgba8(r, g, b, 255));
    paint
}

fn stroke_of(pen: &Pen) -> Stroke {
    let (line_cap, line_join) = if pen.round {
        (LineCap::Round, LineJoin::Round)
    } else {
        (LineCap::Butt, LineJoin::Miter)
    };
    Stroke {
        width: pen.width,
        line_cap,
        line_join,
        dash: StrokeDash::new(pen.dashes.to_vec(), 0.0),
        ..Stroke::default()
    }
}

impl Canvas {
    fn paint(&mut self, shape: &Shape) {
        match shape {
            Shape::Line { points, pen, fill } => {
                if let Some(path) = polyline(points) {
                    self.path(&path, pen.as_ref(), *fill);
                }
            }
            Shape::Circle {
                middle,
                radius,
                pen,
                fill,
            } => {
                if let Some(path) = PathBuilder::from_circle(middle.x, middle.y, *radius) {
                    self.path(&path, pen.as_ref(), *fill);
                }
            }
            Shape::Text {
                at,
                text,
                size,
                anchor,
                ink,
                bold,
                halo,
            } => {
                let face = if *bold {
                    &self.fonts.medium
                } else {
                    &self.fonts.regular
                };
                if let Some(path) = lettering(face, text, *size, *at, *anchor) {
                    let around = Pen {
                        ink: Ink::Sheet,
                        width: HALO_PX,
                        dashes: &[],
                        round: true,
                    };
                    self.path(&path, halo.then_some(&around), None);
                    self.path(&path, None, Some(*ink));
                }
            }
        }
    }

    fn path(&mut self, path: &Path, pen: Option<&Pen>, fill: Option<Ink>) {
        let scale = Transform::from_scale(SCALE, SCALE);
        if let Some(ink) = fill {
            self.pixels
                .fill_path(path, &paint_of(ink), FillRule::Winding, scale, None);
        }
        if let Some(pen) = pen {
            self.pixels
                .stroke_path(path, &paint_of(pen.ink), &stroke_of(pen), scale, None);
        }
    }
}

fn polyline(points: &[At]) -> Option<Path> {
    let mut path = PathBuilder::new();
    let is_closed = points.len() > 2 && points.first() == points.last();
    for (place, at) in points.iter().enumerate() {
        if place == 0 {
            path.move_to(at.x, at.y);
        } else {
            path.line_to(at.x, at.y);
        }
    }
    if is_closed {
        path.close();
    }
    path.finish()
}

/// Returns the outlines of a text. A character that is missing in the font leaves a space.
fn lettering(face: &Face<'_>, text: &str, size: f32, at: At, anchor: Anchor) -> Option<Path> {
    let em = size / f32::from(face.units_per_em());
    let glyphs: Vec<_> = text
        .chars()
        .map(|letter| {
            let glyph = face.glyph_index(letter);
            let advance = glyph.and_then(|glyph| face.glyph_hor_advance(glyph));
            (
                glyph,
                advance.map_or(size * 0.3, |units| f32::from(units) * em),
            )
        })
        .collect();
    let wide: f32 = glyphs.iter().map(|(_, advance)| advance).sum();
    let x = match anchor {
        Anchor::Start => at.x,
        Anchor::Middle => at.x - wide / 2.0,
        Anchor::End => at.x - wide,
    };
    let mut outline = Outline {
        path: PathBuilder::new(),
        x,
        y: at.y,
        em,
    };
    for (glyph, advance) in glyphs {
        if let Some(glyph) = glyph {
            let _bounds = face.outline_glyph(glyph, &mut outline);
        }
        outline.x += advance;
    }
    outline.path.finish()
}

/// The outline of a glyph, converted from font units (y upwards) to pixels (y downwards).
struct Outline {
    path: PathBuilder,
    x: f32,
    y: f32,
    em: f32,
}

impl Outline {
    fn at(&self, x: f32, y: f32) -> (f32, f32) {
        (self.x + x * self.em, self.y - y * self.em)
    }
}

impl OutlineBuilder for Outline {
    fn move_to(&mut self, x: f32, y: f32) {
        let (x, y) = self.at(x, y);
        self.path.move_to(x, y);
    }

    fn line_to(&mut self, x: f32, y: f32) {
        let (x, y) = self.at(x, y);
        self.path.line_to(x, y);
    }

    fn quad_to(&mut self, x1: f32, y1: f32, x: f32, y: f32) {
        let ((x1, y1), (x, y)) = (self.at(x1, y1), self.at(x, y));
        self.path.quad_to(x1, y1, x, y);
    }

    fn curve_to(&mut self, x1: f32, y1: f32, x2: f32, y2: f32, x: f32, y: f32) {
        let ((x1, y1), (x2, y2), (x, y)) = (self.at(x1, y1), self.at(x2, y2), self.at(x, y));
        self.path.cubic_to(x1, y1, x2, y2, x, y);
    }

    fn close(&mut self) {
        self.path.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_character_of_a_picture_is_in_the_fonts() {
        let fonts = fonts().unwrap();
        let characters = (' '..='~').chain("±·–—…°×’".chars());
        for letter in characters {
            for face in [&fonts.regular, &fonts.medium] {
                assert!(face.glyph_index(letter).is_some(), "{letter}");
            }
        }
    }

    #[test]
    fn the_same_picture_gives_the_same_file() {
        let text = |anchor| Shape::Text {
            at: At { x: 300.0, y: 200.0 },
            text: "address ±20 m".into(),
            size: 40.0,
            anchor,
            ink: Ink::Address,
            bold: true,
            halo: true,
        };
        let picture = Picture {
            shapes: vec![text(Anchor::Start)],
            ..Picture::default()
        };
        let file = png(&picture).unwrap();
        assert_eq!(file, png(&picture).unwrap());
        assert!(file.starts_with(b"\x89PNG\r\n\x1a\n") && file.len() > 1_000);
        let other = Picture {
            shapes: vec![text(Anchor::End)],
            ..Picture::default()
        };
        assert_ne!(file, png(&other).unwrap());
    }
}
