//! Draws the map: the path, its marks, and its scale.

use porchlight_core::geo::Place;
use porchlight_core::path::{Halt, Leg, Track, TravelMode};

use super::ground::Ground;
use super::layout::{
    Area, MAP, PROFILE, SMALL_PX, circle, duration, length, line, polygon, round_down, small,
    width_of,
};
use super::marks::{
    Labels, climb_ink, climb_mark, climb_words, cross, door_mark, end_mark, entrance_mark,
    stay_mark,
};
use super::{Anchor, HEIGHT_PX, Ink, Pen, Picture, Pixel, Shape, WIDTH_PX};

/// The space between the content and the map's edge, in pixels.
const MARGIN_PX: f32 = 56.0;
/// The minimum width and height of the shown area, in metres.
const SPAN_MIN_M: f32 = 60.0;
/// The multiple of the path's length beyond which an address is pointed at instead of shown.
const ADDRESS_FAR: f32 = 3.0;
/// The distance within which an address is always shown.
const ADDRESS_NEAR_M: f32 = 300.0;
/// The distance below which points are merged.
const POINT_PX: f32 = 1.5;
/// The distance from one arrow on the path to the next.
const ARROW_DISTANCE_PX: f32 = 110.0;
/// The maximum length of the scale bar.
const BAR_PX: f32 = 130.0;
/// The radius below which a circle is kept clear of its label.
const CIRCLE_SMALL_PX: f32 = 40.0;
/// The maximum number of labelled stays; the longest ones are labelled.
const STAYS_LABELLED: usize = 8;

/// The conversion from metres to pixels.
struct View {
    centre: Place,
    px_per_m: f32,
}

impl View {
    fn of(track: &Track) -> Self {
        let (mut low, mut high) = bounds(&track.focus, 0.0);
        let path_m = low.distance_m(high).max(SPAN_MIN_M);
        let centre = middle(low, high);
        let address = Place::default();
        let limit_m = (ADDRESS_FAR * path_m).max(ADDRESS_NEAR_M);
        if centre.distance_m(address) <= limit_m {
            let around = bounds(&[address], track.address_accuracy_m.min(path_m));
            (low, high) = bounds(&[low, high, around.0, around.1], 0.0);
        }
        let wide_m = (high.east_m - low.east_m).max(SPAN_MIN_M);
        let high_m = (high.north_m - low.north_m).max(SPAN_MIN_M);
        let across = (MAP.width() - 2.0 * MARGIN_PX) / wide_m;
        let down = (MAP.height() - 2.0 * MARGIN_PX) / high_m;
        Self {
            centre: middle(low, high),
            px_per_m: across.min(down),
        }
    }

    fn at(&self, place: Place) -> Pixel {
        let middle = MAP.middle();
        Pixel {
            x: middle.x + (place.east_m - self.centre.east_m) * self.px_per_m,
            y: middle.y - (place.north_m - self.centre.north_m) * self.px_per_m,
        }
    }
}

fn middle(a: Place, b: Place) -> Place {
    Place {
        east_m: (a.east_m + b.east_m) / 2.0,
        north_m: (a.north_m + b.north_m) / 2.0,
    }
}

/// Returns the corners of the smallest rectangle around these places, extended by `room_m`.
fn bounds(places: &[Place], room_m: f32) -> (Place, Place) {
    let fold = |pick: fn(&Place) -> f32, best: fn(f32, f32) -> f32| {
        places.iter().map(pick).reduce(best).unwrap_or(0.0)
    };
    let low = Place {
        east_m: fold(|place| place.east_m, f32::min) - room_m,
        north_m: fold(|place| place.north_m, f32::min) - room_m,
    };
    let high = Place {
        east_m: fold(|place| place.east_m, f32::max) + room_m,
        north_m: fold(|place| place.north_m, f32::max) + room_m,
    };
    (low, high)
}

/// Returns the pen for a travel mode.
pub(super) fn pen(mode: TravelMode) -> Pen {
    let (ink, width, dashes, round): (_, _, &'static [f32], _) = match mode {
        TravelMode::Drive => (Ink::Drive, 6.0, &[], true),
        TravelMode::Walk => (Ink::Walk, 4.5, &[0.01, 7.0], true),
        TravelMode::Stairs => (Ink::Stairs, 9.0, &[2.5, 3.5], false),
        TravelMode::Elevator => (Ink::Elevator, 3.0, &[9.0, 3.0, 2.0, 3.0], false),
        TravelMode::Other => (Ink::Faint, 1.8, &[], true),
        TravelMode::Unseen => (Ink::Faint, 1.5, &[2.0, 5.0], false),
    };
    Pen {
        ink,
        width,
        dashes,
        round,
    }
}

