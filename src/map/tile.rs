//! Decodes vector tiles (<https://github.com/mapbox/vector-tile-spec>, version 2) with the layers
//! of the Protomaps basemap, version 4. Only the shapes that a drawing shows are kept.

use porchlight_schema::limits::{
    MAP_LAYERS_MAX, MAP_TILE_FEATURES_MAX, MAP_TILE_POINTS_MAX, MAP_VALUES_MAX,
};

use super::wire::{Damaged, Reader, Value, signed};

/// The width of a tile in units of a layer that does not state it.
const EXTENT_DEFAULT: u32 = 4_096;
/// Coordinates may lie this many tile widths beyond the tile; a damaged one lies farther.
const BEYOND_TILES: f32 = 4.0;

/// The meaning of a feature, in the order of drawing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// An area of land.
    Land,
    /// An area of plants: a park, a forest, a meadow.
    Green,
    /// An area of water.
    Water,
    /// A river or canal, as a line.
    Stream,
    /// A building.
    Building,
    /// A footway, track or pedestrian street.
    Path,
    /// A railway.
    Rail,
    /// A small street.
    Minor,
    /// A main road.
    Major,
    /// A motorway.
    Highway,
}

impl Kind {
    /// All kinds, in the order of drawing.
    pub const ALL: [Self; 10] = [
        Self::Land,
        Self::Green,
        Self::Water,
        Self::Stream,
        Self::Building,
        Self::Path,
        Self::Rail,
        Self::Minor,
        Self::Major,
        Self::Highway,
    ];

    /// Returns whether features of this kind are areas; the others are lines.
    #[must_use]
    pub fn is_area(self) -> bool {
        matches!(
            self,
            Self::Land | Self::Green | Self::Water | Self::Building
        )
    }
}

/// Areas or lines with the same meaning.
#[derive(Debug, Clone, PartialEq)]
pub struct Feature {
    /// The meaning of the feature.
    pub kind: Kind,
    /// The lower and upper corner of the smallest rectangle around the feature.
    pub bounds: [[f32; 2]; 2],
    /// The lines, or the rings of the areas without their repeated last point. Coordinates are
    /// shares of the tile's width, from its north-western corner: right, then down.
    pub parts: Vec<Vec<[f32; 2]>>,
}

/// A decoded tile.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Tile {
    /// The features of the tile, in order of [`Kind`].
    pub features: Vec<Feature>,
    points: usize,
}

impl Tile {
    /// Returns the memory that a tile takes, in points. An empty tile takes memory too.
    pub(super) fn cost(&self) -> usize {
        64 + self.points + 16 * self.features.len()
    }
}

/// Decodes a tile.
pub(super) fn decode(bytes: &[u8]) -> Result<Tile, Damaged> {
    let mut tile = Tile::default();
    let mut reader = Reader::new(bytes);
    let mut layers = 0;
    while !reader.is_empty() {
        if let (3, Value::Bytes(layer)) = reader.field()? {
            layers += 1;
            if layers > MAP_LAYERS_MAX {
                return Err(Damaged);
            }
            read_layer(layer, &mut tile)?;
        }
    }
    tile.features.sort_by_key(|feature| feature.kind);
    Ok(tile)
}

/// The head of a layer: its name, its extent, and the values of its properties.
struct Layer<'a> {
    name: &'a [u8],
    extent: u32,
    /// The index of the key `kind`.
    kind_key: Option<u32>,
    values: Vec<&'a [u8]>,
}

fn read_layer(bytes: &[u8], tile: &mut Tile) -> Result<(), Damaged> {
    let layer = Layer::read(bytes)?;
    if !LAYERS.contains(&layer.name) {
        return Ok(());
    }
    let mut reader = Reader::new(bytes);
    let mut features = 0;
    while !reader.is_empty() {
        if let (2, Value::Bytes(feature)) = reader.field()? {
            features += 1;
            if features > MAP_TILE_FEATURES_MAX {
                return Err(Damaged);
            }
            read_feature(feature, &layer, tile)?;
        }
    }
    Ok(())
}

/// The layers that are drawn.
const LAYERS: [&[u8]; 6] = [
    b"earth",
    b"landcover",
    b"landuse",
    b"water",
    b"roads",
    b"buildings",
];

impl<'a> Layer<'a> {
    fn read(bytes: &'a [u8]) -> Result<Self, Damaged> {
        let mut layer = Self {
            name: &[],
            extent: EXTENT_DEFAULT,
            kind_key: None,
            values: Vec::new(),
        };
        let mut keys = 0;
        let mut reader = Reader::new(bytes);
        while !reader.is_empty() {
            match reader.field()? {
                (1, Value::Bytes(name)) => layer.name = name,
                (3, Value::Bytes(key)) => {
                    if key == b"kind" {
                        layer.kind_key = Some(keys);
                    }
                    keys += 1;
                }
                (4, Value::Bytes(value)) => {
                    if layer.values.len() >= MAP_VALUES_MAX {
                        return Err(Damaged);
                    }
                    layer.values.push(string_of(value)?);
                }
                (5, Value::Integer(extent)) => {
                    layer.extent = u32::try_from(extent).map_err(|_| Damaged)?;
                }
                _ => {}
            }
        }
        if layer.extent == 0 {
            return Err(Damaged);
        }
        Ok(layer)
    }

