//! The street map of one session: its data for the script, and the legend.

use maud::{Markup, html};
use porchlight_core::score::Knowledge;
use porchlight_schema::event::Event;
use porchlight_schema::limits::MAP_POSITIONS_MAX;
use porchlight_schema::session::{Address, Point};
use serde::Serialize;

use super::super::state::Console;
use super::super::street_map;
use super::map::{MapContent, class, drop_off_point};
use super::timeline::end_ms;

/// The maximum accuracy radius in metres of positions that are drawn as good, and as fair.
const ACCURATE_M: (f32, f32) = (10.0, 30.0);

/// The data of the script, in degrees and metres.
#[derive(Serialize)]
struct Data {
    /// Seconds, latitude, longitude, and the accuracy in metres, or null.
    positions: Vec<(u32, f64, f64, Option<f32>)>,
    /// First second, last second, and the kind of movement.
    moves: Vec<(u32, u32, &'static str)>,
    address: (f64, f64),
    accuracy: f32,
    entrance: Option<(f64, f64)>,
    gates: Vec<(f64, f64)>,
    /// The learned entrance and the learned drop-off point.
    learned: Vec<(&'static str, f64, f64)>,
    drop: Option<(f64, f64)>,
    accurate: (f32, f32),
}

fn pair(point: Point) -> (f64, f64) {
    (rounded(point.lat), rounded(point.lng))
}

/// Rounds a coordinate to about a centimetre.
fn rounded(degrees: f64) -> f64 {
    (degrees * 1e7).round() / 1e7
}

/// Renders the map of a session, its legend, and the data of both.
pub(super) fn map(
    console: &Console,
    content: &MapContent<'_>,
    known: Option<&Knowledge>,
) -> Markup {
    let json = serde_json::to_string(&data(content, known)).unwrap_or_default();
    let (good_m, poor_m) = ACCURATE_M;
    html! {
        (street_map::viewer(console, "Street map with the route of this session", None))
        div #part-track hidden data-part="" { div data-track-map=(json) {} }
        ul.legend.map-legend hidden {
            li { span.swatch.fix-good {} "Position with an accuracy radius up to " (good_m) " m" }
            li { span.swatch.fix-fair {} "up to " (poor_m) " m" }
            li { span.swatch.fix-poor {} "larger or unknown" }
            li { span.swatch.pin {} "Address and its accuracy radius" }
            @if content.address.entrance.is_some() { li { span.swatch.tri {} "Entrance" } }
            @if !content.address.gates.is_empty() { li { span.swatch.sq {} "Gate" } }
            @if known.is_some_and(|known| known.entrance.is_some() || known.drop_off.is_some()) { li { span.swatch.learned {} "Learned entrance or drop-off" } }
        }
    }
}

fn data(content: &MapContent<'_>, known: Option<&Knowledge>) -> Data {
    let Address {
        point,
        accuracy_m,
        entrance,
        gates,
        ..
    } = content.address;
    let fixes = &content.trace.fixes;
    let every = fixes.len().div_ceil(MAP_POSITIONS_MAX).max(1);
    let positions = fixes.iter().step_by(every).map(|fix| {
        let seconds = fix.t_ms / 1_000;
        (seconds, rounded(fix.lat), rounded(fix.lng), fix.accuracy_m)
    });
    let movement = content
        .events
        .iter()
        .filter(|event| event.event_type.is_movement());
    let until = content.trace.until_ms;
    let moves = movement.map(|event: &Event| {
        let end_ms = end_ms(event, until);
        let kind = class(Some(event.event_type));
        (event.t_start_ms / 1_000, end_ms / 1_000, kind)
    });
    let learned = known.map_or([None, None], |known| [known.entrance, known.drop_off]);
    let learned = ["Learned entrance", "Learned drop-off"]
        .into_iter()
        .zip(learned);
    let learned = learned.filter_map(|(name, learned)| {
        let (lat, lng) = pair(learned?.point);
        Some((name, lat, lng))
    });
    Data {
        positions: positions.collect(),
        moves: moves.collect(),
        address: pair(*point),
        accuracy: *accuracy_m,
        entrance: entrance.map(pair),
        gates: gates.iter().copied().map(pair).collect(),
        learned: learned.collect(),
        drop: drop_off_point(content).map(pair),
        accurate: ACCURATE_M,
    }
}

/// Renders the coordinates of an address, and a link that opens them in the visitor's own map
/// application. Nothing is sent until the visitor follows it.
pub(super) fn coordinates(address: &Address) -> Markup {
    let Point { lat, lng } = address.point;
    html! {
        span.mono { (format!("{lat:.6}, {lng:.6}")) }
        span.faint { " ± " (format!("{:.0}", address.accuracy_m)) " m · " }
        a href={ "geo:" (format!("{lat:.6},{lng:.6}")) "?q=" (format!("{lat:.6},{lng:.6}")) } rel="noreferrer" { "Open in a map application" }
    }
}
