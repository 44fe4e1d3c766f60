//! The marks: actions and moments of the delivery that the app reports.

use serde::{Deserialize, Serialize};

/// The name of a mark. Scoring distinguishes four names from all others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum MarkName {
    /// The app reports `arrived`.
    Arrived,
    /// The app reports `pod_captured`.
    PodCaptured,
    /// The app reports `handed_over`.
    HandedOver,
    /// The app reports `left_at_door`.
    LeftAtDoor,
    /// The app's own name.
    Other,
}

impl MarkName {
    /// Parses the name on the wire.
    #[must_use]
    pub fn from_name(name: &str) -> Self {
        match name {
            "arrived" => Self::Arrived,
            "pod_captured" => Self::PodCaptured,
            "handed_over" => Self::HandedOver,
            "left_at_door" => Self::LeftAtDoor,
            _ => Self::Other,
        }
    }

    /// Returns whether the mark reports a drop-off: the courier gave or left the parcel.
    #[must_use]
    pub fn is_drop_off(self) -> bool {
        matches!(
            self,
            Self::PodCaptured | Self::HandedOver | Self::LeftAtDoor
        )
    }
}