pub(super) fn draw(track: &Track, ground: Option<Ground<'_>>, picture: &mut Picture) {
    let view = View::of(track);
    let shapes = &mut picture.shapes;
    let bar_m = round_down(BAR_PX / view.px_per_m);
    let ground = ground.filter(|ground| {
        ground.draw(
            &MAP,
            view.px_per_m,
            view.centre,
            |place| view.at(place),
            shapes,
        )
    });
    picture.has_map = ground.is_some();
    if ground.is_none() {
        grid(&view, bar_m, shapes);
    }
    let address = view.at(Place::default());
    if MAP.holds(address) {
        uncertainty(&view, track, address, ground.is_none(), shapes);
    }
    for leg in &track.legs {
        draw_leg(&view, leg, shapes);
    }
    margins(shapes);
    let mut labels = Labels::new();
    if let Some(ground) = ground {
        attribution(ground.map.attribution(), &mut labels, shapes);
    }
    scale(bar_m, bar_m * view.px_per_m, &mut labels, shapes);
    marks(&view, track, address, &mut labels, shapes);
}

/// Draws grid lines at a distance equal to the length of the scale bar.
fn grid(view: &View, step_m: f32, shapes: &mut Vec<Shape>) {
    let pen = Pen::plain(Ink::Grid, 1.0);
    let step_px = step_m * view.px_per_m;
    let origin = view.at(Place::default());
    let mut x = MAP.left + (origin.x - MAP.left).rem_euclid(step_px);
    while x < MAP.right {
        let (a, b) = (Pixel { x, y: MAP.top }, Pixel { x, y: MAP.bottom });
        shapes.push(line(vec![a, b], pen));
        x += step_px;
    }
    let mut y = MAP.top + (origin.y - MAP.top).rem_euclid(step_px);
    while y < MAP.bottom {
        let (a, b) = (Pixel { x: MAP.left, y }, Pixel { x: MAP.right, y });
        shapes.push(line(vec![a, b], pen));
        y += step_px;
    }
}

/// Covers the ends of broad lines, which extend a little beyond the map, with the page.
fn margins(shapes: &mut Vec<Shape>) {
    let sides = [
        (0.0, 0.0, WIDTH_PX, MAP.top),
        (0.0, MAP.bottom, WIDTH_PX, HEIGHT_PX),
        (0.0, 0.0, MAP.left, HEIGHT_PX),
        (MAP.right, 0.0, PROFILE.left, HEIGHT_PX),
    ];
    for (left, top, right, bottom) in sides {
        let side = Area {
            left,
            top,
            right,
            bottom,
        };
        shapes.push(side.filled(Ink::Page));
    }
}

/// Draws the accuracy of the address as a circle, as far as it lies on the map.
fn uncertainty(
    view: &View,
    track: &Track,
    address: Pixel,
    is_filled: bool,
    shapes: &mut Vec<Shape>,
) {
    let radius = track.address_accuracy_m * view.px_per_m;
    let room = (address.x - MAP.left)
        .min(MAP.right - address.x)
        .min(address.y - MAP.top)
        .min(MAP.bottom - address.y);
    if radius > 7.0 && radius <= room {
        let pen = Pen {
            dashes: &[5.0, 4.0],
            round: false,
            ..Pen::plain(Ink::Address, 1.2)
        };
        let tint = is_filled.then_some(Ink::AddressTint);
        shapes.push(circle(address, radius, Some(pen), tint));
    }
}

/// Writes the source of the street map into the corner.
fn attribution(notice: &str, labels: &mut Labels, shapes: &mut Vec<Shape>) {
    let at = Pixel {
        x: MAP.right - 8.0,
        y: MAP.bottom - 8.0,
    };
    let mut words = small(at, notice, Anchor::End);
    if let Shape::Text { halo, ink, .. } = &mut words {
        (*halo, *ink) = (true, Ink::Text);
    }
    shapes.push(words);
    labels.keep_area_free(Area {
        left: at.x - width_of(notice, SMALL_PX),
        top: at.y - SMALL_PX,
        right: MAP.right,
        bottom: MAP.bottom,
    });
}

