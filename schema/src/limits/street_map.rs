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
/// Maximum number of squares of the map that a node paints at the same time for the console; one of
/// each organization.
pub const MAP_SQUARES_PAINTED_AT_ONCE_MAX: usize = 2;
/// Maximum number of an organization's requests that paint a square or wait for one on a node;
/// further ones are answered with 503.
pub const ORGANIZATION_MAP_SQUARES_WAITING_MAX: usize = 128;
/// Maximum number of positions that the map of one session shows. If there are more, the map shows
/// every n-th.
pub const MAP_POSITIONS_MAX: usize = 2_000;
/// Maximum number of sessions on a live board.
pub const BOARD_SESSIONS_MAX: usize = 1_000;
/// Maximum number of rows in the table below a live board.
pub const BOARD_ROWS_MAX: usize = 50;
/// Minimum age at which the state behind a live board is read again, for all pages of a tenant
/// together.
pub const BOARD_REFRESH_MS: i64 = 2_000;
/// Maximum number of sessions that one refresh reads at the same time.
pub const BOARD_READS_AT_ONCE_MAX: usize = 16;
/// Maximum number of tenants whose boards a node keeps between refreshes.
pub const BOARD_TENANTS_MAX: usize = 256;

const _: () = assert!(MAP_TILE_POINTS_MAX <= MAP_POINTS_KEPT_MAX);
