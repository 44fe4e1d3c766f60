#![doc = include_str!("../README.md")]

pub mod audit;
mod document_form;
mod journal;
pub mod messages;
mod panic_as_error;
pub mod privacy;
pub mod registry;
mod rounds;
pub mod scoring;
pub mod service;
pub mod session;
mod shards;
pub mod shares;
pub mod timers;
pub mod turns;
pub mod webhook;
mod yielding;
