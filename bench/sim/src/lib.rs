//! Simulated deliveries as a phone would record them, each with its truth.
//!
//! A [`Scenario`] defines the kind of delivery and the random seed. Everything else follows from
//! it, in this order: the surroundings (`world`), the actions of the courier and the vehicle in
//! ticks of a tenth of a second (`courier`, `script`), and the phone's recording of them (`phone`
//! with `gnss`, `barometer`, `body`). The same scenario gives the same [`Delivery`], byte for byte,
//! on every machine: all randomness comes from the seed, and transcendental functions come from
//! `libm`.
//!
//! Physics and noise come from published figures and from the statistics of recorded phones, never
//! from the detectors' criteria. A part of every parameter range is held out ([`ParameterSet`]):
//! detectors tuned on one part are evaluated on the other.

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
