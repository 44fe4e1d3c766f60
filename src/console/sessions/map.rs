//! The route of a session on the console's own map: local metres, the known points of the place,
//! and a scale bar. It fetches no third-party tiles, so that no third party learns the locations of
//! our customers' couriers.

use std::fmt::Write;

use maud::{Markup, html};
use porchlight_core::geo::{LocalFrame, Place};
use porchlight_schema::event::{Event, EventType};
use porchlight_schema::sample::Location;
use porchlight_schema::session::{Address, Point};

use super::super::descriptions;
use super::trace::Trace;

/// The width of the drawing, in its own units.
const WIDTH: f32 = 400.0;
/// The height of the drawing, in the same units as [`WIDTH`].
const HEIGHT: f32 = 300.0;
/// The free margin at the edges.
const MARGIN: f32 = 26.0;
/// The maximum distance of a drawn point from the middle of the route: a forged fix may lie on
/// another continent.
const FAR_M: f32 = 30_000.0;
/// The minimum and maximum radius of the near map around the door.
const NEAR_M: (f32, f32) = (40.0, 250.0);
/// The maximum accuracy radius of a drawn fix.
const ACCURACY_MAX_M: f32 = 150.0;
/// The maximum pause between two fixes that a solid line connects.
const GAP_MS: u32 = 15_000;
/// The time before and after a drop-off whose positions count as its place: a drop-off may be an
/// instant.
const DROP_OFF_TOLERANCE_MS: u32 = 10_000;
/// The maximum number of points in the track from which the script locates the phone.
const TRACK_POINTS: usize = 500;

/// The content of a map.
pub(super) struct MapContent<'a> {
    pub(super) address: &'a Address,
    pub(super) trace: &'a Trace,
    pub(super) events: &'a [Event],
    /// The start and end of the drop-off, if one was found, in milliseconds since the start.
    pub(super) drop_off: Option<(u32, u32)>,
}

/// The transformation from metres to the drawing.
struct View {
    frame: LocalFrame,
    middle: Place,
    /// The drawing units per metre.
    scale: f32,
}

impl View {
    /// Creates a view that shows all these places.
    fn around(frame: LocalFrame, places: impl Iterator<Item = Place>) -> Self {
        let mut ends: Option<(Place, Place)> = None;
        for place in places {
            let (low, high) = ends.get_or_insert((place, place));
            low.east_m = low.east_m.min(place.east_m);
            low.north_m = low.north_m.min(place.north_m);
            high.east_m = high.east_m.max(place.east_m);
            high.north_m = high.north_m.max(place.north_m);
        }
        let (low, high) = ends.unwrap_or_default();
        let (width_m, height_m) = (high.east_m - low.east_m, high.north_m - low.north_m);
        let by_width = (WIDTH - 2.0 * MARGIN) / width_m.max(40.0);
        let by_height = (HEIGHT - 2.0 * MARGIN) / height_m.max(30.0);
        Self {
            frame,
            middle: Place {
                east_m: low.east_m + width_m / 2.0,
                north_m: low.north_m + height_m / 2.0,
            },
            scale: by_width.min(by_height),
        }
    }

    /// Returns the drawing coordinates of a place.
    fn place(&self, place: Place) -> (f32, f32) {
        let x = WIDTH / 2.0 + (place.east_m - self.middle.east_m) * self.scale;
        let y = HEIGHT / 2.0 - (place.north_m - self.middle.north_m) * self.scale;
        (x, y)
    }

    fn point(&self, point: Point) -> (f32, f32) {
        self.place(self.frame.place(point))
    }

    fn fix(&self, fix: &Location) -> (f32, f32) {
        self.point(point_of(fix))
    }

    /// Returns a round length of about a quarter of the width, in metres and in drawing units.
    fn scale_bar(&self) -> (u32, f32) {
        let wanted = WIDTH / 4.0 / self.scale;
        let lengths = [
            5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000,
        ];
        let length = lengths
            .into_iter()
            .rev()
            .find(|&length| length as f32 <= wanted);
        let length = length.unwrap_or(5);
        (length, length as f32 * self.scale)
    }
}

fn point_of(fix: &Location) -> Point {
    Point {
        lat: fix.lat,
        lng: fix.lng,
    }
}

