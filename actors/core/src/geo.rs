//! Local metres around a point: an equirectangular plane on the mean sphere. Within 5 km of its
//! origin, distances are accurate to 0.6 %.

use porchlight_schema::session::Point;
use serde::{Deserialize, Serialize};

/// Metres per degree of latitude on the mean sphere, whose radius is 6,371 km. On the ellipsoid of
/// WGS 84 a degree has 110,574 m at the equator and 111,694 m at the poles.
pub const METRES_PER_DEGREE: f64 = 111_195.0;

/// A plane in metres, east and north of an origin.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LocalFrame {
    lat: f64,
    lng: f64,
    metres_per_degree_east: f64,
}

/// A position in a [`LocalFrame`], metres.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Place {
    /// The distance east of the origin, metres.
    pub east_m: f32,
    /// The distance north of the origin, metres.
    pub north_m: f32,
}

impl LocalFrame {
    /// Creates the plane around `origin`.
    #[must_use]
    pub fn new(origin: Point) -> Self {
        let metres_per_degree_east = METRES_PER_DEGREE * libm::cos(origin.lat.to_radians());
        Self {
            lat: origin.lat,
            lng: origin.lng,
            metres_per_degree_east,
        }
    }

    /// Returns the position of `point`, the shorter way round the globe.
    #[must_use]
    pub fn place(&self, point: Point) -> Place {
        let mut degrees_east = point.lng - self.lng;
        if degrees_east > 180.0 {
            degrees_east -= 360.0;
        } else if degrees_east < -180.0 {
            degrees_east += 360.0;
        }
        Place {
            east_m: (degrees_east * self.metres_per_degree_east) as f32,
            north_m: ((point.lat - self.lat) * METRES_PER_DEGREE) as f32,
        }
    }

    /// Returns the point at `place`: the inverse of [`LocalFrame::place`], accurate to a metre
    /// within 5 km. Near a pole, where a degree of longitude has no length, the origin's longitude
    /// is kept.
    #[must_use]
    pub fn point(&self, place: Place) -> Point {
        let lat = self.lat + f64::from(place.north_m) / METRES_PER_DEGREE;
        let degrees_east = if self.metres_per_degree_east.abs() < 1.0 {
            0.0
        } else {
            f64::from(place.east_m) / self.metres_per_degree_east
        };
        let mut lng = self.lng + degrees_east;
        if lng > 180.0 {
            lng -= 360.0;
        } else if lng < -180.0 {
            lng += 360.0;
        }
        Point {
            lat: lat.clamp(-90.0, 90.0),
            lng: lng.clamp(-180.0, 180.0),
        }
    }
}

impl Place {
    /// Returns the distance between two positions, metres.
    #[must_use]
    pub fn distance_m(self, other: Self) -> f32 {
        let (east, north) = (self.east_m - other.east_m, self.north_m - other.north_m);
        (east * east + north * north).sqrt()
    }
}
