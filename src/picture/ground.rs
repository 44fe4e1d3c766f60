//! Draws the street map under a drawing: quiet areas and lines from the tiles of a local file.

use porchlight_core::geo::{LocalFrame, Place};
use porchlight_map::{Bounds, Kind, Placed, StreetMap};
use porchlight_schema::limits::MAP_POINTS_DRAWN_MAX;
use porchlight_schema::session::Point;

use super::layout::Area;
use super::{Ink, Pen, Pixel, Shape};

/// Points closer to their predecessor than this are left out.
const POINT_PX: f32 = 0.7;
/// Areas that are smaller than this in both directions are left out.
const AREA_PX: f32 = 1.2;
/// The kinds by importance. If the tiles have too many points, only the first kinds are drawn.
const BY_IMPORTANCE: [Kind; 10] = [
    Kind::Land,
    Kind::Water,
    Kind::Highway,
    Kind::Major,
    Kind::Minor,
    Kind::Green,
    Kind::Stream,
    Kind::Rail,
    Kind::Building,
    Kind::Path,
];

/// A street map, and the origin of the local metres in which a track is drawn.
#[derive(Debug, Clone, Copy)]
pub struct Ground<'a> {
    /// The street map.
    pub map: &'a StreetMap,
    /// The origin of the local metres.
    pub origin: Point,
}

impl Ground<'_> {
    /// Draws the map into an area of the picture whose middle shows `centre`. Returns false if the
    /// map has nothing there.
    pub(super) fn draw(
        &self,
        area: &Area,
        px_per_m: f32,
        centre: Place,
        at: impl Fn(Place) -> Pixel,
        shapes: &mut Vec<Shape>,
    ) -> bool {
        let frame = LocalFrame::new(self.origin);
        let half = (
            area.width() / 2.0 / px_per_m,
            area.height() / 2.0 / px_per_m,
        );
        let corner = |sign: f32| {
            frame.point(Place {
                east_m: centre.east_m + sign * half.0,
                north_m: centre.north_m + sign * half.1,
            })
        };
        let bounds = Bounds {
            low: corner(-1.0),
            high: corner(1.0),
        };
        let tiles = self.map.tiles(&bounds, f64::from(px_per_m));
        let before = shapes.len();
        draw_tiles(
            &tiles,
            |point| at(frame.place(point)),
            px_per_m,
            area,
            shapes,
        );
        shapes.len() > before
    }
}

/// The lines or rings of one kind.
type Parts = Vec<Vec<Pixel>>;

/// Draws the features of tiles, as far as they lie in `area`. `at` must map longitudes to x and
/// latitudes to y, each linearly within a tile.
pub(super) fn draw_tiles(
    tiles: &[Placed],
    at: impl Fn(Point) -> Pixel,
    px_per_m: f32,
    area: &Area,
    shapes: &mut Vec<Shape>,
) {
    let mut left = MAP_POINTS_DRAWN_MAX;
    let mut collected: Vec<(Kind, Parts)> = Vec::new();
    for kind in BY_IMPORTANCE {
        let mut parts = Vec::new();
        for placed in tiles {
            let bounds = placed.id.bounds();
            let (low, high) = (at(bounds.low), at(bounds.high));
            let scale = Scale {
                left: low.x,
                top: high.y,
                width: high.x - low.x,
                height: low.y - high.y,
            };
            collect(placed, kind, &scale, area, &mut left, &mut parts);
        }
        if !parts.is_empty() {
            collected.push((kind, parts));
        }
    }
    collected.sort_by_key(|(kind, _)| *kind);
    let streets = collected.split_off(collected.partition_point(|(kind, _)| *kind <= Kind::Rail));
    for (kind, parts) in collected {
        let (pen, fill) = style_of(kind, px_per_m);
        shapes.push(Shape::Paths { parts, pen, fill });
    }
    // The edges of all streets lie under all streets, so that crossings are open.
    for (kind, parts) in &streets {
        let edge = Pen::plain(Ink::MapEdge, street_px(*kind, px_per_m) + 1.6);
        shapes.push(Shape::Paths {
            parts: parts.clone(),
            pen: Some(edge),
            fill: None,
        });
    }
    for (kind, parts) in streets {
        let pen = Pen::plain(Ink::MapStreet, street_px(kind, px_per_m));
        shapes.push(Shape::Paths {
            parts,
            pen: Some(pen),
            fill: None,
        });
    }
}

/// Returns the width of a street: its usual width in metres, within limits.
fn street_px(kind: Kind, px_per_m: f32) -> f32 {
    let (width_m, least_px, most_px) = match kind {
        Kind::Highway => (16.0, 3.0, 26.0),
        Kind::Major => (11.0, 2.2, 20.0),
        _ => (7.0, 1.0, 14.0),
    };
    (width_m * px_per_m).clamp(least_px, most_px)
}

/// Returns the pen and the fill of a kind that is not a street. Exactly one of them is set.
fn style_of(kind: Kind, px_per_m: f32) -> (Option<Pen>, Option<Ink>) {
    let flat = |ink, width| Pen {
        ink,
        width,
        dashes: &[],
        round: false,
    };
    match kind {
        Kind::Land => (None, Some(Ink::MapLand)),
        Kind::Green => (None, Some(Ink::MapGreen)),
        Kind::Water => (None, Some(Ink::MapWater)),
        Kind::Building => (None, Some(Ink::MapBuilding)),
        Kind::Stream => (
            Some(flat(Ink::MapWater, (5.0 * px_per_m).clamp(1.0, 10.0))),
            None,
        ),
        Kind::Rail => (Some(flat(Ink::MapRail, 1.4)), None),
        _ => {
            let pen = flat(Ink::MapPath, (1.6 * px_per_m).clamp(0.8, 2.2));
            let dashes: &[f32] = &[4.0, 2.5];
            (Some(Pen { dashes, ..pen }), None)
        }
    }
}

