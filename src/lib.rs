#![doc = include_str!("../README.md")]

pub mod config;
pub mod store;
pub mod telemetry;
pub mod world;
