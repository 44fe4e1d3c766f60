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
        is_dark: false,
    };
    for shape in &picture.shapes {
        canvas.paint(shape);
    }
    if picture.has_map {
        return canvas.encode_fast();
    }
    canvas.pixels.encode_png().map_err(|_| PngError::Encoding)
}

/// Paints shapes without text on a square of `side_px` pixels, two pixels in the file for each.
pub(super) fn square(shapes: &[Shape], side_px: u32, is_dark: bool) -> Result<Vec<u8>, PngError> {
    let side = side_px * SCALE as u32;
    let mut canvas = Canvas {
        pixels: Pixmap::new(side, side).ok_or(PngError::Canvas)?,
        fonts: fonts()?,
        is_dark,
    };
    for shape in shapes {
        canvas.paint(shape);
    }
    canvas.encode_fast()
}

struct Canvas {
    pixels: Pixmap,
    fonts: &'static Fonts,
    is_dark: bool,
}

fn paint_of(ink: Ink, is_dark: bool) -> Paint<'static> {
    let [r, g, b] = if is_dark { ink.dark() } else { ink.light() };
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
            Shape::Paths { parts, pen, fill } => {
                let mut path = PathBuilder::new();
                for part in parts {
                    append(&mut path, part, fill.is_some());
                }
                if let Some(path) = path.finish() {
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
            let paint = paint_of(ink, self.is_dark);
            self.pixels
                .fill_path(path, &paint, FillRule::Winding, scale, None);
        }
        if let Some(pen) = pen {
            let paint = paint_of(pen.ink, self.is_dark);
            self.pixels
                .stroke_path(path, &paint, &stroke_of(pen), scale, None);
        }
    }

    /// Writes the file without transparency and with little effort: compressing a detailed picture
    /// well takes longer than painting it.
    fn encode_fast(&self) -> Result<Vec<u8>, PngError> {
        let (width, height) = (self.pixels.width(), self.pixels.height());
        let opaque: Vec<u8> = self
            .pixels
            .pixels()
            .iter()
            .flat_map(|pixel| [pixel.red(), pixel.green(), pixel.blue()])
            .collect();
        let mut file = Vec::with_capacity(opaque.len() / 16);
        let mut encoder = png::Encoder::new(&mut file, width, height);
        encoder.set_color(png::ColorType::Rgb);
        encoder.set_compression(png::Compression::Fast);
        encoder.set_filter(png::Filter::Up);
        let written = encoder
            .write_header()
            .and_then(|mut writer| writer.write_image_data(&opaque));
        written.map_err(|_| PngError::Encoding)?;
        Ok(file)
    }
}

fn polyline(points: &[At]) -> Option<Path> {
    let mut path = PathBuilder::new();
    let is_closed = points.len() > 2 && points.first() == points.last();
    append(&mut path, points, is_closed);
    path.finish()
}

fn append(path: &mut PathBuilder, points: &[At], is_closed: bool) {
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
                match (advance, letter) {
                    (Some(units), _) => f32::from(units) * em,
                    (None, '©') => size * 0.82,
                    (None, _) => size * 0.3,
                },
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
    for (letter, (glyph, advance)) in text.chars().zip(glyphs) {
        if let Some(glyph) = glyph {
            let _bounds = face.outline_glyph(glyph, &mut outline);
        } else if letter == '©' {
            copyright_sign(face, size, advance, &mut outline);
        }
        outline.x += advance;
    }
    outline.path.finish()
}

/// Draws the sign ©, which the fonts lack: a small `c` in a ring.
fn copyright_sign(face: &Face<'_>, size: f32, advance: f32, outline: &mut Outline) {
    const CORNERS: u16 = 24;
    let (x, y) = (outline.x + advance / 2.0, outline.y - size * 0.36);
    let radius = size * 0.38;
    // The inner ring runs the other way round, so that it is a hole.
    for (radius, turn) in [(radius, 1.0), (radius - size * 0.07, -1.0)] {
        let points = (0..CORNERS).map(|corner| {
            let angle = turn * std::f32::consts::TAU * f32::from(corner) / f32::from(CORNERS);
            At {
                x: x + radius * angle.cos(),
                y: y + radius * angle.sin(),
            }
        });
        append(&mut outline.path, &points.collect::<Vec<_>>(), true);
    }
    let Some(glyph) = face.glyph_index('c') else {
        return;
    };
    let before = (outline.x, outline.y, outline.em);
    let width = face.glyph_hor_advance(glyph).map_or(0.0, f32::from);
    outline.em *= 0.72;
    outline.x = x - width * outline.em / 2.0;
    outline.y -= size * 0.36 - f32::from(face.x_height().unwrap_or(0)) * outline.em / 2.0;
    let _bounds = face.outline_glyph(glyph, outline);
    (outline.x, outline.y, outline.em) = before;
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