/// Returns the style sheet class for a kind of movement.
pub(super) fn class(event: Option<EventType>) -> &'static str {
    match event {
        Some(EventType::Driving) => "driving",
        Some(EventType::Walking) => "walking",
        Some(EventType::Stopped) => "stopped",
        Some(EventType::Stairs) => "stairs",
        Some(EventType::Elevator) => "elevator",
        _ => "unknown",
    }
}

/// The movement events of a session, in order of time. Of two movements, one ends before the other
/// starts.
struct Movements<'e>(Vec<&'e Event>);

impl<'e> Movements<'e> {
    fn of(events: &'e [Event]) -> Self {
        let movements = events.iter().filter(|event| event.event_type.is_movement());
        let mut movements: Vec<_> = movements.collect();
        movements.sort_by_key(|event| event.t_start_ms);
        Self(movements)
    }

    /// Returns the movement at a time.
    fn at(&self, t_ms: u32) -> Option<EventType> {
        let started = self.0.partition_point(|event| event.t_start_ms <= t_ms);
        let event = self.0.get(started.checked_sub(1)?)?;
        let covers = event.t_end_ms.is_none_or(|end_ms| t_ms < end_ms);
        covers.then_some(event.event_type)
    }
}

/// Renders the whole route and the area around the door, or a sentence if there is nothing to draw.
pub(super) fn maps(content: &MapContent<'_>) -> Markup {
    let fixes = &content.trace.fixes;
    let Some(middle) = fixes.get(fixes.len() / 2) else {
        return html! { p.faint { "No positions, so there is no route." } };
    };
    let frame = LocalFrame::new(content.address.point);
    let middle = frame.place(point_of(middle));
    let door = Place::default();
    let is_near = door.distance_m(middle) < FAR_M;
    let places = fixes
        .iter()
        .filter(|fix| !is_inaccurate(fix))
        .map(|fix| frame.place(point_of(fix)));
    let drawable: Vec<Place> = places
        .filter(|place| place.distance_m(middle) < FAR_M)
        .collect();
    let all = drawable.iter().copied().chain(is_near.then_some(door));
    let whole = View::around(frame, all);
    let near = near_radius_m(&drawable);
    html! {
        div.maps {
            figure { (map(content, &whole, "The whole route")) figcaption { "The whole route" } }
            @if let Some(radius_m) = near {
                @let corner = |sign: f32| Place { east_m: sign * radius_m, north_m: sign * radius_m * 0.75 };
                @let view = View::around(frame, [corner(-1.0), corner(1.0)].into_iter());
                figure { (map(content, &view, "Around the address")) figcaption { "Around the address" } }
            } @else {
                p.faint { "No positions near the address." }
            }
        }
        (legend(content))
    }
}

/// Returns the radius of the map around the door, or `None` if no position came near it.
fn near_radius_m(places: &[Place]) -> Option<f32> {
    let (least, most) = NEAR_M;
    let distances = places
        .iter()
        .map(|place| place.distance_m(Place::default()));
    let near = distances.filter(|&distance| distance < most);
    // The reach covers the nearest hundred metres, where the courier is mostly on foot.
    let reach = near.fold(None, |reach: Option<f32>, distance| {
        let distance = if distance < 110.0 { distance } else { 0.0 };
        Some(reach.map_or(distance, |reach| reach.max(distance)))
    })?;
    Some((reach + 10.0).clamp(least, most))
}

fn is_inaccurate(fix: &Location) -> bool {
    fix.accuracy_m
        .is_some_and(|accuracy_m| accuracy_m > ACCURACY_MAX_M)
}