/// The place of a tile in the picture, in pixels.
struct Scale {
    left: f32,
    top: f32,
    width: f32,
    height: f32,
}

impl Scale {
    fn at(&self, [x, y]: [f32; 2]) -> Pixel {
        Pixel {
            x: self.left + x * self.width,
            y: self.top + y * self.height,
        }
    }
}

/// Collects the parts of one kind that lie in the area, until no points are left.
fn collect(
    placed: &Placed,
    kind: Kind,
    scale: &Scale,
    area: &Area,
    left: &mut usize,
    parts: &mut Parts,
) {
    for feature in placed.tile.features.iter().filter(|one| one.kind == kind) {
        let [low, high] = feature.bounds.map(|corner| scale.at(corner));
        let is_outside =
            high.x < area.left || low.x > area.right || high.y < area.top || low.y > area.bottom;
        let is_small = high.x - low.x < AREA_PX && high.y - low.y < AREA_PX;
        if is_outside || is_small {
            continue;
        }
        let is_inside = area.holds(low) && area.holds(high);
        for part in &feature.parts {
            let points = thinned(part.iter().map(|&point| scale.at(point)));
            let before = parts.len();
            match (is_inside, kind.is_area()) {
                (true, _) => parts.push(points),
                (false, true) => parts.extend(cut_ring(points, area)),
                (false, false) => cut_line(&points, area, parts),
            }
            let added: usize = parts.iter().skip(before).map(Vec::len).sum();
            let Some(rest) = left.checked_sub(added) else {
                parts.truncate(before);
                return;
            };
            *left = rest;
        }
    }
}

/// Leaves out points that are close to their predecessor.
fn thinned(points: impl Iterator<Item = Pixel>) -> Vec<Pixel> {
    let mut kept: Vec<Pixel> = Vec::new();
    let mut last = None;
    for point in points {
        let far = |one: &Pixel| (one.x - point.x).abs() + (one.y - point.y).abs() >= POINT_PX;
        last = (!kept.last().is_none_or(far)).then_some(point);
        if last.is_none() {
            kept.push(point);
        }
    }
    kept.extend(last);
    kept
}

/// Cuts a ring at the edges of the area (Sutherland and Hodgman 1974).
fn cut_ring(ring: Vec<Pixel>, area: &Area) -> Option<Vec<Pixel>> {
    type Depth = fn(Pixel, &Area) -> f32;
    const EDGES: [Depth; 4] = [
        |at, area| at.x - area.left,
        |at, area| area.right - at.x,
        |at, area| at.y - area.top,
        |at, area| area.bottom - at.y,
    ];
    let mut ring = ring;
    for depth in EDGES {
        let mut kept = Vec::with_capacity(ring.len() + 4);
        let mut from = *ring.last()?;
        for &to in &ring {
            let (before, after) = (depth(from, area), depth(to, area));
            if (before < 0.0) != (after < 0.0) {
                let share = before / (before - after);
                kept.push(Pixel {
                    x: from.x + share * (to.x - from.x),
                    y: from.y + share * (to.y - from.y),
                });
            }
            if after >= 0.0 {
                kept.push(to);
            }
            from = to;
        }
        ring = kept;
    }
    (ring.len() > 2).then_some(ring)
}

/// Cuts a line at the edges of the area.
fn cut_line(points: &[Pixel], area: &Area, parts: &mut Parts) {
    let mut is_open = false;
    for pair in points.windows(2) {
        let &[from, to] = pair else { continue };
        let Some((enter, leave)) = area.clip(from, to) else {
            is_open = false;
            continue;
        };
        match parts.last_mut().filter(|_| is_open && enter == from) {
            Some(part) => part.push(leave),
            None => parts.push(vec![enter, leave]),
        }
        is_open = leave == to;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::layout::MAP;
    use super::*;

    fn points() -> impl Strategy<Value = Vec<Pixel>> {
        let point = (-500.0_f32..1_500.0, -500.0_f32..1_500.0);
        prop::collection::vec(point.prop_map(|(x, y)| Pixel { x, y }), 2..40)
    }

    proptest! {
        #[test]
        fn cut_rings_and_lines_lie_in_the_area(points in points()) {
            let mut parts = Vec::new();
            cut_line(&points, &MAP, &mut parts);
            parts.extend(cut_ring(points, &MAP));
            for at in parts.iter().flatten() {
                prop_assert!(at.x >= MAP.left - 0.1 && at.x <= MAP.right + 0.1, "{at:?}");
                prop_assert!(at.y >= MAP.top - 0.1 && at.y <= MAP.bottom + 0.1, "{at:?}");
            }
        }

        #[test]
        fn a_thinned_line_keeps_its_ends(points in points()) {
            let kept = thinned(points.iter().copied());
            prop_assert_eq!(kept.first(), points.first());
            prop_assert_eq!(kept.last(), points.last());
        }
    }
}
