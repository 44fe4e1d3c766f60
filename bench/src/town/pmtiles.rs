//! Writes a PMTiles file, version 3.

use std::collections::BTreeMap;
use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::vector_tile::{EXTENT, encode, integer};
use super::{Town, corners_deg};

/// The lowest and highest zoom level of the file.
const ZOOMS: (u8, u8) = (11, 15);
/// The metadata. The attribution says that the town is not a real place.
const METADATA: &str =
    r#"{"name":"Synthetic town","attribution":"Synthetic map","vector_layers":[]}"#;
/// The length of the header.
const HEADER_BYTES: u64 = 127;

/// Returns a position in tiles at a zoom level.
fn tile_place((lat, lng): (f64, f64), zoom: u8) -> (f64, f64) {
    let side = f64::from(1_u32 << zoom);
    let lat = lat.to_radians();
    let x = (lng + 180.0) / 360.0 * side;
    let y = (1.0 - libm::asinh(libm::tan(lat)) / std::f64::consts::PI) / 2.0 * side;
    (x, y)
}

/// Returns the number of a tile, by zoom level and then along a Hilbert curve.
fn number(zoom: u8, mut x: u64, mut y: u64) -> u64 {
    let mut number: u64 = (0..zoom).map(|zoom| 1_u64 << (2 * zoom)).sum();
    for level in (0..zoom).rev() {
        let side = 1_u64 << level;
        let (right, low) = (u64::from(x & side > 0), u64::from(y & side > 0));
        number += side * side * ((3 * right) ^ low);
        (x, y) = (x & (side - 1), y & (side - 1));
        if low == 0 {
            if right == 1 {
                (x, y) = (side - 1 - x, side - 1 - y);
            }
            (x, y) = (y, x);
        }
    }
    number
}

fn packed(bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
    gzip.write_all(bytes)?;
    gzip.finish()
}

/// Returns the file of a town.
///
/// # Errors
///
/// Returns an error if the compressor fails.
pub fn write(town: &Town) -> std::io::Result<Vec<u8>> {
    let [low, high] = corners_deg();
    let mut tiles = BTreeMap::new();
    for zoom in ZOOMS.0..=ZOOMS.1 {
        let shown: Vec<_> = town
            .features
            .iter()
            .filter(|feature| feature.from_zoom <= zoom)
            .collect();
        let ((left, bottom), (right, top)) = (tile_place(low, zoom), tile_place(high, zoom));
        for x in left as u64..=right as u64 {
            for y in top as u64..=bottom as u64 {
                let place = |point| {
                    let (column, row) = tile_place(point, zoom);
                    ((column - x as f64) * EXTENT, (row - y as f64) * EXTENT)
                };
                let tile = encode(&shown, place);
                if !tile.is_empty() {
                    tiles.insert(number(zoom, x, y), packed(&tile)?);
                }
            }
        }
    }
    let (mut directory, mut data) = (Vec::new(), Vec::new());
    integer(&mut directory, tiles.len() as u64);
    let mut before = 0;
    for id in tiles.keys() {
        integer(&mut directory, id - before);
        before = *id;
    }
    tiles.keys().for_each(|_| integer(&mut directory, 1));
    for tile in tiles.values() {
        integer(&mut directory, tile.len() as u64);
    }
    for tile in tiles.values() {
        // An offset is written plus one, and 0 means that the tile follows the previous one. Only
        // the first tile needs its offset, 0.
        integer(&mut directory, u64::from(data.is_empty()));
        data.extend_from_slice(tile);
    }
    let (directory, metadata) = (packed(&directory)?, packed(METADATA.as_bytes())?);
    let metadata_at = HEADER_BYTES + directory.len() as u64;
    let data_at = metadata_at + metadata.len() as u64;
    let mut file = b"PMTiles\x03".to_vec();
    let count = tiles.len() as u64;
    for number in [
        HEADER_BYTES,
        directory.len() as u64,
        metadata_at,
        metadata.len() as u64,
        data_at,
        0,
        data_at,
        data.len() as u64,
        count,
        count,
        count,
    ] {
        file.extend(number.to_le_bytes());
    }
    // The tiles are in order of their numbers; directory and tiles are packed with gzip; the tiles
    // are vector tiles.
    file.extend([1, 2, 2, 1, ZOOMS.0, ZOOMS.1]);
    let degrees = |value: f64| ((value * 1e7).round() as i32).to_le_bytes();
    for (lat, lng) in [low, high] {
        file.extend(degrees(lng));
        file.extend(degrees(lat));
    }
    file.push(14);
    file.extend(degrees(f64::midpoint(low.1, high.1)));
    file.extend(degrees(f64::midpoint(low.0, high.0)));
    file.extend(directory);
    file.extend(metadata);
    file.extend(data);
    Ok(file)
}