    /// Returns the value of the property `kind` of a feature with these tags.
    fn kind(&self, tags: &[u8]) -> Result<&'a [u8], Damaged> {
        let mut reader = Reader::new(tags);
        while !reader.is_empty() {
            let (key, value) = (reader.integer()?, reader.integer()?);
            if Some(key) == self.kind_key.map(u64::from) {
                let value = usize::try_from(value).map_err(|_| Damaged)?;
                return self.values.get(value).copied().ok_or(Damaged);
            }
        }
        Ok(&[])
    }
}

/// Returns the text of a value, or an empty text for a value of another type.
fn string_of(bytes: &[u8]) -> Result<&[u8], Damaged> {
    let mut reader = Reader::new(bytes);
    let mut text: &[u8] = &[];
    while !reader.is_empty() {
        if let (1, Value::Bytes(string)) = reader.field()? {
            text = string;
        }
    }
    Ok(text)
}

/// The types of geometry.
const LINE: u64 = 2;
const POLYGON: u64 = 3;

fn read_feature(bytes: &[u8], layer: &Layer<'_>, tile: &mut Tile) -> Result<(), Damaged> {
    let (mut tags, mut geometry): (&[u8], &[u8]) = (&[], &[]);
    let mut shape = 0;
    let mut reader = Reader::new(bytes);
    while !reader.is_empty() {
        match reader.field()? {
            (2, Value::Bytes(bytes)) => tags = bytes,
            (3, Value::Integer(number)) => shape = number,
            (4, Value::Bytes(bytes)) => geometry = bytes,
            _ => {}
        }
    }
    let Some(kind) = kind_of(layer.name, layer.kind(tags)?, shape) else {
        return Ok(());
    };
    let parts = read_geometry(geometry, layer.extent, tile)?;
    let mut bounds = [[f32::INFINITY; 2], [f32::NEG_INFINITY; 2]];
    for point in parts.iter().flatten() {
        for axis in 0..2 {
            bounds[0][axis] = bounds[0][axis].min(point[axis]);
            bounds[1][axis] = bounds[1][axis].max(point[axis]);
        }
    }
    if !parts.is_empty() {
        tile.features.push(Feature {
            kind,
            bounds,
            parts,
        });
    }
    Ok(())
}

/// Returns the meaning of a feature; `None` if it is not drawn.
fn kind_of(layer: &[u8], kind: &[u8], shape: u64) -> Option<Kind> {
    match (layer, shape) {
        (b"earth", POLYGON) => Some(Kind::Land),
        (b"landcover" | b"landuse", POLYGON) => is_green(kind).then_some(Kind::Green),
        (b"water", POLYGON) => Some(Kind::Water),
        (b"water", LINE) => Some(Kind::Stream),
        // Parts of buildings lie within buildings.
        (b"buildings", POLYGON) => (kind != b"building_part").then_some(Kind::Building),
        (b"roads", LINE) => match kind {
            b"highway" => Some(Kind::Highway),
            b"major_road" | b"medium_road" => Some(Kind::Major),
            b"minor_road" => Some(Kind::Minor),
            b"path" => Some(Kind::Path),
            b"rail" => Some(Kind::Rail),
            _ => None,
        },
        _ => None,
    }
}

fn is_green(kind: &[u8]) -> bool {
    const GREEN: [&str; 22] = [
        "allotments",
        "cemetery",
        "farmland",
        "forest",
        "garden",
        "golf_course",
        "grass",
        "grassland",
        "meadow",
        "national_park",
        "nature_reserve",
        "orchard",
        "park",
        "pitch",
        "playground",
        "protected_area",
        "recreation_ground",
        "scrub",
        "village_green",
        "vineyard",
        "wetland",
        "wood",
    ];
    GREEN.iter().any(|one| one.as_bytes() == kind)
}

/// The commands of a geometry.
const MOVE_TO: u32 = 1;
const LINE_TO: u32 = 2;
const CLOSE_PATH: u32 = 7;

/// Reads the lines or rings of a feature.
fn read_geometry(
    bytes: &[u8],
    extent: u32,
    tile: &mut Tile,
) -> Result<Vec<Vec<[f32; 2]>>, Damaged> {
    let scale = 1.0 / extent as f32;
    let mut reader = Reader::new(bytes);
    let word = |reader: &mut Reader<'_>| u32::try_from(reader.integer()?).map_err(|_| Damaged);
    let mut parts: Vec<Vec<[f32; 2]>> = Vec::new();
    let (mut x, mut y) = (0_i32, 0_i32);
    while !reader.is_empty() {
        let command = word(&mut reader)?;
        match command & 7 {
            CLOSE_PATH => {}
            instruction @ (MOVE_TO | LINE_TO) => {
                for _ in 0..command >> 3 {
                    x = x.checked_add(signed(word(&mut reader)?)).ok_or(Damaged)?;
                    y = y.checked_add(signed(word(&mut reader)?)).ok_or(Damaged)?;
                    let at = [x as f32 * scale, y as f32 * scale];
                    if at.iter().any(|one| one.abs() > BEYOND_TILES) {
                        return Err(Damaged);
                    }
                    tile.points += if instruction == MOVE_TO { 5 } else { 1 };
                    if tile.points > MAP_TILE_POINTS_MAX {
                        return Err(Damaged);
                    }
                    if instruction == MOVE_TO {
                        parts.push(vec![at]);
                    } else {
                        parts.last_mut().ok_or(Damaged)?.push(at);
                    }
                }
            }
            _ => return Err(Damaged),
        }
    }
    parts.retain(|part| part.len() > 1);
    Ok(parts)
}
