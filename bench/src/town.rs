//! A synthetic town on a street map: streets, buildings, parks, a river and a railway.

pub mod pmtiles;
mod vector_tile;

/// A position in metres east and north of the middle of the town.
pub type Place = (f64, f64);

/// The middle of the town, in degrees of latitude and longitude: in the Atlantic.
pub const MIDDLE_DEG: (f64, f64) = (45.5, -27.5);
/// Metres per degree of latitude.
const DEGREE_M: f64 = 111_195.0;
/// Half of the width of the town.
const HALF_M: f64 = 2_100.0;
/// The distance between streets that run east.
const STREET_DISTANCE_M: f64 = 140.0;
/// Every fourth street is a main road.
const MAIN_ROAD_INTERVAL: i32 = 4;

/// A feature of the town.
pub struct Feature {
    /// The layer of the basemap.
    pub layer: &'static str,
    /// The property `kind`.
    pub kind: &'static str,
    /// Whether the points are the ring of an area; otherwise they are a line.
    pub is_area: bool,
    /// The lowest zoom level that shows the feature.
    pub from_zoom: u8,
    /// The points, in degrees of latitude and longitude.
    pub points: Vec<(f64, f64)>,
}

/// The features of the town.
pub struct Town {
    /// All features.
    pub features: Vec<Feature>,
}

/// Returns the coordinates of a place.
fn degrees((east_m, north_m): Place) -> (f64, f64) {
    let lat = MIDDLE_DEG.0 + north_m / DEGREE_M;
    let lng = MIDDLE_DEG.1 + east_m / (DEGREE_M * libm::cos(MIDDLE_DEG.0.to_radians()));
    (lat, lng)
}

/// Returns the corners of the town, south-west and north-east, in degrees.
#[must_use]
pub fn corners_deg() -> [(f64, f64); 2] {
    [degrees((-HALF_M, -HALF_M)), degrees((HALF_M, HALF_M))]
}

/// Returns the middle of the river at this distance east.
fn river_north_m(east_m: f64) -> f64 {
    -1_330.0 + 90.0 * libm::sin(east_m / 520.0) + east_m * 0.06
}

/// Deterministic numbers (SplitMix64).
struct Numbers(u64);

impl Numbers {
    fn between(&mut self, low: f64, high: f64) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let share = ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1_u64 << 53) as f64;
        low + share * (high - low)
    }
}

impl Default for Town {
    fn default() -> Self {
        Self::new()
    }
}

impl Town {
    /// Builds the town, which is always the same.
    #[must_use]
    pub fn new() -> Self {
        let mut town = Self {
            features: Vec::new(),
        };
        let edge = HALF_M - 20.0;
        town.area("earth", "earth", 0, rectangle(-edge, -edge, edge, edge));
        let mut numbers = Numbers(7);
        let mut avenues = vec![-edge];
        while avenues.last().is_some_and(|last| *last < edge - 260.0) {
            let last = avenues.last().copied().unwrap_or_default();
            avenues.push(last + numbers.between(90.0, 190.0).round());
        }
        avenues.push(edge);
        town.river(edge);
        town.streets(&avenues, edge);
        town.blocks(&avenues, &mut numbers);
        town
    }

    fn add(
        &mut self,
        layer: &'static str,
        kind: &'static str,
        from_zoom: u8,
        is_area: bool,
        places: Vec<Place>,
    ) {
        self.features.push(Feature {
            layer,
            kind,
            is_area,
            from_zoom,
            points: places.into_iter().map(degrees).collect(),
        });
    }

    fn area(&mut self, layer: &'static str, kind: &'static str, from_zoom: u8, ring: Vec<Place>) {
        self.add(layer, kind, from_zoom, true, ring);
    }

    fn line(&mut self, kind: &'static str, from_zoom: u8, places: Vec<Place>) {
        self.add("roads", kind, from_zoom, false, places);
    }

    fn river(&mut self, edge: f64) {
        let steps = || (0..=80).map(|step| -edge + f64::from(step) * edge / 40.0);
        let north = steps().map(|east| (east, river_north_m(east) + 38.0));
        let south = steps().rev().map(|east| (east, river_north_m(east) - 38.0));
        self.area("water", "river", 0, north.chain(south).collect());
        let bank = steps()
            .map(|east| (east, river_north_m(east) + 52.0))
            .collect();
        self.line("path", 14, bank);
    }

