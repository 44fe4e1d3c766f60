//! The street map: the section `[map]`.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use porchlight_map::StreetMap;
use serde::{Deserialize, Serialize};

use super::deserialize;

/// The street map.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Map {
    /// PMTiles file of the Protomaps basemap; empty: no map.
    #[serde(deserialize_with = "deserialize::text")]
    pub file: PathBuf,
}

impl Map {
    /// Opens the file, if one is named.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be read, or is not a map that this version can draw.
    pub fn open(&self) -> anyhow::Result<Option<Arc<StreetMap>>> {
        if self.file.as_os_str().is_empty() {
            return Ok(None);
        }
        let map = StreetMap::open(&self.file).context("map.file")?;
        Ok(Some(Arc::new(map)))
    }
}
