//! The facts about a session before its first sample, which depend on its start only.

use porchlight_schema::sample::Kind;
use porchlight_schema::session::{Address, Device, SessionStart};
use serde::{Deserialize, Serialize};

use crate::confidence::Confidences;
use crate::floors::PlaceKind;
use crate::gait::Models;
use crate::geo::{LocalFrame, Place};

/// The detectors' prior knowledge. Local metres have the address as their origin.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionContext {
    /// The plane around the address.
    pub frame: LocalFrame,
    /// The accuracy of the address, metres.
    pub accuracy_m: f32,
    /// The floor of the door; the ground floor is 0.
    pub floor: Option<i16>,
    /// The height of a storey according to the address, metres.
    pub storey_height_m: Option<f32>,
    /// The information about the building that the address gives.
    pub place_kind: PlaceKind,
    /// The building's entrance.
    pub entrance: Option<Place>,
    /// The gates on the way to the door.
    pub gates: Vec<Place>,
    /// The kinds of samples that the phone can send; empty if unknown.
    pub sensors: Vec<String>,
    /// The learned models that judge the gait: the shipped ones, except in an evaluation.
    #[serde(skip)]
    pub models: Models,
    /// The learned confidence of events: the shipped table, except in an evaluation.
    #[serde(skip)]
    pub confidences: Confidences,
}

impl SessionContext {
    /// Creates the context of a session's start.
    #[must_use]
    pub fn new(start: &SessionStart) -> Self {
        Self::of_address(&start.address, start.device.as_ref())
    }

    /// Returns the context of an address alone, for evaluation on recordings.
    #[must_use]
    pub fn of_address(address: &Address, device: Option<&Device>) -> Self {
        let frame = LocalFrame::new(address.point);
        Self {
            frame,
            accuracy_m: address.accuracy_m,
            floor: address.floor,
            storey_height_m: address.storey_height_m,
            place_kind: PlaceKind::of_address(address),
            entrance: address.entrance.map(|point| frame.place(point)),
            gates: address
                .gates
                .iter()
                .map(|&point| frame.place(point))
                .collect(),
            sensors: device
                .map(|device| device.sensors.clone())
                .unwrap_or_default(),
            models: Models::default(),
            confidences: Confidences::default(),
        }
    }

    /// Returns whether the phone declares that it can send this kind of sample.
    #[must_use]
    pub fn declares(&self, kind: Kind) -> bool {
        let mut sensors = self.sensors.iter();
        sensors.any(|sensor| sensor.eq_ignore_ascii_case(kind.as_str()))
    }
}
