//! Draws letters from the outlines of Roboto (Apache-2.0), reduced to the characters that pictures
//! use and embedded, so that the same text gives the same pixels on every computer.
//!
//! A letter is painted once as a mask of pixels and kept for the next text: most texts of a picture
//! are those of its legend, and following their outlines takes longer than everything else.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, PoisonError, RwLock};

use tiny_skia::{
    FillRule, LineCap, LineJoin, Mask, Path, PathBuilder, Pixmap, PremultipliedColorU8, Stroke,
    Transform,
};
use ttf_parser::{Face, GlyphId, OutlineBuilder};

use super::Pixel;

/// The number of pixels in the file per pixel of the picture.
pub(super) const SCALE: f32 = 2.0;
/// The width of the halo of a text, both sides together.
const HALO_PX: f32 = 3.0;
/// The number of positions within a pixel of the file at which a letter may stand.
const PARTS: i32 = 4;
/// The maximum number of letters in the cache. A letter with its halo has about 1 kB.
const LETTERS_CACHED_MAX: usize = 4_096;

static REGULAR: &[u8] = include_bytes!("roboto-regular.ttf");
static MEDIUM: &[u8] = include_bytes!("roboto-medium.ttf");

/// The two fonts, loaded once.
pub(super) struct Fonts {
    regular: Face<'static>,
    medium: Face<'static>,
}

/// Returns the embedded fonts, or `None` if they cannot be read.
pub(super) fn fonts() -> Option<&'static Fonts> {
    static FONTS: LazyLock<Option<Fonts>> = LazyLock::new(|| {
        Some(Fonts {
            regular: Face::parse(REGULAR, 0).ok()?,
            medium: Face::parse(MEDIUM, 0).ok()?,
        })
    });
    FONTS.as_ref()
}

impl Fonts {
    /// Returns a font in a size of `size` pixels of the picture.
    pub(super) fn font(&self, size: f32, is_bold: bool) -> Font<'_> {
        let face = if is_bold { &self.medium } else { &self.regular };
        Font {
            face,
            size,
            is_bold,
        }
    }
}

/// One of the fonts in one size.
pub(super) struct Font<'a> {
    face: &'a Face<'static>,
    size: f32,
    is_bold: bool,
}

/// One letter of a text.
pub(super) struct Placed {
    character: char,
    at: Pixel,
}

impl Font<'_> {
    fn em(&self) -> f32 {
        self.size / f32::from(self.face.units_per_em())
    }

    fn glyph(&self, character: char) -> Option<GlyphId> {
        self.face.glyph_index(character)
    }

    /// Returns the width of a character. A character that is missing in the font leaves a space.
    fn advance(&self, character: char) -> f32 {
        let glyph = self.glyph(character);
        let advance = glyph.and_then(|glyph| self.face.glyph_hor_advance(glyph));
        match (advance, character) {
            (Some(units), _) => f32::from(units) * self.em(),
            (None, '©') => self.size * 0.82,
            (None, _) => self.size * 0.3,
        }
    }

    /// Returns the width of a text in pixels of the picture.
    pub(super) fn width(&self, text: &str) -> f32 {
        text.chars().map(|character| self.advance(character)).sum()
    }

    /// Returns the letters of a text that starts at a place.
    pub(super) fn placed(&self, text: &str, start: Pixel) -> Vec<Placed> {
        let mut x = start.x;
        let letters = text.chars().map(|character| {
            let at = Pixel { x, y: start.y };
            x += self.advance(character);
            Placed { character, at }
        });
        letters.collect()
    }

    /// Paints letters, or the halo around them, in one colour.
    pub(super) fn paint(
        &self,
        letters: &[Placed],
        is_halo: bool,
        colour: [u8; 3],
        to: &mut Pixmap,
    ) {
        for Placed { character, at } in letters {
            let subpixel = |position: f32| (position * SCALE * PARTS as f32).round() as i32;
            let (x, y) = (subpixel(at.x), subpixel(at.y));
            let key = Key {
                character: *character,
                size_bits: self.size.to_bits(),
                is_bold: self.is_bold,
                is_halo,
                part_x: x.rem_euclid(PARTS),
                part_y: y.rem_euclid(PARTS),
            };
            if let Some(letter) = &*self.letter(key) {
                letter.paint((x.div_euclid(PARTS), y.div_euclid(PARTS)), colour, to);
            }
        }
    }

    fn letter(&self, key: Key) -> Kept {
        static LETTERS: LazyLock<RwLock<HashMap<Key, Kept>>> = LazyLock::new(RwLock::default);
        let kept = LETTERS.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(letter) = kept.get(&key) {
            return Arc::clone(letter);
        }
        drop(kept);
        let letter = Arc::new(self.mask(key));
        let mut kept = LETTERS.write().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= LETTERS_CACHED_MAX {
            kept.clear();
        }
        kept.insert(key, Arc::clone(&letter));
        letter
    }

    /// Paints the mask of one letter. A space has none.
    fn mask(&self, key: Key) -> Option<Letter> {
        let mut path = self.outline(key.character)?;
        if key.is_halo {
            let around = Stroke {
                width: HALO_PX,
                line_cap: LineCap::Round,
                line_join: LineJoin::Round,
                ..Stroke::default()
            };
            path = path.stroke(&around, SCALE)?;
        }
        let part = |part: i32| part as f32 / PARTS as f32;
        let scale = Transform::from_scale(SCALE, SCALE);
        let path = path.transform(scale.post_translate(part(key.part_x), part(key.part_y)))?;
        let bounds = path.bounds();
        let (left, top) = (bounds.left().floor(), bounds.top().floor());
        let width = (bounds.right().ceil() - left) as u32;
        let height = (bounds.bottom().ceil() - top) as u32;
        let mut mask = Mask::new(width, height)?;
        let shift = Transform::from_translate(-left, -top);
        mask.fill_path(&path, FillRule::Winding, true, shift);
        Some(Letter {
            left: left as i32,
            top: top as i32,
            width: width as usize,
            coverage: mask.take(),
        })
    }

    /// Returns the outline of a character whose baseline starts at the origin, in pixels of the
    /// picture.
    fn outline(&self, character: char) -> Option<Path> {
        let mut outline = Outline {
            path: PathBuilder::new(),
            x: 0.0,
            y: 0.0,
            em: self.em(),
        };
        if let Some(glyph) = self.glyph(character) {
            let _bounds = self.face.outline_glyph(glyph, &mut outline);
        } else if character == '©' {
            self.copyright_sign(&mut outline);
        }
        outline.path.finish()
    }

    /// Draws the sign ©, which the fonts lack: a small `c` in a ring.
    fn copyright_sign(&self, outline: &mut Outline) {
        const CORNERS: u16 = 24;
        let (x, y) = (self.advance('©') / 2.0, -self.size * 0.36);
        let radius = self.size * 0.38;
        // The inner ring runs the other way round, so that it is a hole.
        for (radius, turn) in [(radius, 1.0), (radius - self.size * 0.07, -1.0)] {
            for corner in 0..CORNERS {
                let angle = turn * std::f32::consts::TAU * f32::from(corner) / f32::from(CORNERS);
                let (x, y) = (x + radius * angle.cos(), y + radius * angle.sin());
                if corner == 0 {
                    outline.path.move_to(x, y);
                } else {
                    outline.path.line_to(x, y);
                }
            }
            outline.path.close();
        }
        let Some(glyph) = self.glyph('c') else {
            return;
        };
        let width = self.face.glyph_hor_advance(glyph).map_or(0.0, f32::from);
        outline.em *= 0.72;
        outline.x = x - width * outline.em / 2.0;
        outline.y = y + f32::from(self.face.x_height().unwrap_or(0)) * outline.em / 2.0;
        let _bounds = self.face.outline_glyph(glyph, outline);
    }
}