    fn streets(&mut self, avenues: &[f64], edge: f64) {
        let highway = [
            (-edge, 1_180.0),
            (-600.0, 1_240.0),
            (500.0, 1_800.0),
            (900.0, edge),
        ];
        self.line("highway", 0, highway.to_vec());
        let rail = [
            (-edge, -700.0),
            (-400.0, -760.0),
            (300.0, -640.0),
            (edge, -180.0),
        ];
        self.line("rail", 12, rail.to_vec());
        for row in street_rows() {
            let north = f64::from(row) * STREET_DISTANCE_M;
            // Only bridges of the main roads cross the river.
            let is_major = row % MAIN_ROAD_INTERVAL == 0;
            let (kind, zoom) = if is_major {
                ("major_road", 0)
            } else {
                ("minor_road", 13)
            };
            for (east, next) in avenues.iter().zip(avenues.iter().skip(1)) {
                let is_wet = [east, next]
                    .iter()
                    .any(|east| (north - river_north_m(**east)).abs() < 60.0);
                if !is_wet {
                    self.line(kind, zoom, vec![(*east, north), (*next, north)]);
                }
            }
        }
        for (column, east) in avenues.iter().enumerate() {
            if column % 4 == 2 {
                self.line("major_road", 0, vec![(*east, -edge), (*east, edge)]);
            } else {
                let river = river_north_m(*east);
                self.line(
                    "minor_road",
                    13,
                    vec![(*east, -edge), (*east, river - 60.0)],
                );
                self.line("minor_road", 13, vec![(*east, river + 60.0), (*east, edge)]);
            }
        }
    }

    fn blocks(&mut self, avenues: &[f64], numbers: &mut Numbers) {
        for row in street_rows() {
            let (south, north) = (
                f64::from(row) * STREET_DISTANCE_M,
                f64::from(row + 1) * STREET_DISTANCE_M,
            );
            for (west, east) in avenues.iter().zip(avenues.iter().skip(1)) {
                let middle = (west + east) / 2.0;
                let to_river = ((south + north) / 2.0 - river_north_m(middle)).abs();
                if to_river < 130.0 || north > HALF_M - 20.0 {
                    continue;
                }
                let chance = numbers.between(0.0, 1.0);
                if chance < 0.07 {
                    let ring = rectangle(west + 8.0, south + 8.0, east - 8.0, north - 8.0);
                    self.area("landuse", "park", 0, ring);
                    self.line(
                        "path",
                        14,
                        vec![(west + 8.0, south + 8.0), (east - 8.0, north - 8.0)],
                    );
                } else {
                    self.houses(*west, *east, south + 13.0, numbers);
                    self.houses(*west, *east, north - 27.0, numbers);
                }
            }
        }
    }

    /// Adds a row of buildings whose southern walls stand at about this distance north.
    fn houses(&mut self, west: f64, east: f64, north_m: f64, numbers: &mut Numbers) {
        let mut from = west + 12.0 + numbers.between(0.0, 4.0);
        loop {
            let width = numbers.between(11.0, 27.0);
            if from + width > east - 12.0 {
                return;
            }
            let low = north_m + numbers.between(-1.5, 1.5);
            let depth = numbers.between(9.0, 15.0);
            let ring = if width > 21.0 {
                // An L-shaped house.
                let inner = (from + width * 0.55, low + depth * 0.5);
                vec![
                    (from, low),
                    (from, low + depth),
                    (inner.0, low + depth),
                    inner,
                    (from + width, inner.1),
                    (from + width, low),
                ]
            } else {
                rectangle(from, low, from + width, low + depth)
            };
            self.area("buildings", "building", 14, ring);
            from += width + numbers.between(1.0, 12.0);
        }
    }
}

fn street_rows() -> std::ops::Range<i32> {
    let rows = (HALF_M / STREET_DISTANCE_M) as i32;
    -rows + 1..rows
}

/// Returns the ring of a rectangle, clockwise from its south-western corner.
fn rectangle(west: f64, south: f64, east: f64, north: f64) -> Vec<Place> {
    vec![(west, south), (west, north), (east, north), (east, south)]
}
