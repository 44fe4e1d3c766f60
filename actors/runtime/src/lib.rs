#![doc = include_str!("../README.md")]

pub mod audit;
mod contained;
mod journal;
pub mod messages;
pub mod privacy;
pub mod registry;
mod rounds;
pub mod scoring;
pub mod service;
pub mod session;
mod shards;
pub mod shares;
mod stored;
pub mod timers;
pub mod turns;
pub mod webhook;
mod yielding;