fn map(content: &MapContent<'_>, view: &View, label: &str) -> Markup {
    let Address {
        point,
        accuracy_m,
        entrance,
        gates,
        ..
    } = content.address;
    let door = view.point(*point);
    let (bar_m, bar) = view.scale_bar();
    let bar_label = if bar_m < 1_000 {
        format!("{bar_m} m")
    } else {
        format!("{} km", bar_m / 1_000)
    };
    html! {
        svg.map viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } role="img" aria-label={ (label) ", the scale bar is " (bar_label) " long" } data-track=(track(content, view)) {
            circle.around cx=(px(door.0)) cy=(px(door.1)) r=(px((accuracy_m * view.scale).max(5.0))) { title { "The accuracy radius of the address is " (accuracy_m) " m" } }
            path.door d={ "M" (px(door.0)) " " (px(door.1)) "c-7 -9 -8 -11 -8 -15a8 8 0 0 1 16 0c0 4 -1 6 -8 15z" } { title { "The address" } }
            circle.door-eye cx=(px(door.0)) cy=(px(door.1 - 15.0)) r="2.6" {}
            (route(content, view))
            @for gate in gates { @let (x, y) = view.point(*gate); rect.gate-at x=(px(x - 3.5)) y=(px(y - 3.5)) width="7" height="7" { title { "Gate" } } }
            @if let Some(entrance) = entrance { @let (x, y) = view.point(*entrance); path.entrance d={ "M" (px(x)) " " (px(y - 6.0)) "l5.500 9.500h-11z" } { title { "Entrance" } } }
            (drop_off_marker(content, view))
            @for (class, fix) in [("from", content.trace.fixes.first()), ("to", content.trace.fixes.last())] {
                @if let Some(fix) = fix { @let (x, y) = view.fix(fix); circle class=(class) cx=(px(x)) cy=(px(y)) r="4" { title { (if class == "from" { "First position" } else { "Last position" }) } } }
            }
            g.scale { path d={ "M14 " (HEIGHT - 20.0) "v6h" (px(bar)) "v-6" } {} text x="14" y=(HEIGHT - 25.0) { (bar_label) } }
            g.north { path d={ "M" (WIDTH - 18.0) " 30v-16l-4 6m4 -6l4 6" } {} text x=(WIDTH - 18.0) y="42" text-anchor="middle" { "N" } }
            circle.here r="6" cx="-20" cy="-20" {}
        }
    }
}

/// Renders the route: one path for each run of the same movement, and dashed paths over gaps in the
/// data.
fn route(content: &MapContent<'_>, view: &View) -> Markup {
    let fixes = content.trace.fixes.iter().filter(|fix| !is_inaccurate(fix));
    let movements = Movements::of(content.events);
    let mut runs: Vec<(&str, String)> = Vec::new();
    let mut last: Option<(u32, (f32, f32))> = None;
    for fix in fixes {
        let class = class(movements.at(fix.t_ms));
        let (x, y) = view.fix(fix);
        // A forged fix far away should not draw a line across the whole map.
        if x.abs() > 40.0 * WIDTH || y.abs() > 40.0 * HEIGHT {
            continue;
        }
        if let Some((t_ms, (last_x, last_y))) = last {
            let is_gap = fix.t_ms - t_ms > GAP_MS;
            let same = runs.last().is_some_and(|(run, _)| *run == class) && !is_gap;
            let moved = (x - last_x).abs() + (y - last_y).abs();
            if same && moved < 0.7 {
                continue;
            }
            if is_gap {
                runs.push((
                    "gap",
                    format!("M{} {}L{} {}", px(last_x), px(last_y), px(x), px(y)),
                ));
            }
            if same {
                if let Some((_, path)) = runs.last_mut() {
                    // Writing to a string cannot fail.
                    let _ = write!(path, "L{} {}", px(x), px(y));
                }
            } else if is_gap {
                runs.push((class, format!("M{} {}", px(x), px(y))));
            } else {
                runs.push((
                    class,
                    format!("M{} {}L{} {}", px(last_x), px(last_y), px(x), px(y)),
                ));
            }
        } else {
            runs.push((class, format!("M{} {}", px(x), px(y))));
        }
        last = Some((fix.t_ms, (x, y)));
    }
    html! {
        @for (class, path) in &runs { path class={ "way " (class) } d=(path) {} }
    }
}

/// Returns the positions during the drop-off.
fn drop_off_fixes<'a>(content: &'a MapContent<'_>) -> impl Iterator<Item = &'a Location> {
    let during = |fix: &&Location| {
        content.drop_off.is_some_and(|(from_ms, to_ms)| {
            let from_ms = from_ms.saturating_sub(DROP_OFF_TOLERANCE_MS);
            (from_ms..=to_ms.saturating_add(DROP_OFF_TOLERANCE_MS)).contains(&fix.t_ms)
        })
    };
    let fixes = content.trace.fixes.iter();
    fixes.filter(during).filter(|fix| !is_inaccurate(fix))
}