/// Returns the parts of a leg that lie on the map, as lines with no two points in the same place.
fn runs(view: &View, leg: &Leg) -> Vec<Vec<Pixel>> {
    let mut runs: Vec<Vec<Pixel>> = Vec::new();
    let mut points = leg.places.iter().map(|&place| view.at(place));
    let Some(mut before) = points.next() else {
        return runs;
    };
    let far = |a: Pixel, b: Pixel| (a.x - b.x).abs() + (a.y - b.y).abs() >= POINT_PX;
    let count = leg.places.len();
    for (number, point) in points.enumerate() {
        let is_last = number + 2 == count;
        if !far(before, point) && !is_last {
            continue;
        }
        if let Some((from, to)) = MAP.clip(before, point) {
            match runs.last_mut() {
                Some(run) if run.last() == Some(&from) => run.push(to),
                _ => runs.push(vec![from, to]),
            }
        }
        before = point;
    }
    runs
}

fn draw_leg(view: &View, leg: &Leg, shapes: &mut Vec<Shape>) {
    let pen = pen(leg.mode);
    for run in runs(view, leg) {
        if leg.mode == TravelMode::Drive {
            // A broad line has an edge, so that two crossing lines remain distinguishable.
            shapes.push(line(run.clone(), Pen::plain(Ink::Sheet, pen.width + 2.5)));
        }
        shapes.push(line(run.clone(), pen));
        if matches!(leg.mode, TravelMode::Drive | TravelMode::Walk) {
            arrows(&run, leg.mode, shapes);
        }
    }
}

/// Draws arrows in the direction of movement.
fn arrows(run: &[Pixel], mode: TravelMode, shapes: &mut Vec<Shape>) {
    let mut since_px = ARROW_DISTANCE_PX / 2.0;
    for pair in run.windows(2) {
        let [a, b] = pair else { continue };
        let (dx, dy) = (b.x - a.x, b.y - a.y);
        let long = (dx * dx + dy * dy).sqrt();
        since_px += long;
        if since_px < ARROW_DISTANCE_PX || long < POINT_PX {
            continue;
        }
        since_px = 0.0;
        let (ux, uy) = (dx / long, dy / long);
        let reach = if mode == TravelMode::Drive { 8.5 } else { 6.5 };
        let at = |along: f32, aside: f32| Pixel {
            x: b.x + (ux * along - uy * aside) * reach,
            y: b.y + (uy * along + ux * aside) * reach,
        };
        let points = vec![at(1.0, 0.0), at(-0.7, 0.85), at(-0.3, 0.0), at(-0.7, -0.85)];
        let fill = if mode == TravelMode::Drive {
            Ink::Drive
        } else {
            Ink::Walk
        };
        shapes.push(polygon(points, fill, Some(Ink::Sheet)));
    }
}

fn marks(view: &View, track: &Track, address: Pixel, labels: &mut Labels, shapes: &mut Vec<Shape>) {
    let spots = [track.entrance, track.door].map(|spot| spot.and_then(|spot| spot.place));
    let [entrance, door] = spots.map(|place| place.map(|place| view.at(place)));
    for at in [Some(address), entrance, door].into_iter().flatten() {
        labels.keep_free(at, 9.0);
    }
    let ends = [("start", track.start, true), ("end", track.end, false)];
    for (words, place, is_start) in ends {
        let at = view.at(place);
        if MAP.holds(at) {
            end_mark(at, is_start, shapes);
            labels.put(shapes, at, words, Ink::Text, false);
        }
    }
    stays(view, track, labels, shapes);
    for climb in &track.climbs {
        let at = view.at(climb.place);
        if MAP.holds(at) {
            climb_mark(at, climb, shapes);
        }
    }
    address_mark(view, address, track, labels, shapes);
    if let Some(at) = door.filter(|at| MAP.holds(*at)) {
        door_mark(at, shapes);
        let stay = track.stays.iter().find(|stay| is_door(track, stay));
        let words = stay.map_or("door".to_owned(), |stay| {
            format!("door, {}", duration(stay.duration_ms))
        });
        labels.put(shapes, at, &words, Ink::Door, true);
    }
    if let Some(at) = entrance.filter(|at| MAP.holds(*at)) {
        entrance_mark(at, shapes);
        labels.put(shapes, at, "entrance", Ink::Door, true);
    }
    for climb in &track.climbs {
        let at = view.at(climb.place);
        if MAP.holds(at) {
            let ink = climb_ink(climb);
            labels.put(shapes, at, &climb_words(&climb.event), ink, false);
        }
    }
}

