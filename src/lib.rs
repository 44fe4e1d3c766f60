#![doc = include_str!("../README.md")]

pub mod config;
pub mod secrets;
pub mod store;
pub mod telemetry;
pub mod transport;
pub mod world;
