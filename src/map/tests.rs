//! Tests the map archive with the file of a small town.

use std::path::PathBuf;

use porchlight_schema::session::Point;
use proptest::prelude::*;

use super::directory::{Directory, number};
use super::unpack::Compression;
use super::*;

/// Returns the synthetic town that `bench/src/bin/town.rs` generates.
fn town_file() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("town.pmtiles")
}

fn around(map: &StreetMap, half_deg: f64) -> Bounds {
    let bounds = map.bounds();
    let middle = Point {
        lat: f64::midpoint(bounds.low.lat, bounds.high.lat),
        lng: f64::midpoint(bounds.low.lng, bounds.high.lng),
    };
    Bounds {
        low: Point {
            lat: middle.lat - half_deg,
            lng: middle.lng - half_deg,
        },
        high: Point {
            lat: middle.lat + half_deg,
            lng: middle.lng + half_deg,
        },
    }
}

#[test]
fn tiles_are_numbered_as_the_format_says() {
    // From the format's published test cases.
    for (zoom, x, y, expected) in [
        (0, 0, 0, 0),
        (1, 0, 0, 1),
        (1, 0, 1, 2),
        (1, 1, 1, 3),
        (1, 1, 0, 4),
        (2, 0, 0, 5),
        (12, 3423, 1763, 19_078_479),
    ] {
        assert_eq!(number(TileId { zoom, x, y }), expected, "{zoom}/{x}/{y}");
    }
}

#[test]
fn a_part_of_the_town_has_streets_and_buildings() {
    let map = StreetMap::open(&town_file()).unwrap();
    let tiles = map.tiles(&around(&map, 0.002), 1.0);
    assert!(!tiles.is_empty());
    let features = || tiles.iter().flat_map(|placed| &placed.tile.features);
    for kind in [Kind::Land, Kind::Minor, Kind::Major, Kind::Building] {
        assert!(features().any(|feature| feature.kind == kind), "{kind:?}");
    }
    for feature in features() {
        assert!(feature.parts.iter().all(|part| part.len() > 1));
        let points = feature.parts.iter().flatten();
        let [low, high] = feature.bounds;
        for point in points {
            assert!(low[0] <= point[0] && point[0] <= high[0]);
            assert!(low[1] <= point[1] && point[1] <= high[1]);
        }
    }
    assert_eq!(map.attribution(), "Synthetic map");
    // The second read comes from the cache and is the same.
    let again = map.tiles(&around(&map, 0.002), 1.0);
    for (one, other) in tiles.iter().zip(&again) {
        assert!(Arc::ptr_eq(&one.tile, &other.tile));
    }
}

#[test]
fn an_area_beyond_the_file_has_no_shapes() {
    let map = StreetMap::open(&town_file()).unwrap();
    let berlin = Point {
        lat: 52.52,
        lng: 13.405,
    };
    let area = Bounds {
        low: berlin,
        high: berlin,
    };
    let tiles = map.tiles(&area, 1.0);
    assert!(tiles.iter().all(|placed| placed.tile.features.is_empty()));
}

#[test]
fn the_cache_is_bounded() {
    let mut cache = Cache::default();
    let tile = Arc::new(Tile::default());
    for x in 0..200 {
        cache.keep(TileId { zoom: 20, x, y: 0 }, &tile);
    }
    assert!(
        cache
            .get(TileId {
                zoom: 20,
                x: 0,
                y: 0
            })
            .is_some()
    );
    cache.cost = MAP_POINTS_KEPT_MAX;
    cache.keep(
        TileId {
            zoom: 20,
            x: 200,
            y: 0,
        },
        &tile,
    );
    assert!(
        cache
            .get(TileId {
                zoom: 20,
                x: 1,
                y: 0
            })
            .is_none()
    );
    assert!(
        cache
            .get(TileId {
                zoom: 20,
                x: 0,
                y: 0
            })
            .is_some()
    );
}

/// A network mount that is away for a moment must not leave blank squares.
#[test]
fn a_tile_that_cannot_be_read_is_read_again() {
    let good = std::fs::read(town_file()).unwrap();
    let name = format!("porchlight-map-{}-short", std::process::id());
    let file = std::env::temp_dir().join(name);
    std::fs::write(&file, &good).unwrap();
    let map = StreetMap::open(&file).unwrap();
    let area = around(&map, 0.002);
    // Writing keeps the file that the map has open.
    std::fs::write(&file, &good[..127]).unwrap();
    assert!(map.tiles(&area, 1.0).is_empty());
    std::fs::write(&file, &good).unwrap();
    let tiles = map.tiles(&area, 1.0);
    std::fs::remove_file(&file).unwrap();
    assert!(tiles.iter().any(|placed| !placed.tile.features.is_empty()));
}

