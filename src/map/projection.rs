//! Web Mercator: the grid of tiles, and the places of their corners.

use porchlight_schema::limits::MAP_ZOOM_MAX;
use porchlight_schema::session::Point;

/// The length of the equator in metres (WGS 84).
const EQUATOR_M: f64 = 40_075_016.69;
/// The latitude at which the grid of tiles ends.
const LATITUDE_MAX_DEG: f64 = 85.051_128;
/// The width, in pixels, at which a drawn tile has the right level of detail.
const TILE_PX: f64 = 512.0;

/// The zoom, column and row of a tile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TileId {
    /// The zoom level; the world has `2^zoom` columns and rows.
    pub zoom: u8,
    /// The column from the west.
    pub x: u32,
    /// The row from the north.
    pub y: u32,
}

/// A rectangle of coordinates.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bounds {
    /// The south-western corner.
    pub low: Point,
    /// The north-eastern corner.
    pub high: Point,
}

impl TileId {
    /// Returns the id, or `None` if the grid has no such tile.
    #[must_use]
    pub fn new(zoom: u8, x: u32, y: u32) -> Option<Self> {
        let is_valid = zoom <= MAP_ZOOM_MAX && x < 1 << zoom && y < 1 << zoom;
        is_valid.then_some(Self { zoom, x, y })
    }

    /// Returns the area of the tile.
    #[must_use]
    pub fn bounds(self) -> Bounds {
        let side = f64::from(1_u32 << self.zoom);
        let lng = |x: u32| f64::from(x) / side * 360.0 - 180.0;
        let lat = |y: u32| {
            let angle = std::f64::consts::PI * (1.0 - 2.0 * f64::from(y) / side);
            angle.sinh().atan().to_degrees()
        };
        Bounds {
            low: Point {
                lat: lat(self.y + 1),
                lng: lng(self.x),
            },
            high: Point {
                lat: lat(self.y),
                lng: lng(self.x + 1),
            },
        }
    }
}

/// Returns the zoom level with the right amount of detail for a drawing of this area.
pub(super) fn zoom_for(area: &Bounds, px_per_m: f64) -> u8 {
    let lat = f64::midpoint(area.low.lat, area.high.lat).clamp(-85.0, 85.0);
    let tiles = EQUATOR_M * lat.to_radians().cos() * px_per_m / TILE_PX;
    // A value that is not a number becomes 0, and others are clamped.
    (tiles.log2().ceil() as u8).min(MAP_ZOOM_MAX)
}

/// Returns the column and row that contain a point, as fractions.
fn place(point: Point, zoom: u8) -> (f64, f64) {
    let side = f64::from(1_u32 << zoom);
    let lat = point
        .lat
        .clamp(-LATITUDE_MAX_DEG, LATITUDE_MAX_DEG)
        .to_radians();
    let x = (point.lng + 180.0) / 360.0 * side;
    let y = (1.0 - lat.tan().asinh() / std::f64::consts::PI) / 2.0 * side;
    (x.clamp(0.0, side - 1e-6), y.clamp(0.0, side - 1e-6))
}

/// Returns the tiles that cover an area; none if there are more than `limit`.
pub(super) fn covering(area: &Bounds, zoom: u8, limit: usize) -> Vec<TileId> {
    let ((left, bottom), (right, top)) = (place(area.low, zoom), place(area.high, zoom));
    let (columns, rows) = (left as u32..=right as u32, top as u32..=bottom as u32);
    let count = |range: &std::ops::RangeInclusive<u32>| {
        u64::from(range.end().saturating_sub(*range.start())) + 1
    };
    if count(&columns) * count(&rows) > limit as u64 {
        return Vec::new();
    }
    let row = |y: u32| columns.clone().map(move |x| TileId { zoom, x, y });
    rows.flat_map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tile_contains_the_places_of_its_bounds() {
        for (zoom, lat, lng) in [(0, 0.0, 0.0), (15, 52.52, 13.405), (12, -33.9, 151.2)] {
            let point = Point { lat, lng };
            let around = Bounds {
                low: point,
                high: point,
            };
            let found = covering(&around, zoom, 1);
            let bounds = found[0].bounds();
            assert!((bounds.low.lat..=bounds.high.lat).contains(&lat));
            assert!((bounds.low.lng..=bounds.high.lng).contains(&lng));
        }
        let berlin = Point {
            lat: 52.52,
            lng: 13.405,
        };
        let around = Bounds {
            low: berlin,
            high: berlin,
        };
        assert_eq!(
            covering(&around, 15, 1),
            [TileId {
                zoom: 15,
                x: 17604,
                y: 10746
            }]
        );
    }

    #[test]
    fn the_zoom_level_follows_the_scale_of_the_drawing() {
        let around = Bounds {
            low: Point { lat: 0.0, lng: 0.0 },
            high: Point { lat: 0.0, lng: 0.0 },
        };
        // At zoom 15 a tile is 1,223 m wide at the equator.
        assert_eq!(zoom_for(&around, 512.0 / 1_223.0), 15);
        assert_eq!(zoom_for(&around, f64::NAN), 0);
        assert_eq!(zoom_for(&around, 1e300), MAP_ZOOM_MAX);
    }

    #[test]
    fn an_area_that_needs_too_many_tiles_has_none() {
        let world = Bounds {
            low: Point {
                lat: -80.0,
                lng: -180.0,
            },
            high: Point {
                lat: 80.0,
                lng: 180.0,
            },
        };
        assert!(covering(&world, 10, 64).is_empty());
        assert_eq!(covering(&world, 1, 64).len(), 4);
    }
}
