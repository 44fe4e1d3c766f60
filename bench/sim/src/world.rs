//! The surroundings: a street along east, a building to its north with the entrance at the origin,
//! and hills.

use libm::{cos, exp, hypot, sin};

use super::rng::Draw;

/// A position in local metres: east, north.
pub(super) type Place = (f64, f64);

/// The surroundings of one address.
#[derive(Debug, Clone)]
pub(super) struct World {
    /// The entrance in WGS 84 degrees.
    pub(super) origin_deg: (f64, f64),
    /// The angle between local east and true east.
    turned_rad: f64,
    /// The height of the ground storey; entrance halls are taller than the storeys above (NYC
    /// towers: by 1.5 to 3 m).
    pub(super) ground_storey_m: f64,
    /// The height of every other storey, from 2.7 m in old flats to 4.9 m in offices.
    pub(super) storey_m: f64,
    /// The distance of the vehicle's lane north of the entrance (negative).
    pub(super) street_north_m: f64,
    /// The share of the sky visible just behind the entrance, 0 to 1.
    transparency: f64,
    /// The amplitude, wave number and phase of the hills along both axes.
    hills: [(f64, f64, f64); 2],
    /// The height of the entrance above sea level.
    pub(super) altitude_m: f64,
}

/// The metres per degree of latitude, accurate enough for a neighbourhood (mean radius 6,371 km).
const DEGREE_M: f64 = 111_194.93;

/// The distance from the entrance beyond which the ground may slope.
const LEVEL_M: f64 = 60.0;
/// The distance from [`LEVEL_M`] to the full slope.
const BLEND_M: f64 = 350.0;

impl World {
    pub(super) fn draw(draw: &mut Draw) -> Self {
        let hilly = draw.chance(0.4);
        // Streets rarely rise by more than 6 %. The steepest slope of a wave is its amplitude times
        // its wave number.
        let mut hill = |slope_max: f64| {
            let number = std::f64::consts::TAU / draw.range(300.0, 1200.0);
            (
                slope_max / number,
                number,
                draw.range(0.0, std::f64::consts::TAU),
            )
        };
        let slope_max = if hilly { 0.04 } else { 0.006 };
        let hills = [hill(slope_max), hill(slope_max * 0.5)];
        let storey_m = draw.range(2.7, 4.9);
        Self {
            origin_deg: (draw.range(36.0, 59.0), draw.range(-8.0, 24.0)),
            turned_rad: draw.range(0.0, std::f64::consts::TAU),
            ground_storey_m: storey_m
                + if draw.chance(0.5) {
                    draw.range(0.3, 2.0)
                } else {
                    0.0
                },
            storey_m,
            street_north_m: -draw.range(8.0, 22.0),
            transparency: draw.range(0.15, 0.5),
            hills,
            altitude_m: draw.range(5.0, 450.0),
        }
    }

    /// Moves the surroundings so that the street runs east through this point.
    pub(super) fn place_on_street(&mut self, (lat, lng): (f64, f64)) {
        self.turned_rad = 0.0;
        self.origin_deg = (lat - self.street_north_m / DEGREE_M, lng);
    }

    /// Returns the latitude and longitude of a place.
    pub(super) fn degrees(&self, (east, north): Place) -> (f64, f64) {
        let (turn_sin, turn_cos) = (sin(self.turned_rad), cos(self.turned_rad));
        let true_east = east * turn_cos - north * turn_sin;
        let true_north = east * turn_sin + north * turn_cos;
        let lat = self.origin_deg.0 + true_north / DEGREE_M;
        let lng = self.origin_deg.1 + true_east / (DEGREE_M * cos(self.origin_deg.0.to_radians()));
        (lat, lng)
    }

    /// Converts a local heading (radians clockwise from local north) to a course over ground in
    /// degrees.
    pub(super) fn course_deg(&self, heading_rad: f64) -> f64 {
        (heading_rad - self.turned_rad)
            .to_degrees()
            .rem_euclid(360.0)
    }

    /// Returns the height of the ground relative to the entrance.
    pub(super) fn ground_m(&self, (east, north): Place) -> f64 {
        let distance = hypot(east, north);
        let share = ((distance - LEVEL_M) / BLEND_M).clamp(0.0, 1.0);
        let smooth = share * share * (3.0 - 2.0 * share);
        let [(a, k, p), (b, l, q)] = self.hills;
        smooth * (a * (sin(k * east + p) - sin(p)) + b * (sin(l * north + q) - sin(q)))
    }

    /// Returns the height of a floor relative to the entrance: ground is 0, basements are below it.
    pub(super) fn floor_m(&self, floor: i16) -> f64 {
        match floor {
            0 => 0.0,
            1.. => self.ground_storey_m + f64::from(floor - 1) * self.storey_m,
            _ => f64::from(floor) * self.storey_m,
        }
    }

    /// Returns the share of the sky visible to the phone, outdoors or indoors.
    pub(super) fn sky(&self, (east, north): Place, indoor: bool, shielded: bool) -> f64 {
        let distance = hypot(east, north);
        match (indoor, shielded) {
            (_, true) => 0.0,
            (true, false) => self.transparency * exp(-distance / 6.0),
            (false, false) => 1.0 - 0.35 * exp(-distance / 10.0),
        }
    }
}
