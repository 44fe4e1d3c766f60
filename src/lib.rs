#![doc = include_str!("README.md")]

pub mod api;
pub mod app;
pub mod cli;
pub mod cluster;
pub mod config;
pub mod console;
pub mod keyring;
pub mod keys;
mod notify;
pub mod opened;
pub mod ops;
pub mod picture;
pub mod secrets;
pub mod telemetry;
pub mod transport;