#[test]
fn a_notice_keeps_all_sources() {
    let long = "A long notice. ".repeat(8);
    for (html, text) in [
        ("", "© OpenStreetMap"),
        ("<a href=\"x\"></a> ", "© OpenStreetMap"),
        (
            "<a>Protomaps</a> © <a>OpenStreetMap</a>",
            "Protomaps © OpenStreetMap",
        ),
        (
            "<a>&copy; OpenMapTiles</a>\n<a>&copy;&nbsp;OpenStreetMap</a> &amp; others",
            "© OpenMapTiles © OpenStreetMap & others",
        ),
        ("&amp;lt;b", "&lt;b"),
        (&format!("{long} OpenStreetMap"), "© OpenStreetMap"),
    ] {
        assert_eq!(archive::notice(html), text, "{html}");
    }
}

/// Writes a file and opens it as a map.
fn opened(name: &str, bytes: &[u8]) -> Result<StreetMap, MapError> {
    let file = std::env::temp_dir().join(format!("porchlight-map-{}-{name}", std::process::id()));
    std::fs::write(&file, bytes).unwrap();
    let map = StreetMap::open(&file);
    std::fs::remove_file(file).unwrap();
    map
}

#[test]
fn an_unusable_file_is_refused_with_a_reason() {
    let good = std::fs::read(town_file()).unwrap();
    let changed = |at: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[at] = byte;
        bytes
    };
    for (name, bytes, reason) in [
        ("empty", Vec::new(), "is not a PMTiles file"),
        ("text", vec![b'x'; 4_000], "is not a PMTiles file"),
        ("old", changed(7, 2), "is not a PMTiles file"),
        ("images", changed(99, 2), "does not contain vector tiles"),
        ("brotli", changed(98, 3), "something other than gzip"),
        (
            "cut",
            good[..good.len() - 1].to_vec(),
            "is damaged or truncated",
        ),
        ("zooms", changed(101, 40), "is damaged or truncated"),
        ("root", changed(128, 0), "is damaged or truncated"),
    ] {
        let error = opened(name, &bytes).unwrap_err().to_string();
        assert!(error.contains(reason), "{name}: {error}");
    }
    let missing = StreetMap::open(std::path::Path::new("/nowhere/city.pmtiles"));
    assert!(missing.unwrap_err().to_string().contains("cannot be read"));
    let folder = StreetMap::open(&std::env::temp_dir());
    assert!(folder.is_err());
}

/// Returns the bytes of a tile of the town, unpacked.
fn tile_bytes() -> Vec<u8> {
    let map = StreetMap::open(&town_file()).unwrap();
    let area = around(&map, 0.0);
    let id = projection::covering(&area, map.zooms().1, 1)[0];
    map.archive.tile(id).unwrap().unwrap()
}

#[test]
fn a_decompressed_bomb_is_refused() {
    use std::io::Write;
    let mut bomb = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    bomb.write_all(&vec![0; 1_000_000]).unwrap();
    let bomb = bomb.finish().unwrap();
    assert!(Compression::Gzip.unpack(bomb.clone(), 999_999).is_err());
    assert!(Compression::Gzip.unpack(bomb, 1_000_000).is_ok());
}

#[test]
fn a_geometry_that_declares_too_many_points_is_refused() {
    // A layer `earth` with one polygon whose command repeats 2^29 - 1 times.
    let geometry = [0xf9, 0xff, 0xff, 0xff, 0x0f];
    let mut feature = vec![0x18, 3, 0x22, geometry.len() as u8];
    feature.extend(geometry);
    let mut layer = vec![0x0a, 5];
    layer.extend(b"earth");
    layer.extend([0x12, feature.len() as u8]);
    layer.extend(feature);
    let mut tile = vec![0x1a, layer.len() as u8];
    tile.extend(layer);
    assert!(tile::decode(&tile).is_err());
}

proptest! {
    #[test]
    fn any_bytes_decode_or_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..2_000)) {
        let _tile = tile::decode(&bytes);
        let _directory = Directory::read(&bytes);
    }

    /// Random bytes rarely pass the reader's first checks. A good tile with damaged bytes reaches
    /// every part of the reader.
    #[test]
    fn a_damaged_tile_decodes_within_the_limits(
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20),
    ) {
        let mut bytes = tile_bytes();
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Ok(tile) = tile::decode(&bytes) {
            let points: usize = tile.features.iter().flat_map(|feature| &feature.parts).map(Vec::len).sum();
            prop_assert!(points <= porchlight_schema::limits::MAP_TILE_POINTS_MAX);
        }
    }

    /// Opening and drawing a file ends without a panic, whichever of its bytes are damaged.
    #[test]
    fn a_damaged_file_is_refused_or_drawn(
        damage in prop::collection::vec((0_usize..4_000, any::<u8>()), 1..8),
        name in any::<u64>(),
    ) {
        let mut bytes = std::fs::read(town_file()).unwrap();
        for (at, byte) in damage {
            bytes[at] = byte;
        }
        if let Ok(map) = opened(&format!("damaged-{name}"), &bytes) {
            let tiles = map.tiles(&around(&map, 0.01), 0.5);
            prop_assert!(tiles.len() <= MAP_TILES_DRAWN_MAX);
        }
    }
}
