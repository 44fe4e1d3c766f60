//! Measures the service: a load generator (feature `load`) and micro benchmarks.

pub mod body;
#[cfg(feature = "load")]
pub mod load;