/// Returns the middle of the positions during the drop-off.
pub(super) fn drop_off_point(content: &MapContent<'_>) -> Option<Point> {
    let fixes: Vec<_> = drop_off_fixes(content).collect();
    let mean = |pick: fn(&Location) -> f64| {
        fixes.iter().map(|fix| pick(fix)).sum::<f64>() / fixes.len() as f64
    };
    (!fixes.is_empty()).then(|| Point {
        lat: mean(|fix| fix.lat),
        lng: mean(|fix| fix.lng),
    })
}

/// Renders a circle at the drop-off, if its place is known.
fn drop_off_marker(content: &MapContent<'_>, view: &View) -> Markup {
    let drop_off = drop_off_point(content).map(|point| view.point(point));
    html! {
        @if let Some((x, y)) = drop_off { circle.dropped cx=(px(x)) cy=(px(y)) r="9" { title { "The drop-off" } } }
    }
}

/// Returns the phone's positions over time, for the script: `[[seconds, x, y], …]`.
fn track(content: &MapContent<'_>, view: &View) -> String {
    let fixes = &content.trace.fixes;
    let every = fixes.len().div_ceil(TRACK_POINTS).max(1);
    let mut json = String::from("[");
    for fix in fixes
        .iter()
        .step_by(every)
        .filter(|fix| !is_inaccurate(fix))
    {
        let (x, y) = view.fix(fix);
        let comma = if json.len() > 1 { "," } else { "" };
        // Writing to a string cannot fail.
        let _ = write!(json, "{comma}[{},{},{}]", fix.t_ms / 1_000, px(x), px(y));
    }
    json.push(']');
    json
}

fn legend(content: &MapContent<'_>) -> Markup {
    let kinds = [
        EventType::Driving,
        EventType::Walking,
        EventType::Stopped,
        EventType::Stairs,
        EventType::Elevator,
    ];
    let occurs = |kind: &EventType| content.events.iter().any(|event| event.event_type == *kind);
    html! {
        ul.legend {
            @for kind in kinds.into_iter().filter(occurs) { li { span class={ "swatch " (class(Some(kind))) } {} (descriptions::event(kind)) } }
            li { span.swatch.pin {} "Address and its accuracy radius" }
            @if drop_off_fixes(content).next().is_some() { li { span.swatch.ring {} "Drop-off" } } @else if content.drop_off.is_some() { li { "No positions during the drop-off" } }
            @if content.address.entrance.is_some() { li { span.swatch.tri {} "Entrance" } }
            @if !content.address.gates.is_empty() { li { span.swatch.sq {} "Gate" } }
            li { span.swatch.start {} "First position" }
            li { span.swatch.end {} "Last position" }
        }
    }
}

/// Formats a coordinate to a tenth of a unit, which is finer than visible.
fn px(value: f32) -> String {
    let value = value.clamp(-99_999.0, 99_999.0);
    format!("{:.1}", value + 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_shows_all_its_places() {
        let frame = LocalFrame::new(Point {
            lat: 51.0,
            lng: -2.0,
        });
        let places = [(0.0, 0.0), (800.0, 100.0), (-300.0, 900.0)];
        let places = places.map(|(east_m, north_m)| Place { east_m, north_m });
        let view = View::around(frame, places.into_iter());
        for place in places {
            let (x, y) = view.place(place);
            assert!((MARGIN - 0.1..=WIDTH - MARGIN + 0.1).contains(&x), "{x}");
            assert!((MARGIN - 0.1..=HEIGHT - MARGIN + 0.1).contains(&y), "{y}");
        }
        let (length_m, length) = view.scale_bar();
        assert!((length / view.scale - length_m as f32).abs() < 0.1);
        assert!(length <= WIDTH / 4.0);
    }

    #[test]
    fn without_positions_near_the_door_there_is_no_near_map() {
        let far = Place {
            east_m: 900.0,
            north_m: 0.0,
        };
        assert_eq!(near_radius_m(&[far]), None);
        let near = Place {
            east_m: 70.0,
            north_m: 0.0,
        };
        assert_eq!(near_radius_m(&[far, near]), Some(80.0));
    }
}
