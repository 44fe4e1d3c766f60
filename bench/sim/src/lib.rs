//! Deliveries that never happened, as a phone would have recorded them, with the truth of each.
//!
//! A [`Scenario`] says what happens and which seed its chances come from. From it follow, in this order: where
//! things stand (`world`), what the courier and the vehicle do, tenth of a second by tenth of a second (`courier`,
//! `script`), and what a phone makes of that (`phone` with `gnss`, `barometer`, `body`). The same scenario gives the
//! same [`Delivery`], byte for byte, on every machine: all chance comes from the seed, and what is transcendental
//! from `libm`.
//!
//! Physics and noise come from published figures and from the statistics of recorded phones, never from what the
//! detectors look for. A part of every range of a parameter is held out ([`ParameterSet`]): what was tuned on one
//! part is judged on the other.

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
