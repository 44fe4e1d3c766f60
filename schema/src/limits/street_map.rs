//! Limits of the street map and of the live board.

/// Highest zoom level of a map file, and of the console's maps.
pub const MAP_ZOOM_MAX: u8 = 22;
/// Maximum stored (compressed) bytes of one tile or directory of the map file.
pub const MAP_STORED_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Maximum unpacked bytes of one directory of the map file.
pub const MAP_DIRECTORY_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Maximum number of entries of one directory; the root of a planet has about 16,000.
pub const MAP_DIRECTORY_ENTRIES_MAX: usize = 262_144;
/// Maximum number of directories on the way to a tile, the root included.
pub const MAP_DIRECTORY_DEPTH_MAX: usize = 4;
/// Number of leaf directories that a node caches.
pub const MAP_DIRECTORIES_KEPT_MAX: usize = 8;
/// Maximum unpacked bytes of one tile; those of city centres have about 1 MiB.
pub const MAP_TILE_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Maximum number of layers of one tile.
pub const MAP_LAYERS_MAX: usize = 64;
/// Maximum number of different property values in one layer of a tile.
pub const MAP_VALUES_MAX: usize = 65_536;
/// Maximum number of features in one layer of a tile.
pub const MAP_TILE_FEATURES_MAX: usize = 50_000;
/// Maximum number of points of one tile, each 8 bytes; a line or ring counts for 4 more.
pub const MAP_TILE_POINTS_MAX: usize = 500_000;
/// Maximum number of points in a node's cache of tiles (32 MB).
pub const MAP_POINTS_KEPT_MAX: usize = 4_000_000;
/// Maximum number of tiles under one drawing; an area that needs more is drawn without a map.
pub const MAP_TILES_DRAWN_MAX: usize = 64;
/// Maximum number of points that the map adds to one drawing; further shapes are left out.
pub const MAP_POINTS_DRAWN_MAX: usize = 60_000;
/// Maximum length of the notice that names the source of a map, in characters.
pub const MAP_ATTRIBUTION_CHARS_MAX: usize = 80;

const _: () = assert!(MAP_TILE_POINTS_MAX <= MAP_POINTS_KEPT_MAX);
