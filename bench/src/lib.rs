//! Simulated phones with known truth ([`sim`]), and what measures the service: a load generator and micro
//! benchmarks.

pub mod sim;
