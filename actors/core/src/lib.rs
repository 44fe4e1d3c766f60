#![doc = include_str!("../README.md")]

pub mod admission;
pub mod audit;
pub mod confidence;
pub mod context;
pub mod detect;
pub mod disk_space;
pub mod event_log;
pub mod floors;
pub mod gait;
pub mod geo;
pub mod intake;
pub mod mark;
pub mod ownership;
mod parameters;
pub mod path;
pub mod privacy;
pub mod recorder;
pub mod retention;
pub mod score;
pub mod score_queue;
pub mod session;
pub mod shares;
pub mod timeline;
pub mod webhook;
pub mod window;
