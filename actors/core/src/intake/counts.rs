//! The counts of samples taken and dropped.

use porchlight_schema::sample::Kind;
use serde::{Deserialize, Serialize};

/// The sample counts of the intake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct IntakeCounts {
    /// The number of samples taken, by [`Kind`] number.
    pub taken: [u32; Kind::ALL.len()],
    /// The number of samples dropped because they are older than the previous one of their kind, or
    /// a second fix of the same time.
    pub backwards: u32,
    /// The number of samples dropped because they are more than
    /// [`porchlight_schema::limits::KIND_LAG_MS_MAX`] behind the newest sample, or in a second
    /// already emitted.
    pub lagging: u32,
}
