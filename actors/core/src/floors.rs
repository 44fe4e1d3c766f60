//! Floors and storeys: one model of buildings for events and scores.
//!
//! A height above the entrance determines the number of floors only together with the storey
//! height, which varies from 2.5 m to 5 m between buildings. So the answer is a distribution.
//! `model` describes the possible buildings and the knowledge about this one, and `estimate`
//! computes the probability of each floor for a measured height. `staircase` adds the evidence of
//! flights and turns, and `climb` counts the floors of one climb. `unit_word` recognises a part of
//! a building in an address.

mod climb;
mod estimate;
mod model;
pub(crate) mod parameters;
mod staircase;
mod unit_word;

pub use model::PlaceKind;

pub(crate) use climb::floors_of_climb;
pub(crate) use estimate::{Estimate, FloorMatch, Measured};
pub(crate) use model::{Building, LearnedFloor, STOREY_M};
pub(crate) use unit_word::{begins_with_digit, introduces_unit, parts, words};
