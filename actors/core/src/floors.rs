//! Floors and storeys: one model of buildings, for events and for scores.
//!
//! A height above the entrance says how many floors were climbed only together with the height of a storey, and that
//! differs from 2.5 m to 5 m between buildings. So the answer is a distribution: `model` says which buildings there are
//! and what is known of this one, `estimate` says how likely each floor is for a measured height.

mod estimate;
mod model;
pub(crate) mod parameters;

pub use model::PlaceKind;

pub(crate) use estimate::{Estimate, FloorMatch, Measured, floors_of_climb};
pub(crate) use model::{Building, LearnedFloor, STOREY_M};