/// A letter that was painted before, or a space.
type Kept = Arc<Option<Letter>>;

/// Everything that the pixels of a letter depend on.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    character: char,
    size_bits: u32,
    is_bold: bool,
    is_halo: bool,
    part_x: i32,
    part_y: i32,
}

/// The pixels of a letter.
struct Letter {
    /// The first column, relative to the start of the letter, in pixels of the file.
    left: i32,
    /// The first row, relative to the baseline, in pixels of the file.
    top: i32,
    width: usize,
    /// The share of each pixel that the letter covers, 0 to 255, row by row.
    coverage: Vec<u8>,
}

impl Letter {
    fn paint(&self, (x, y): (i32, i32), colour: [u8; 3], to: &mut Pixmap) {
        let (width, height) = (to.width() as i32, to.height() as i32);
        let pixels = to.pixels_mut();
        for (row, coverage) in (y + self.top..).zip(self.coverage.chunks_exact(self.width)) {
            for (column, covered) in (x + self.left..).zip(coverage) {
                let is_inside = (0..width).contains(&column) && (0..height).contains(&row);
                if *covered > 0 && is_inside {
                    let pixel = &mut pixels[(row * width + column) as usize];
                    *pixel = mixed(*pixel, colour, *covered);
                }
            }
        }
    }
}

/// Blends a colour over the pixel `under`; the colour covers `covered` of its 255 parts.
fn mixed(under: PremultipliedColorU8, colour: [u8; 3], covered: u8) -> PremultipliedColorU8 {
    let mix = |over: u8, under: u8| {
        let sum =
            u32::from(over) * u32::from(covered) + u32::from(under) * u32::from(255 - covered);
        ((sum + 127) / 255) as u8
    };
    let [red, green, blue] = colour;
    let (red, green, blue) = (
        mix(red, under.red()),
        mix(green, under.green()),
        mix(blue, under.blue()),
    );
    let opacity = mix(255, under.alpha());
    PremultipliedColorU8::from_rgba(red, green, blue, opacity).unwrap_or(under)
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
    fn a_text_may_cross_the_edges_of_the_picture() {
        let font = fonts().unwrap().font(13.0, false);
        for (x, y) in [(-20.0, 5.0), (20.0, 3.0), (35.0, 30.0), (900.0, 900.0)] {
            let mut pixels = Pixmap::new(80, 60).unwrap();
            let letters = font.placed("© address", Pixel { x, y });
            font.paint(&letters, true, [255, 255, 255], &mut pixels);
            font.paint(&letters, false, [0, 0, 0], &mut pixels);
            let is_painted = pixels.pixels().iter().any(|pixel| pixel.alpha() > 0);
            assert_eq!(is_painted, x < 900.0, "{x}");
        }
    }

    #[test]
    fn colours_mix_by_the_part_that_is_covered() {
        let white = PremultipliedColorU8::from_rgba(255, 255, 255, 255).unwrap();
        for (covered, result) in [(0, 255), (51, 204), (255, 0)] {
            let pixel = mixed(white, [0, 0, 0], covered);
            assert_eq!((pixel.red(), pixel.alpha()), (result, 255));
        }
    }
}
