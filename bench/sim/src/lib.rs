#![doc = include_str!("../README.md")]

mod barometer;
mod body;
mod courier;
mod delivery;
mod gnss;
mod handling;
mod phone;
mod rng;
mod sample;
mod scenario;
mod script;
mod stream;
mod truth;
mod world;

pub use delivery::{Delivery, End};
pub use phone::{Kit, MotionSensor};
pub use rng::ParameterSet;
pub use sample::{Fix, Reading, Sample};
pub use scenario::{Kind, Scenario};
pub use stream::{Batch, Batches, Loss, disorder};
pub use truth::{Truth, TruthEvent};

#[cfg(test)]
mod tests;
