//! Draws the legend: the meaning of the marks, and a summary of the session.

use porchlight_core::path::{Track, TravelMode};
use porchlight_schema::insight::Score;

use super::layout::{LEGEND, duration, line, small, text};
use super::map::pen;
use super::marks::{
    box_mark, climb_ink, climb_words, cross, door_mark, end_mark, entrance_mark, stay_mark,
};
use super::{Anchor, Ink, Picture, Pixel, Shape};

/// The distance from one row to the next.
const ROW_PX: f32 = 21.5;
/// The width of the example of each mark.
const SAMPLE_PX: f32 = 44.0;

/// The modes of travel and their names.
const TRAVEL_MODES: [(TravelMode, &str); 6] = [
    (TravelMode::Drive, "in or on a vehicle"),
    (TravelMode::Walk, "on foot"),
    (TravelMode::Stairs, "on stairs"),
    (TravelMode::Elevator, "in an elevator"),
    (TravelMode::Other, "not known how"),
    (TravelMode::Unseen, "no position"),
];

/// Describes the picture in words, for readers who cannot see it.
pub(super) fn description(track: &Track, score: &Score) -> String {
    let mut words = vec![headline(score)];
    let stays = track.stays.len();
    if stays > 0 {
        words.push(format!(
            "{stays} {}",
            if stays == 1 { "stay" } else { "stays" }
        ));
    }
    words.extend(track.climbs.iter().map(|climb| climb_words(&climb.event)));
    let found = [("entrance", track.entrance), ("door", track.door)];
    let found = found
        .iter()
        .filter(|(_, spot)| spot.is_some())
        .map(|(word, _)| format!("the {word} was found"));
    words.extend(found);
    format!("{}.", words.join("; "))
}

/// Formats the outcome and the total duration.
fn headline(score: &Score) -> String {
    let outcome = score.reason_codes.first().map_or("", |code| code.as_str());
    let outcome = outcome.replace('_', " ").to_lowercase();
    let total_ms = (score.summary.total_duration_sec * 1_000.0) as u32;
    format!("{outcome}, {} in all", duration(total_ms))
}

pub(super) fn draw(track: &Track, score: &Score, picture: &mut Picture) {
    let shapes = &mut picture.shapes;
    let mut row = Pixel {
        x: LEGEND.left,
        y: LEGEND.top + 16.0,
    };
    let mut words = headline(score);
    if let Some(first) = words.get(..1) {
        words = first.to_uppercase() + words.get(1..).unwrap_or_default();
    }
    let mut title = text(row, words, Ink::Text);
    if let Shape::Text { bold, .. } = &mut title {
        *bold = true;
    }
    shapes.push(title);
    row.y += 12.0;
    for (mode, words) in TRAVEL_MODES {
        if track.has(mode) {
            row.y += ROW_PX;
            let middle = row.y - 4.5;
            let ends = [0.0, SAMPLE_PX - 14.0].map(|dx| Pixel {
                x: row.x + dx,
                y: middle,
            });
            shapes.push(line(ends.into(), pen(mode)));
            shapes.push(text(beside(row), words, Ink::Text));
        }
    }
    for (words, is_shown, mark) in marks(track) {
        if is_shown {
            row.y += ROW_PX;
            let at = Pixel {
                x: row.x + 15.0,
                y: row.y - 4.5,
            };
            mark(at, shapes);
            shapes.push(text(beside(row), words, Ink::Text));
        }
    }
    let foot = Pixel {
        x: row.x,
        y: row.y + ROW_PX + 2.0,
    };
    shapes.push(small(foot, "Arrows show the direction.", Anchor::Start));
}

fn beside(row: Pixel) -> Pixel {
    Pixel {
        x: row.x + SAMPLE_PX,
        y: row.y,
    }
}

type Mark = fn(Pixel, &mut Vec<Shape>);

fn marks(track: &Track) -> [(&'static str, bool, Mark); 7] {
    let climbs = !track.climbs.is_empty();
    let climb: Mark = match track.climbs.first().map(climb_ink) {
        Some(Ink::Stairs) => |at, shapes| box_mark(at, Ink::Stairs, true, shapes),
        _ => |at, shapes| box_mark(at, Ink::Elevator, true, shapes),
    };
    [
        ("start", true, |at, shapes| end_mark(at, true, shapes)),
        ("end", true, |at, shapes| end_mark(at, false, shapes)),
        (
            "a stay, larger if longer",
            !track.stays.is_empty(),
            |at, shapes| {
                stay_mark(at, 60_000, shapes);
            },
        ),
        ("floors up or down", climbs, climb),
        ("entrance", track.entrance.is_some(), entrance_mark),
        ("door", track.door.is_some(), door_mark),
        ("address and its uncertainty", true, cross),
    ]
}
