//! What the courier's app says of the delivery.

use serde::{Deserialize, Serialize};

/// The name of a mark, as far as scoring knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum MarkName {
    /// `arrived`.
    Arrived,
    /// `pod_captured`.
    PodCaptured,
    /// `handed_over`.
    HandedOver,
    /// `left_at_door`.
    LeftAtDoor,
    /// The app's own.
    Other,
}

impl MarkName {
    /// Of the name on the wire.
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

    /// Whether it says that the parcel changed hands.
    #[must_use]
    pub fn is_hand_over(self) -> bool {
        matches!(
            self,
            Self::PodCaptured | Self::HandedOver | Self::LeftAtDoor
        )
    }
}
