//! Metrics of the street map.

use std::sync::LazyLock;

use metrics::Counter;

use super::name;

/// The metric handles of the street map.
#[derive(Debug)]
pub struct MapMetrics {
    /// Tiles that were read from the file.
    pub read: Counter,
    /// Tiles that could not be read or decoded.
    pub skipped: Counter,
}

impl MapMetrics {
    /// Returns the handles, created at the first call.
    #[must_use]
    pub fn get() -> &'static Self {
        static METRICS: LazyLock<MapMetrics> = LazyLock::new(|| MapMetrics {
            read: metrics::counter!(name::MAP_TILES_READ_TOTAL),
            skipped: metrics::counter!(name::MAP_TILES_SKIPPED_TOTAL),
        });
        &METRICS
    }
}
