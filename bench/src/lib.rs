//! Simulated phones with known truth ([`sim`]), and what measures the service: a load generator (feature `load`)
//! and micro benchmarks.

pub mod body;
#[cfg(feature = "load")]
pub mod load;
pub mod sim;
