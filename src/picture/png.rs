//! Paints a picture's shapes as pixels and writes them as PNG. The same picture is the same file on
//! every computer.

use tiny_skia::{
    Color, FillRule, LineCap, LineJoin, Paint, Path, PathBuilder, Pixmap, Rect, Stroke, StrokeDash,
    Transform,
};

use super::letters::{Fonts, SCALE, fonts};
use super::palette::{self, Indexed};
use super::{Anchor, HEIGHT_PX, Ink, Pen, Picture, Pixel, Shape, WIDTH_PX};

/// The reason why no file could be created. All variants are faults of this code.
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

/// Paints a picture in the light theme, and returns the PNG file.
///
/// # Errors
///
/// Returns a [`PngError`] if the file cannot be created.
pub fn png(picture: &Picture) -> Result<Vec<u8>, PngError> {
    let (width, height) = ((WIDTH_PX * SCALE) as u32, (HEIGHT_PX * SCALE) as u32);
    let mut canvas = Canvas {
        pixels: Pixmap::new(width, height).ok_or(PngError::Canvas)?,
        fonts: fonts().ok_or(PngError::Font)?,
        is_dark: false,
    };
    for shape in &picture.shapes {
        canvas.paint(shape);
    }
    canvas.encode()
}

/// Paints shapes without text on a square of `side_px` pixels, each of which is two pixels wide in
/// the file. Returns the PNG file.
pub(super) fn square(shapes: &[Shape], side_px: u32, is_dark: bool) -> Result<Vec<u8>, PngError> {
    let side = side_px * SCALE as u32;
    let mut canvas = Canvas {
        pixels: Pixmap::new(side, side).ok_or(PngError::Canvas)?,
        fonts: fonts().ok_or(PngError::Font)?,
        is_dark,
    };
    for shape in shapes {
        canvas.paint(shape);
    }
    canvas.encode()
}

struct Canvas {
    pixels: Pixmap,
    fonts: &'static Fonts,
    is_dark: bool,
}

fn colour_of(ink: Ink, is_dark: bool) -> [u8; 3] {
    if is_dark { ink.dark() } else { ink.light() }
}

fn paint_of(ink: Ink, is_dark: bool) -> Paint<'static> {
    let [r, g, b] = colour_of(ink, is_dark);
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
        if let Some((area, fill)) = filled_rectangle(shape) {
            self.rectangle(area, fill);
            return;
        }
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
                let font = self.fonts.font(*size, *bold);
                let x = match anchor {
                    Anchor::Start => at.x,
                    Anchor::Middle => at.x - font.width(text) / 2.0,
                    Anchor::End => at.x - font.width(text),
                };
                let letters = font.placed(text, Pixel { x, y: at.y });
                if *halo {
                    let sheet = colour_of(Ink::Sheet, self.is_dark);
                    font.paint(&letters, true, sheet, &mut self.pixels);
                }
                let colour = colour_of(*ink, self.is_dark);
                font.paint(&letters, false, colour, &mut self.pixels);
            }
        }
    }

    /// Fills a rectangle, which takes less time than the path around it.
    fn rectangle(&mut self, area: Rect, fill: Ink) {
        let paint = paint_of(fill, self.is_dark);
        if let Some(area) = area.transform(Transform::from_scale(SCALE, SCALE)) {
            self.pixels
                .fill_rect(area, &paint, Transform::identity(), None);
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

    /// Writes the file with a palette and with little effort: compressing red, green and blue takes
    /// longer than painting them.
    fn encode(&self) -> Result<Vec<u8>, PngError> {
        let (width, height) = (self.pixels.width(), self.pixels.height());
        let Indexed { palette, indices } = palette::indexed(self.pixels.data().as_chunks().0);
        let mut file = Vec::with_capacity(indices.len() / 16);
        let mut encoder = png::Encoder::new(&mut file, width, height);
        encoder.set_color(png::ColorType::Indexed);
        encoder.set_palette(palette);
        encoder.set_compression(png::Compression::Fast);
        encoder.set_filter(png::Filter::Up);
        let written = encoder
            .write_header()
            .and_then(|mut writer| writer.write_image_data(&indices));
        written.map_err(|_| PngError::Encoding)?;
        Ok(file)
    }
}

fn polyline(points: &[Pixel]) -> Option<Path> {
    let mut path = PathBuilder::new();
    let is_closed = points.len() > 2 && points.first() == points.last();
    append(&mut path, points, is_closed);
    path.finish()
}

fn append(path: &mut PathBuilder, points: &[Pixel], is_closed: bool) {
    for (index, at) in points.iter().enumerate() {
        if index == 0 {
            path.move_to(at.x, at.y);
        } else {
            path.line_to(at.x, at.y);
        }
    }
    if is_closed {
        path.close();
    }
}

/// Returns the area and the ink of a shape that only fills a rectangle.
fn filled_rectangle(shape: &Shape) -> Option<(Rect, Ink)> {
    let (points, fill) = match shape {
        Shape::Line { points, pen, fill } if pen.is_none() => (points, (*fill)?),
        Shape::Paths { parts, pen, fill } if pen.is_none() && parts.len() == 1 => {
            (&parts[0], (*fill)?)
        }
        _ => return None,
    };
    let corners = match points.as_slice() {
        [corners @ .., last] if corners.first() == Some(last) => corners,
        corners => corners,
    };
    let [a, b, c, d] = corners else {
        return None;
    };
    let is_level_first = a.y == b.y && b.x == c.x && c.y == d.y && d.x == a.x;
    let is_upright_first = a.x == b.x && b.y == c.y && c.x == d.x && d.y == a.y;
    if !is_level_first && !is_upright_first {
        return None;
    }
    let area = Rect::from_ltrb(a.x.min(c.x), a.y.min(c.y), a.x.max(c.x), a.y.max(c.y))?;
    Some((area, fill))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_picture_gives_the_same_file() {
        let text = |anchor| Shape::Text {
            at: Pixel { x: 300.0, y: 200.0 },
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