/// Returns whether a stay is the one at the door, which has a mark of its own.
fn is_door(track: &Track, stay: &Halt) -> bool {
    let door = track.door.and_then(|door| door.place);
    door == Some(stay.place)
}

fn stays(view: &View, track: &Track, labels: &mut Labels, shapes: &mut Vec<Shape>) {
    let mut stays: Vec<&Halt> = track
        .stays
        .iter()
        .filter(|stay| MAP.holds(view.at(stay.place)) && !is_door(track, stay))
        .collect();
    for stay in &stays {
        stay_mark(view.at(stay.place), stay.duration_ms, shapes);
    }
    stays.sort_by_key(|stay| std::cmp::Reverse(stay.duration_ms));
    for stay in stays.into_iter().take(STAYS_LABELLED) {
        let words = duration(stay.duration_ms);
        labels.put(shapes, view.at(stay.place), &words, Ink::Text, false);
    }
}

/// Draws the address, or the direction to it if it lies beyond the map.
fn address_mark(
    view: &View,
    at: Pixel,
    track: &Track,
    labels: &mut Labels,
    shapes: &mut Vec<Shape>,
) {
    if MAP.holds(at) {
        cross(at, shapes);
        let words = format!("address ±{}", length(track.address_accuracy_m));
        let radius = track.address_accuracy_m * view.px_per_m;
        let beside = Pixel {
            x: if radius < CIRCLE_SMALL_PX {
                at.x + (radius - 8.0).max(0.0)
            } else {
                at.x
            },
            y: at.y,
        };
        labels.put(shapes, beside, &words, Ink::Address, true);
        return;
    }
    let middle = MAP.middle();
    let inner = Area {
        left: MAP.left + 22.0,
        top: MAP.top + 22.0,
        right: MAP.right - 22.0,
        bottom: MAP.bottom - 22.0,
    };
    let Some((_, edge)) = inner.clip(middle, at) else {
        return;
    };
    let (dx, dy) = (at.x - middle.x, at.y - middle.y);
    let long = (dx * dx + dy * dy).sqrt();
    let (ux, uy) = (dx / long, dy / long);
    let tip = |along: f32, aside: f32| Pixel {
        x: edge.x + ux * along - uy * aside,
        y: edge.y + uy * along + ux * aside,
    };
    let arrow = vec![
        tip(16.0, 0.0),
        tip(-4.0, 9.0),
        tip(0.0, 0.0),
        tip(-4.0, -9.0),
    ];
    shapes.push(polygon(arrow, Ink::Address, Some(Ink::Sheet)));
    let far = track
        .focus
        .iter()
        .map(|place| place.distance_m(Place::default()))
        .fold(f32::INFINITY, f32::min);
    let words = format!("address, {} off", length(far));
    labels.put(shapes, edge, &words, Ink::Address, true);
}

/// Draws the scale bar and the direction of north.
fn scale(bar_m: f32, bar_px: f32, labels: &mut Labels, shapes: &mut Vec<Shape>) {
    let (x, y) = (MAP.left + 16.0, MAP.bottom - 16.0);
    let at = |dx: f32, dy: f32| Pixel {
        x: x + dx,
        y: y + dy,
    };
    let points = vec![
        at(0.0, -6.0),
        at(0.0, 0.0),
        at(bar_px, 0.0),
        at(bar_px, -6.0),
    ];
    shapes.push(line(points.clone(), Pen::plain(Ink::Sheet, 5.0)));
    shapes.push(line(points, Pen::plain(Ink::Text, 2.0)));
    let mut words = small(at(bar_px / 2.0, -6.0), length(bar_m), Anchor::Middle);
    if let Shape::Text { ink, halo, .. } = &mut words {
        (*ink, *halo) = (Ink::Text, true);
    }
    shapes.push(words);
    labels.keep_area_free(Area {
        left: x,
        top: y - 20.0,
        right: x + bar_px,
        bottom: y + 4.0,
    });
    let north = Pixel {
        x: MAP.right - 22.0,
        y: MAP.top + 22.0,
    };
    let tip = |dx: f32, dy: f32| Pixel {
        x: north.x + dx,
        y: north.y + dy,
    };
    let needle = vec![
        tip(0.0, -12.0),
        tip(6.0, 6.0),
        tip(0.0, 2.0),
        tip(-6.0, 6.0),
    ];
    shapes.push(polygon(needle, Ink::Text, None));
    shapes.push(small(tip(0.0, 18.0), "N", Anchor::Middle));
    labels.keep_free(north, 22.0);
}
