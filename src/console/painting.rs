//! Limits how many squares of the street map are painted at the same time.

use porchlight_schema::limits::{MAP_SQUARES_PAINTED_AT_ONCE_MAX, MAP_SQUARES_WAITING_MAX};
use tokio::sync::Semaphore;

/// Permits for painting squares.
pub(crate) struct Painting {
    /// Permits of requests that paint or wait.
    pub(crate) admitted: Semaphore,
    /// Permits of requests that paint.
    pub(crate) painting: Semaphore,
}

impl Default for Painting {
    fn default() -> Self {
        Self {
            admitted: Semaphore::new(MAP_SQUARES_WAITING_MAX),
            painting: Semaphore::new(MAP_SQUARES_PAINTED_AT_ONCE_MAX),
        }
    }
}
