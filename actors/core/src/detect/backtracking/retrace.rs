//! A return path, and the stay at its turn.

use porchlight_schema::event::Metadata;
use serde::{Deserialize, Serialize};

/// A return path in progress.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct Retrace {
    /// The time of the turn.
    pub(super) turn_ms: u32,
    /// The time of the newest crumb next to the outbound path.
    pub(super) last_ms: u32,
    /// The time of the crumb of the outbound path that was reached.
    pub(super) outbound_ms: u32,
    pub(super) length_m: f32,
    pub(super) misses: u8,
    pub(super) is_open: bool,
    /// Whether the courier had stayed at another door before. The path may then lead to the
    /// vehicle, so it is reported only if the courier goes on to the address.
    pub(super) is_after_visit: bool,
}

/// The place of a stay at which the courier turned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Visit {
    /// A stay near the address, which may be the drop-off.
    ToAddress,
    /// A stay at another door.
    Elsewhere,
}

impl Retrace {
    /// Returns the metadata of the event.
    pub(super) fn metadata(&self) -> Metadata {
        Metadata::Backtracking {
            retraced_m: self.length_m.round() as u32,
        }
    }
}
