//! Writes a picture as SVG: light or dark as the reader prefers, without external resources or
//! scripts.

use std::fmt::Write;

use super::{Anchor, HEIGHT_PX, Ink, Pen, Picture, Pixel, Shape, WIDTH_PX};

/// The fonts, in order of preference.
const FONTS: &str = "Roboto,Helvetica,Arial,sans-serif";

/// Writes a picture as an SVG document in UTF-8.
#[must_use]
pub fn write(picture: &Picture) -> String {
    let mut text = String::with_capacity(16 * 1024);
    let out = &mut text;
    // Writing to a string cannot fail.
    let _ = write!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH_PX:.0} {HEIGHT_PX:.0}\" width=\"{WIDTH_PX:.0}\" \
         height=\"{HEIGHT_PX:.0}\" role=\"img\" aria-labelledby=\"title description\" font-family=\"{FONTS}\" fill=\"none\">\n\
         <title id=\"title\">{}</title>\n<desc id=\"description\">{}</desc>\n<style>{}</style>\n",
        escaped(&picture.title),
        escaped(&picture.description),
        style(picture.has_map),
    );
    for shape in &picture.shapes {
        write_shape(out, shape);
        out.push('\n');
    }
    out.push_str("</svg>\n");
    text
}

/// Returns the number in the names of an ink's two classes in the style sheet: `f…` fills, and `s…`
/// draws lines.
pub(super) fn class_number(ink: Ink) -> usize {
    let mut inks = Ink::ALL.iter().chain(&Ink::MAP);
    inks.position(|one| *one == ink).unwrap_or_default()
}

fn style(has_map: bool) -> String {
    let rules = |colour: fn(Ink) -> [u8; 3]| {
        let rule = |ink: Ink| {
            let ([r, g, b], n) = (colour(ink), class_number(ink));
            format!(".f{n}{{fill:#{r:02x}{g:02x}{b:02x}}}.s{n}{{stroke:#{r:02x}{g:02x}{b:02x}}}")
        };
        let map = Ink::MAP.iter().filter(|_| has_map);
        Ink::ALL
            .iter()
            .chain(map)
            .map(|ink| rule(*ink))
            .collect::<String>()
    };
    format!(
        "{}.h{{paint-order:stroke;stroke-width:3;stroke-linejoin:round}}@media(prefers-color-scheme:dark){{{}}}",
        rules(Ink::light),
        rules(Ink::dark)
    )
}

/// Formats a number with at most one decimal.
fn number(value: f32) -> String {
    let text = format!("{value:.1}");
    match text.strip_suffix(".0") {
        Some("-0") => "0".to_owned(),
        Some(whole) => whole.to_owned(),
        None => text,
    }
}

fn write_pen(out: &mut String, pen: &Pen) {
    let _ = write!(out, " stroke-width=\"{}\"", number(pen.width));
    if pen.round {
        out.push_str(" stroke-linecap=\"round\" stroke-linejoin=\"round\"");
    }
    if !pen.dashes.is_empty() {
        let dashes: Vec<_> = pen.dashes.iter().map(|dash| format!("{dash}")).collect();
        let _ = write!(out, " stroke-dasharray=\"{}\"", dashes.join(" "));
    }
}

fn write_class(out: &mut String, fill: Option<Ink>, pen: Option<&Pen>) {
    let fill = fill.map(|ink| format!("f{}", class_number(ink)));
    let pen = pen.map(|pen| format!("s{}", class_number(pen.ink)));
    let classes: Vec<_> = fill.into_iter().chain(pen).collect();
    let _ = write!(out, " class=\"{}\"", classes.join(" "));
}

fn write_shape(out: &mut String, shape: &Shape) {
    match shape {
        Shape::Line { points, pen, fill } => {
            out.push_str("<path d=\"");
            write_points(out, points);
            out.push('"');
            write_class(out, *fill, pen.as_ref());
            if let Some(pen) = pen {
                write_pen(out, pen);
            }
            out.push_str("/>");
        }
        Shape::Paths { parts, pen, fill } => {
            out.push_str("<path d=\"");
            for part in parts {
                write_points(out, part);
                if fill.is_some() {
                    out.push('Z');
                }
            }
            out.push('"');
            write_class(out, *fill, pen.as_ref());
            if let Some(pen) = pen {
                write_pen(out, pen);
            }
            out.push_str("/>");
        }
        Shape::Circle {
            middle,
            radius,
            pen,
            fill,
        } => {
            let _ = write!(
                out,
                "<circle cx=\"{}\" cy=\"{}\" r=\"{}\"",
                number(middle.x),
                number(middle.y),
                number(*radius)
            );
            write_class(out, *fill, pen.as_ref());
            if let Some(pen) = pen {
                write_pen(out, pen);
            }
            out.push_str("/>");
        }
        Shape::Text { .. } => write_text(out, shape),
    }
}

fn write_text(out: &mut String, shape: &Shape) {
    let Shape::Text {
        at,
        text,
        size,
        anchor,
        ink,
        bold,
        halo,
    } = shape
    else {
        return;
    };
    let _ = write!(
        out,
        "<text x=\"{}\" y=\"{}\" font-size=\"{size}\" class=\"f{}",
        number(at.x),
        number(at.y),
        class_number(*ink)
    );
    if *halo {
        let _ = write!(out, " s{} h", class_number(Ink::Sheet));
    }
    out.push('"');
    match anchor {
        Anchor::Start => {}
        Anchor::Middle => out.push_str(" text-anchor=\"middle\""),
        Anchor::End => out.push_str(" text-anchor=\"end\""),
    }
    if *bold {
        out.push_str(" font-weight=\"500\"");
    }
    let _ = write!(out, ">{}</text>", escaped(text));
}

fn write_points(out: &mut String, points: &[Pixel]) {
    let is_closed = points.len() > 2 && points.first() == points.last();
    let count = points.len() - usize::from(is_closed);
    for (index, at) in points.iter().take(count).enumerate() {
        let letter = if index == 0 { 'M' } else { 'L' };
        let _ = write!(out, "{letter}{} {}", number(at.x), number(at.y));
    }
    if is_closed {
        out.push('Z');
    }
}

fn escaped(text: &str) -> String {
    let escape = |letter: char| match letter {
        '&' => "&amp;".to_owned(),
        '<' => "&lt;".to_owned(),
        '>' => "&gt;".to_owned(),
        '"' => "&quot;".to_owned(),
        letter => letter.to_string(),
    };
    text.chars().map(escape).collect()
}
