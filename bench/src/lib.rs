//! Benchmarks of the service: a load generator (feature `load`) and micro benchmarks.

pub mod body;
pub mod confidence;
pub mod gait;
#[cfg(feature = "load")]
pub mod load;
mod names;
#[cfg(feature = "town")]
pub mod town;
mod version;
