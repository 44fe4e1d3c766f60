#![doc = include_str!("README.md")]

pub mod app;
mod audit;
pub mod cli;
pub mod cluster;
pub mod config;
pub mod key_guard;
mod listener;
mod notify;
pub mod open_store;
pub mod ops;
mod receipts;
pub mod retention;
pub mod telemetry;
pub mod transport;
