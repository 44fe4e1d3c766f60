#![doc = include_str!("README.md")]

mod archive;
mod directory;
mod projection;
mod tile;
mod unpack;
mod wire;

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use porchlight_observe::map::MapMetrics;
use porchlight_schema::limits::{MAP_POINTS_KEPT_MAX, MAP_TILES_DRAWN_MAX};

use archive::Archive;
pub use archive::MapError;
pub use projection::{Bounds, TileId};
pub use tile::{Feature, Kind, Tile};

/// A decoded tile and its place on the globe.
#[derive(Debug, Clone)]
pub struct Placed {
    /// The zoom, column and row of the tile.
    pub id: TileId,
    /// The features of the tile.
    pub tile: Arc<Tile>,
}

/// An open map file with a bounded cache of decoded tiles.
pub struct StreetMap {
    archive: Archive,
    cache: Mutex<Cache>,
}

impl std::fmt::Debug for StreetMap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StreetMap").finish_non_exhaustive()
    }
}

/// Decoded tiles, the most recently used ones last.
#[derive(Default)]
struct Cache {
    tiles: VecDeque<(TileId, Arc<Tile>)>,
    cost: usize,
}

impl Cache {
    fn get(&mut self, id: TileId) -> Option<Arc<Tile>> {
        let index = self.tiles.iter().position(|(one, _)| *one == id)?;
        let entry = self.tiles.remove(index)?;
        let tile = Arc::clone(&entry.1);
        self.tiles.push_back(entry);
        Some(tile)
    }

    fn keep(&mut self, id: TileId, tile: &Arc<Tile>) {
        if self.tiles.iter().any(|(one, _)| *one == id) {
            return;
        }
        self.cost += tile.cost();
        self.tiles.push_back((id, Arc::clone(tile)));
        while self.cost > MAP_POINTS_KEPT_MAX {
            let Some((_, oldest)) = self.tiles.pop_front() else {
                break;
            };
            self.cost -= oldest.cost();
        }
    }
}

impl StreetMap {
    /// Opens a PMTiles file (version 3) with vector tiles, and reads its root directory.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be read, or is not a PMTiles file that this version can
    /// draw.
    pub fn open(file: &Path) -> Result<Self, MapError> {
        Ok(Self {
            archive: Archive::open(file)?,
            cache: Mutex::default(),
        })
    }

    /// Returns the notice that names the source of the map, such as `© OpenStreetMap`.
    #[must_use]
    pub fn attribution(&self) -> &str {
        &self.archive.attribution
    }

    /// Returns a word that differs between map files, for the names of cached images.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.archive.version
    }

    /// Returns the lowest and the highest zoom level of the file.
    #[must_use]
    pub fn zooms(&self) -> (u8, u8) {
        self.archive.zooms
    }

    /// Returns the area that the file covers.
    #[must_use]
    pub fn bounds(&self) -> Bounds {
        self.archive.bounds
    }

    /// Returns the tiles that cover an area, for a drawing with this many pixels per metre. The
    /// list is empty if the area would need too many tiles. Reads the file, so call it where a
    /// thread may block.
    #[must_use]
    pub fn tiles(&self, area: &Bounds, px_per_m: f64) -> Vec<Placed> {
        let zoom = projection::zoom_for(area, px_per_m).clamp(self.zooms().0, self.zooms().1);
        let ids = projection::covering(area, zoom, MAP_TILES_DRAWN_MAX);
        ids.into_iter()
            .filter_map(|id| {
                let tile = self.tile(id)?;
                Some(Placed { id, tile })
            })
            .collect()
    }

    /// Returns a tile. A damaged tile is empty: it is counted and skipped. Returns `None` if the
    /// operating system does not read the tile; a later call reads it again.
    fn tile(&self, id: TileId) -> Option<Arc<Tile>> {
        if let Some(tile) = self.cache().get(id) {
            return Some(tile);
        }
        let metrics = MapMetrics::get();
        let tile = match self.archive.tile(id) {
            Ok(Some(bytes)) => tile::decode(&bytes).map_err(MapError::from),
            Ok(None) => Ok(Tile::default()),
            Err(MapError::Read(_)) => {
                metrics.skipped.increment(1);
                return None;
            }
            Err(error) => Err(error),
        };
        let tile = tile.unwrap_or_else(|_error| {
            metrics.skipped.increment(1);
            Tile::default()
        });
        metrics.read.increment(1);
        let tile = Arc::new(tile);
        self.cache().keep(id, &tile);
        Some(tile)
    }

    fn cache(&self) -> std::sync::MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
