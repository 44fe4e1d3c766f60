//! Draws a square piece of the street map for the console, which shows many of them side by side.

use porchlight_core::geo::METRES_PER_DEGREE;
use porchlight_map::{Bounds, StreetMap, TileId};
use porchlight_schema::session::Point;

use super::ground::draw_tiles;
use super::layout::Area;
use super::png::{PngError, square};
use super::{Ink, Pixel};

/// The width of a piece on the screen, in pixels; its file has twice as many.
const SIDE_PX: u32 = 256;
/// Shapes are cut this far beyond the edges, so that pieces fit together.
const BEYOND_PX: f32 = 8.0;

/// Paints the square of the grid with this id as PNG, 512 pixels wide. A square beyond the map's
/// area is empty. Reads the map's file, so call it where a thread may block.
///
/// # Errors
///
/// Returns a [`PngError`] if the file cannot be created.
pub fn map_tile(map: &StreetMap, id: TileId, is_dark: bool) -> Result<Vec<u8>, PngError> {
    let bounds = id.bounds();
    let side = SIDE_PX as f32;
    let at = |point: Point| Pixel {
        x: (f64::from(side) * (point.lng - bounds.low.lng) / (bounds.high.lng - bounds.low.lng))
            as f32,
        y: (f64::from(side) * (bounds.high.lat - point.lat) / (bounds.high.lat - bounds.low.lat))
            as f32,
    };
    let height_m = (bounds.high.lat - bounds.low.lat) * METRES_PER_DEGREE;
    let px_per_m = f64::from(side) / height_m;
    let page = Area {
        left: -BEYOND_PX,
        top: -BEYOND_PX,
        right: side + BEYOND_PX,
        bottom: side + BEYOND_PX,
    };
    let mut shapes = vec![page.filled(Ink::Sheet)];
    let tiles = map.tiles(&inner(&bounds), px_per_m);
    draw_tiles(&tiles, at, px_per_m as f32, &page, &mut shapes);
    square(&shapes, SIDE_PX, is_dark)
}

/// Returns the bounds without a thin edge, so that the tiles beyond the edges are not needed.
fn inner(bounds: &Bounds) -> Bounds {
    const EDGE: f64 = 1e-4;
    let lat = (bounds.high.lat - bounds.low.lat) * EDGE;
    let lng = (bounds.high.lng - bounds.low.lng) * EDGE;
    Bounds {
        low: Point {
            lat: bounds.low.lat + lat,
            lng: bounds.low.lng + lng,
        },
        high: Point {
            lat: bounds.high.lat - lat,
            lng: bounds.high.lng - lng,
        },
    }
}
